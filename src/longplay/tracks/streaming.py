"""The streaming track: an agent object answers every frame.

It hands over the percept and nothing else, and takes the answer as it is: what counts
as an action the stream decides, on decision frames alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from longplay.agents.loading import LoadedAgent
from longplay.agents.metrics import check_numbers
from longplay.agents.protocol import StreamingAgent
from longplay.stream import Percept


class StreamingTrack:
    """One agent on the streaming track."""

    def __init__(self, agent: StreamingAgent) -> None:
        self._agent = agent
        self._step = agent.step
        self.looks_between_decisions: bool = getattr(
            agent, "looks_between_decisions", True
        )
        self._is_closed = False

    @classmethod
    def build(cls, agent: LoadedAgent, seed: int) -> Self:
        """Builds an agent and puts it on the track."""
        return cls(agent.build(seed))

    def answer(self, percept: Percept) -> Any:
        """The agent's answer to one frame."""
        return self._step(
            percept.observation,  # type: ignore[arg-type] # None if it does not look
            percept.reward,
            percept.terminated,
            percept.truncated,
            percept.info,
        )

    def metrics(self) -> dict[str, float]:
        """What the agent wants written down for the visit that just ended."""
        metrics = getattr(self._agent, "metrics", None)
        given = {} if metrics is None else check_numbers("metrics()", metrics())
        return {name: float(value) for name, value in given.items()}

    def usage(self) -> dict[str, Any] | None:
        """What the agent says it used: tokens and cost of language models."""
        usage = getattr(self._agent, "usage", None)
        return None if usage is None else check_numbers("usage()", usage())

    @property
    def can_save(self) -> bool:
        """Whether the agent has both `save` and `load`."""
        return all(callable(getattr(self._agent, n, None)) for n in ("save", "load"))

    def save(self, directory: Path) -> None:
        """Lets the agent save itself."""
        self._agent.save(directory)  # type: ignore[attr-defined]

    def load(self, directory: Path) -> None:
        """Lets the agent be what it was when it saved itself."""
        self._agent.load(directory)  # type: ignore[attr-defined]

    def close(self) -> None:
        """Lets the agent go; does nothing the second time."""
        close = getattr(self._agent, "close", None)
        if close is not None and not self._is_closed:
            self._is_closed = True
            close()
