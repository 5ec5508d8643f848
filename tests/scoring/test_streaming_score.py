"""score.json against a slow and exact implementation of the contract's formulas."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
import statistics
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longplay import score_run
from longplay.errors import ConfigError, DocumentError, IncompleteRunError
from rows import read_rows

# --- the formulas of the contract in plain Python -----------------------------------


@dataclass(frozen=True)
class Visit:
    """A visit and the frames it covers, both ends included."""

    visit_idx: int
    cycle_idx: int
    game_id: str
    start: int
    end: int


def place_visits(schedule: list[dict[str, Any]]) -> list[Visit]:
    visits, start = [], 0
    for row in schedule:
        end = start + row["visit_frames"] - 1
        visits.append(
            Visit(row["visit_idx"], row["cycle_idx"], row["game_id"], start, end)
        )
        start = end + 1
    return visits


def tail_rate(rewards: list[Fraction], visit: Visit, n: int) -> Fraction:
    total = Fraction(0)
    for f in range(max(visit.end - n + 1, visit.start), visit.end + 1):
        total += rewards[f]
    return total / min(n, visit.end - visit.start + 1)


def head_rate(rewards: list[Fraction], visit: Visit, n: int) -> Fraction:
    total = Fraction(0)
    for f in range(visit.start, min(visit.start + n - 1, visit.end) + 1):
        total += rewards[f]
    return total / min(n, visit.end - visit.start + 1)


def mean(values: list[Fraction]) -> Fraction | None:
    return sum(values, Fraction(0)) / len(values) if values else None


def median(values: list[Fraction]) -> Fraction | None:
    return statistics.median(values) if values else None


def score_slowly(
    config: dict[str, Any],
    rewards: list[Fraction],
    terminated_ends: list[int],
    scoring: dict[str, Any],
) -> dict[str, Any]:
    """All numbers of a score, exact; visits without all their frames are left out."""
    visits = [v for v in place_visits(config["schedule"]) if v.end < len(rewards)]
    last_cycle = max((v.cycle_idx for v in visits), default=-1)
    n = scoring["revisit_frames"]
    scores, forgetting, plasticity, counts, frames = {}, {}, {}, {}, {}
    for game in config["games"]:
        mine = [v for v in visits if v.game_id == game]
        counts[game] = frames[game] = 0
        scored = [v for v in mine if v.cycle_idx == last_cycle]
        if scored:
            visit = scored[-1]
            scores[game] = tail_rate(rewards, visit, scoring["window_frames"])
            frames[game] = visit.end - visit.start + 1
            counts[game] = sum(visit.start <= f <= visit.end for f in terminated_ends)
        losses = [
            tail_rate(rewards, before, n) - head_rate(rewards, after, n)
            for before, after in itertools.pairwise(mine)
            if after.visit_idx != before.visit_idx + 1
        ]
        if losses:
            forgetting[game] = mean(losses)
        first = [v for v in mine if v.cycle_idx == 0]
        if first:
            early = head_rate(rewards, first[0], n)
            plasticity[game] = tail_rate(rewards, first[0], n) - early
    ordered = sorted(scores.values())
    k = max(1, math.ceil(scoring["bottom_k_frac"] * len(ordered)))
    mean_score, bottom_k_score = mean(ordered), mean(ordered[:k])
    final = None
    if mean_score is not None and bottom_k_score is not None:
        mean_w, bottom_k_w = map(Fraction, scoring["final_score_weights"])
        final = mean_w * mean_score + bottom_k_w * bottom_k_score
    return {
        "final_score": final,
        "mean_score": mean_score,
        "bottom_k_score": bottom_k_score,
        "per_game_scores": scores,
        "per_game_episode_counts": counts,
        "per_game_visit_frames": frames,
        "forgetting_index_mean": mean(list(forgetting.values())),
        "forgetting_index_median": median(list(forgetting.values())),
        "per_game_forgetting": forgetting,
        "plasticity_mean": mean(list(plasticity.values())),
        "plasticity_median": median(list(plasticity.values())),
        "per_game_plasticity": plasticity,
        "frames": sum(v.end - v.start + 1 for v in visits),
    }


def hash_slowly(config: dict[str, Any], scoring: dict[str, Any]) -> str:
    payload = {
        name: config[name]
        for name in (
            "games",
            "schedule",
            "decision_interval",
            "sticky",
            "life_loss_termination",
            "full_action_space",
            "default_action_idx",
        )
    }
    payload["delay_frames"] = config["delay"]
    payload["global_action_set"] = config["action_mapping_policy"]["global_action_set"]
    payload["scoring_defaults"] = scoring
    text = json.dumps(payload, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def assert_same(found: Any, expected: Any, where: str = "score") -> None:
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), where
        for key in expected:
            assert_same(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, Fraction):
        wanted = float(expected)
        assert math.isclose(found, wanted, rel_tol=1e-12, abs_tol=1e-12), where
    else:
        assert found == expected, where


def assert_scored(run_dir: Path, found: dict[str, Any], **changes: Any) -> None:
    """Checks a score against the slow formulas, computed from the files of the run."""
    config = json.loads((run_dir / "config.json").read_bytes())
    scoring = config["scoring_defaults"] | changes
    rewards = [Fraction(row["reward"]) for row in read_rows(run_dir / "events.jsonl")]
    ends = [
        row["end_global_frame_idx"]
        for row in read_rows(run_dir / "episodes.jsonl")
        if row["ended_by"] == "terminated"
    ]
    expected = score_slowly(config, rewards, ends, scoring)
    assert_same({key: found[key] for key in expected}, expected)
    assert found["benchmark_contract_version"] == "v1"
    assert found["benchmark_contract_hash"] == hash_slowly(config, scoring)


# --- run directories written by hand ------------------------------------------------

SCORING = {
    "window_frames": 2,
    "bottom_k_frac": 0.25,
    "revisit_frames": 2,
    "final_score_weights": [0.5, 0.5],
}


@dataclass
class MadeRun:
    """A run as another tool may write it: required keys alone."""

    schedule: list[tuple[int, str, int]]  # cycle, game, frames
    rewards: list[float]
    terminated: set[int] = field(default_factory=set)
    games: list[str] | None = None
    scoring: dict[str, Any] = field(default_factory=lambda: dict(SCORING))

    def write(self, run_dir: Path) -> Path:
        run_dir.mkdir(parents=True, exist_ok=True)
        events, spans = self._rows()
        episodes = [{**span, "episode_id": i} for i, span in enumerate(spans)]
        segments = [{**span, "segment_id": i} for i, span in enumerate(spans)]
        (run_dir / "config.json").write_text(json.dumps(self._config()))
        for name, rows in (
            ("events.jsonl", events),
            ("episodes.jsonl", episodes),
            ("segments.jsonl", segments),
        ):
            (run_dir / name).write_text("".join(f"{json.dumps(r)}\n" for r in rows))
        return run_dir

    def _config(self) -> dict[str, Any]:
        config = {
            "games": self.games or sorted({game for _, game, _ in self.schedule}),
            "schedule": [
                {
                    "visit_idx": visit_idx,
                    "cycle_idx": cycle_idx,
                    "game_id": game_id,
                    "visit_frames": frames,
                }
                for visit_idx, (cycle_idx, game_id, frames) in enumerate(self.schedule)
            ],
            "decision_interval": 1,
            "delay": 0,
            "sticky": 0.0,
            "life_loss_termination": False,
            "full_action_space": True,
            "action_mapping_policy": {"global_action_set": list(range(18))},
            "default_action_idx": 0,
            "scoring_defaults": self.scoring,
            "benchmark_contract_version": "v1",
        }
        return config | {"benchmark_contract_hash": hash_slowly(config, self.scoring)}

    def _rows(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        events: list[dict[str, Any]] = []
        spans: list[dict[str, Any]] = []
        start = 0
        for visit_idx, (cycle_idx, game_id, frames) in enumerate(self.schedule):
            for visit_frame_idx in range(frames):
                frame = len(events)
                terminated = frame in self.terminated
                truncated = visit_frame_idx == frames - 1
                events.append(
                    {
                        "global_frame_idx": frame,
                        "game_id": game_id,
                        "visit_idx": visit_idx,
                        "cycle_idx": cycle_idx,
                        "visit_frame_idx": visit_frame_idx,
                        "episode_id": len(spans),
                        "segment_id": len(spans),
                        "is_decision_frame": True,
                        "decided_action_idx": 0,
                        "applied_action_idx": 0,
                        "reward": self.rewards[frame],
                        "terminated": terminated,
                        "truncated": truncated,
                    }
                )
                if terminated or truncated:
                    spans.append(
                        {
                            "game_id": game_id,
                            "start_global_frame_idx": start,
                            "end_global_frame_idx": frame,
                            "length": frame - start + 1,
                            "return": sum(self.rewards[start : frame + 1]),
                            "ended_by": "terminated" if terminated else "truncated",
                        }
                    )
                    start = frame + 1
        return events, spans


# Two games, two cycles; every number below is worked out by hand.
HAND_MADE = MadeRun(
    schedule=[(0, "a", 4), (0, "b", 3), (1, "a", 5), (1, "b", 2)],
    # Visits     a: 0 … 3    b: 4 … 6  a: 7 … 11       b: 12, 13
    rewards=[*(0, 0, 1, 3), *(1, 0, 0), *(2, 0, 0, 0, 4), *(-1, 0.5)],
    terminated={1, 5, 8, 10, 11},
)


def score_made(run: MadeRun, tmp_path: Path, **options: Any) -> dict[str, Any]:
    score = score_run(run.write(tmp_path / "run"), **options)
    return score.model_dump(mode="json")


def cut_rows(run_dir: Path, name: str, keep: int, torn: str = "") -> None:
    """Keeps the first rows of a file, and perhaps the beginning of the next."""
    lines = (run_dir / name).read_text().splitlines(keepends=True)
    (run_dir / name).write_text("".join(lines[:keep]) + torn)


# --- numbers worked out by hand -----------------------------------------------------


@pytest.mark.seed("000", "scoring-5", "versions-4")
def test_hand_worked_scores(tmp_path):
    score = score_made(HAND_MADE, tmp_path)
    # Last two frames of the last visits: a (0 + 4) / 2, b (-1 + 0.5) / 2.
    assert score["per_game_scores"] == {"a": 2.0, "b": -0.25}
    assert score["mean_score"] == 0.875
    assert score["bottom_k_score"] == -0.25
    assert score["final_score"] == 0.3125
    assert score["per_game_visit_frames"] == {"a": 5, "b": 2}
    assert score["per_game_episode_counts"] == {"a": 3, "b": 0}
    assert score["frames"] == 14
    assert score["complete"] is True
    assert score["fps"] is None


@pytest.mark.seed("000", "scoring-12..14")
def test_hand_worked_forgetting(tmp_path):
    score = score_made(HAND_MADE, tmp_path)
    # a: (1 + 3) / 2 - (2 + 0) / 2 = 1; b: 0 - (-1 + 0.5) / 2 = 0.25.
    assert score["per_game_forgetting"] == {"a": 1.0, "b": 0.25}
    assert score["forgetting_index_mean"] == 0.625
    assert score["forgetting_index_median"] == 0.625


@pytest.mark.seed("000", "scoring-17..19")
def test_hand_worked_plasticity(tmp_path):
    score = score_made(HAND_MADE, tmp_path)
    # a: (1 + 3) / 2 - 0 = 2; b: 0 - (1 + 0) / 2 = -0.5.
    assert score["per_game_plasticity"] == {"a": 2.0, "b": -0.5}
    assert score["plasticity_mean"] == 0.75
    assert score["plasticity_median"] == 0.75


@pytest.mark.seed("000", "scoring-12")
def test_forgetting_is_the_mean_over_revisits(tmp_path):
    run = MadeRun(
        schedule=[(0, "a", 2), (0, "b", 1), (1, "a", 2), (1, "b", 1), (2, "a", 2)],
        rewards=[6, 6, 0, 1, 3, 0, 1, 5],
    )
    score = score_made(run, tmp_path)
    # First revisit 6 - 2 = 4, second 2 - 3 = -1.
    assert score["per_game_forgetting"] == {"a": 1.5, "b": 0.0}


@pytest.mark.seed("000", "scoring-7")
def test_window_longer_than_the_visit_divides_by_the_visit(tmp_path):
    run = MadeRun(
        schedule=[(0, "a", 3)],
        rewards=[1, 2, 6],
        scoring=SCORING | {"window_frames": 100, "revisit_frames": 100},
    )
    score = score_made(run, tmp_path)
    assert score["per_game_scores"] == {"a": 3.0}
    assert score["per_game_plasticity"] == {"a": 0.0}


@pytest.mark.seed("000", "scoring-12")
def test_adjacent_visits_are_not_a_revisit(tmp_path):
    run = MadeRun(schedule=[(0, "a", 2), (1, "a", 2)], rewards=[5, 5, 1, 1])
    score = score_made(run, tmp_path)
    assert score["per_game_forgetting"] == {}
    assert score["forgetting_index_mean"] is None
    assert score["forgetting_index_median"] is None


@pytest.mark.seed("000", "scoring-5")
def test_last_visit_of_the_last_cycle_is_scored(tmp_path):
    run = MadeRun(
        schedule=[(0, "a", 2), (1, "a", 2), (1, "b", 1), (1, "a", 3)],
        rewards=[9, 9, 5, 5, 0, 1, 2, 4],
        terminated={1, 3, 5},
    )
    score = score_made(run, tmp_path)
    assert score["per_game_scores"] == {"a": 3.0, "b": 0.0}
    assert score["per_game_visit_frames"] == {"a": 3, "b": 1}
    assert score["per_game_episode_counts"] == {"a": 1, "b": 0}


def test_game_without_a_visit_in_the_last_cycle(tmp_path):
    run = MadeRun(
        schedule=[(0, "a", 2), (0, "b", 2), (1, "a", 2)],
        rewards=[1, 1, 8, 6, 3, 3],
        terminated={3, 5},
    )
    score = score_made(run, tmp_path)
    assert score["per_game_scores"] == {"a": 3.0}
    assert score["mean_score"] == 3.0
    assert score["per_game_visit_frames"] == {"a": 2, "b": 0}
    assert score["per_game_episode_counts"] == {"a": 1, "b": 0}
    assert score["per_game_plasticity"] == {"a": 0.0, "b": 0.0}


def test_truncated_episodes_are_not_counted(tmp_path):
    run = MadeRun(schedule=[(0, "a", 4)], rewards=[0] * 4, terminated={1})
    assert score_made(run, tmp_path)["per_game_episode_counts"] == {"a": 1}


def test_episode_that_terminates_on_the_last_frame_is_counted(tmp_path):
    run = MadeRun(schedule=[(0, "a", 4)], rewards=[0] * 4, terminated={1, 3})
    assert score_made(run, tmp_path)["per_game_episode_counts"] == {"a": 2}


def test_rows_may_come_in_any_order(tmp_path):
    """Frames say where a reward belongs; the order of lines is validation's."""
    run_dir = HAND_MADE.write(tmp_path / "run")
    before = score_run(run_dir)
    lines = (run_dir / "events.jsonl").read_text().splitlines()
    (run_dir / "events.jsonl").write_text("\n".join(reversed(lines)) + "\n")
    assert score_run(run_dir) == before


# --- fps --------------------------------------------------------------------------


def test_fps_of_a_foreign_run_comes_from_its_clock(tmp_path):
    run_dir = HAND_MADE.write(tmp_path / "run")
    rows = [
        row | {"wallclock_time": 1000.0 + i / 64}
        for i, row in enumerate(read_rows(run_dir / "events.jsonl"))
    ]
    (run_dir / "events.jsonl").write_text("".join(f"{json.dumps(r)}\n" for r in rows))
    assert score_run(run_dir).fps == 64.0


def test_fps_of_our_own_run_is_the_summary_s(finished_run):
    summary = json.loads((finished_run / "run_summary.json").read_bytes())
    assert score_run(finished_run).fps == summary["fps"] > 0


# --- against the reference ----------------------------------------------------------


@pytest.mark.parametrize("name", ["finished_run", "life_loss_run"])
def test_real_runs_agree_with_the_reference(name, request):
    run_dir = request.getfixturevalue(name)
    written = json.loads((run_dir / "score.json").read_bytes())
    assert_scored(run_dir, written)
    assert_scored(run_dir, score_run(run_dir).model_dump(mode="json"))
    config = json.loads((run_dir / "config.json").read_bytes())
    assert written["benchmark_contract_hash"] == config["benchmark_contract_hash"]


@pytest.mark.seed("000", "scoring-1")
@pytest.mark.parametrize("name", ["finished_run", "life_loss_run"])
def test_real_runs_under_other_windows_agree_too(name, request):
    run_dir = request.getfixturevalue(name)
    changes = {
        "window_frames": 37,
        "revisit_frames": 10_000,
        "bottom_k_frac": 0.5,
        "final_score_weights": [0.3, 0.9],
    }
    score = score_run(run_dir, **{**changes, "final_score_weights": (0.3, 0.9)})
    assert_scored(run_dir, score.model_dump(mode="json"), **changes)


GAMES = ["a", "b", "c", "d", "e", "f"]
REWARD_KINDS = {
    "none": [0.0],
    "sparse": [0.0] * 9 + [1.0],
    "dense": [1.0, 2.0, 25.0],
    "signed": [0.0, 1.0, -1.0, -3.0],
    "fractional": [0.0, 0.1, -0.3, 1 / 3, 1e-9],
}


@st.composite
def made_runs(draw: st.DrawFn) -> MadeRun:
    games = GAMES[: draw(st.integers(1, 6))]
    schedule = []
    for cycle_idx in range(draw(st.integers(1, 4))):
        # A shuffle as the suites have it, or anything: games twice, or not at all.
        order = draw(
            st.permutations(games)
            | st.lists(st.sampled_from(games), min_size=1, max_size=6)
        )
        schedule += [(cycle_idx, game, draw(st.integers(1, 40))) for game in order]
    total = sum(frames for _, _, frames in schedule)
    kind = draw(st.sampled_from(sorted(REWARD_KINDS)))
    dice = random.Random(draw(st.integers(0, 2**32)))
    weights = st.floats(0, 2)
    return MadeRun(
        schedule=schedule,
        rewards=[dice.choice(REWARD_KINDS[kind]) for _ in range(total)],
        terminated={frame for frame in range(total) if dice.random() < 0.1},
        games=games,
        scoring={
            "window_frames": draw(st.integers(1, 60)),
            "bottom_k_frac": draw(st.floats(0, 1, exclude_min=True)),
            "revisit_frames": draw(st.integers(1, 60)),
            "final_score_weights": [draw(weights), draw(weights)],
        },
    )


@pytest.mark.seed("000", "scoring-16")
@settings(deadline=None, max_examples=30)
@given(made_runs())
def test_made_runs_agree_with_the_reference(run):
    with tempfile.TemporaryDirectory() as folder:
        run_dir = run.write(Path(folder))
        assert_scored(run_dir, score_run(run_dir).model_dump(mode="json"))


@settings(deadline=None, max_examples=15)
@given(made_runs(), st.floats(0, 1), st.booleans())
def test_parts_of_made_runs_agree_with_the_reference(run, share, is_torn):
    keep = int(share * len(run.rewards))
    with tempfile.TemporaryDirectory() as folder:
        run_dir = run.write(Path(folder))
        cut_rows(run_dir, "events.jsonl", keep)
        found = score_run(run_dir, partial=True).model_dump(mode="json")
        assert_scored(run_dir, found)
        if is_torn:
            cut_rows(run_dir, "events.jsonl", keep, '{"global_frame_idx":')
            again = score_run(run_dir, partial=True).model_dump(mode="json")
            assert again == found


# --- runs that are not complete -------------------------------------------------------


def test_incomplete_run_is_refused_with_its_last_frame(tmp_path):
    run_dir = HAND_MADE.write(tmp_path / "run")
    cut_rows(run_dir, "events.jsonl", 9)
    with pytest.raises(IncompleteRunError, match=r"last frame is 8 of 0 … 13"):
        score_run(run_dir)


def test_torn_last_line_is_an_incomplete_run_too(tmp_path):
    """What a killed run leaves behind: the message is the same."""
    run_dir = HAND_MADE.write(tmp_path / "run")
    cut_rows(run_dir, "events.jsonl", 9, '{"global_frame_idx": 9, "game_')
    with pytest.raises(IncompleteRunError, match=r"last frame is 8 of 0 … 13"):
        score_run(run_dir)


def test_run_without_a_frame_is_refused(tmp_path):
    run_dir = HAND_MADE.write(tmp_path / "run")
    (run_dir / "events.jsonl").write_bytes(b"")
    with pytest.raises(IncompleteRunError) as caught:
        score_run(run_dir)
    assert "frame is -1" not in str(caught.value)  # there is no such frame


@pytest.mark.parametrize("name", ["events.jsonl", "episodes.jsonl", "config.json"])
@pytest.mark.parametrize("partial", [False, True])
def test_missing_file_is_refused_by_name(tmp_path, name, partial):
    run_dir = HAND_MADE.write(tmp_path / "run")
    (run_dir / name).unlink()
    with pytest.raises(DocumentError, match=f"{name}: missing"):
        score_run(run_dir, partial=partial)


DAMAGES = {
    "a frame dropped": lambda lines: lines[:5] + lines[6:],
    "one frame twice, one missing": lambda lines: [*lines[:5], lines[4], *lines[6:]],
    # 1 and 4 for 2 and 3: their number and their sum are as they should be.
    "two frames twice, two missing": lambda lines: [
        lines[{2: 1, 3: 4}.get(i, i)] for i in range(len(lines))
    ],
    "the last frame twice": lambda lines: [*lines, lines[-1]],
    "garbage inside": lambda lines: [*lines[:5], "garbage", *lines[5:]],
    "a frame without reward": lambda lines: [
        line.replace('"reward"', '"x"') if i == 5 else line
        for i, line in enumerate(lines)
    ],
}


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_frames_are_refused(tmp_path, partial, damage):
    run_dir = HAND_MADE.write(tmp_path / "run")
    lines = (run_dir / "events.jsonl").read_text().splitlines()
    lines = DAMAGES[damage](lines)
    (run_dir / "events.jsonl").write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(DocumentError, match=r"events\.jsonl: .*longplay validate"):
        score_run(run_dir, partial=partial)


def test_partial_counts_complete_visits_only(tmp_path):
    run_dir = HAND_MADE.write(tmp_path / "run")
    cut_rows(run_dir, "events.jsonl", 13)  # all but the last frame of the last visit
    score = score_run(run_dir, partial=True)
    assert score.complete is False
    assert score.incomplete_visits == (3,)
    assert score.frames == 12
    assert score.per_game_scores == {"a": 2.0}
    assert score.per_game_episode_counts == {"a": 3, "b": 0}
    assert score.per_game_forgetting == {"a": 1.0}
    assert score.per_game_plasticity == {"a": 2.0, "b": -0.5}


def test_last_cycle_of_a_partial_run_is_the_last_with_a_complete_visit(tmp_path):
    run_dir = HAND_MADE.write(tmp_path / "run")
    cut_rows(run_dir, "events.jsonl", 8)  # one frame into the second cycle
    score = score_run(run_dir, partial=True)
    assert score.incomplete_visits == (2, 3)
    assert score.per_game_scores == {"a": 2.0, "b": 0.0}
    assert score.per_game_visit_frames == {"a": 4, "b": 3}
    assert score.per_game_episode_counts == {"a": 1, "b": 1}


@pytest.mark.seed("000", "score-17")
def test_partial_run_without_a_complete_visit_has_no_score(tmp_path):
    run_dir = HAND_MADE.write(tmp_path / "run")
    cut_rows(run_dir, "events.jsonl", 3)
    score = score_run(run_dir, partial=True)
    assert score.final_score is score.mean_score is score.bottom_k_score is None
    assert score.per_game_scores == score.per_game_plasticity == {}
    assert score.per_game_visit_frames == {"a": 0, "b": 0}
    assert score.incomplete_visits == (0, 1, 2, 3)
    assert (score.frames, score.complete) == (0, False)


def test_torn_last_lines_are_ignored_in_a_partial_run(tmp_path):
    run_dir = HAND_MADE.write(tmp_path / "run")
    cut_rows(run_dir, "events.jsonl", 12, '{"global_frame_idx": 12, "game_id": "b')
    cut_rows(run_dir, "episodes.jsonl", 7, '{"game_id": "a", "end_global_frame_')
    score = score_run(run_dir, partial=True)
    assert score.incomplete_visits == (3,)
    assert score.per_game_episode_counts == {"a": 3, "b": 0}


def test_partial_of_a_complete_run_is_the_score(finished_run):
    assert score_run(finished_run, partial=True) == score_run(finished_run)


# --- other windows ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"window_frames": 0}, "window_frames"),
        ({"revisit_frames": -1}, "revisit_frames"),
        ({"bottom_k_frac": 0.0}, "bottom_k_frac"),
        ({"bottom_k_frac": 1.5}, "bottom_k_frac"),
    ],
)
def test_windows_out_of_range_are_refused(finished_run, changes, message):
    with pytest.raises(ConfigError, match=message):
        score_run(finished_run, **changes)


def test_unknown_scoring_option_is_refused(finished_run):
    with pytest.raises((ConfigError, TypeError), match="window"):
        score_run(finished_run, window=5)


def test_scoring_writes_nothing(tmp_path):
    run_dir = HAND_MADE.write(tmp_path / "run")
    score_run(run_dir)
    assert not (run_dir / "score.json").exists()


# --- the command --------------------------------------------------------------------


@pytest.fixture
def made_dir(tmp_path: Path) -> Path:
    return HAND_MADE.write(tmp_path / "run")


@pytest.mark.seed("000", "files-5")
def test_command_writes_the_run_s_own_score(made_dir, invoke):
    answer = invoke("score", made_dir, "--json")
    assert answer.exit_code == 0
    assert json.loads((made_dir / "score.json").read_bytes()) == answer.json
    assert answer.json["final_score"] == 0.3125
    config = json.loads((made_dir / "config.json").read_bytes())
    assert answer.json["benchmark_contract_hash"] == config["benchmark_contract_hash"]


def test_command_has_a_table_for_people(made_dir, invoke):
    answer = invoke("score", made_dir)
    assert answer.exit_code == 0
    assert "final score" in answer.stdout
    assert "0.3125" in answer.stdout


def test_command_refuses_an_incomplete_run(made_dir, invoke):
    cut_rows(made_dir, "events.jsonl", 9)
    answer = invoke("score", made_dir)
    assert answer.exit_code == 1
    assert "last frame is 8" in answer.stderr
    assert "--partial" in answer.stderr
    assert not (made_dir / "score.json").exists()


def test_partial_score_is_printed_and_not_written(made_dir, invoke):
    cut_rows(made_dir, "events.jsonl", 13)
    answer = invoke("score", made_dir, "--partial", "--json")
    assert answer.exit_code == 0
    assert answer.json["complete"] is False
    assert answer.json["incomplete_visits"] == [3]
    assert not (made_dir / "score.json").exists()


def test_partial_score_says_so_to_people(made_dir, invoke):
    cut_rows(made_dir, "events.jsonl", 13)
    assert "PARTIAL: visits 3 " in invoke("score", made_dir, "--partial").stdout


OTHER_WINDOWS = [
    (("--window-frames", "3"), {"window_frames": 3}),
    (("--revisit-frames", "1"), {"revisit_frames": 1}),
    (("--bottom-k-frac", "1"), {"bottom_k_frac": 1.0}),
]


@pytest.mark.seed("000", "scoring-2")
@pytest.mark.parametrize(("options", "changes"), OTHER_WINDOWS)
def test_other_windows_are_printed_and_not_written(made_dir, invoke, options, changes):
    invoke("score", made_dir)
    before = (made_dir / "score.json").read_bytes()
    answer = invoke("score", made_dir, *options, "--json")
    assert answer.exit_code == 0
    assert_scored(made_dir, answer.json, **changes)
    own = json.loads(before)["benchmark_contract_hash"]
    assert answer.json["benchmark_contract_hash"] != own
    assert (made_dir / "score.json").read_bytes() == before


@pytest.mark.parametrize(("options", "changes"), OTHER_WINDOWS)
def test_other_windows_go_to_output(made_dir, tmp_path, invoke, options, changes):
    output = tmp_path / "other.json"
    answer = invoke("score", made_dir, *options, "--output", output)
    assert answer.exit_code == 0
    assert_scored(made_dir, json.loads(output.read_bytes()), **changes)
    assert not (made_dir / "score.json").exists()


def test_table_of_other_windows_names_them(made_dir, invoke):
    answer = invoke("score", made_dir, "--window-frames", "3")
    assert "last 3 frames" in " ".join(answer.stdout.split())


def test_window_out_of_range_is_a_usage_error(made_dir, invoke):
    answer = invoke("score", made_dir, "--window-frames", "0")
    assert answer.exit_code == 2
    assert "window_frames" in answer.stderr


# --- explanations -------------------------------------------------------------------


def test_explanation_shows_the_sums_behind_each_number(made_dir, invoke):
    answer = invoke("score", made_dir, "--explain", "a", "--json")
    names = ("window", "visit_idx", "first_frame", "last_frame", "reward_sum", "rate")
    assert [tuple(row[n] for n in names) for row in answer.json["explanation"]] == [
        ("score", 2, 10, 11, 4.0, 2.0),
        ("forgetting: pre", 0, 2, 3, 4.0, 2.0),
        ("forgetting: post", 2, 7, 8, 2.0, 1.0),
        ("plasticity: early", 0, 0, 1, 0.0, 0.0),
        ("plasticity: late", 0, 2, 3, 4.0, 2.0),
    ]
    assert {row["frames"] for row in answer.json["explanation"]} == {2}


def test_explanation_for_people(made_dir, invoke):
    answer = invoke("score", made_dir, "--explain", "b")
    assert "how b is scored" in answer.stdout
    assert "forgetting: pre" in answer.stdout


def test_explanation_is_not_written(made_dir, invoke):
    invoke("score", made_dir, "--explain", "a")
    assert "explanation" not in json.loads((made_dir / "score.json").read_bytes())


def test_explanation_follows_other_windows(made_dir, invoke):
    answer = invoke(
        "score", made_dir, "--explain", "a", "--window-frames", "3", "--json"
    )
    assert answer.json["explanation"][0]["first_frame"] == 9


def test_unknown_game_has_no_explanation_and_nothing_is_written(made_dir, invoke):
    answer = invoke("score", made_dir, "--explain", "nosuch")
    assert answer.exit_code == 2
    assert "'nosuch'" in answer.stderr
    assert not (made_dir / "score.json").exists()


# --- weights ------------------------------------------------------------------------


@pytest.mark.seed("000", "config-13", "scoring-4")
@pytest.mark.parametrize("weights", [[0.7, 0.3], (0.7, 0.3), [1, 0]])
def test_weights_are_a_list_as_in_the_contract(finished_run, weights):
    own, other = (
        score_run(finished_run),
        score_run(finished_run, final_score_weights=weights),
    )
    mean_w, bottom_w = weights
    expected = mean_w * own.mean_score + bottom_w * own.bottom_k_score
    assert other.final_score == pytest.approx(expected)
    assert other.benchmark_contract_hash != own.benchmark_contract_hash


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--weights", "0.7"), "--weights: expected two numbers as in 0.7,0.3"),
        (("--weights", "a,b"), "--weights: expected two numbers as in 0.7,0.3"),
        (("--weights", "-1,0"), "final_score_weights.0: expected at least 0"),
        (("--weights", "nan,0"), "final_score_weights.0: expected a finite number"),
    ],
)
def test_weights_that_are_none_are_refused(invoke, finished_run, options, message):
    answer = invoke("score", finished_run, *options)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())


@pytest.mark.seed("000", "scoring-3")
@pytest.mark.parametrize(
    "options",
    [("--weights", "0.7,0.3"), ("--bottom-k", 1), ("--revisit-frames", 20)],
)
def test_other_settings_are_written_to_output_alone(
    invoke, finished_run, tmp_path, options
):
    before = (finished_run / "score.json").read_bytes()
    printed = invoke("score", finished_run, *options, "--json").json
    assert printed != json.loads(before)
    out = tmp_path / "score.json"
    assert invoke("score", finished_run, *options, "--output", out).exit_code == 0
    assert json.loads(out.read_text()) == printed
    assert (finished_run / "score.json").read_bytes() == before
