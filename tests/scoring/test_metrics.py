"""Scores as pure functions, on numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from longplay.scoring.metrics import (
    Rewards,
    Span,
    bottom_k_mean,
    final_score,
    mean_or_none,
    median_or_none,
)

# Frame:    0  1  2  3  4  5  6  7
# Reward:   0  1  0 -2  0  0  4  0.5
REWARDS = Rewards(np.array([1, 3, 6, 7]), np.array([1.0, -2.0, 4.0, 0.5]))


@pytest.mark.seed("000", "scoring-6", "scoring-15")
@pytest.mark.parametrize(
    ("n", "head", "tail"),
    [
        (1, (10, 10), (14, 14)),
        (2, (10, 11), (13, 14)),
        (5, (10, 14), (10, 14)),
        (9, (10, 14), (10, 14)),
    ],
)
def test_head_and_tail_of_a_span_of_five(n, head, tail):
    span = Span(10, 14)
    assert span.head(n) == head
    assert span.tail(n) == tail


def test_length_counts_both_ends():
    assert Span(10, 14).length == 5
    assert Span(3, 3).length == 1


@pytest.mark.seed("000", "scoring-8")
@pytest.mark.parametrize(
    ("span", "total", "rate"),
    [
        ((0, 7), 3.5, 3.5 / 8),
        ((0, 0), 0.0, 0.0),
        ((1, 1), 1.0, 1.0),
        ((1, 3), -1.0, -1 / 3),
        ((2, 5), -2.0, -0.5),
        ((4, 5), 0.0, 0.0),
        ((6, 7), 4.5, 2.25),
    ],
)
def test_total_and_rate_of_a_span(span, total, rate):
    assert REWARDS.total(Span(*span)) == total
    assert REWARDS.rate(Span(*span)) == rate


def test_run_without_rewards_has_rate_zero():
    nothing = Rewards(np.zeros(0, np.int64), np.zeros(0))
    assert nothing.rate(Span(0, 9)) == 0.0


def test_sums_are_exactly_rounded():
    tenths = Rewards(np.arange(10), np.full(10, 0.1))
    assert tenths.total(Span(0, 9)) == 1.0  # one by one: 0.9999999999999999


@pytest.mark.seed("000", "scoring-10")
@pytest.mark.parametrize(
    ("fraction", "expected"),
    [
        (0.01, 1.0),  # at least one game
        (0.25, 1.0),  # ceil(0.25 · 4) = 1
        (0.26, 1.5),  # ceil(1.04) = 2 games: (1 + 2) / 2
        (0.5, 1.5),
        (0.75, 8 / 3),  # (1 + 2 + 5) / 3
        (0.76, 4.5),
        (1.0, 4.5),  # (1 + 2 + 5 + 10) / 4
    ],
)
def test_bottom_k_of_four_games(fraction, expected):
    assert bottom_k_mean([10.0, 1.0, 5.0, 2.0], fraction) == expected


@pytest.mark.seed("000", "scoring-10")
@pytest.mark.parametrize(("n", "k"), [(1, 1), (3, 1), (4, 1), (5, 2), (8, 2), (9, 3)])
def test_a_quarter_of_the_games_rounds_up(n, k):
    scores = [float(i) for i in range(n)]
    assert bottom_k_mean(scores, 0.25) == sum(range(k)) / k


def test_mean_and_median():
    assert mean_or_none([1.0, 2.0, 6.0]) == 3.0
    assert median_or_none([6.0, 1.0, 2.0]) == 2.0
    assert median_or_none([6.0, 1.0, 2.0, 4.0]) == 3.0


@pytest.mark.seed("000", "score-17")
def test_mean_and_median_of_nothing():
    assert mean_or_none([]) is None
    assert median_or_none([]) is None


@pytest.mark.seed("000", "scoring-9", "scoring-11", "versions-4")
def test_final_score_weighs_mean_and_bottom_k():
    scores = {"a": 4.0, "b": -1.0, "c": 3.0}
    # mean 2, bottom-k ceil(0.5 · 3) = 2 games: (-1 + 3) / 2 = 1
    assert final_score(scores, 0.5, (0.25, 0.75)) == (1.25, 2.0, 1.0)


@pytest.mark.seed("000", "scoring-11")
def test_weights_need_not_add_up_to_one():
    assert final_score({"a": 3.0}, 1.0, (2.0, 0.0)) == (6.0, 3.0, 3.0)


def test_final_score_of_no_games():
    assert final_score({}, 0.25, (0.5, 0.5)) == (None, None, None)
