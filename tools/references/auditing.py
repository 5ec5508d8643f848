"""Values and measured returns of the same states -> the quality of the values.

A measured mean return has a known sampling error; R² and root mean squared error are
given with and without a correction for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from longplay.reference.facts import AuditedState, AuditSummary, R2Interval

_RESAMPLES = 2000
_STATES_OF_A_PLACE = 4

Reals = NDArray[np.float64]


def summarise(states: list[AuditedState]) -> AuditSummary:
    """R², bias and root mean squared error.

    `r2` compares with the measured means; `r2_corrected` and `rmse_corrected` subtract
    the sampling error of those means. R² is null where the means do not differ beyond
    that error.
    """
    values = np.array([state.value for state in states])
    means = np.array([state.mean_return for state in states])
    sampling = float(np.mean([state.sampling_variance for state in states]))
    error = float(np.mean((values - means) ** 2))
    spread = float(means.var())
    is_flat = spread <= 2 * sampling
    return AuditSummary(
        states=len(states),
        continuations=min(state.continuations for state in states),
        r2=None if spread == 0 else 1 - error / spread,
        r2_corrected=None
        if is_flat
        else 1 - max(0.0, error - sampling) / (spread - sampling),
        bias=float(np.mean(values - means)),
        rmse_corrected=sqrt(max(0.0, error - sampling)),
        value_std=float(values.std()),
        sampling_error=sqrt(sampling),
    )


def bootstrap_r2(
    states: Sequence[AuditedState], confidence: float = 0.95
) -> R2Interval:
    """Corrected R² with a percentile bootstrap over places.

    A place is a few neighbouring states of a visit, which may have much in common.
    Unlike in `summarise`, differences below the sampling error are not clipped at zero,
    so that the interval can contain 1.
    """
    sums = np.array([_sum_place(place) for place in _find_places(states)])
    rng = np.random.default_rng(0)
    drawn = sums[rng.integers(len(sums), size=(_RESAMPLES, len(sums)))]
    r2, resampled = _corrected_r2(sums), _corrected_r2(drawn)
    if np.isnan(r2):
        return R2Interval(r2=None, low=None, high=None)
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(resampled, (tail, 1 - tail))
    return R2Interval(r2=float(r2), low=float(low), high=float(high))


def _find_places(states: Sequence[AuditedState]) -> Iterator[list[AuditedState]]:
    """Neighbouring states of a visit, a few at a time."""
    for _, visit in groupby(states, key=lambda state: state.visit):
        own = list(visit)
        for start in range(0, len(own), _STATES_OF_A_PLACE):
            yield own[start : start + _STATES_OF_A_PLACE]


def _sum_place(states: Sequence[AuditedState]) -> list[float]:
    """Number of states, and sums of squared errors, means, their squares and noise."""
    means = [state.mean_return for state in states]
    return [
        len(states),
        sum((s.value - s.mean_return) ** 2 for s in states),
        sum(means),
        sum(mean**2 for mean in means),
        sum(state.sampling_variance for state in states),
    ]


def _corrected_r2(sums: Reals) -> Reals:
    """R² of (…, places, 5); NaN where the means do not differ beyond their error."""
    count, error, mean, square, noise = np.moveaxis(sums.sum(axis=-2), -1, 0)
    noise = noise / count
    spread = square / count - (mean / count) ** 2 - noise
    # As in `summarise`: a variance below twice the noise is not significant.
    is_flat = spread <= noise
    r2 = 1 - (error / count - noise) / np.where(is_flat, 1.0, spread)
    return np.where(is_flat, np.nan, r2)
