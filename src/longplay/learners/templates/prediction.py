"""A predictor made of functions: plays prediction suites.

    longplay check-agent my_agent.py
    longplay run prediction-smoke-v1 --agent my_agent.py --seed 1000
    longplay run prediction-v1 --agent my_agent.py --seed 1000

Seeds from 1000 on are for development, a suite's official seeds for results.

A fixed policy plays; `step` answers with the discounted sum of rewards that it expects
from here to the end of the game. This one answers with the mean over all it has seen;
make it look at the screen. docs/agents.md, "The prediction track", describes both
functions; docs/learners.md shows what `longplay.learners` offers. These pages are at
https://github.com/longplay/longplay/tree/main/docs.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

Observation = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass
class State:
    """The state of the predictor between timesteps."""

    step_size: float
    discount: float
    reward_rate: float = 0.0


def init(
    observation_shape: tuple[int, int, int],
    step_size: float = 0.01,
    discount: float = 0.99,
) -> State:
    """Builds the predictor; keywords are given by `--agent-arg`."""
    return State(step_size, discount)


def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, float, dict[str, float]]:
    """Learns from the last reward, and predicts what follows."""
    surprise = reward - state.reward_rate
    state.reward_rate += state.step_size * surprise
    prediction = state.reward_rate / (1 - state.discount)
    return state, prediction, {"squared_surprise": surprise**2}


def save(state: State, directory: Path) -> None:
    """Writes all that `step` changes, so that a run can be resumed."""
    (directory / "state.json").write_text(json.dumps(asdict(state)))


def load(directory: Path) -> State:
    """The state that was saved."""
    return State(**json.loads((directory / "state.json").read_text()))
