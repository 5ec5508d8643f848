"""The control score, on numbers worked out by hand, and on the rows of real runs."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import longplay
from longplay.contract.documents import ControlScore, RatePoint
from longplay.errors import DocumentError, IncompleteRunError
from longplay.plan import plan_run
from longplay.scoring.control import compute_score
from longplay.scoring.metrics import Rewards
from longplay.scoring.play import Play, played_visits
from longplay.tracks.control import CONTROL
from rows import read_rows

SETTINGS = {
    "games": ["pong", "qbert"],
    "base_visit_frames": 6,
    "scoring_defaults": {
        "window_frames": 4,
        "revisit_frames": 2,
        "bottom_k_frac": 0.5,
    },
}
GAME_REWARDS = {1: 10.0, 3: -2.0, 5: 4.0, 7: 30.0, 11: 5.0}


def sparse(values: dict[int, float]) -> Rewards:
    return Rewards(
        np.array(list(values), np.int64), np.array(list(values.values()), np.float64)
    )


def make_play(visits: int = 2) -> Play:
    config = plan_run("control-v1", 0, SETTINGS).config
    signs = {frame: math.copysign(1.0, r) for frame, r in GAME_REWARDS.items()}
    return Play(
        config=config,
        visits=played_visits(config)[:visits],
        rewards=sparse(signs),
        game_rewards=sparse(GAME_REWARDS),
        terminated_ends=np.array([8]),
        fps=100.0,
    )


@pytest.mark.seed("003", "control-8")
def test_totals() -> None:
    score = compute_score(make_play())
    assert score.cumulative_reward == 1 - 1 + 1 + 1 + 1
    assert score.cumulative_game_score == 10 - 2 + 4 + 30 + 5
    assert score.per_game_cumulative_reward == {"pong": 1.0, "qbert": 2.0}
    assert score.per_game_cumulative_game_score == {"pong": 12.0, "qbert": 35.0}


def test_curve_has_a_point_per_window_of_each_visit() -> None:
    assert compute_score(make_play()).reward_rate == (
        RatePoint(timestep=4, rate=0.0),  # 0 … 3: 1 - 1
        RatePoint(timestep=6, rate=0.5),  # 4, 5: 1
        RatePoint(timestep=10, rate=0.25),  # 6 … 9: 1
        RatePoint(timestep=12, rate=0.5),  # 10, 11: 1
    )


def test_totals_are_explained_by_the_visits() -> None:
    visit, score, early, late = CONTROL.explain_game(make_play(), "pong").rows
    # Frames 0 … 5 of the game: 10 - 2 + 4, each delivered as its sign.
    assert visit == {
        "window": "whole visit",
        "visit_idx": 0,
        "first_frame": 0,
        "last_frame": 5,
        "frames": 6,
        "reward_sum": 1.0,
        "game_reward_sum": 12.0,
        "rate": 1 / 6,
    }
    assert (score["window"], score["reward_sum"], score["game_reward_sum"]) == (
        "score",
        0.0,  # 2 … 5: -1 + 1
        2.0,  # 2 … 5: -2 + 4
    )
    assert [early["window"], late["window"]] == [
        "plasticity: early",
        "plasticity: late",
    ]


def test_keys_of_v1_are_computed_on_delivered_rewards() -> None:
    score = compute_score(make_play())
    assert score.per_game_scores == {"pong": 0.0, "qbert": 0.25}
    assert (score.mean_score, score.bottom_k_score) == (0.125, 0.0)
    assert score.final_score == 0.0625
    assert score.per_game_plasticity == {"pong": 0.0, "qbert": 0.0}
    assert score.per_game_forgetting == {}
    assert score.forgetting_index_mean is None
    assert score.per_game_episode_counts == {"pong": 0, "qbert": 1}


@pytest.mark.seed("003", "control-8")
def test_headline_is_the_cumulative_reward() -> None:
    assert compute_score(make_play()).headline == 3.0


def test_partial_score_counts_complete_visits_only() -> None:
    score = compute_score(make_play(visits=1))
    assert (score.complete, score.incomplete_visits) == (False, (1,))
    assert (score.cumulative_reward, score.cumulative_game_score) == (1.0, 12.0)
    assert score.per_game_cumulative_reward == {"pong": 1.0}
    assert len(score.reward_rate) == 2


def test_empty_run_has_zero_totals() -> None:
    score = compute_score(make_play(visits=0))
    assert (score.cumulative_reward, score.reward_rate) == (0.0, ())
    assert score.per_game_cumulative_game_score == {}


# --- runs ---------------------------------------------------------------------------


def test_totals_of_a_run_are_the_sums_over_its_rows(control_run: Path) -> None:
    rows, score = (
        read_rows(control_run / "events.jsonl"),
        longplay.read_run(control_run).score,
    )
    assert isinstance(score, ControlScore)
    assert score.cumulative_reward == sum(row["reward"] for row in rows)
    assert score.cumulative_game_score == sum(row["game_reward"] for row in rows)
    for game in ("breakout", "asterix"):
        own = [row for row in rows if row["game_id"] == game]
        assert score.per_game_cumulative_reward[game] == sum(r["reward"] for r in own)
        total = sum(row["game_reward"] for row in own)
        assert score.per_game_cumulative_game_score[game] == total
    assert score.cumulative_game_score > score.cumulative_reward > 0


def test_scoring_again_gives_the_same(control_run: Path) -> None:
    assert longplay.score_run(control_run) == longplay.read_run(control_run).score


def test_other_windows_change_the_curve_but_not_the_totals(control_run: Path) -> None:
    own = longplay.score_run(control_run)
    other = longplay.score_run(control_run, window_frames=150)
    assert isinstance(own, ControlScore)
    assert isinstance(other, ControlScore)
    assert [p.timestep for p in own.reward_rate] == [200, 400, 450, 650, 850, 900]
    assert [p.timestep for p in other.reward_rate] == [150, 300, 450, 600, 750, 900]
    assert own.cumulative_reward == other.cumulative_reward
    assert own.benchmark_contract_hash != other.benchmark_contract_hash


def test_row_without_a_game_reward_is_not_scored(
    control_run: Path, copy_of: Callable[[Path], Path]
) -> None:
    path = copy_of(control_run) / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b',"game_reward":0.0', b"")
    path.write_bytes(b"".join(lines))
    with pytest.raises(DocumentError, match="run `longplay validate`"):
        longplay.score_run(path.parent)


def test_run_cut_short_is_scored_in_part(
    control_run: Path, copy_of: Callable[[Path], Path]
) -> None:
    path = copy_of(control_run) / "events.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:600]) + lines[600][:40])
    with pytest.raises(IncompleteRunError):
        longplay.score_run(path.parent)
    score = longplay.score_run(path.parent, partial=True)
    assert isinstance(score, ControlScore)
    rows = read_rows(control_run / "events.jsonl")[:450]
    assert score.cumulative_reward == sum(row["reward"] for row in rows)
    assert set(score.per_game_cumulative_reward) == {"breakout"}


def test_columns_of_a_control_run(control_run: Path) -> None:
    events = longplay.read_run(control_run).events
    assert events.columns[-3:] == ("lives", "game_reward", "emulator_frames")
    columns = events.numpy("game_reward", "emulator_frames")
    rows = read_rows(control_run / "events.jsonl")
    for name, column in columns.items():
        assert column.tolist() == [row[name] for row in rows]


def test_summary_of_a_control_run_adds_up_its_rows(control_run: Path) -> None:
    rows, summary = (
        read_rows(control_run / "events.jsonl"),
        longplay.read_run(control_run).summary,
    )
    assert summary is not None
    assert summary.frames == summary.decision_frames == 900
    assert summary.emulator_frames == sum(row["emulator_frames"] for row in rows)
    assert summary.emulator_frames < 3600
    for visit in summary.visits:
        own = [row for row in rows if row["visit_idx"] == visit.visit_idx]
        assert visit.frames == 450
        assert visit.reward_sum == sum(row["reward"] for row in own)
        assert visit.game_reward_sum == sum(row["game_reward"] for row in own)
        assert visit.emulator_frames == sum(row["emulator_frames"] for row in own)
