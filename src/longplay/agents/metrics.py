"""Numbers that an agent reports -> numbers that can be recorded.

Metrics are diagnostics, so one that is not finite does not stop a run: it is recorded
as null, and `<metric>.non_finite` counts such values.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any

from longplay.errors import AgentError, describe_value

# Metric -> value; null where no value was finite.
Metrics = dict[str, float | None]

_COUNT_SUFFIX = ".non_finite"


def check_numbers(source: str, given: object) -> dict[str, Any]:
    """Returns a mapping of finite numbers with its names as text.

    Args:
        source: The name that errors use for it, such as `usage()`.
        given: The agent's return value.

    Raises:
        AgentError: It is not a mapping, or a value is not a finite number.
    """
    numbers = dict(_iter_numbers(source, given))
    for name, value in numbers.items():
        if not isfinite(value):
            raise AgentError(
                f"{source}[{name!r}]: expected a finite number, found {value!r}"
            )
    return numbers


def check_metrics(source: str, given: object) -> Metrics:
    """Returns metrics with null for values that are not finite, and their counts.

    Args:
        source: The name that errors use for it, such as `metrics()`.
        given: The agent's return value, or what this function returned.

    Raises:
        AgentError: It is not a mapping, or a value is not a number.
    """
    if isinstance(given, Mapping):
        given = {k: float("nan") if v is None else v for k, v in given.items()}
    metrics: Metrics = {
        name: float(value) if isfinite(value) else None
        for name, value in _iter_numbers(source, given)
    }
    for name in [name for name, value in metrics.items() if value is None]:
        metrics.setdefault(name + _COUNT_SUFFIX, 1.0)
    return metrics


def find_non_finite(metrics: Metrics) -> list[str]:
    """The names of the metrics that had values which are not finite."""
    return [
        name.removesuffix(_COUNT_SUFFIX)
        for name in metrics
        if name.endswith(_COUNT_SUFFIX)
    ]


def _iter_numbers(source: str, given: object) -> Iterator[tuple[str, Any]]:
    if not isinstance(given, Mapping):
        raise AgentError(f"{source} must be a dict, found {describe_value(given)}")
    for name, value in given.items():
        if not isinstance(value, Real) or isinstance(value, bool):
            raise AgentError(f"{source}[{name!r}]: expected a number, found {value!r}")
        # JSON cannot encode NumPy's numbers.
        yield str(name), int(value) if isinstance(value, Integral) else float(value)


class MeanMetrics:
    """Means of metrics, each over the steps that report a finite value of it."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._non_finite: dict[str, int] = {}

    def add(self, metrics: object) -> None:
        """Adds the metrics of one step."""
        for name, value in _iter_numbers("step's metrics", metrics):
            if isfinite(value):
                self._sums[name] = self._sums.get(name, 0.0) + float(value)
                self._counts[name] = self._counts.get(name, 0) + 1
            else:
                self._sums.setdefault(name, 0.0)
                self._counts.setdefault(name, 0)
                self._non_finite[name] = self._non_finite.get(name, 0) + 1

    def snapshot(self) -> dict[str, list[float]]:
        """Sums and counts so far, as plain JSON."""
        return {
            name: [self._sums[name], self._counts[name], *self._skipped(name)]
            for name in self._sums
        }

    def _skipped(self, name: str) -> list[int]:
        return [self._non_finite[name]] if name in self._non_finite else []

    def restore(self, snapshot: Mapping[str, Sequence[float]]) -> None:
        """Restores a snapshot."""
        self._sums = {name: total for name, (total, *_) in snapshot.items()}
        self._counts = {name: int(count) for name, (_, count, *_) in snapshot.items()}
        self._non_finite = {
            name: int(skipped[0])
            for name, (_, _, *skipped) in snapshot.items()
            if skipped
        }

    def take(self) -> Metrics:
        """Returns the means since the last call, and resets them."""
        means: Metrics = {}
        for name, total in self._sums.items():
            count = self._counts[name]
            means[name] = total / count if count else None
        for name, skipped in self._non_finite.items():
            means[name + _COUNT_SUFFIX] = float(skipped)
        self._sums, self._counts, self._non_finite = {}, {}, {}
        return means
