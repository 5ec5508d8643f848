"""A bandit over exploration rates, and choices at its rate."""

from __future__ import annotations

import numpy as np
import pytest

from longplay.errors import ConfigError
from longplay.learners.parts.exploring import LONGEST_HOLD, Explorer, RateBandit


def make_bandit(rates: tuple[float, ...] = (0.0, 1.0), block: int = 2) -> RateBandit:
    return RateBandit(rates, np.random.default_rng(0), block)


def test_every_rate_gets_a_block_first() -> None:
    bandit, arms = make_bandit((0.0, 0.5, 1.0)), []
    for _ in range(3):
        arms.append(bandit.rate)
        bandit.observe(0.0)
        bandit.observe(0.0)
    assert arms == [0.0, 0.5, 1.0]


def test_what_a_block_earned_is_kept_and_fades() -> None:
    bandit = make_bandit()
    for reward in (1.0, 2.0, 0.0, 5.0):  # blocks of 3 (rate 0) and 5 (rate 1)
        bandit.observe(reward)
    assert bandit.weights.tolist() == [0.98, 1.0]
    assert bandit.sums.tolist() == [pytest.approx(0.98 * 3), 5.0]
    assert bandit.squares.tolist() == [pytest.approx(0.98 * 9), 25.0]


def test_the_rate_that_earns_more_is_played_more() -> None:
    bandit, rng, played = make_bandit(block=1), np.random.default_rng(1), []
    for _ in range(400):
        played.append(bandit.rate)
        bandit.observe(rng.normal(1.0 if bandit.rate == 1.0 else 0.0))
    assert np.mean(played[200:]) > 0.9


def test_a_rate_that_was_bad_is_tried_again() -> None:
    bandit, played = make_bandit(block=1), []
    for k in range(400):
        played.append(bandit.rate)
        # The rate of 1 earns more; from block 200 on, the rate of 0 earns the most.
        bandit.observe(bandit.rate if k < 200 else 3.0 - 2.0 * bandit.rate)
    gaps = np.diff([k for k in range(200) if played[k] == 0.0])
    assert gaps[3:].max() == 26
    assert np.mean(played[100:200]) > 0.9
    assert np.mean(played[-100:]) < 0.1


def test_a_rate_counts_as_twenty_blocks_at_most() -> None:
    bandit = make_bandit((0.5,), block=1)
    for _ in range(100):
        bandit.observe(3.0)
    assert bandit.weights.tolist() == [pytest.approx(20.0)]
    assert bandit.sums.tolist() == [pytest.approx(60.0)]
    assert bandit.squares.tolist() == [pytest.approx(180.0)]


def test_a_new_game_starts_the_comparison_over() -> None:
    bandit = make_bandit(block=1)
    for _ in range(20):
        bandit.observe(bandit.rate)
    bandit.observe(7.0)
    bandit.restart()
    assert bandit.weights.tolist() == [0.0, 0.0]
    assert (bandit.arm, bandit.earned) == (0, 0.0)


def test_rates_that_earn_the_same_are_all_played() -> None:
    bandit, played = make_bandit(block=1), set()
    for _ in range(30):
        bandit.observe(0.0)
        played.add(bandit.rate)
    assert played == {0.0, 1.0}


@pytest.mark.parametrize("rates", [(), (0.1, 1.5), (-0.1,), (0.5,) * 11])
def test_rates_out_of_range_are_refused(rates: tuple[float, ...]) -> None:
    with pytest.raises(ConfigError, match="epsilons: expected a list of 1 to 10 r"):
        make_bandit(rates)


def make_explorer(epsilon: float) -> Explorer:
    return Explorer(4, np.random.default_rng(0), (epsilon,), 100)


def test_greedy_choices_keep_the_last_action_among_equals() -> None:
    explorer = make_explorer(0.0)
    assert explorer.choose(np.array([0.0, 2.0, 1.0, 2.0])) == 1
    assert explorer.choose(np.array([0.0, 2.0, 1.0, 2.0])) == 1
    assert explorer.choose(np.array([3.0, 2.0, 1.0, 3.0])) == 0
    assert explorer.is_greedy


def test_exploring_actions_are_held_where_they_are_rare() -> None:
    rare, always = make_explorer(0.4), make_explorer(1.0)
    values = np.array([1.0, 0.0, 0.0, 0.0])
    choices = [rare.choose(values) for _ in range(2000)]
    holds = [choice for choice in choices if choice]
    assert len(holds) > 0.3 * len(choices)
    assert max(len(run) for run in "".join(map(str, choices)).split("0")) > 4
    assert LONGEST_HOLD == 50
    drawn = np.bincount([always.choose(values) for _ in range(2000)])
    assert drawn.min() > 420
    assert always.hold == 0


def test_an_exploring_action_may_be_the_best_one() -> None:
    explorer = make_explorer(1.0)
    flags = [(explorer.choose(np.arange(4.0)), explorer.is_greedy) for _ in range(50)]
    assert {is_greedy for action, is_greedy in flags if action == 3} == {True}
    assert {is_greedy for action, is_greedy in flags if action < 3} == {False}


def test_expected_value_of_the_least_exploring_policy() -> None:
    explorer = Explorer(4, np.random.default_rng(0), (0.2, 1.0), 100)
    # 0.8 · 4 + 0.2 · mean(0, 4, 2, 2)
    assert explorer.expect(np.array([0.0, 4.0, 2.0, 2.0])) == pytest.approx(3.6)
