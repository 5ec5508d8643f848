"""Goals: reached, missed, and not judged as long as their runs are missing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import results_goals
from longplay.lab.analysis.intervals import Estimate, estimate_mean
from longplay.lab.analysis.records import AgentNumbers, MemoryNumbers, SuiteComparison
from made_up_anchors import make_anchors, make_game
from results_goals import Found

SEEDS = (0, 1, 2, 3, 4)
# Half-width of 95 % over five seeds: 2.776 standard errors.
NOISE = (-0.02, -0.01, 0.0, 0.01, 0.02)


def make_agent(label: str, **changes: Any) -> AgentNumbers:
    given = {
        "label": label,
        "is_shipped": False,
        "seeds": SEEDS,
        "per_run": {},
        "numbers": {},
        "games": {},
        "memory": None,
    }
    return AgentNumbers.model_construct(**{**given, **changes})


def make_suite(averages: Mapping[str, Sequence[float]]) -> SuiteComparison:
    agents = [
        make_agent(
            label,
            per_run={"average": tuple(values)},
            numbers={"average": estimate_mean(values)},
        )
        for label, values in averages.items()
    ]
    return make_suite_of(*agents)


def make_suite_of(*agents: AgentNumbers, **changes: Any) -> SuiteComparison:
    given = {"suite": "any", "games": ("a", "b"), "games_without_z": {}}
    return SuiteComparison.model_construct(**{**given, **changes}, agents=agents)


def around(mean: float, sign: int = 1) -> list[float]:
    return [mean + sign * noise for noise in NOISE]


def test_a_learner_is_judged_with_the_memory_that_was_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suite = make_suite(
        {
            "blind": around(0.1),
            "explore-only": around(0.2),
            "dqn": around(0.1),
            "dqn-library": around(0.3, -1),
        }
    )
    monkeypatch.setattr(results_goals, "CHOSEN_MEMORY", {})
    assert results_goals.judge_chosen("dqn", suite) is None
    monkeypatch.setattr(results_goals, "CHOSEN_MEMORY", {"dqn": "library"})
    found = results_goals.judge_chosen("dqn", suite)
    text = "dqn-library: 0.200 ±0.039 above blind; 0.100 ±0.039 above explore-only"
    assert found == Found(text, is_reached=True)
    monkeypatch.setattr(results_goals, "CHOSEN_MEMORY", {"dqn": "carry"})
    found = results_goals.judge_chosen("dqn", suite)
    assert found is not None and not found.is_reached


@pytest.mark.parametrize(
    ("share", "widest", "is_reached"),
    [
        ((0.5, 0.2, 0.8), None, True),
        ((0.5, -0.2, 1.2), None, False),
        ((-0.5, -0.8, -0.2), None, False),
        ((0.1, -0.1, 0.3), 0.25, True),
        ((0.1, -0.2, 0.4), 0.25, False),  # too wide
        ((0.2, 0.1, 0.3), 0.25, False),  # not 0
    ],
)
def test_a_share_is_above_zero_or_a_narrow_zero(
    share: tuple[float, float, float], widest: float | None, is_reached: bool
) -> None:
    mean, low, high = share
    estimate = Estimate(mean=mean, low=low, high=high, n=5, method="jackknife t")
    memory = MemoryNumbers.model_construct(
        numbers={"share_forgotten": estimate}, absent={}
    )
    suite = make_suite_of(make_agent("dqn", memory=memory))
    found = results_goals.judge_share("dqn", widest, suite)
    assert found is not None and found.is_reached == is_reached


def test_a_share_that_cannot_be_computed_misses_the_goal() -> None:
    memory = MemoryNumbers.model_construct(
        numbers={}, absent={"share_forgotten": "too little was learned"}
    )
    suite = make_suite_of(make_agent("dqn", memory=memory))
    found = results_goals.judge_share("dqn", None, suite)
    assert found == Found("too little was learned", is_reached=False)
    assert results_goals.judge_share("other", None, suite) is None


def test_a_method_must_be_above_carry_and_reset() -> None:
    averages = dict.fromkeys(results_goals.METHODS, around(0.2))
    averages |= {"dqn": around(0.1), "dqn-reset": around(0.3)}
    assert results_goals.judge_methods(make_suite(averages)) is None  # no library
    averages["dqn-library"] = around(0.2)
    suite = make_suite(averages)
    assert results_goals.judge_methods(suite) == Found("none", is_reached=False)
    averages["dqn-ewc"] = around(0.4)
    suite = make_suite(averages)
    assert results_goals.judge_methods(suite) == Found("dqn-ewc", is_reached=True)


@pytest.mark.parametrize(
    ("reset", "is_reached"),
    [
        (around(0.3), True),  # above
        (around(0.1, -1), True),  # equal, half-width 0.039
        ([0.1, 0.2, 0.0, -0.1, 0.3], False),  # too wide
    ],
)
def test_negative_transfer_is_shown_or_narrowly_absent(
    reset: Sequence[float], is_reached: bool
) -> None:
    suite = make_suite({"dqn": around(0.1), "dqn-reset": reset})
    found = results_goals.judge_negative_transfer(0.08, suite)
    assert found is not None and found.is_reached == is_reached
    alone = make_suite({"dqn": around(0.1)})
    assert results_goals.judge_negative_transfer(0.08, alone) is None


def test_errors_are_below_one_and_below_those_of_the_other_in_every_seed() -> None:
    def judge(ours: Sequence[float]) -> Found | None:
        agents = {"lstd-td": ours, "linear-td": (1.5,) * 5}
        made = [make_agent(n, per_run={"headline": v}) for n, v in agents.items()]
        return results_goals.judge_value_error(make_suite_of(*made))

    assert judge((0.9,) * 5) == Found(
        "0.9; below linear-td in 5 of 5 seeds", is_reached=True
    )
    assert judge((1.1,) * 5) == Found(
        "1.1; below linear-td in 5 of 5 seeds", is_reached=False
    )
    assert judge((1.6, 0.5, 0.5, 0.5, 0.5)) == Found(
        "0.72; below linear-td in 4 of 5 seeds", is_reached=False
    )


def test_games_with_z_are_counted_once_all_have_policies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suite = make_suite_of(games_without_z={"a": "no anchor"})
    specialist = make_game()
    policy = specialist.model_copy(update={"upper_source": "anchor policy"})
    some = make_anchors("any", a=specialist, b=policy)
    monkeypatch.setattr(results_goals, "shipped_anchors", lambda: some)
    assert results_goals.judge_scaled(1, suite) is None
    every = make_anchors("any", a=policy, b=policy)
    monkeypatch.setattr(results_goals, "shipped_anchors", lambda: every)
    assert results_goals.judge_scaled(1, suite) == Found("1 of 2", is_reached=True)
    assert results_goals.judge_scaled(2, suite) == Found("1 of 2", is_reached=False)


def test_resolution_is_the_median_half_width_of_pairs() -> None:
    # Differences: constant (0), NOISE (0.0196) and twice NOISE (0.0393).
    suite = make_suite({"dqn-ewc": around(0.5), "b": around(0.2), "c": around(0.1, -1)})
    found = results_goals.find_resolution(suite)
    assert found == pytest.approx(2.77645 * 2 * 0.0158114 / 5**0.5, rel=1e-4)
    assert results_goals.judge_resolution(0.06, suite) == Found("0.039", True)
    assert results_goals.judge_resolution(0.03, suite) == Found("0.039", False)


def test_more_seeds_narrow_an_interval() -> None:
    assert results_goals.count_seeds(0.06, 5, 0.06) == 5
    # Standard deviation 0.0483; 12 seeds: 2.201 × 0.0483 / √12 = 0.0307; 13: 0.0292.
    assert results_goals.count_seeds(0.06, 5, 0.03) == 13


def test_every_goal_names_a_suite_of_the_catalogue() -> None:
    from longplay.suites import SUITES

    assert {goal.suite_id for goal in results_goals.GOALS} <= set(SUITES)
