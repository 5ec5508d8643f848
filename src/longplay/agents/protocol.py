"""The interface of an agent on the streaming track."""

from __future__ import annotations

from typing import Any, Protocol

from longplay.console.base import Observation


class StreamingAgent(Protocol):
    """An agent object.

    `metrics`, `usage`, `save` with `load`, and `close` are optional. If it has
    `looks_between_decisions = False`, it gets None in place of the observation on
    frames that are not decision frames.
    """

    def step(
        self,
        obs_rgb: Observation,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> int:
        """Answers one frame; the answer counts if `info["is_decision_frame"]`."""
