"""What the runner asks of a track."""

from __future__ import annotations

from typing import Any, Protocol

from longplay.stream import Percept


class Track(Protocol):
    """One agent on one track: what it is shown, and what is taken from it."""

    def answer(self, percept: Percept) -> Any:
        """The answer to one frame."""

    def metrics(self) -> dict[str, float]:
        """Numbers to be written down for the visit that just ended."""

    def usage(self) -> dict[str, Any] | None:
        """What the agent says it used."""

    def close(self) -> None:
        """Lets the agent go."""
