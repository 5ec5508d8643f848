"""Predicts the mean of recent returns: a constant that adapts to the game.

    longplay run prediction-v1 --agent examples/prediction_mean.py --seed 0

A return is known when its game ends, or when later rewards are discounted to almost
nothing. Old returns lose weight, so that the mean adapts to a new game within a few
hundred timesteps.
"""

import json
from dataclasses import asdict, dataclass, field


@dataclass
class State:
    """Rewards whose returns are not known yet, and the mean of the known returns."""

    discount: float
    horizon: int
    fading: float
    rewards: list = field(default_factory=list)
    total: float = 0.0
    weight: float = 0.0


def init(observation_shape, discount=0.99, horizon=500, fading=0.998):
    return State(discount, horizon, fading)


def add_returns(state, count):
    """Adds the returns of the oldest rewards to the mean."""
    following, returns = 0.0, []
    for reward in reversed(state.rewards):
        following = reward + state.discount * following
        returns.append(following)
    for known in returns[::-1][:count]:
        state.total = state.fading * state.total + known
        state.weight = state.fading * state.weight + 1.0
    del state.rewards[:count]


def step(state, previous_observation, observation, reward, info):
    state.rewards.append(reward)
    if info["terminated"]:
        add_returns(state, len(state.rewards))
    elif info["truncated"]:
        state.rewards.clear()  # the rest of these returns is unknown
    elif len(state.rewards) >= 2 * state.horizon:
        add_returns(state, state.horizon)
    return state, state.total / state.weight if state.weight else 0.0


def save(state, directory):
    (directory / "state.json").write_text(json.dumps(asdict(state)))


def load(directory):
    return State(**json.loads((directory / "state.json").read_text()))
