"""The random agent: a uniformly random action on every decision frame."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from longplay.console.base import Observation

# Drawing one number costs as much as drawing a few hundred.
_BLOCK = 512
_STATE_FILE = "random.json"


class RandomAgent:
    """Draws a new action, uniformly, on every decision frame."""

    looks_between_decisions = False

    def __init__(self, num_actions: int, seed: int) -> None:
        self._num_actions = num_actions
        self._rng = np.random.default_rng(seed)
        self._drawn: list[int] = []
        self._action = 0

    def step(
        self,
        obs_rgb: Observation | None,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> int:
        """Draws on decision frames, repeats the last action on the others."""
        if info["is_decision_frame"]:
            if not self._drawn:
                self._drawn = self._rng.integers(
                    self._num_actions, size=_BLOCK
                ).tolist()
            self._action = self._drawn.pop()
        return self._action

    def save(self, directory: Path) -> None:
        """Saves the generator and the actions that it has drawn ahead."""
        state = {
            "rng": self._rng.bit_generator.state,
            "drawn": self._drawn,
            "action": self._action,
        }
        (directory / _STATE_FILE).write_text(json.dumps(state), encoding="utf-8")

    def load(self, directory: Path) -> None:
        """Restores the generator and the actions drawn ahead."""
        state = json.loads((directory / _STATE_FILE).read_text(encoding="utf-8"))
        self._rng.bit_generator.state = state["rng"]
        self._drawn = state["drawn"]
        self._action = state["action"]
