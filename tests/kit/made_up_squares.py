"""A made-up stream of two games, with a coloured square on each screen.

    answers = [answer for answer, metrics in play_squares(module, 300)]

Screens, rewards and ends are the same for every learner, whatever it answers.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np

SHAPE = (210, 160, 3)
SCREENS = 8


def build(module: ModuleType, **agent_args: Any) -> Any:
    """The state of a learner, with what its `init` asks for."""
    offered = {"observation_shape": SHAPE, "num_actions": 18, "seed": 11}
    named = inspect.signature(module.init).parameters
    given = {key: value for key, value in offered.items() if key in named}
    return module.init(**given, **agent_args)


def play_squares(
    module: ModuleType, decisions: int, **agent_args: Any
) -> Iterator[tuple[Any, dict[str, float]]]:
    """A learner's answers and metrics; the second game begins after 60 % of them."""
    state, rng = build(module, **agent_args), np.random.default_rng(9)
    screens = [_show(k) for k in range(SCREENS)]
    before = screens[0]
    for k in range(decisions):
        now = screens[rng.integers(SCREENS)]
        reward = float(rng.integers(-1, 2))
        info = {"terminated": k % 37 == 36, "truncated": k == decisions * 6 // 10}
        state, answer, metrics = module.step(state, before, now, reward, info)
        yield answer, metrics
        before = now


def _show(k: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    screen = np.zeros(SHAPE, np.uint8)
    colour = [255 * (k >> bit & 1) for bit in range(3)] if k else (200, 100, 50)
    screen[20 * k + 10 : 20 * k + 40, 15 * k : 15 * k + 40] = colour
    return screen
