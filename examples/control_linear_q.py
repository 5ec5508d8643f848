"""Linear Sarsa(λ) on coarse colours: a learning agent that only needs NumPy.

    longplay run control-v1 --agent examples/control_linear_q.py --seed 1000

The screen is divided into blocks. Each feature is binary: a colour is present in a
block, or a block has changed since the last observation. Action values are linear in
the features, step sizes are divided by the number of active features, and eligibility
traces credit a reward to the actions before it.
"""

import json
from dataclasses import dataclass, field

import numpy as np

ROWS, COLUMNS, COLOURS = 14, 16, 8
BLOCKS = ROWS * COLUMNS
FEATURES = BLOCKS * COLOURS + BLOCKS
# A constant feature of this size: an action's average value is learned faster than its
# value on a particular screen.
BIAS = 10.0
LONGEST_HOLD = 50
# Every third line and every second column suffice to find the colours of a block.
LINES, DOTS = np.arange(1, 210, 3), np.arange(0, 160, 2)
BLOCK_OF_PIXEL = (
    (LINES * ROWS // 210)[:, None] * COLUMNS + DOTS * COLUMNS // 160
).astype(np.int64)


@dataclass
class State:
    """Everything the agent remembers between timesteps."""

    rng: np.random.Generator
    weights: np.ndarray
    traces: np.ndarray
    step_size: float
    epsilon: float
    discount: float
    trace_decay: float
    action: int = 0
    hold: int = 0
    value: float = 0.0
    active: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))


def init(
    observation_shape,
    num_actions,
    seed,
    step_size=0.1,
    epsilon=0.03,
    discount=0.9,
    trace_decay=0.8,
):
    shape = (num_actions, FEATURES + 1)
    return State(
        np.random.default_rng(seed),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        step_size,
        epsilon,
        discount,
        trace_decay,
    )


def find_features(previous_observation, observation):
    """The indices of the features that are active."""
    pixels = observation[1::3, ::2] >> 7  # one bit for each of red, green and blue
    colours = pixels[..., 0] * 4 + pixels[..., 1] * 2 + pixels[..., 2]
    seen = np.bincount(
        (BLOCK_OF_PIXEL * COLOURS + colours).ravel(), minlength=BLOCKS * COLOURS
    )
    changed = (observation[1::3, ::2, 1] != previous_observation[1::3, ::2, 1]).ravel()
    moving = np.bincount(BLOCK_OF_PIXEL.ravel()[changed], minlength=BLOCKS)
    return np.flatnonzero(np.concatenate((seen, moving)))


def find_values(state, active):
    """The value of each action."""
    return state.weights[:, active].sum(axis=1) + BIAS * state.weights[:, -1]


def choose_action(state, values):
    """Chooses the best action, or sometimes a random one for several timesteps.

    Many games only reward an action that is held, so a random action lasts for one or
    two timesteps as a rule and sometimes for many. Ties go to the last action.
    """
    if state.hold > 0:
        state.hold -= 1
        return state.action
    if state.rng.random() < state.epsilon:
        state.hold = min(int(state.rng.zipf(2.0)), LONGEST_HOLD) - 1
        return int(state.rng.integers(len(values)))
    if values[state.action] == values.max():
        return state.action
    return int(values.argmax())


def learn(state, target):
    """Moves the values of the last action and of those before it towards a target."""
    error = target - state.value
    state.traces *= state.discount * state.trace_decay
    state.traces[state.action, state.active] = 1.0
    state.traces[state.action, -1] = BIAS
    scaled = state.step_size * error / (len(state.active) + BIAS**2)
    state.weights += np.float32(scaled) * state.traces
    return error


def step(state, previous_observation, observation, reward, info):
    active = find_features(previous_observation, observation)
    values = find_values(state, active)
    action = choose_action(state, values)
    is_over = info["terminated"] or info["truncated"]
    future = 0.0 if is_over else state.discount * float(values[action])
    error = learn(state, reward + future)
    if is_over:
        state.traces[:] = 0.0
    state.active, state.action = active, action
    state.value = float(find_values(state, active)[action])
    return state, action, {"squared_td_error": error * error}


def save(state, directory):
    kept = dict(vars(state))
    rng = kept.pop("rng").bit_generator.state
    arrays = {name: kept.pop(name) for name in ("weights", "traces", "active")}
    np.savez(directory / "arrays.npz", **arrays)
    (directory / "state.json").write_text(json.dumps({"rng": rng, **kept}))


def load(directory):
    kept = json.loads((directory / "state.json").read_text())
    rng = np.random.default_rng()
    rng.bit_generator.state = kept.pop("rng")
    with np.load(directory / "arrays.npz") as arrays:
        return State(rng=rng, **arrays, **kept)
