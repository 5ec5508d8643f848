"""A replay of sparse features, and linear double Q-learning on what is drawn from it.

    replay = SparseReplay(capacity=10_000, width=512, returns=5)
    replay.complete(action, reward, is_over)   # the last action, and its reward
    replay.add(features, sizes)                # the current observation
    starts = replay.draw(rng, 12)              # n-step transitions, by number

A feature takes five bytes: its index, and its size from 0 to 1 in 255 steps. 10,000
observations of 512 features take 26 MB. A transition never crosses the end of a game.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import numpy as np

from longplay.errors import ConfigError
from longplay.learners.parts.features import Active, Floats
from longplay.learners.parts.kernels import compiled

Array = np.ndarray[Any, Any]

_SIZE_STEPS = 255
_SIZE_STEP = np.float32(1 / _SIZE_STEPS)
_ZERO = np.float32(0.0)


class Rows(NamedTuple):
    """The arrays of a replay, one row per observation."""

    features: Array
    sizes: Array
    counts: Array
    actions: Array
    rewards: Array
    is_over: Array


class Rule(NamedTuple):
    """Constants of learning."""

    step_size: float
    discount: float
    returns: int
    bias: float


class SparseReplay:
    """The last `capacity` observations, actions, rewards and ends, in a ring."""

    SAVED: ClassVar[tuple[str, ...]] = (*Rows._fields, "added", "is_open")

    def __init__(self, capacity: int, width: int, returns: int) -> None:
        if capacity <= returns:
            raise ConfigError(
                f"capacity: expected more than {returns} observations, the number of "
                f"returns, found {capacity}"
            )
        self._capacity = capacity
        self._returns = returns
        self.features = np.zeros((capacity, width), np.int32)
        self.sizes = np.zeros((capacity, width), np.uint8)
        self.counts = np.zeros(capacity, np.int64)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.is_over = np.zeros(capacity, np.bool_)
        self.added = 0
        # Whether the newest observation still lacks its action and reward.
        self.is_open = False

    def __len__(self) -> int:
        """The number of transitions that can be drawn."""
        return max(min(self.added, self._capacity) - self._returns, 0)

    @property
    def rows(self) -> Rows:
        """The arrays, for compiled loops."""
        return Rows(*(getattr(self, name) for name in Rows._fields))

    @property
    def newest(self) -> int:
        """The row of the current observation."""
        return (self.added - 1) % self._capacity

    def add(self, features: Active, sizes: Floats) -> None:
        """Stores the current observation, replacing the oldest."""
        self.added += 1
        place, count = self.newest, len(features)
        self.features[place, :count] = features
        self.sizes[place, :count] = np.rint(sizes * _SIZE_STEPS)
        self.counts[place] = count
        self.is_open = True

    def complete(self, action: int, reward: float, is_over: bool) -> None:
        """Stores the action at the newest observation, and its reward."""
        place = self.newest
        self.actions[place] = action
        self.rewards[place] = reward
        self.is_over[place] = is_over
        self.is_open = False

    def restart(self) -> None:
        """Drops the newest observation if no action follows it."""
        self.added -= self.is_open
        self.is_open = False

    def draw(self, rng: np.random.Generator, count: int) -> Active:
        """Rows where transitions start: the newest one, then drawn with replacement."""
        newest = self.added - 1 - self._returns
        starts = newest - rng.integers(len(self), size=count)
        starts[0] = newest
        return starts % self._capacity


@compiled
def find_outputs(weights: Floats, rows: Rows, row: int, bias: float) -> Floats:
    """The output of each part for one observation; `weights` is (feature, part)."""
    outputs = np.float32(bias) * weights[-1]
    for k in range(rows.counts[row]):
        size = _SIZE_STEP * rows.sizes[row, k]
        of_feature = weights[rows.features[row, k]]
        for part in range(len(outputs)):
            outputs[part] += size * of_feature[part]
    return outputs


@compiled
def learn(
    weights: Floats,
    target_weights: Floats,
    rows: Rows,
    starts: Active,
    parts: Active,
    rule: Rule,
) -> float:
    """One step per transition; returns the mean squared error before them.

    `parts` is (action, its parts), as in `action_parts`.
    """
    squares = 0.0
    for start in starts:
        target = _find_target(weights, target_weights, rows, start, parts, rule)
        error = _move(weights, rows, start, parts[rows.actions[start]], target, rule)
        squares += error * error
    return squares / len(starts)


@compiled
def _find_target(
    weights: Floats,
    target_weights: Floats,
    rows: Rows,
    start: int,
    parts: Active,
    rule: Rule,
) -> float:
    """Rewards, then what the target weights say of the action the weights pick."""
    target, factor, row = 0.0, 1.0, start
    for _ in range(rule.returns):
        target += factor * rows.rewards[row]
        if rows.is_over[row]:
            return target
        factor *= rule.discount
        row = (row + 1) % len(rows.counts)
    outputs = find_outputs(weights, rows, row, rule.bias)
    picked, highest = 0, -np.inf
    for action in range(len(parts)):
        value = _add_up(outputs, parts[action])
        if value > highest:
            picked, highest = action, value
    outputs = find_outputs(target_weights, rows, row, rule.bias)
    return target + factor * _add_up(outputs, parts[picked])


@compiled
def _add_up(outputs: Floats, own: Active) -> float:
    """An action's value, from the outputs of all parts."""
    value = 0.0
    for part in own:
        value += outputs[part]
    return value


@compiled
def _move(
    weights: Floats, rows: Rows, row: int, own: Active, target: float, rule: Rule
) -> float:
    """Moves the value of an action with parts `own` a share of the way to a target."""
    value, length = 0.0, rule.bias * rule.bias
    for part in own:
        value += rule.bias * weights[-1, part]
    for k in range(rows.counts[row]):
        size = _SIZE_STEP * rows.sizes[row, k]
        length += size * size
        for part in own:
            value += size * weights[rows.features[row, k], part]
    error = target - value
    step = rule.step_size * error / (length * len(own))
    for part in own:
        weights[-1, part] += np.float32(step * rule.bias)
    for k in range(rows.counts[row]):
        size = _SIZE_STEP * rows.sizes[row, k]
        for part in own:
            weights[rows.features[row, k], part] += np.float32(step * size)
    return error
