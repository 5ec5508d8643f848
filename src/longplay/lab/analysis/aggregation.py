"""Games -> one number per run; two agents -> probability of improvement.

Arrays are (runs, games). The formulas of IQM, optimality gap, performance profile and
probability of improvement are those of Agarwal et al., *Deep Reinforcement Learning at
the Edge of the Statistical Precipice* (2021). There is one deliberate difference: the
aggregate is taken over games within a run, and intervals are taken over runs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longplay.lab.analysis.intervals import (
    BOOTSTRAP_DRAWS,
    FEWEST_FOR_BOOTSTRAP,
    FEWEST_FOR_INTERVAL,
    Estimate,
    welch_half_width,
)

Reals = NDArray[np.float64]

# With fewer games, a quarter of them is about one game or none.
FEWEST_GAMES_FOR_IQM = 8
# A profile is read off at these z.
PROFILE_THRESHOLDS: Reals = np.round(np.linspace(-0.5, 1.5, 41), 2)


def interquartile_mean(values: Reals) -> Reals:
    """Mean of the middle half: the lowest and highest floor(n / 4) are left out.

    Args:
        values: (…, n).

    Returns:
        (…,).
    """
    cut = values.shape[-1] // 4
    ordered = np.sort(values, axis=-1)
    return np.asarray(ordered[..., cut : values.shape[-1] - cut].mean(axis=-1))


def aggregate_games(z: Reals) -> Reals:
    """IQM over games, the plain mean if there are fewer than eight.

    Args:
        z: (runs, games).

    Returns:
        (runs,).
    """
    if z.shape[-1] < FEWEST_GAMES_FOR_IQM:
        return np.asarray(z.mean(axis=-1))
    return interquartile_mean(z)


def optimality_gap(z: Reals) -> Reals:
    """Mean over games of max(0, 1 - z): (runs, games) -> (runs,)."""
    return np.asarray(np.maximum(0.0, 1.0 - z).mean(axis=-1))


def pool_runs(scores: Reals) -> dict[str, float]:
    """Aggregates as rliable defines them, over runs and games together.

    The median is that over games of means over runs; the IQM leaves out a quarter of
    all values at either end.

    Args:
        scores: (runs, games).
    """
    return {
        "iqm": float(interquartile_mean(scores.ravel())),
        "mean": float(scores.mean()),
        "median": float(np.median(scores.mean(axis=0))),
    }


def performance_profile(z: Reals, thresholds: Reals = PROFILE_THRESHOLDS) -> Reals:
    """Share of games with z ≥ τ, per run: (runs, games), (t,) -> (runs, t)."""
    return np.asarray((z[:, :, np.newaxis] >= thresholds).mean(axis=1))


def pair_outcomes(ours: Reals, theirs: Reals) -> Reals:
    """Every run against every run of the other agent.

    Args:
        ours: (m, games).
        theirs: (n, games).

    Returns:
        (m, n): mean over games of 1 for a win of ours, ½ for a tie, 0 for a loss.
    """
    wins = ours[:, np.newaxis, :] > theirs[np.newaxis, :, :]
    ties = ours[:, np.newaxis, :] == theirs[np.newaxis, :, :]
    return np.asarray((wins + 0.5 * ties).mean(axis=2))


def estimate_improvement(ours: Reals, theirs: Reals) -> Estimate | None:
    """The probability of improvement with its interval; None without games or runs.

    Below 30 runs the interval comes from the placements (the mean outcome of each run),
    whose variances add up to that of the probability (DeLong et al. 1988), with
    Student's t; from 30 on from a bootstrap over the runs of both agents.
    """
    if 0 in (*ours.shape, *theirs.shape):
        return None
    outcomes, n = pair_outcomes(ours, theirs), min(len(ours), len(theirs))
    mean = float(outcomes.mean())
    # If one agent always wins, its outcomes do not vary and give no error estimate.
    if n < FEWEST_FOR_INTERVAL or mean in (0.0, 1.0):
        return Estimate(mean=mean, n=n)
    if n >= FEWEST_FOR_BOOTSTRAP:
        low, high = _bootstrap_outcomes(outcomes)
        return Estimate(mean=mean, low=low, high=high, n=n, method="bootstrap")
    half_width = welch_half_width(outcomes.mean(axis=1), outcomes.mean(axis=0))
    low, high = max(0.0, mean - half_width), min(1.0, mean + half_width)
    return Estimate(mean=mean, low=low, high=high, n=n, method="placements")


def _bootstrap_outcomes(outcomes: Reals) -> tuple[float, float]:
    """Resamples whole runs of both agents: how often each was drawn is its weight."""
    rng = np.random.default_rng(0)
    weights = [
        rng.multinomial(n, np.full(n, 1 / n), size=BOOTSTRAP_DRAWS) / n
        for n in outcomes.shape
    ]
    means = ((weights[0] @ outcomes) * weights[1]).sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
