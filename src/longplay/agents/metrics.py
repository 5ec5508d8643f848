"""Numbers that an agent reports -> what is written down of them."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from numbers import Integral, Real
from typing import Any

from longplay.errors import AgentError, describe_value


def check_numbers(source: str, given: object) -> dict[str, Any]:
    """Returns a mapping of finite numbers with its names as text.

    Args:
        source: Where it comes from, as errors call it: `metrics()`.
        given: What the agent gave.

    Raises:
        AgentError: It is no mapping, or a value is no finite number.
    """
    if not isinstance(given, Mapping):
        raise AgentError(f"{source} must be a dict, found {describe_value(given)}")
    for name, value in given.items():
        is_number = isinstance(value, Real) and not isinstance(value, bool)
        if not is_number or not isfinite(value):
            raise AgentError(
                f"{source}[{name!r}]: expected a finite number, found {value!r}"
            )
    # NumPy's numbers are no JSON.
    return {
        str(name): int(value) if isinstance(value, Integral) else float(value)
        for name, value in given.items()
    }


class MeanMetrics:
    """Metrics that come step by step; each is averaged over the steps that give it."""

    def __init__(self) -> None:
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}

    def add(self, metrics: object) -> None:
        """Takes what one step reports."""
        for name, value in check_numbers("step's metrics", metrics).items():
            self._sums[name] = self._sums.get(name, 0.0) + float(value)
            self._counts[name] = self._counts.get(name, 0) + 1

    def take(self) -> dict[str, float]:
        """The means since they were last taken."""
        means = {name: self._sums[name] / self._counts[name] for name in self._sums}
        self._sums, self._counts = {}, {}
        return means
