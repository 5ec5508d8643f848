"""Linear true-online TD(λ) on coarse colours: predicts, with NumPy only.

    longplay run prediction-v1 --agent linear-td --seed 1000

Van Seijen et al. (2016), "True Online Temporal-Difference Learning", JMLR 17(145), with
dutch traces. What differs from the paper: the step is divided by the number of active
features, so the match with the online λ-return is exact only while that number stays
the same; and the end of a visit ends an episode, as another game follows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.features import (
    FEATURES,
    Active,
    BlockFeatures,
    Observation,
)
from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.state_files import load_state, save_state

REVISION = 2

Doubles = np.ndarray[Any, np.dtype[np.float64]]


@dataclass
class State:
    """The state of the predictor between timesteps."""

    SAVED: ClassVar[tuple[str, ...]] = ("weights", "traces", "active", "old_value")

    arguments: dict[str, Any]
    step_size: float
    discount: float
    trace_decay: float
    find_features: BlockFeatures
    # The last feature is always active.
    weights: Doubles = field(default_factory=lambda: np.zeros(FEATURES + 1))
    traces: Doubles = field(default_factory=lambda: np.zeros(FEATURES + 1))
    # The features of the last observation, and their value by the weights before it.
    active: Active = field(default_factory=lambda: np.zeros(0, np.int64))
    old_value: float = 0.0


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    *,
    step_size: float = 0.01,
    discount: float = 0.99,
    trace_decay: float = 0.95,
    memory: str = "carry",
) -> State:
    """Builds the predictor; every keyword is a hyper-parameter."""
    arguments = dict(locals())
    check_arguments(arguments)
    features = BlockFeatures(observation_shape)
    return State(arguments, step_size, discount, trace_decay, features)


def restart(state: State) -> None:
    """Nothing precedes the next observation."""
    state.traces[:] = 0.0
    state.active, state.old_value = state.active[:0], 0.0


@switch_memory(restart)
def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, float, dict[str, float]]:
    """Learns from the transition that ended here, and predicts what follows."""
    is_over = info["terminated"] or info["truncated"]
    before = observation if is_over else previous_observation
    active = np.append(state.find_features(before, observation), FEATURES)
    next_value = 0.0 if is_over else float(state.weights[active].sum())
    error = learn(state, reward, next_value) if len(state.active) else 0.0
    if is_over:
        state.traces[:] = 0.0
    state.active = active
    # By the weights before the update, as the method requires.
    state.old_value = next_value
    prediction = float(state.weights[active].sum())
    return state, prediction, {"squared_td_error": error * error}


def learn(state: State, reward: float, next_value: float) -> float:
    """One true-online update for the last observation; `next_value` is 0 at an end."""
    active, decay = state.active, state.discount * state.trace_decay
    step_size = state.step_size / len(active)
    value = float(state.weights[active].sum())
    error = reward + state.discount * next_value - value
    overlap = float(state.traces[active].sum())
    state.traces *= decay
    state.traces[active] += 1.0 - step_size * decay * overlap
    surprise = value - state.old_value
    state.weights += step_size * (error + surprise) * state.traces
    state.weights[active] -= step_size * surprise
    return error


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
