"""Errors of predictions against rollout values, corrected for sampling error.

A rollout value m is the mean of K returns and differs from the state's true value v by
a sampling error with the known variance s² / K. For predictions p that are independent
of this error,

    E (p - m)² = (p - v)² + s² / K
    E var m    = var v + mean of s² / K (1 - 1/n)

so subtracting s² / K gives unbiased estimates of the error against v, and of the
variance of v over states:

    value_mse    mean of (p - m)² - s² / K; can be below 0 by chance, or if p depends
                 on m
    value_spread D, population variance of m - mean of s² / K
    value_nmse   value_mse / D; null where D is below 1e-6 or twice its standard error

The standard error of D comes from a bootstrap over blocks of 25 neighbouring states,
because neighbouring states are correlated.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from longplay.reference.rollout_file import RolloutValues

# Below this, the variance of values is considered negligible.
SMALLEST_VARIANCE = 1e-6
BLOCK_STATES = 25

_RESAMPLES = 10_000

Reals = NDArray[np.float64]


def value_error(predictions: Reals, values: RolloutValues) -> float:
    """value_mse of the predictions for the measured states, (n,)."""
    squares = (predictions - values.means) ** 2
    return math.fsum(squares - values.noise) / len(squares)


def value_spread(values: RolloutValues) -> float:
    """D: estimated variance of the states' true values."""
    return float(_spreads(_block_sums(values).sum(axis=0)))


def spread_error(values: RolloutValues) -> float:
    """The standard error of D; infinite if there are too few states."""
    blocks = _block_sums(values)
    if len(blocks) < 2:
        return math.inf
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(blocks), size=(_RESAMPLES, len(blocks)))
    return float(_spreads(blocks[drawn].sum(axis=1)).std(ddof=1))


def _block_sums(values: RolloutValues) -> Reals:
    """Per block of states: their number, and sums of m, m² and s² / K."""
    means = values.means - math.fsum(values.means) / len(values.means)
    terms = np.stack([np.ones_like(means), means, means**2, values.noise], axis=1)
    starts = np.arange(0, len(means), BLOCK_STATES)
    return np.add.reduceat(terms, starts, axis=0)


def _spreads(sums: Reals) -> Reals:
    count, total, squares, noise = np.moveaxis(sums, -1, 0)
    spreads: Reals = squares / count - (total / count) ** 2 - noise / count
    return spreads


def has_spread(values: RolloutValues) -> bool:
    """Whether the values of the states differ significantly."""
    spread = value_spread(values)
    return spread >= max(SMALLEST_VARIANCE, 2 * spread_error(values))


def normalised_value_error(predictions: Reals, values: RolloutValues) -> float | None:
    """value_nmse; None if the values of the states do not differ significantly."""
    if not has_spread(values):
        return None
    return value_error(predictions, values) / value_spread(values)
