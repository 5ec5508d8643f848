"""Suite + seed -> visits: the draws are part of the contract."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longplay.contract.config import ScheduledVisit, visit_spans
from longplay.schedule import make_schedule
from longplay.suites import SUITES, Suite


def abc_suite(**settings: object) -> Suite:
    """Games a, b, c of 1000 frames twice; the catalogue would refuse the names."""
    plain: dict[str, object] = {
        "games": ("a", "b", "c"),
        "base_visit_frames": 1000,
        "num_cycles": 2,
        "jitter_pct": 0.07,
        "min_visit_frames": 1,
    }
    return SUITES["stream-smoke-v1"].model_copy(update={**plain, **settings})


def lengths(suite: Suite, seed: int) -> list[tuple[str, int]]:
    return [(v.game_id, v.visit_frames) for v in make_schedule(suite, seed)]


@pytest.mark.seed("000", "config-2", "schedule-1", "versions-2")
def test_golden_with_jitter():
    assert make_schedule(abc_suite(), 0) == [
        ScheduledVisit(visit_idx=i, cycle_idx=i // 3, game_id=game, visit_frames=n)
        for i, (game, n) in enumerate(
            [("c", 936), ("a", 932), ("b", 1044), ("a", 1015), ("b", 1032), ("c", 1006)]
        )
    ]


def test_golden_without_jitter():
    assert lengths(abc_suite(jitter_pct=0.0), 0) == [(g, 1000) for g in "cabcba"]


@pytest.mark.seed("003", "intro-5")
@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_control_sequence_is_never_shuffled(seed):
    suite = SUITES["control-v1"]
    assert lengths(suite, seed) == [(game, 10_000) for game in suite.games]
    twice = suite.model_copy(update={"num_cycles": 2})
    assert [game for game, _ in lengths(twice, seed)] == [*suite.games, *suite.games]


def test_control_cycles_are_shuffled_as_on_the_streaming_track():
    settings = {
        "games": ("a", "b", "c"),
        "base_visit_frames": 1000,
        "num_cycles": 2,
        "shuffle_games": True,
    }
    suite = SUITES["control-v1"].model_copy(update=settings)
    assert lengths(suite, 0) == [(game, 1000) for game in "cabcba"]


def test_streaming_cycles_can_keep_their_order():
    suite = abc_suite(jitter_pct=0.0, shuffle_games=False)
    assert [game for game, _ in lengths(suite, 0)] == list("abcabc")


def test_minimum_lifts_short_visits_only():
    assert lengths(abc_suite(min_visit_frames=1010), 0) == [
        ("c", 1010),
        ("a", 1010),
        ("b", 1044),
        ("a", 1015),
        ("b", 1032),
        ("c", 1010),
    ]


def test_minimum_counts_without_jitter_too():
    suite = abc_suite(jitter_pct=0.0, min_visit_frames=1200)
    assert {frames for _, frames in lengths(suite, 0)} == {1200}


def test_lengths_are_plain_ints():
    assert {type(n) for _, n in lengths(abc_suite(), 0)} == {int}


def test_another_seed_is_another_schedule():
    assert lengths(abc_suite(), 1) != lengths(abc_suite(), 0)


@pytest.mark.seed("000", "schedule-1")
@pytest.mark.parametrize("suite_id", SUITES)
def test_same_seed_twice_is_the_same_schedule(suite_id):
    suite = SUITES[suite_id]
    assert make_schedule(suite, 7) == make_schedule(suite, 7)


@given(
    seed=st.integers(0, 2**31 - 1),
    cycles=st.integers(1, 4),
    jitter=st.floats(0, 0.99),
    minimum=st.integers(1, 1500),
)
def test_every_cycle_has_every_game_once_within_the_jitter(
    seed, cycles, jitter, minimum
):
    suite = abc_suite(num_cycles=cycles, jitter_pct=jitter, min_visit_frames=minimum)
    visits = make_schedule(suite, seed)
    assert [v.visit_idx for v in visits] == list(range(3 * cycles))
    for cycle in range(cycles):
        games = [v.game_id for v in visits if v.cycle_idx == cycle]
        assert sorted(games) == ["a", "b", "c"]
    low, high = round(1000 * (1 - jitter)), round(1000 * (1 + jitter))
    for visit in visits:
        assert max(minimum, low) <= visit.visit_frames <= max(minimum, high)


def test_the_spans_of_a_schedule_are_its_visits_one_after_the_other():
    frames_of_visits = (3, 1, 5)
    visits = [
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id="pong", visit_frames=frames)
        for k, frames in enumerate(frames_of_visits)
    ]
    assert visit_spans(visits) == (range(3), range(3, 4), range(4, 9))
    assert visit_spans([]) == ()
