"""Predictions against rollout values, with the luck of the rollouts taken off.

A rollout value m is the mean of K returns and differs from the state's true value v by
luck, with the known variance s² / K. For predictions p that do not share this luck,

    E (p - m)² = (p - v)² + s² / K
    E var m    = var v + mean of s² / K (1 - 1/n)

so what is left after taking s² / K off is an unbiased measure of the error against v,
and of the differences between states that there are to predict:

    value_mse    mean of (p - m)² - s² / K; below 0 by chance, or where p knows m
    value_spread D, population variance of m - mean of s² / K
    value_nmse   value_mse / D; null where D is below 1e-6 or twice its standard error

The standard error of D is that of a bootstrap over blocks of 25 neighbouring states,
because neighbours resemble each other.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from longplay.reference.rollout_file import RolloutValues

# Below this, what values differ by is nothing that could be predicted.
SMALLEST_VARIANCE = 1e-6
BLOCK_STATES = 25

_RESAMPLES = 10_000

Reals = NDArray[np.float64]


def value_error(predictions: Reals, values: RolloutValues) -> float:
    """value_mse of the predictions for the measured states, (n,)."""
    squares = (predictions - values.means) ** 2
    return math.fsum(squares - values.noise) / len(squares)


def value_spread(values: RolloutValues) -> float:
    """D: how far the true values of the states differ, as a variance."""
    return float(_spreads(_block_sums(values).sum(axis=0)))


def spread_error(values: RolloutValues) -> float:
    """The standard error of D; infinite where there are too few states to say."""
    blocks = _block_sums(values)
    if len(blocks) < 2:
        return math.inf
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(blocks), size=(_RESAMPLES, len(blocks)))
    return float(_spreads(blocks[drawn].sum(axis=1)).std(ddof=1))


def _block_sums(values: RolloutValues) -> Reals:
    """Per block of states: how many, and sums of m, m² and s² / K."""
    means = values.means - math.fsum(values.means) / len(values.means)
    terms = np.stack([np.ones_like(means), means, means**2, values.noise], axis=1)
    starts = np.arange(0, len(means), BLOCK_STATES)
    return np.add.reduceat(terms, starts, axis=0)


def _spreads(sums: Reals) -> Reals:
    count, total, squares, noise = np.moveaxis(sums, -1, 0)
    spreads: Reals = squares / count - (total / count) ** 2 - noise / count
    return spreads


def has_spread(values: RolloutValues) -> bool:
    """Whether the states differ by more than chance could make them."""
    spread = value_spread(values)
    return spread >= max(SMALLEST_VARIANCE, 2 * spread_error(values))


def normalised_value_error(predictions: Reals, values: RolloutValues) -> float | None:
    """value_nmse; None if the states hardly differ."""
    if not has_spread(values):
        return None
    return value_error(predictions, values) / value_spread(values)
