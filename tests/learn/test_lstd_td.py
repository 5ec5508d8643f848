"""lstd-td: solutions, features and the choice of a ridge, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from longplay.learners import lstd_td
from longplay.learners.lstd_td import (
    FEATURES,
    LeastSquares,
    RidgeChoice,
    Rule,
    ScreenAndTimes,
)

SHAPE = (210, 160, 3)
NOT_OVER = {"terminated": False, "truncated": False}
OVER = {"terminated": True, "truncated": False}
SWITCH = {"terminated": False, "truncated": True}
RULE = Rule(0.9, 0.8, ridges=(1e-6, 1.0, 100.0), timesteps_per_update=12)


def show(place: int, brightness: int = 255) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A square of coarse pixels."""
    screen = np.zeros(SHAPE, np.uint8)
    screen[60:90, 40 * place : 40 * place + 40] = brightness
    return screen


# --- solutions ------------------------------------------------------------------------


def one_hot(k: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    features = np.zeros(FEATURES)
    features[k] = 1.0
    return features


def test_solution_of_a_chain() -> None:
    """1 -> 2 -> 3 -> end with a reward of 1: values 0.81, 0.9 and 1."""
    squares = LeastSquares(RULE)
    for _ in range(4):
        for k in (1, 2):
            squares.add(one_hot(k), one_hot(k + 1), 0.0)
        squares.add(one_hot(3), np.zeros(FEATURES), 1.0)
        squares.traces[:] = 0.0
    squares.solve()
    assert squares.weights[0, 1:4] == pytest.approx([0.81, 0.9, 1.0], abs=1e-5)
    # A stronger ridge predicts less, and features never seen have no weight.
    assert (squares.weights[2, 1:4] < squares.weights[1, 1:4]).all()
    assert (squares.weights[1, 1:4] < squares.weights[0, 1:4]).all()
    assert not squares.weights[:, 4:].any()


def test_equations_add_up_in_any_portions() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(12, 2, FEATURES))
    at_once, one_by_one = LeastSquares(RULE), LeastSquares(RULE)
    for before, after in rows:
        at_once.add(before, after, 0.5)
        one_by_one.add(before, after, 0.5)
        one_by_one.solve()
    at_once.solve()
    assert at_once.equations == pytest.approx(one_by_one.equations)
    traces = np.zeros(FEATURES)
    expected = np.zeros((FEATURES, FEATURES))
    for before, after in rows:
        traces = 0.72 * traces + before
        expected += np.outer(traces, before - 0.9 * after)
    assert at_once.equations[:, :-1] == pytest.approx(expected)


# --- the choice -----------------------------------------------------------------------


def test_the_ridge_that_was_nearest_to_returns_has_the_largest_share() -> None:
    choice = RidgeChoice(RULE)
    assert choice.shares.tolist() == [1 / 3] * 3
    for _ in range(160):
        choice.add(np.array([4.0, 5.0 - 1.1**0.5, 9.0]), 0.5, is_over=False)
    # A reward of 0.5 at a discount of 0.9, for ever: 5.
    choice.compare(5.0)
    assert choice.errors == pytest.approx([1.0, 1.1, 16.0])
    share = 1 / (1 + np.exp(-0.5))
    assert choice.shares == pytest.approx([share, 1 - share, 0.0])
    assert (choice.compared, choice.waiting) == (10, 150)


def test_returns_end_with_the_game() -> None:
    choice = RidgeChoice(RULE)
    for k in range(151):
        choice.add(np.array([1.0, 1.9, 7.0]), 1.0, is_over=k == 1)
    choice.compare(10.0)
    # The first timestep's return is 1 + 0.9, whatever follows.
    assert choice.errors == pytest.approx([0.81, 0.0, 26.01])
    assert choice.shares.tolist() == [0.0, 1.0, 0.0]


def test_nothing_is_compared_too_early() -> None:
    choice = RidgeChoice(RULE)
    for _ in range(150):
        choice.add(np.zeros(3), 1.0, is_over=False)
    choice.compare(0.0)
    assert choice.compared == 0


# --- features -------------------------------------------------------------------------


def test_features_of_pixels_and_motion() -> None:
    see = ScreenAndTimes(SHAPE)
    first = see(show(0), 0.0)
    assert first[0] == 1.0
    assert not first[8:].any()  # the reference itself, and nothing to compare with
    second = see(show(1), 0.0)
    pixels, motion = second[8 : 8 + 196].reshape(14, 14), second[8 + 196 :]
    # Rows 4 and 5 of 15 lines each; the square moved from the left to the right.
    assert (pixels[4:6, :3] < 0).all()
    assert (pixels[4:6, 4:6] > 0).all()
    assert not pixels[:4].any()
    assert motion.reshape(14, 14)[4:6, :6].min() > 0
    assert not see(show(1), 0.0)[8 + 196 :].any()


def test_features_of_rewards_and_times() -> None:
    see = ScreenAndTimes(SHAPE)
    see(show(0), 0.0)
    see(show(0), 2.0)
    found = see(show(0), 0.0)[1:8]
    sums = 3 * np.array([0.2 * 1.6, 0.05 * 1.9, 0.01 * 1.98])
    times = [np.log(3) / 8, np.exp(-2 / 50), np.exp(-1 / 20), np.exp(-1 / 100)]
    assert found == pytest.approx([*sums, *times])


# --- the predictor --------------------------------------------------------------------


def play(state: Any, steps: range, info: dict[str, bool] = NOT_OVER) -> list[float]:
    found = []
    for k in steps:
        answer = lstd_td.step(state, show(0), show(k % 4), float(k % 4 == 0), info)
        found.append(answer[1])
    return found


@pytest.mark.parametrize("info", [OVER, SWITCH])
def test_an_end_cuts_what_was_before(info: dict[str, bool]) -> None:
    state = lstd_td.init(SHAPE)
    play(state, range(45))
    reference = state.see.reference.copy()
    lstd_td.step(state, show(0), show(2, 100), 1.0, info)
    assert not state.squares.traces.any()
    assert not state.see.reward_sums.any()
    is_same = np.array_equal(state.see.reference, reference)
    assert is_same == (not info["truncated"])
    assert state.choice.is_over[state.choice.waiting - 1]


def test_a_set_that_comes_back_learns_nothing_across_the_gap() -> None:
    state = lstd_td.init(SHAPE)
    play(state, range(45))
    lstd_td.step(state, show(0), show(0), 1.0, OVER)
    before = state.squares.new, state.choice.waiting
    lstd_td.restart(state)
    lstd_td.step(state, show(3), show(3), 5.0, NOT_OVER)
    assert (state.squares.new, state.choice.waiting) == before
    assert not state.squares.traces.any()
    lstd_td.step(state, show(3), show(3), 5.0, NOT_OVER)
    assert (state.squares.new, state.choice.waiting) == (before[0] + 1, before[1] + 1)


def test_a_running_reward_is_predicted() -> None:
    """A reward of 1 every fourth timestep; which one is next is on the screen."""
    state = lstd_td.init(SHAPE, discount=0.9)
    late = play(state, range(1200))[-4:]
    period = 1 / (1 - 0.9**4)
    # The last screen, 3, is followed by a reward at once.
    expected = [0.9 ** (3 - k) * period for k in range(4)]
    assert late == pytest.approx(expected, abs=0.15)
