"""The no-op agent: the default action on every frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longplay.console.base import Observation


class NoopAgent:
    """Answers every frame with the run's default action."""

    looks_between_decisions = False

    def __init__(self, num_actions: int, seed: int) -> None:
        pass

    def step(
        self,
        obs_rgb: Observation | None,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> int:
        """Answers with the default action."""
        return int(info["default_action_idx"])

    def save(self, directory: Path) -> None:
        """Does nothing: the agent has no state."""

    def load(self, directory: Path) -> None:
        """Does nothing: the agent has no state."""
