"""Values and measured returns of the same states -> the quality of the values.

A measured mean return has a known sampling error; R² and root mean squared error are
given with and without a correction for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from longplay.reference.facts import AuditedState, AuditSummary, R2Interval

_RESAMPLES = 2000

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
    """Corrected R² with a percentile bootstrap over states.

    Unlike in `summarise`, differences below the sampling error are not clipped at zero,
    so that the interval can contain 1.
    """
    columns = np.array(
        [(state.value, state.mean_return, state.sampling_variance) for state in states]
    )
    rng = np.random.default_rng(0)
    drawn = columns[rng.integers(len(states), size=(_RESAMPLES, len(states)))]
    r2, resampled = _corrected_r2(columns), _corrected_r2(drawn)
    if np.isnan(r2):
        return R2Interval(r2=None, low=None, high=None)
    tail = (1 - confidence) / 2
    low, high = np.nanquantile(resampled, (tail, 1 - tail))
    return R2Interval(r2=float(r2), low=float(low), high=float(high))


def _corrected_r2(columns: Reals) -> Reals:
    """R² of (…, states, 3); NaN where the means do not differ beyond their error."""
    values, means, sampling = np.moveaxis(columns, -1, 0)
    noise = sampling.mean(axis=-1)
    error = ((values - means) ** 2).mean(axis=-1) - noise
    spread = means.var(axis=-1) - noise
    # As in `summarise`: a variance below twice the noise is not significant.
    is_flat = spread <= noise
    return np.where(is_flat, np.nan, 1 - error / np.where(is_flat, 1.0, spread))
