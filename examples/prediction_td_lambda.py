"""Linear true-online TD(λ) on coarse colours: values learned as they are seen.

    longplay run prediction-v1 --agent examples/prediction_td_lambda.py --seed 0

The screen is cut into blocks. A feature says that a colour is seen in a block, or that
a block has changed since the last observation; the value is linear in them. The update
is that of van Seijen et al. (2016), with dutch traces, and its step is divided by the
number of active features. A new game goes on with the weights of the last one.
"""

import json
from dataclasses import dataclass, field

import numpy as np

ROWS, COLUMNS, COLOURS = 14, 16, 8
BLOCKS = ROWS * COLUMNS
FEATURES = BLOCKS * COLOURS + BLOCKS + 1
# Every third line and every second column are enough to see a colour in a block.
LINES, DOTS = np.arange(1, 210, 3), np.arange(0, 160, 2)
BLOCK_OF_PIXEL = (
    (LINES * ROWS // 210)[:, None] * COLUMNS + DOTS * COLUMNS // 160
).astype(np.int64)


@dataclass
class State:
    """All that the agent carries from timestep to timestep."""

    step_size: float
    discount: float
    trace_decay: float
    weights: np.ndarray = field(default_factory=lambda: np.zeros(FEATURES))
    traces: np.ndarray = field(default_factory=lambda: np.zeros(FEATURES))
    # The features of the last observation, and their value by the weights before it.
    active: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    old_value: float = 0.0


def init(observation_shape, step_size=0.01, discount=0.99, trace_decay=0.9):
    return State(step_size, discount, trace_decay)


def find_features(previous_observation, observation):
    """The indices of the features that are active; the last one always is."""
    pixels = observation[1::3, ::2] >> 7  # one bit for each of red, green and blue
    colours = pixels[..., 0] * 4 + pixels[..., 1] * 2 + pixels[..., 2]
    seen = np.bincount(
        (BLOCK_OF_PIXEL * COLOURS + colours).ravel(), minlength=BLOCKS * COLOURS
    )
    changed = (observation[1::3, ::2, 1] != previous_observation[1::3, ::2, 1]).ravel()
    moving = np.bincount(BLOCK_OF_PIXEL.ravel()[changed], minlength=BLOCKS)
    return np.flatnonzero(np.concatenate((seen, moving, [1])))


def learn(state, reward, next_value):
    """One true-online update for the last observation; `next_value` is 0 at an end."""
    active, decay = state.active, state.discount * state.trace_decay
    step = state.step_size / len(active)
    value = state.weights[active].sum()
    error = reward + state.discount * next_value - value
    overlap = state.traces[active].sum()
    state.traces *= decay
    state.traces[active] += 1.0 - step * decay * overlap
    surprise = value - state.old_value
    state.weights += step * (error + surprise) * state.traces
    state.weights[active] -= step * surprise
    return error


def step(state, previous_observation, observation, reward, info):
    is_over = info["terminated"] or info["truncated"]
    active = find_features(
        observation if is_over else previous_observation, observation
    )
    next_value = 0.0 if is_over else state.weights[active].sum()
    error = learn(state, reward, next_value) if len(state.active) else 0.0
    if is_over:
        state.traces[:] = 0.0
    state.active = active
    # By the weights before the update, as the method wants it.
    state.old_value = float(next_value)
    prediction = state.weights[active].sum()
    return state, prediction, {"squared_td_error": float(error * error)}


def save(state, directory):
    kept = dict(vars(state))
    arrays = {name: kept.pop(name) for name in ("weights", "traces", "active")}
    np.savez(directory / "arrays.npz", **arrays)
    (directory / "state.json").write_text(json.dumps(kept))


def load(directory):
    kept = json.loads((directory / "state.json").read_text())
    with np.load(directory / "arrays.npz") as arrays:
        return State(**arrays, **kept)
