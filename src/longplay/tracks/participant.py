"""The agent of a run as the loop calls it: what it gets, and what it returns.

It gets the percept, with only the keys of `info` that its track allows. Its answer is
passed on unchecked: the stream's driver decides what is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

from longplay.agents.isolation.remote import RemoteAgent
from longplay.agents.metrics import Metrics, check_metrics, check_numbers
from longplay.agents.protocol import StreamingAgent
from longplay.stream import INFO_KEYS, Percept, Stream


class Participant:
    """An agent on a track, as the loop calls it; in this process.

    Attributes:
        looks_between_decisions: Whether it wants the pixels of every frame.
        saves_generators: Whether what it saves includes the global generators.
    """

    saves_generators = False

    def __init__(self, agent: StreamingAgent, info_keys: Collection[str]) -> None:
        self._agent = agent
        self._step = agent.step
        self._hidden_keys = tuple(key for key in INFO_KEYS if key not in info_keys)
        self._is_closed = False
        self.looks_between_decisions: bool = getattr(
            agent, "looks_between_decisions", True
        )

    def join(self, stream: Stream) -> None:
        """Prepares for a stream, from its next frame on."""

    def rebuild(self, build: Callable[[], StreamingAgent], seed: int) -> None:
        """Replaces the agent by one that is built anew, in the same process.

        Args:
            build: Builds it, if it runs in this process.
            seed: The agent seed.
        """
        self.close()
        self._is_closed = False
        self._agent = build()
        self._step = self._agent.step

    def answer(self, percept: Percept) -> Any:
        """The agent's answer to one frame."""
        info = percept.info
        for key in self._hidden_keys:
            del info[key]
        return self._step(
            percept.observation,  # type: ignore[arg-type] # may be None, if it opted out
            percept.reward,
            percept.terminated,
            percept.truncated,
            info,
        )

    def settle(self) -> None:
        """Waits until the agent has processed every frame."""

    def find_failed_frame(self, frame: int) -> int:
        """The frame at which the agent failed, given the stream's next one."""
        return frame

    def metrics(self) -> Metrics:
        """The metrics that the agent reports for the visit that just ended."""
        metrics = getattr(self._agent, "metrics", None)
        return {} if metrics is None else check_metrics("metrics()", metrics())

    def window_metrics(self) -> Metrics:
        """The metrics that the agent reports for its last decisions.

        For a module that is the mean of what `step` reported since the last call; for
        an agent object it is `metrics()`.
        """
        window = getattr(self._agent, "window_metrics", None)
        if window is None:
            return self.metrics()
        return check_metrics("step's metrics", window())

    def end_visit(self) -> tuple[Metrics, Metrics]:
        """The agent's metrics for its last decisions, and for the whole visit."""
        visit = self.metrics()
        has_windows = hasattr(self._agent, "window_metrics")
        return self.window_metrics() if has_windows else visit, visit

    def usage(self) -> dict[str, Any] | None:
        """The usage that the agent reports: tokens and cost of language models."""
        usage = getattr(self._agent, "usage", None)
        return None if usage is None else check_numbers("usage()", usage())

    @property
    def can_save(self) -> bool:
        """Whether the agent has both `save` and `load`."""
        return all(callable(getattr(self._agent, n, None)) for n in ("save", "load"))

    def save(self, directory: Path) -> None:
        """Saves the agent."""
        self._agent.save(directory)  # type: ignore[attr-defined]

    def load(self, directory: Path) -> None:
        """Restores the agent to its state when it was saved."""
        self._agent.load(directory)  # type: ignore[attr-defined]

    def close(self) -> None:
        """Closes the agent; does nothing the second time."""
        close = getattr(self._agent, "close", None)
        if close is not None and not self._is_closed:
            self._is_closed = True
            close()


class RemoteParticipant(Participant):
    """An agent in its own process, which gets the frames between decisions together."""

    saves_generators = True

    def __init__(self, agent: RemoteAgent, info_keys: Collection[str]) -> None:
        super().__init__(agent, info_keys)
        self._remote = agent
        self._first_frame = 0

    def join(self, stream: Stream) -> None:
        """Has the stream's console play on while the agent computes, where it can."""
        self._first_frame = stream.global_frame_idx - self._remote.processed
        self._remote.play_ahead_of(stream)

    def rebuild(self, build: Callable[[], StreamingAgent], seed: int) -> None:
        """Replaces the agent by one that is built anew, in the same process."""
        self._remote.rebuild(seed)

    def settle(self) -> None:
        """Waits until the agent has processed every frame."""
        self._remote.settle()

    def find_failed_frame(self, frame: int) -> int:
        """The first frame that the agent has not processed."""
        return self._first_frame + self._remote.processed
