"""Linear true-online TD(λ) on coarse colours.

    longplay run prediction-v1 --agent examples/prediction_td_lambda.py --seed 0

The screen is divided into blocks. Each feature is binary: a colour is present in a
block, or a block has changed since the last observation. The value is linear in the
features. The update is that of van Seijen et al. (2016), with dutch traces; the step
size is divided by the number of active features. The weights
are kept when the game changes.
"""

import json
from dataclasses import dataclass, field

import numpy as np

ROWS, COLUMNS, COLOURS = 14, 16, 8
BLOCKS = ROWS * COLUMNS
FEATURES = BLOCKS * COLOURS + BLOCKS + 1
# Every third line and every second column suffice to find the colours of a block.
LINES, DOTS = np.arange(1, 210, 3), np.arange(0, 160, 2)
BLOCK_OF_PIXEL = (
    (LINES * ROWS // 210)[:, None] * COLUMNS + DOTS * COLUMNS // 160
).astype(np.int64)


@dataclass
class State:
    """Everything the agent remembers between timesteps."""

    step_size: float
    discount: float
    trace_decay: float
    weights: np.ndarray = field(default_factory=lambda: np.zeros(FEATURES))
    traces: np.ndarray = field(default_factory=lambda: np.zeros(FEATURES))
    # The active features of the last observation, and its value before the last update.
    active: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    old_value: float = 0.0


def init(observation_shape, step_size=0.01, discount=0.99, trace_decay=0.95):
    return State(step_size, discount, trace_decay)


def find_features(previous_observation, observation):
    """The indices of the active features; the last feature is always active."""
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
    # The value before the update, as true-online TD(λ) requires.
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
