"""Runs -> an estimate with its 95 % interval.

The unit is the run: games within a run depend on each other, so nothing below a run is
ever resampled. The rule is fixed by the number of runs, not chosen per table:

    runs      interval
    < 3       none
    3 … 29    Student's t
    ≥ 30      percentile bootstrap over runs: 10,000 draws, seed 0

A ratio of sums over runs has a jackknife over runs with Student's t, from 3 runs on.

Two agents that share seeds are compared pair by pair on those seeds; otherwise as two
independent samples, with Welch's t or, from 30 runs of each on, a bootstrap of both.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longplay.contract.documents import Document

Reals = NDArray[np.float64]

FEWEST_FOR_INTERVAL = 3
FEWEST_FOR_BOOTSTRAP = 30
BOOTSTRAP_DRAWS = 10_000

# Two-sided 95 % quantiles of Student's t for 1 … 30 degrees of freedom.
_T_QUANTILES = (
    12.7062047, 4.30265273, 3.18244631, 2.77644511, 2.57058184, 2.44691185,
    2.36462425, 2.30600414, 2.26215716, 2.22813885, 2.20098516, 2.17881283,
    2.16036866, 2.14478669, 2.13144955, 2.11990530, 2.10981558, 2.10092204,
    2.09302405, 2.08596345, 2.07961384, 2.07387307, 2.06865761, 2.06389856,
    2.05953855, 2.05552944, 2.05183052, 2.04840714, 2.04522964, 2.04227246,
)  # fmt: skip
_NORMAL_QUANTILE = 1.95996398

Method = Literal[
    "none",
    "t",
    "bootstrap",
    "paired t",
    "paired bootstrap",
    "Welch t",
    "unpaired bootstrap",
    "placements",
    "jackknife t",
]


# The method of an interval of differences.
_PAIRED: dict[Method, Method] = {
    "none": "none",
    "t": "paired t",
    "bootstrap": "paired bootstrap",
}


class Estimate(Document):
    """A mean over runs and its 95 % interval.

    Attributes:
        mean: The estimate.
        low: Lower end of the interval; None where there is none.
        high: Upper end.
        n: Runs it is made of; of a paired difference, pairs.
        method: How the interval was computed.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    n: int
    method: Method = "none"

    @property
    def half_width(self) -> float | None:
        """Half the length of the interval."""
        if self.low is None or self.high is None:
            return None
        return (self.high - self.low) / 2

    @property
    def excludes_zero(self) -> bool:
        """Whether the whole interval lies on one side of 0."""
        if self.low is None or self.high is None:
            return False
        return self.low > 0 or self.high < 0


def t_quantile(degrees: float) -> float:
    """The two-sided 95 % quantile of Student's t.

    Between whole degrees of freedom and beyond 30 it is interpolated in 1 / degrees.
    That errs to the wide side, by less than 0.06 from 2 degrees on and by less than
    0.011 from 3 on.
    """
    if degrees < 1:
        raise ValueError(f"degrees of freedom: expected at least 1, found {degrees}")
    inverse = [0.0, *(1 / d for d in range(len(_T_QUANTILES), 0, -1))]
    quantiles = [_NORMAL_QUANTILE, *reversed(_T_QUANTILES)]
    return float(np.interp(1 / degrees, inverse, quantiles))


def standard_error(values: Sequence[float] | Reals) -> float | None:
    """Standard error of the mean of (n,) values; None of fewer than two."""
    if len(values) < 2:
        return None
    return float(np.std(np.asarray(values, np.float64), ddof=1)) / math.sqrt(
        len(values)
    )


def estimate_mean(values: Sequence[float] | Reals) -> Estimate | None:
    """The mean of (n,) values, one per run, with its interval; None of nothing."""
    if len(values) == 0:
        return None
    numbers = [float(value) for value in values]
    mean = math.fsum(numbers) / len(numbers)
    low, high, method = _interval(numbers, mean)
    return Estimate(mean=mean, low=low, high=high, n=len(numbers), method=method)


def estimate_ratio(
    numerators: Sequence[float] | Reals, denominators: Sequence[float] | Reals
) -> Estimate:
    """A ratio of sums over runs, with its jackknife interval.

    Args:
        numerators: (n,) one per run.
        denominators: (n,) one per run; no sum of all or of all but one is 0.
    """
    above, below = np.asarray(numerators, float), np.asarray(denominators, float)
    n, ratio = len(above), float(above.sum() / below.sum())
    if n < FEWEST_FOR_INTERVAL:
        return Estimate(mean=ratio, n=n)
    without_one = (above.sum() - above) / (below.sum() - below)
    spread = float(((without_one - without_one.mean()) ** 2).sum())
    half_width = t_quantile(n - 1) * math.sqrt((n - 1) / n * spread)
    low, high = ratio - half_width, ratio + half_width
    return Estimate(mean=ratio, low=low, high=high, n=n, method="jackknife t")


class _Interval(NamedTuple):
    low: float | None
    high: float | None
    method: Method


def _interval(values: list[float], mean: float) -> _Interval:
    if len(values) < FEWEST_FOR_INTERVAL:
        return _Interval(None, None, "none")
    if len(values) >= FEWEST_FOR_BOOTSTRAP:
        return _Interval(*bootstrap_interval(values), "bootstrap")
    error = standard_error(values)
    assert error is not None
    half_width = t_quantile(len(values) - 1) * error
    return _Interval(mean - half_width, mean + half_width, "t")


def bootstrap_interval(
    values: Sequence[float],
    confidence: float = 0.95,
    resamples: int = BOOTSTRAP_DRAWS,
    seed: int = 0,
) -> tuple[float, float]:
    """Percentile bootstrap interval of the mean.

    Args:
        values: (n,) one per run.
        confidence: Share of resampled means that the interval holds.
        resamples: How many samples of n are drawn, with replacement.
        seed: Of the generator; the same values give the same interval.

    Returns:
        The low and the high end.
    """
    means = _resample_means(np.random.default_rng(seed), values, resamples)
    return _find_percentiles(means, confidence)


def _resample_means(
    rng: np.random.Generator, values: Sequence[float], resamples: int
) -> Reals:
    """(resamples,) means of as many values, drawn with replacement."""
    drawn = rng.integers(len(values), size=(resamples, len(values)))
    return np.asarray(np.asarray(values, np.float64)[drawn].mean(axis=1), np.float64)


def _find_percentiles(means: Reals, confidence: float = 0.95) -> tuple[float, float]:
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return float(low), float(high)


def estimate_difference(
    ours: Mapping[Hashable, float], theirs: Mapping[Hashable, float]
) -> Estimate | None:
    """The difference between two agents.

    Args:
        ours: Seed -> value of one agent.
        theirs: Seed -> value of the other.

    Returns:
        The mean of the differences on shared seeds, if there are any; otherwise the
        difference of the two means. None if one of the agents has no run.
    """
    paired = estimate_mean(
        [ours[seed] - theirs[seed] for seed in ours if seed in theirs]
    )
    if paired is None:
        return _estimate_unpaired(list(ours.values()), list(theirs.values()))
    return paired.model_copy(update={"method": _PAIRED[paired.method]})


def _estimate_unpaired(ours: list[float], theirs: list[float]) -> Estimate | None:
    if not ours or not theirs:
        return None
    mean = math.fsum(ours) / len(ours) - math.fsum(theirs) / len(theirs)
    n = min(len(ours), len(theirs))
    if n < FEWEST_FOR_INTERVAL:
        return Estimate(mean=mean, n=n)
    if n >= FEWEST_FOR_BOOTSTRAP:
        low, high = _bootstrap_difference(ours, theirs)
        return Estimate(mean=mean, low=low, high=high, n=n, method="unpaired bootstrap")
    half_width = welch_half_width(ours, theirs)
    return Estimate(
        mean=mean, low=mean - half_width, high=mean + half_width, n=n, method="Welch t"
    )


def _bootstrap_difference(
    ours: list[float], theirs: list[float]
) -> tuple[float, float]:
    """Percentile interval of the difference of two means, both resampled."""
    rng = np.random.default_rng(0)
    means = _resample_means(rng, ours, BOOTSTRAP_DRAWS)
    return _find_percentiles(means - _resample_means(rng, theirs, BOOTSTRAP_DRAWS))


def welch_half_width(
    ours: Sequence[float] | Reals, theirs: Sequence[float] | Reals
) -> float:
    """Half the 95 % interval of a difference of means of independent samples.

    Args:
        ours: (m,) with m at least 2.
        theirs: (n,) with n at least 2.
    """
    parts = [float(np.var(v, ddof=1)) / len(v) for v in (ours, theirs)]
    variance = math.fsum(parts)
    if variance == 0:
        return 0.0
    # Welch-Satterthwaite.
    spread = parts[0] ** 2 / (len(ours) - 1) + parts[1] ** 2 / (len(theirs) - 1)
    return t_quantile(variance**2 / spread) * math.sqrt(variance)
