"""Every learner learns, within seconds, games whose optimum is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from learnable_games import play, predict

# Short blocks, small images, a short horizon: the games are short, too.
EXPLORING = {"epsilons": [0.05, 1.0], "block_decisions": 10, "discount": 0.8}
NETWORK = {**EXPLORING, "size": 42, "hidden": 64}
LEARNERS: dict[str, dict[str, Any]] = {
    "linear-sarsa": EXPLORING,
    "linear-prost": {**EXPLORING, "first_update": 50, "capacity": 500},
    "stream-q": {**NETWORK, "kappa": 0.5},
    "stream-q-l2init": {**NETWORK, "kappa": 0.5},
    "dqn": {
        **NETWORK,
        "step_size": 1e-3,
        "returns": 1,
        "batch_size": 16,
        "first_update": 50,
        "decisions_per_update": 2,
        "capacity": 500,
    },
}
each_learner = pytest.mark.parametrize("name", LEARNERS)


@each_learner
def test_delayed_reward(name: str) -> None:
    rewards = play(name, [("corridor", 1500)], **LEARNERS[name])
    # Four steps to the right: the optimum is 1/4; random play gets there about once
    # in 9**4 timesteps at first.
    assert np.mean(rewards[-300:]) > 0.12


@each_learner
def test_contextual_bandit_on_pixels_and_a_switch(name: str) -> None:
    # Random play earns 1/9, the best blind action 1/2, the optimum 1.
    games = [("levers", 900), ("levers-swapped", 1200)]
    rewards = play(name, games, **LEARNERS[name])
    assert np.mean(rewards[700:900]) > 0.6
    # What was learned is now wrong.
    assert np.mean(rewards[900:950]) < 0.4
    assert np.mean(rewards[-200:]) > 0.6


@pytest.mark.parametrize(
    ("name", "agent_args"),
    [
        ("linear-td", {"step_size": 0.1}),
        ("lstd-td", {}),
        ("stream-td", {"size": 42, "hidden": 64}),
    ],
)
def test_predictors_find_known_values(name: str, agent_args: dict[str, Any]) -> None:
    predictions = np.array(predict(name, 1800, **agent_args))
    values = 0.99 ** (8 - np.arange(len(predictions)) % 9)
    late = (predictions - values)[-180:]
    assert np.sqrt(np.mean(late**2)) < 0.06
