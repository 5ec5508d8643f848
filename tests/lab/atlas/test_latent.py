"""Rasch and low-rank models: numbers worked out by hand, and planted ones found."""

from __future__ import annotations

import numpy as np
import pytest

from longplay.lab.atlas import latent
from longplay.lab.atlas.latent import (
    Scale,
    fit_factors,
    fit_rasch,
    measure_held_out,
)

PRIOR_VARIANCE = 9.0


def draw_entries(agents: int, tasks: int, observed: float, seed: int = 0):
    """Rows and columns of observed entries, sorted."""
    rng = np.random.default_rng(seed)
    return np.nonzero(rng.random((agents, tasks)) < observed)


# --- Rasch --------------------------------------------------------------------------


def test_two_agents_and_two_tasks():
    """One agent always succeeds, the other never: 2 (1 - p) = ability / 9."""
    agent, task = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    model = fit_rasch(agent, task, np.array([1.0, 1.0, 0.0, 0.0]), (2, 2))
    low, high = 0.0, 9.0
    for _ in range(100):
        middle = (low + high) / 2
        slope = 2 * (1 - 1 / (1 + np.exp(-middle))) - middle / PRIOR_VARIANCE
        low, high = (middle, high) if slope > 0 else (low, middle)
    assert model.converged
    assert model.ability == pytest.approx([low, -low], abs=1e-5)
    assert model.difficulty == pytest.approx([0.0, 0.0], abs=1e-9)


def fit_with_newton(agent, task, success, shape):
    """The same model by whole Newton steps: centred values and standard errors."""
    agents, tasks = shape
    x = np.zeros(agents + tasks)
    for _ in range(50):
        chance = 1 / (1 + np.exp(x[agents + task] - x[agent]))
        gradient, hessian = -x / PRIOR_VARIANCE, np.eye(len(x)) / PRIOR_VARIANCE
        for a, t, y, p in zip(agent, agents + task, success, chance, strict=True):
            gradient[[a, t]] += (y - p), (p - y)
            hessian[[a, t, a, t], [a, t, t, a]] += (
                p * (1 - p) * np.array([1, 1, -1, -1])
            )
        x += np.linalg.solve(hessian, gradient)
    centre = np.eye(len(x))
    centre[:, agents:] -= 1 / tasks
    covariance = centre @ np.linalg.inv(hessian) @ centre.T
    return centre @ x, np.sqrt(np.diag(covariance))


def test_values_and_errors_are_those_of_a_whole_newton_fit():
    rng = np.random.default_rng(3)
    agent, task = draw_entries(6, 9, 0.8)
    success = (rng.random(len(agent)) < 0.6).astype(float)
    model = fit_rasch(agent, task, success, (6, 9))
    values, errors = fit_with_newton(agent, task, success, (6, 9))
    assert model.ability == pytest.approx(values[:6], abs=1e-4)
    assert model.difficulty == pytest.approx(values[6:], abs=1e-4)
    assert model.ability_se == pytest.approx(errors[:6], rel=1e-3)
    assert model.difficulty_se == pytest.approx(errors[6:], rel=1e-3)


def plant(agents: int, tasks: int, observed: float):
    rng = np.random.default_rng(1)
    ability, difficulty = rng.normal(size=agents), rng.normal(size=tasks)
    agent, task = draw_entries(agents, tasks, observed)
    chance = 1 / (1 + np.exp(difficulty[task] - ability[agent]))
    success = (rng.random(len(agent)) < chance).astype(float)
    return agent, task, success, ability, difficulty


def test_intervals_cover_planted_values():
    agent, task, success, ability, difficulty = plant(200, 300, 0.3)
    model = fit_rasch(agent, task, success, (200, 300))
    for found, error, true in (
        (model.ability, model.ability_se, ability - difficulty.mean()),
        (model.difficulty, model.difficulty_se, difficulty - difficulty.mean()),
    ):
        covered = np.mean(np.abs(found - true) < 1.96 * error)
        assert 0.9 < covered < 0.98


def test_errors_of_many_parameters_are_about_the_exact_ones(monkeypatch):
    agent, task, success, *_ = plant(100, 100, 1.0)
    exact = fit_rasch(agent, task, success, (100, 100))
    monkeypatch.setattr(latent, "_MOST_EXACT", 0)
    quick = fit_rasch(agent, task, success, (100, 100))
    assert quick.ability == pytest.approx(exact.ability)
    ratio = quick.ability_se / exact.ability_se
    assert 0.9 < ratio.min() <= ratio.max() < 1.1


def test_agents_that_always_succeed_are_finite_and_less_certain():
    agent = np.repeat([0, 1], 20)
    task = np.tile(np.arange(20), 2)
    success = np.where(agent == 0, 1.0, task % 2)
    model = fit_rasch(agent, task, success, (2, 20))
    assert np.isfinite(model.ability).all()
    assert model.ability[0] > model.ability[1] + 2
    assert model.ability_se[0] > model.ability_se[1]


def test_agents_and_tasks_without_entries_have_no_number():
    model = fit_rasch(np.array([0, 2]), np.array([1, 1]), np.array([1.0, 0.0]), (3, 2))
    assert np.isnan(model.ability).tolist() == [False, True, False]
    assert np.isnan(model.ability_se).tolist() == [False, True, False]
    assert np.isnan(model.difficulty).tolist() == [True, False]
    assert model.ability[0] == pytest.approx(-model.ability[2])
    assert model.ability[0] > 1


# --- standardised rewards -----------------------------------------------------------


def test_rewards_are_standardised_within_a_task():
    task = np.array([0, 0, 1, 1, 1, 2, 3, 3])
    reward = np.array([1.0, 3.0, 0.0, 0.0, 6.0, 5.0, 0.1 + 0.2, 0.3])
    scale = Scale.of(task, reward, 5)
    assert scale.mean[:3].tolist() == [2.0, 2.0, 5.0]
    assert scale.deviation[0] == 1.0
    assert scale.deviation[1] == pytest.approx(np.sqrt(8))
    # One reward, two that differ by rounding, and none.
    assert np.isnan(scale.deviation).tolist() == [False, False, True, True, True]
    z = scale.standardise(task, reward)
    assert z[:2].tolist() == [-1.0, 1.0]
    assert np.isnan(z[5:]).all()


# --- low rank -----------------------------------------------------------------------


def plant_product(noise: float):
    rng = np.random.default_rng(2)
    agent, task = draw_entries(60, 80, 0.5)
    skill, demand = rng.normal(size=60), rng.normal(size=80)
    offset = rng.normal(size=60)
    reward = offset[agent] + skill[agent] * demand[task]
    return agent, task, reward + noise * rng.normal(size=len(agent)), offset


def test_factors_explain_a_planted_product():
    agent, task, reward, _ = plant_product(noise=0.0)
    factors = fit_factors(agent, task, reward, (60, 80), rank=1)
    residual = reward - factors.predict(agent, task)
    assert np.std(residual) < 0.1 * np.std(reward)
    assert factors.agent.shape == (60, 2)


def test_offsets_are_those_of_an_additive_model():
    """Of three agents on two tasks, the second has only the task it is good at."""
    agent, task = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 1])
    z = np.array([1.0, -1.0, 0.0, -1.0, 1.0])
    factors = fit_factors(agent, task, z, (3, 2), rank=0)
    assert factors.agent[:, 0] == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)
    z = np.array([2.0, 2.0, 0.0, -2.0, -2.0])
    offset = fit_factors(agent, task, z, (3, 2), rank=0).agent[:, 0]
    # Ridge 1 on two entries: two thirds of the mean.
    assert offset == pytest.approx([4 / 3, 0.0, -4 / 3], abs=1e-6)


def test_held_out_error_is_below_the_baseline_s_where_there_are_factors():
    agent, task, reward, _ = plant_product(noise=0.2)
    errors = measure_held_out(agent, task, reward, (60, 80), rank=1)
    assert errors.entries == pytest.approx(0.1 * len(agent), rel=0.2)
    assert errors.model < 0.6 * errors.baseline
    again = measure_held_out(agent, task, reward, (60, 80), rank=1)
    assert again == errors


def test_baseline_is_exact_on_additive_rewards():
    agent, task = draw_entries(20, 30, 1.0)
    rng = np.random.default_rng(5)
    reward = rng.normal(size=20)[agent] + rng.normal(size=30)[task]
    errors = measure_held_out(agent, task, reward, (20, 30), rank=1)
    # Rewards are standardised by other agents than those held out.
    assert errors.baseline < 0.25


def test_held_out_rewards_do_not_set_their_own_scale():
    """Of two agents, one remains where the other is held out: it has no deviation."""
    agent, task = draw_entries(2, 300, 1.0)
    reward = np.random.default_rng(6).normal(size=len(agent))
    assert measure_held_out(agent, task, reward, (2, 300), rank=1) is None


def test_few_entries_have_no_held_out_error():
    agent, task = draw_entries(3, 5, 1.0)
    assert measure_held_out(agent, task, 1.0 * agent, (3, 5), rank=1) is None
