"""Aggregates against hand-made numbers and the formulas of Agarwal et al. (2021)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from longplay.lab.analysis.aggregation import (
    PROFILE_THRESHOLDS,
    aggregate_games,
    estimate_improvement,
    interquartile_mean,
    optimality_gap,
    pair_outcomes,
    performance_profile,
)

SCORES = arrays(
    np.float64,
    st.tuples(st.integers(1, 5), st.integers(1, 12)),
    # Few values, so that ties happen.
    elements=st.sampled_from([-1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 2.0]),
)


def test_iqm_by_hand():
    """Of eight values the two lowest and the two highest go: (3 + 4 + 5 + 6) / 4."""
    values = np.array([100.0, 1, 2, 3, 4, 5, 6, -50])
    assert interquartile_mean(values) == pytest.approx((2 + 3 + 4 + 5) / 4)
    # Of seven, one at each end: floor(7 / 4).
    assert interquartile_mean(np.arange(7.0)) == pytest.approx(3.0)


def test_few_games_are_averaged_plainly():
    seven = np.array([[0.0, 0, 0, 0, 0, 0, 7]])
    assert aggregate_games(seven) == pytest.approx([1.0])
    eight = np.array([[0.0, 0, 0, 0, 0, 0, 0, 8]])
    assert aggregate_games(eight) == pytest.approx([0.0])


def test_optimality_gap_by_hand():
    assert optimality_gap(np.array([[0.5, 2.0, -1.0]])) == pytest.approx([2.5 / 3])


def test_profile_by_hand():
    z = np.array([[0.0, 1.0], [0.5, 2.0]])
    found = performance_profile(z, np.array([-0.5, 0.0, 0.5, 1.0, 1.5]))
    assert found.tolist() == [[1, 1, 0.5, 0.5, 0], [1, 1, 1, 0.5, 0.5]]


def test_thresholds_reach_from_minus_a_half_to_one_and_a_half():
    assert PROFILE_THRESHOLDS[[0, 10, 30, 40]].tolist() == [-0.5, 0.0, 1.0, 1.5]


def test_probability_of_improvement_by_hand():
    """Game 1: 2 wins of 4, one tie. Game 2: 0 wins, 2 ties of 4. (5/8 + 1/4) / 2."""
    ours = np.array([[1.0, 0.0], [3.0, 1.0]])
    theirs = np.array([[1.0, 1.0], [2.0, 2.0]])
    # Game 1: 1 = 1 tie, 1 < 2 loss, 3 > 1 win, 3 > 2 win: 2.5 / 4.
    # Game 2: 0 < 1, 0 < 2 losses, 1 = 1 tie, 1 < 2 loss: 0.5 / 4.
    found = pair_outcomes(ours, theirs).mean()
    assert found == pytest.approx((2.5 / 4 + 0.5 / 4) / 2)


def trimmed_mean(row: list[float]) -> float:
    """`scipy.stats.trim_mean(row, 0.25)`, which the paper calls IQM."""
    cut = int(0.25 * len(row))
    kept = sorted(row)[cut : len(row) - cut]
    return sum(kept) / len(kept)


@given(SCORES)
def test_iqm_is_the_published_one(z):
    assert interquartile_mean(z) == pytest.approx([trimmed_mean(list(r)) for r in z])


@given(SCORES)
def test_profile_and_gap_are_the_published_ones(z):
    """F(τ) = mean 1[x ≥ τ]; the gap is γ - mean min(x, γ) with γ = 1."""
    for column, tau in enumerate(PROFILE_THRESHOLDS):
        share = sum(value >= tau for value in z.ravel()) / z.size
        pooled = performance_profile(z)[:, column].mean()
        assert pooled == pytest.approx(share)
    gap = 1 - np.minimum(z, 1.0).mean()
    assert optimality_gap(z).mean() == pytest.approx(gap)


@given(SCORES, st.integers(1, 4), st.randoms(use_true_random=False))
def test_probability_of_improvement_is_the_published_one(ours, n, random):
    """(1 / M) Σ over games of (1 / NK) Σ Σ S(x, y), S = 1, ½, 0."""
    theirs = np.array(
        [[random.choice([0.0, 0.5, 1.0]) for _ in ours[0]] for _ in range(n)]
    )
    total = 0.0
    for game in range(ours.shape[1]):
        wins = 0.0
        for x in ours[:, game]:
            for y in theirs[:, game]:
                wins += 1.0 if x > y else 0.5 if x == y else 0.0
        total += wins / (len(ours) * n)
    assert pair_outcomes(ours, theirs).mean() == pytest.approx(total / ours.shape[1])


@given(SCORES)
def test_an_agent_does_not_improve_on_itself(z):
    assert pair_outcomes(z, z).mean() == pytest.approx(0.5)


def test_improvement_has_an_interval_from_three_runs_on():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(2.0, 1.0, (5, 8)), rng.normal(0.0, 1.0, (5, 8))
    found, two = (
        estimate_improvement(ours, theirs),
        estimate_improvement(ours[:2], theirs),
    )
    assert found is not None
    assert two is not None
    assert found.method == "placements"
    assert 0.5 < found.low < found.mean < found.high <= 1.0
    assert (two.low, two.method) == (None, "none")


@pytest.mark.parametrize(("ours", "expected"), [(1.0, 1.0), (-1.0, 0.0)])
def test_one_who_always_wins_has_no_interval(ours, expected):
    found = estimate_improvement(np.full((5, 3), ours), np.zeros((5, 3)))
    assert found is not None
    assert (found.mean, found.low, found.high) == (expected, None, None)


def test_improvement_without_games_or_runs_is_none():
    assert estimate_improvement(np.empty((3, 0)), np.empty((3, 0))) is None
    assert estimate_improvement(np.empty((0, 2)), np.ones((3, 2))) is None


def test_many_runs_are_resampled_whole():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0.3, 1.0, (30, 4)), rng.normal(0.0, 1.0, (35, 4))
    found = estimate_improvement(ours, theirs)
    few = estimate_improvement(ours[:29], theirs[:29])
    assert found is not None
    assert few is not None
    assert found.method == "bootstrap"
    assert found.half_width == pytest.approx(few.half_width, rel=0.3)
    assert found == estimate_improvement(ours, theirs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("runs", [5, 10])
def test_interval_of_improvement_covers(runs):
    """Two normals one apart: P(X > Y) = Φ(1 / √2) = 0.7602."""
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2_000):
        ours, theirs = rng.normal(1, 1, (runs, 8)), rng.normal(0, 1, (runs, 8))
        found = estimate_improvement(ours, theirs)
        held += found.low <= 0.7602 <= found.high
    assert held / 2_000 > 0.90
