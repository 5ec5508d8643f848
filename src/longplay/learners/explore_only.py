"""Explores like the learners but learns nothing: the baseline that they must beat.

    longplay run control-v1 --agent explore-only --seed 1000

It never looks at the screen, and all actions have the same value, so a greedy choice
repeats the last action. What it earns above random is due to holding actions and to
the bandit over exploration rates; only what a learner earns above it was learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.exploring import Explorer
from longplay.learners.parts.features import Observation
from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.state_files import load_state, save_state

REVISION = 1


@dataclass
class State:
    """The state of the agent between decisions."""

    SAVED: ClassVar[tuple[str, ...]] = ("explorer",)

    arguments: dict[str, Any]
    values: np.ndarray[Any, Any]
    explorer: Explorer


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    num_actions: int,
    seed: int,
    *,
    epsilons: tuple[float, ...] = (0.03, 0.3, 1.0),
    block_decisions: int = 100,
    memory: str = "carry",
) -> State:
    """Builds the agent; every keyword is a hyper-parameter, as of the learners."""
    arguments = dict(locals())
    check_arguments(arguments)
    rng = np.random.default_rng(seed)
    explorer = Explorer(num_actions, rng, epsilons, block_decisions)
    return State(arguments, np.zeros(num_actions), explorer)


def restart(state: State) -> None:
    """Nothing precedes the next observation."""
    state.explorer.restart()


@switch_memory(restart)
def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, int, dict[str, float]]:
    """Chooses the next action."""
    state.explorer.observe(reward, info["truncated"])
    action = state.explorer.choose(state.values)
    return state, action, {"epsilon": state.explorer.bandit.rate}


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
