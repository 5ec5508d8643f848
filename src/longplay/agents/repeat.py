"""The repeat agent: one action on every frame, a baseline for holding a button."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longplay.console.base import Observation
from longplay.errors import AgentLoadError


class RepeatAgent:
    """Answers every frame with one action, FIRE or `action=N`."""

    looks_between_decisions = False

    def __init__(self, num_actions: int, seed: int, action: int = 1) -> None:
        if isinstance(action, bool) or action not in range(num_actions):
            raise AgentLoadError(
                f"action: expected an int in 0 … {num_actions - 1}, found {action!r}"
            )
        self._action = action

    def step(
        self,
        obs_rgb: Observation | None,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> int:
        """Answers with the action."""
        return self._action

    def save(self, directory: Path) -> None:
        """Does nothing: the agent has no state."""

    def load(self, directory: Path) -> None:
        """Does nothing: the agent has no state."""
