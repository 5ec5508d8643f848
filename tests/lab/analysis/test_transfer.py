"""Retention, change at revisit and recovery of one game, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from longplay.lab.analysis.transfer import (
    change_at_revisit,
    find_revisits,
    forward_transfer,
    recovery_cost,
    retention,
)

HEAD = np.array([1.0, 3.0, 4.0])
TAIL = np.array([6.0, 8.0, 9.0])
FIRST_HALF = np.array([2.0, 5.0, 7.0])
APART = np.array([0, 4, 7])


def test_revisits_have_something_in_between():
    assert find_revisits(np.array([0, 1, 5, 6])).tolist() == [False, True, False]


def test_numbers_by_hand():
    # Heads of visits 2 and 3 minus that of visit 1: 2 and 3.
    assert retention(HEAD, APART) == 2.5
    # Tails of visits 1 and 2 minus heads of 2 and 3: 6 - 3 and 8 - 4.
    assert change_at_revisit(TAIL, HEAD, APART) == 3.5
    # Tails of visits 1 and 2 minus first halves of 2 and 3: 6 - 5 and 8 - 7.
    assert recovery_cost(TAIL, FIRST_HALF, APART) == 1.0


def test_adjacent_visits_are_no_revisit():
    adjacent = np.array([0, 1, 7])
    # Only visit 3 comes back after something else.
    assert retention(HEAD, adjacent) == 3.0
    assert change_at_revisit(TAIL, HEAD, adjacent) == 4.0
    assert recovery_cost(TAIL, FIRST_HALF, adjacent) == 1.0


@pytest.mark.parametrize("visits", [[3], [3, 4], [3, 4, 5]])
def test_no_number_without_a_revisit(visits):
    v = np.array(visits)
    k = len(visits)
    assert math.isnan(retention(HEAD[:k], v))
    assert math.isnan(change_at_revisit(TAIL[:k], HEAD[:k], v))
    assert math.isnan(recovery_cost(TAIL[:k], FIRST_HALF[:k], v))


def test_forward_transfer_leaves_the_first_game_out():
    first, alone = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.5, np.nan])
    found = forward_transfer(first, alone, np.array([True, False, False]))
    assert found.tolist()[1] == 1.5
    assert np.isnan(found).tolist() == [True, False, True]
