"""The streaming track: an agent object answers every frame.

It hands over the percept and nothing else, and takes the answer as it is: what counts
as an action the stream decides, on decision frames alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any

from longplay.agents.base import StreamingAgent
from longplay.errors import AgentError
from longplay.stream import Percept


class StreamingTrack:
    """One agent on the streaming track."""

    def __init__(self, agent: StreamingAgent) -> None:
        self._agent = agent
        self._step = agent.step
        self._is_closed = False

    def answer(self, percept: Percept) -> Any:
        """The agent's answer to one frame."""
        return self._step(
            percept.observation,
            percept.reward,
            percept.terminated,
            percept.truncated,
            percept.info,
        )

    def metrics(self) -> dict[str, float]:
        """What the agent wants written down for the visit that just ended."""
        metrics = getattr(self._agent, "metrics", None)
        return {} if metrics is None else _check_metrics(metrics())

    def usage(self) -> dict[str, Any] | None:
        """What the agent says it used: tokens and cost of language models."""
        usage = getattr(self._agent, "usage", None)
        if usage is None:
            return None
        given = usage()
        if not isinstance(given, Mapping):
            raise AgentError(f"usage() must return a dict, found {given!r}")
        return _check_numbers("usage", given)

    def close(self) -> None:
        """Lets the agent go; does nothing the second time."""
        close = getattr(self._agent, "close", None)
        if close is not None and not self._is_closed:
            self._is_closed = True
            close()


def _check_metrics(given: object) -> dict[str, float]:
    if not isinstance(given, Mapping):
        raise AgentError(f"metrics() must return a dict, found {given!r}")
    numbers = _check_numbers("metrics", given)
    return {name: float(value) for name, value in numbers.items()}


def _check_numbers(method: str, given: Mapping[Any, Any]) -> dict[str, Any]:
    for name, value in given.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not isfinite(value):
            raise AgentError(
                f"{method}()[{name!r}]: expected a finite number, found {value!r}"
            )
    # NumPy's numbers are no JSON.
    return {
        str(name): int(value) if isinstance(value, Integral) else float(value)
        for name, value in given.items()
    }
