"""An agent that computes nothing and is shown every frame, for `bench.py`."""

from __future__ import annotations

from typing import Any


class Agent:
    """Repeats one action; does not say that it ignores frames between decisions."""

    def __init__(self, num_actions: int, seed: int) -> None:
        self.action = seed % num_actions

    def step(self, *percept: Any) -> int:
        """The same action on every frame."""
        return self.action
