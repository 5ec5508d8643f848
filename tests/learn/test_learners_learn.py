"""Every learner learns, within seconds, games whose optimum is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from learnable_games import play, predict

from all_learners import LEARNERS, choose, is_predictor

# Short blocks, small images, a short horizon: the games are short, too.
SHORT: dict[str, Any] = {
    **{"epsilons": [0.05, 1.0], "block_decisions": 10, "discount": 0.8},
    **{"size": 42, "hidden": 64, "kappa": 0.5, "capacity": 500, "first_update": 50},
    **{"batch_size": 16, "decisions_per_update": 2},
}
SHORT_PREDICTIONS = {"size": 42, "hidden": 64}
# What only some of them need.
OWN: dict[str, dict[str, Any]] = {
    "dqn": {"step_size": 1e-3, "returns": 1},
    "linear-td": {"step_size": 0.1},
}
NOT_LEARNING_FROM_PIXELS = ("blind", "explore-only")
PREDICTORS = [name for name in LEARNERS if is_predictor(name)]
each_learner = pytest.mark.parametrize(
    "name",
    [n for n in LEARNERS if n not in (*PREDICTORS, *NOT_LEARNING_FROM_PIXELS)],
)


def shorten(name: str, values: dict[str, Any]) -> dict[str, Any]:
    return choose(name, values) | OWN.get(name, {})


@each_learner
def test_delayed_reward(name: str) -> None:
    rewards = play(name, [("corridor", 1500)], **shorten(name, SHORT))
    # Four steps to the right: the optimum is 1/4; random play gets there about once
    # in 9**4 timesteps at first.
    assert np.mean(rewards[-300:]) > 0.12


@each_learner
def test_contextual_bandit_on_pixels_and_a_switch(name: str) -> None:
    # Random play earns 1/9, the best blind action 1/2, the optimum 1.
    games = [("levers", 900), ("levers-swapped", 1200)]
    rewards = play(name, games, **shorten(name, SHORT))
    assert np.mean(rewards[700:900]) > 0.6
    # What was learned is now wrong.
    assert np.mean(rewards[900:950]) < 0.4
    assert np.mean(rewards[-200:]) > 0.6


@pytest.mark.parametrize("name", PREDICTORS)
def test_predictors_find_known_values(name: str) -> None:
    given = shorten(name, SHORT_PREDICTIONS)
    predictions = np.array(predict(name, 1800, **given))
    values = 0.99 ** (8 - np.arange(len(predictions)) % 9)
    late = (predictions - values)[-180:]
    assert np.sqrt(np.mean(late**2)) < 0.06
