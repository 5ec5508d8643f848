"""The number that tuning maximises, on runs stopped anywhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from longplay.contract.files import write_document
from longplay.contract.rundir import RunDirectory
from longplay.errors import IncompleteRunError
from longplay.experiments.tuned_score import score_play, score_predictions, score_tuning
from longplay.lab.analysis.measures import VisitTotals
from longplay.scoring.baselines import random_baseline
from made_up_anchors import NO_ANCHORS, make_anchors, make_game
from written_runs import make_config, write_run

GOLDEN = Path(__file__).parents[1] / "golden"


def totals(*visits: tuple[str, int, float]) -> VisitTotals:
    games, frames, rewards = zip(*visits, strict=True)
    return VisitTotals(games, np.array(frames), np.array(rewards))


def test_mean_of_z_by_hand():
    """Qbert: 200 in 100 frames, z = (2 - 1) / 2. Pong: 500 in 100, z = (5 - 1) / 2."""
    played = totals(("qbert", 60, 20.0), ("pong", 100, 500.0), ("qbert", 40, 180.0))
    found = score_play(
        played, "s", make_anchors("s", qbert=make_game(), pong=make_game()), {}
    )
    assert found.per_game == {"qbert": 0.5, "pong": 2.0}
    assert found.units == {"qbert": "z", "pong": "z"}
    assert found.value == 1.25


def test_games_without_z_are_measured_in_units_of_random():
    """Qbert: 3 / 2. Pong, where random loses: 1 + (-1 + 2) / 2, and not -1 / -2."""
    played = totals(("qbert", 10, 30.0), ("pong", 10, -10.0))
    found = score_play(played, "s", NO_ANCHORS, {"qbert": 2.0, "pong": -2.0})
    assert found.per_game == {"qbert": 1.5, "pong": 1.5}
    assert found.units == {"qbert": "x / b", "pong": "x / b"}


@pytest.mark.parametrize("lower", [0.5, -0.5])
def test_more_reward_is_always_more(lower):
    values = [
        score_play(totals(("pong", 10, r)), "s", NO_ANCHORS, {"pong": lower}).value
        for r in (-30.0, -5.0, 0.0, 5.0, 30.0)
    ]
    assert values == sorted(values)
    assert len(set(values)) == 5


def test_games_without_a_number_are_listed():
    played = totals(("qbert", 10, 30.0), ("pong", 10, 1.0), ("krull", 10, 1.0))
    found = score_play(played, "s", NO_ANCHORS, {"qbert": 3.0, "pong": 0.0})
    assert found.value == 1.0
    assert found.left_out == {
        "pong": "no z, and the random agent's rate is 0",
        "krull": "no z, and the random agent's rate is not known",
    }


def test_no_number_at_all_is_an_error():
    with pytest.raises(IncompleteRunError, match=r"found none \(pong: no frame"):
        score_play(totals(("pong", 0, 0.0)), "s", NO_ANCHORS, {"pong": 1.0})
    with pytest.raises(IncompleteRunError, match="expected a game with a number"):
        score_predictions({})


def test_predictions():
    found = score_predictions({"pong": 0.5, "qbert": None, "krull": 1.5})
    assert found.value == -1.0
    assert found.left_out == {"qbert": "its targets are nearly constant so far"}


def test_stopped_run(tmp_path):
    """One visit and a quarter of stream-smoke-v1: two games count."""
    run = RunDirectory(write_run(tmp_path / "run", make_config(), [1.0] * 75))
    found = score_tuning(run, NO_ANCHORS)
    first, second = (visit.game_id for visit in run.config.schedule[:2])
    baseline = random_baseline("stream-smoke-v1")
    assert baseline is not None
    expected = {g: pytest.approx(1 / baseline.rates[g]) for g in (first, second)}
    assert found.per_game == expected


def test_anchors_come_before_baselines(tmp_path):
    config = make_config("stream-3x2-v1", overrides={})
    config = config.model_copy(update={"schedule": make_config().schedule})
    run = RunDirectory(write_run(tmp_path / "run", config, [3.0] * 120))
    games = {v.game_id: make_game() for v in config.schedule}
    first, second = (visit.game_id for visit in config.schedule[:2])
    games[second] = make_game(lower=2.0, upper=None)
    found = score_tuning(run, make_anchors("stream-3x2-v1", **games))
    assert found.per_game == {first: 1.0, second: 1.5}
    assert found.units == {first: "z", second: "x / b"}


def test_prediction_run_is_scored_from_its_rows(tmp_path):
    run = RunDirectory(GOLDEN / "prediction-v1")
    assert score_tuning(run, NO_ANCHORS).value == pytest.approx(-run.score.nmse)
    # Stopped after the first of its two visits.
    run_dir = shutil.copytree(GOLDEN / "prediction-v1", tmp_path / "run")
    events = run_dir / "events.jsonl"
    events.write_bytes(b"".join(events.read_bytes().splitlines(True)[:640]))
    summary = run_dir / "run_summary.json"
    document = RunDirectory(run_dir).summary.model_dump(mode="json")
    document["visits"] = document["visits"][:1]
    write_document(summary, document)
    found = score_tuning(RunDirectory(run_dir), NO_ANCHORS)
    assert found.per_game == {
        "space_invaders": pytest.approx(-run.score.per_game_nmse["space_invaders"])
    }


def test_run_without_summary_is_refused(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 75)
    (run_dir / "run_summary.json").unlink()
    with pytest.raises(IncompleteRunError, match=r"expected a run_summary\.json"):
        score_tuning(RunDirectory(run_dir), NO_ANCHORS)
