"""The interval around a mean of seeds, on numbers worked out by hand."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from longplay.lab.analysis.intervals import bootstrap_interval

SCORES = [0.31, 0.12, 0.55, 0.47, 0.29]


def test_interval_of_three_values_worked_out_by_hand():
    """The mean of 3 draws from (0, 0, 1) is 0 in 8 of 27 cases, and 1 in 1 of 27."""
    assert bootstrap_interval([0.0, 0.0, 1.0]) == (0.0, 1.0)
    low, high = bootstrap_interval([0.0, 0.0, 1.0], confidence=0.9)
    assert (low, high) == (0.0, pytest.approx(2 / 3))


def test_same_request_gives_the_same_interval():
    assert bootstrap_interval(SCORES) == bootstrap_interval(SCORES, 0.95, 10_000, 0)


def test_numbers_drawn_elsewhere_change_nothing():
    first = bootstrap_interval(SCORES)
    np.random.default_rng(0).random(100)
    assert bootstrap_interval(SCORES) == first


def test_another_seed_moves_it_a_little():
    first, other = bootstrap_interval(SCORES), bootstrap_interval(SCORES, seed=1)
    assert other != first
    assert other == pytest.approx(first, abs=0.02)


def test_interval_lies_around_the_mean_and_within_the_values():
    low, high = bootstrap_interval(SCORES)
    assert min(SCORES) <= low < math.fsum(SCORES) / 5 < high <= max(SCORES)


@pytest.mark.parametrize("value", [0.0, -3.0, 1e9])
def test_equal_values_give_an_empty_interval(value):
    assert bootstrap_interval([value] * 4) == pytest.approx((value, value))


def test_less_confidence_gives_a_narrower_interval():
    wide, narrow = bootstrap_interval(SCORES), bootstrap_interval(SCORES, 0.5)
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_interval_moves_and_grows_with_the_values():
    moved = bootstrap_interval([100 * score - 7 for score in SCORES])
    expected = [100 * bound - 7 for bound in bootstrap_interval(SCORES)]
    assert moved == pytest.approx(expected)


def test_many_values_agree_with_the_normal_distribution():
    values = np.random.default_rng(7).normal(2.0, 0.5, size=400)
    half_width = 1.96 * values.std() / math.sqrt(400)
    low, high = bootstrap_interval(values.tolist())
    assert low == pytest.approx(values.mean() - half_width, abs=0.1 * half_width)
    assert high == pytest.approx(values.mean() + half_width, abs=0.1 * half_width)


def test_bounds_are_plain_floats():
    bounds = bootstrap_interval(SCORES)
    assert json.loads(json.dumps(bounds)) == list(bounds)


def test_values_are_not_modified():
    values = list(SCORES)
    bootstrap_interval(values)
    assert values == SCORES
