"""The random agent's figures: shipped, complete, and of the suites they name."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from longplay.plan import plan_run
from longplay.scoring.baselines import expected_seconds, random_baseline
from longplay.suites import get_suite
from longplay.tracks.catalogue import TRACKS
from longplay.tracks.prediction import PREDICTION

CONTROL = ("control-smoke-v1", "control-v1", "control-6x3-v1")
MEASURED = ("stream-smoke-v1", "stream-3x2-v1", "stream-8x3-v1", *CONTROL)
DATA = json.loads(
    (resources.files("longplay.scoring") / "data" / "random.json").read_bytes()
)


@pytest.mark.parametrize("suite_id", MEASURED)
def test_figures_belong_to_the_current_suite(suite_id: str) -> None:
    entry = DATA["suites"][suite_id]
    official = [0, 1, 2] if "smoke" in suite_id else get_suite(suite_id).official_seeds
    assert entry["seeds"] == list(official)
    plans = [plan_run(suite_id, seed) for seed in entry["seeds"]]
    hashes = [plan.config.benchmark_contract_hash for plan in plans]
    assert entry["contract_hashes"] == hashes
    assert set(entry["games"]) == set(plans[0].suite.games)
    frames = sum(plan.config.total_frames for plan in plans)
    assert sum(game["frames"] for game in entry["games"].values()) == frames


def test_baseline_of_a_suite() -> None:
    baseline = random_baseline("stream-3x2-v1")
    assert baseline is not None
    scores = DATA["suites"]["stream-3x2-v1"]["final_scores"]
    assert baseline.final_score == pytest.approx(sum(scores) / 5)
    # Five seeds of 200,000 frames and more: the rates are no accident.
    assert baseline.rates["qbert"] == pytest.approx(0.12, abs=0.02)


@pytest.mark.parametrize("suite_id", CONTROL)
def test_totals_of_a_control_suite(suite_id: str) -> None:
    baseline = random_baseline(suite_id)
    assert baseline is not None
    assert list(baseline.totals) == list(plan_run(suite_id).suite.games)
    sums = (baseline.cumulative_rewards, baseline.cumulative_game_scores)
    assert [len(each) for each in sums] == [len(baseline.seeds)] * 2
    rewards = sum(totals.reward for totals in baseline.totals.values())
    assert baseline.headline == baseline.cumulative_reward == pytest.approx(rewards)
    game_scores = sum(totals.game_score for totals in baseline.totals.values())
    assert baseline.cumulative_game_score == pytest.approx(game_scores)


def test_a_random_player_loses_at_pong() -> None:
    baseline = random_baseline("control-v1")
    assert baseline is not None
    # Pong gives nothing but 1 and -1.
    assert baseline.totals["pong"].reward == baseline.totals["pong"].game_score < 0


def test_streaming_suites_have_no_totals() -> None:
    baseline = random_baseline("stream-3x2-v1")
    assert baseline is not None
    assert (baseline.totals, baseline.cumulative_reward) == ({}, None)
    assert baseline.headline == baseline.final_score


def test_changed_suite_borrows_and_unknown_has_none() -> None:
    borrowed = random_baseline("stream-3x2-v1+01234567")
    assert borrowed is not None
    assert borrowed.suite_id == "stream-3x2-v1"
    assert random_baseline("stream-8x3-1m-v1") is None
    assert random_baseline("") is None


def test_time_of_an_unmeasured_suite_is_that_of_its_kind() -> None:
    long_one = expected_seconds("stream-8x3-1m-v1", "stream-8x3-v1", 1_000_000)
    assert long_one == expected_seconds("stream-8x3-v1", "control-v1", 1_000_000)
    assert 10 < long_one < 1_000


def test_every_track_names_a_suite_that_was_measured() -> None:
    for track in TRACKS.values():
        assert random_baseline(track.typical_suite) is not None
    assert PREDICTION.typical_suite == "control-v1"
