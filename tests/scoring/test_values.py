"""Errors against rollout values: by hand, and with known sampling errors."""

from __future__ import annotations

import numpy as np
import pytest

from longplay.reference.rollout_file import RolloutValues
from longplay.scoring.values import (
    has_spread,
    normalised_value_error,
    spread_error,
    value_error,
    value_spread,
)

STATES, K = 250, 8


def make_values(
    mean: list[float], variance: list[float], continuations: int = 4
) -> RolloutValues:
    return RolloutValues(
        np.arange(len(mean), dtype=np.int32),
        np.array(mean, np.float32),
        np.array(variance, np.float32),
        continuations,
    )


def measure(rng: np.random.Generator) -> tuple[RolloutValues, np.ndarray, np.ndarray]:
    """States with true values, and rollouts of them; some states have more noise."""
    truth = rng.normal(0.5, 1.0, STATES)
    luck = rng.uniform(0.2, 1.5, STATES)
    returns = truth[:, None] + luck[:, None] * rng.normal(size=(STATES, K))
    mean, variance = returns.mean(axis=1), returns.var(axis=1, ddof=1)
    return make_values(mean.tolist(), variance.tolist(), K), truth, luck


def test_errors_by_hand() -> None:
    # m 0 and 2, s² / K 0.1 and 0.2; p = 1: squares 1 and 1, less 0.15
    values = make_values([0, 2] * 25, [0.4, 0.8] * 25)
    ones = np.ones(50)
    assert value_error(ones, values) == pytest.approx(0.85)
    # var m = 1
    assert value_spread(values) == pytest.approx(0.85)
    assert normalised_value_error(ones, values) == pytest.approx(1.0)
    # p = 2: squares 4 and 0
    assert value_error(2 * ones, values) == pytest.approx(1.85)


def test_the_best_constant_has_one() -> None:
    values, _, _ = measure(np.random.default_rng(1))
    constant = np.full(STATES, values.means.mean())
    assert normalised_value_error(constant, values) == pytest.approx(1.0)


def test_a_predictor_that_knows_m_is_below_zero_by_its_noise() -> None:
    """How a leak of the rollout values shows: no honest predictor gets there."""
    values, _, _ = measure(np.random.default_rng(2))
    expected = -values.noise.mean() / value_spread(values)
    assert normalised_value_error(values.means, values) == pytest.approx(expected)
    assert expected < -0.05


@pytest.mark.parametrize("others", [1, 4, 16])
def test_the_mean_of_other_continuations_has_only_its_own_error(others: int) -> None:
    """Its error is mean(s² / K') / D, within what 40 visits can tell."""
    rng, found, expected = np.random.default_rng(others), [], []
    for _ in range(40):
        values, truth, luck = measure(rng)
        said = truth + luck * rng.normal(size=(others, STATES)).mean(axis=0)
        spread = value_spread(values)
        found.append(value_error(said, values) / spread)
        expected.append(values.noise.mean() * K / others / spread)
    difference = np.array(found) - expected
    assert abs(difference.mean()) < 3 * difference.std(ddof=1) / np.sqrt(40)


def test_the_truth_has_no_error_on_average() -> None:
    rng, errors = np.random.default_rng(5), []
    for _ in range(40):
        values, truth, _ = measure(rng)
        errors.append(value_error(truth, values))
    assert min(errors) < 0 < max(errors)  # not clipped
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(40)


def test_added_noise_is_ordered() -> None:
    rng = np.random.default_rng(7)
    values, truth, _ = measure(rng)
    errors = [
        value_error(truth + size * rng.normal(size=STATES), values)
        for size in (0.0, 0.3, 0.6, 1.2)
    ]
    assert errors == sorted(errors)


@pytest.mark.parametrize(
    ("mean", "variance"),
    [
        pytest.param([0.5] * 250, [0.0] * 250, id="all the same"),
        pytest.param([0.0, 1.8e-3] * 125, [0.0] * 250, id="D is 0.81e-6"),
        pytest.param([0.0, 1.0] * 125, [1.0] * 250, id="D is what luck makes"),
        # Nine blocks of 0 and one of 1: D 0.09, its error over blocks about 0.06.
        pytest.param([0.0] * 225 + [1.0] * 25, [0.0] * 250, id="one block differs"),
        pytest.param([0.0, 1.0] * 12, [0.0] * 24, id="less than two blocks"),
    ],
)
def test_no_normalised_error_where_states_hardly_differ(
    mean: list[float], variance: list[float]
) -> None:
    values = make_values(mean, variance)
    assert not has_spread(values)
    assert normalised_value_error(np.zeros(len(mean)), values) is None


def test_differences_in_every_block_count() -> None:
    # The same alternation in every block: D 0.25 to the last resample but one state.
    values = make_values([0.0, 1.0] * 125, [0.0] * 250)
    assert value_spread(values) == pytest.approx(0.25)
    assert spread_error(values) < 1e-3
    assert normalised_value_error(np.zeros(250), values) == pytest.approx(2.0)


def test_the_error_of_the_spread_is_the_same_every_time() -> None:
    values, _, _ = measure(np.random.default_rng(3))
    assert spread_error(values) == spread_error(values) > 0
