"""The control track: pixels, the reward, and nothing else that tells games apart.

The agent is a module with `init` and `step`, which `agents.functional` asks on every
timestep. An agent object of the streaming track plays here too; its `info` lacks
`lives`, because a module has only the pixels to tell a game by.
"""

from __future__ import annotations

from typing import Any

from longplay.stream import Percept
from longplay.tracks.streaming import StreamingTrack


class ControlTrack(StreamingTrack):
    """One agent on the control track."""

    def answer(self, percept: Percept) -> Any:
        """The agent's answer to one timestep."""
        del percept.info["lives"]
        return super().answer(percept)
