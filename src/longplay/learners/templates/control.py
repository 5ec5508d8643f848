"""An agent made of functions: plays control and streaming suites.

    longplay check-agent my_agent.py
    longplay run control-smoke-v1 --agent my_agent.py --seed 1000
    longplay run control-v1 --agent my_agent.py --seed 1000 --agent-arg step_size=0.1

Seeds from 1000 on are for development, a suite's official seeds for results.

It remembers what each action has earned lately; make it look at the screen. `init` and
`step` are described in docs/agents.md, "The control track"; docs/learners.md shows what
`longplay.learners` offers: vision, replay, networks, exploration. These pages are at
https://github.com/longplay/longplay/tree/main/docs.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.exploring import Explorer
from longplay.learners.parts.state_files import load_state, save_state

Observation = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass
class State:
    """The state of the agent between decisions."""

    # What `step` changes, to be saved; the rest follows from the arguments of `init`.
    SAVED: ClassVar[tuple[str, ...]] = ("explorer", "worth")

    arguments: dict[str, Any]
    step_size: float
    # Plays at random where that earns more than what was learned.
    explorer: Explorer
    worth: np.ndarray[Any, np.dtype[np.float64]]


def init(
    observation_shape: tuple[int, int, int],
    num_actions: int,
    seed: int,
    step_size: float = 0.05,
) -> State:
    """Builds the agent; `step_size` is given by `--agent-arg`."""
    arguments = dict(locals())
    rng = np.random.default_rng(seed)
    explorer = Explorer(num_actions, rng, epsilons=(0.1, 1.0), block_decisions=100)
    return State(arguments, step_size, explorer, np.zeros(num_actions))


def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, int, dict[str, float]]:
    """Learns from the reward of the last action, and chooses the next one."""
    surprise = np.sign(reward) - state.worth[state.explorer.action]
    state.worth[state.explorer.action] += state.step_size * surprise
    state.explorer.observe(reward, is_switch=info["truncated"])
    action = state.explorer.choose(state.worth)
    return state, action, {"surprise": float(surprise)}


def save(state: State, directory: Path) -> None:
    """Writes everything needed to resume a run bit-exactly."""
    save_state(state, directory)


def load(directory: Path) -> State:
    """The state that was saved."""
    return load_state(init, directory)
