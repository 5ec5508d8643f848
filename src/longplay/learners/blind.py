"""A policy gradient that never looks at the screen: what can be had without looking.

    longplay run control-v1 --agent blind --seed 0

The agent of the README, with `save` and `load`: REINFORCE (Williams, 1992, "Simple
Statistical Gradient-Following Algorithms for Connectionist Reinforcement Learning")
with one preference per action. What differs from the paper:

    policy      the same in every state; the chances are a softmax of the preferences
    traces      actions share in later rewards, less and less; episodes play no part
    baseline    a running mean of the rewards
    forgetting  preferences decay, so that another game can change them
    rewards     clipped at ±1; those of control suites are never larger

With `memory = library` it looks at the first frame of each visit, to know the game.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.features import Observation
from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.state_files import load_state, save_state

REVISION = 1

# Share of a preference that is left after a decision, and of a reward in the mean.
_KEPT = 0.9999
_MEAN_SHARE = 0.01

Doubles = np.ndarray[Any, np.dtype[np.float64]]


@dataclass
class State:
    """The state of the agent between decisions."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "rng",
        "preferences",
        "trace",
        "mean_reward",
        "has_acted",
    )

    arguments: dict[str, Any]
    step_size: float
    trace_decay: float
    rng: np.random.Generator
    preferences: Doubles
    trace: Doubles
    mean_reward: float = 0.0
    # Whether the next reward belongs to an action.
    has_acted: bool = False


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    num_actions: int,
    seed: int,
    *,
    step_size: float = 0.1,
    trace_decay: float = 0.9,
    memory: str = "carry",
) -> State:
    """Builds the agent; every keyword is a hyper-parameter."""
    arguments = dict(locals())
    check_arguments(arguments)
    return State(
        arguments=arguments,
        step_size=step_size,
        trace_decay=trace_decay,
        rng=np.random.default_rng(seed),
        preferences=np.zeros(num_actions),
        trace=np.zeros(num_actions),
    )


def restart(state: State) -> None:
    """Nothing precedes the next observation."""
    state.trace[:] = 0.0
    state.has_acted = False


@switch_memory(restart)
def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, int, dict[str, float]]:
    """Learns from the reward of the last actions, and chooses the next action."""
    if state.has_acted:
        learn(state, min(max(reward, -1.0), 1.0))
    # Less the largest, so that no exponential overflows.
    weights = np.exp(state.preferences - state.preferences.max())
    chances = weights / weights.sum()
    action = int(state.rng.choice(len(chances), p=chances))
    state.trace *= state.trace_decay
    state.trace -= chances
    state.trace[action] += 1.0
    state.has_acted = True
    return state, action, {"highest_chance": float(chances.max())}


def learn(state: State, reward: float) -> None:
    """Makes the last actions more likely if the reward is above the mean."""
    surprise = reward - state.mean_reward
    state.preferences += state.step_size * surprise * state.trace
    state.preferences *= _KEPT
    state.mean_reward += _MEAN_SHARE * surprise


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
