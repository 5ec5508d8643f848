"""An action's value as a sum of parts that actions share.

The 18 actions of ALE are nine directions, each with the fire button and without. Their
values are the sum of the worth of the state, of the direction, of the button, and of
the action itself: what is learned about the state or a direction from one action
applies to all actions that share it. (The state's part is the dueling architecture of
Wang et al., 2016, arXiv 1511.06581.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

from longplay.console.base import ACTION_NAMES

Floats = np.ndarray[Any, np.dtype[np.float32]]


class ActionParts:
    """Which parts add up to an action's value: `of_action` is (action, part index)."""

    def __init__(self, num_actions: int, is_shared: bool = True) -> None:
        columns = _list_columns(num_actions) if is_shared else [range(num_actions)]
        self.of_action = np.stack([np.asarray(column) for column in columns], axis=1)
        self.count = int(self.of_action.max()) + 1

    def add_up(self, outputs: Floats) -> Floats:
        """Values (…, action) of outputs (…, part)."""
        values: Floats = outputs[..., self.of_action].sum(axis=-1)
        return values

    def spread(self, actions: np.ndarray[Any, Any], d_values: Floats) -> Floats:
        """The gradient by the parts, from `d_values` of one action per sample.

        The gradient of `sum(d_values * values[actions])`.
        """
        d_outputs = np.zeros((len(actions), self.count), np.float32)
        np.put_along_axis(d_outputs, self.of_action[actions], d_values[:, None], axis=1)
        return d_outputs


def _list_columns(num_actions: int) -> list[Any]:
    """Parts of each action, numbered one kind after the other, the state's first."""
    own = np.arange(num_actions)
    state = np.zeros_like(own)
    if num_actions != len(ACTION_NAMES):
        return [state, 1 + own]
    names = [name.removesuffix("FIRE") or "NOOP" for name in ACTION_NAMES]
    directions = sorted(set(names))
    direction = [1 + directions.index(name) for name in names]
    first_fire = 1 + len(directions)
    fire = [first_fire + name.endswith("FIRE") for name in ACTION_NAMES]
    return [state, direction, fire, first_fire + 2 + own]
