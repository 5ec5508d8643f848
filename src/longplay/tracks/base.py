"""What the runner asks of a track."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from longplay.stream import Percept


class Track(Protocol):
    """One agent on one track: what it is shown, and what is taken from it.

    Attributes:
        looks_between_decisions: Whether it wants the pixels of every frame.
    """

    looks_between_decisions: bool

    def answer(self, percept: Percept) -> Any:
        """The answer to one frame."""

    def metrics(self) -> dict[str, float]:
        """Numbers to be written down for the visit that just ended."""

    def usage(self) -> dict[str, Any] | None:
        """What the agent says it used."""

    @property
    def can_save(self) -> bool:
        """Whether the agent can be saved and loaded."""

    def save(self, directory: Path) -> None:
        """Lets the agent save itself."""

    def load(self, directory: Path) -> None:
        """Lets the agent be what it was when it saved itself."""

    def close(self) -> None:
        """Lets the agent go."""
