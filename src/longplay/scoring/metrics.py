"""Scores as pure functions of arrays.

A run's rewards are sparse: the frames with a nonzero reward, ascending, and their
rewards. A span of frames is `(start, end)`, both included. Sums are exactly rounded
(`math.fsum`), so they do not depend on the order of addition.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Span(NamedTuple):
    """Frames `start` … `end`, both included."""

    start: int
    end: int

    @property
    def length(self) -> int:
        """Number of frames."""
        return self.end - self.start + 1

    def head(self, n: int) -> Span:
        """The first `n` frames, or all."""
        return Span(self.start, min(self.start + n - 1, self.end))

    def tail(self, n: int) -> Span:
        """The last `n` frames, or all."""
        return Span(max(self.end - n + 1, self.start), self.end)


@dataclass(frozen=True)
class Rewards:
    """All nonzero rewards of a run.

    Attributes:
        frames: (n,) int64, ascending.
        values: (n,) float64.
    """

    frames: NDArray[np.int64]
    values: NDArray[np.float64]

    def total(self, span: Span) -> float:
        """Sum over a span."""
        low, high = np.searchsorted(self.frames, (span.start, span.end + 1))
        return math.fsum(self.values[low:high])

    def spread(self, span: Span) -> NDArray[np.float64]:
        """The rewards of every frame of a span, including zeros."""
        low, high = np.searchsorted(self.frames, (span.start, span.end + 1))
        rewards = np.zeros(span.length)
        rewards[self.frames[low:high] - span.start] = self.values[low:high]
        return rewards

    def rate(self, span: Span) -> float:
        """Reward per frame over a span."""
        return self.total(span) / span.length


def bottom_k_mean(scores: Iterable[float], fraction: float) -> float:
    """Mean of the lowest `max(1, ceil(fraction * n))` scores."""
    ordered = sorted(scores)
    k = max(1, math.ceil(fraction * len(ordered)))
    return math.fsum(ordered[:k]) / k


def mean_or_none(values: Sequence[float]) -> float | None:
    """The mean; None if there are no values."""
    return math.fsum(values) / len(values) if values else None


def median_or_none(values: Sequence[float]) -> float | None:
    """The median; None if there are no values."""
    return statistics.median(values) if values else None


def final_score(
    scores: Mapping[str, float], bottom_k_frac: float, weights: Sequence[float]
) -> tuple[float | None, float | None, float | None]:
    """(final, mean, bottom-k) of per-game scores; all None without scores."""
    mean = mean_or_none(list(scores.values()))
    if mean is None:
        return None, None, None
    bottom = bottom_k_mean(scores.values(), bottom_k_frac)
    return weights[0] * mean + weights[1] * bottom, mean, bottom
