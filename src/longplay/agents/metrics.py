"""Numbers that an agent reports -> finite numbers that can be recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from numbers import Integral, Real
from typing import Any

from longplay.errors import AgentError, describe_value


def check_numbers(source: str, given: object) -> dict[str, Any]:
    """Returns a mapping of finite numbers with its names as text.

    Args:
        source: The name that errors use for it, such as `metrics()`.
        given: The agent's return value.

    Raises:
        AgentError: It is not a mapping, or a value is not a finite number.
    """
    if not isinstance(given, Mapping):
        raise AgentError(f"{source} must be a dict, found {describe_value(given)}")
    for name, value in given.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not isfinite(value):
            raise AgentError(
                f"{source}[{name!r}]: expected a finite number, found {value!r}"
            )
    # JSON cannot encode NumPy's numbers.
    return {
        str(name): int(value) if isinstance(value, Integral) else float(value)
        for name, value in given.items()
    }


class MeanMetrics:
    """Means of metrics, each over the steps that report it."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, metrics: object) -> None:
        """Adds the metrics of one step."""
        for name, value in check_numbers("step's metrics", metrics).items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value)
            self._counts[name] = self._counts.get(name, 0) + 1

    def snapshot(self) -> dict[str, list[float]]:
        """Sums and counts so far, as plain JSON."""
        return {name: [self._sums[name], self._counts[name]] for name in self._sums}

    def restore(self, snapshot: Mapping[str, Sequence[float]]) -> None:
        """Restores a snapshot."""
        self._sums = {name: total for name, (total, _) in snapshot.items()}
        self._counts = {name: int(count) for name, (_, count) in snapshot.items()}

    def take(self) -> dict[str, float]:
        """Returns the means since the last call, and resets them."""
        means = {name: self._sums[name] / self._counts[name] for name in self._sums}
        self._sums, self._counts = {}, {}
        return means
