"""Trackers: what they get, and that the run does not depend on them."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from longplay.contract.rundir import ROW_FILES, RunDirectory
from longplay.experiments import tracking
from longplay.experiments.experiment import plan_seeds
from longplay.runs.loop import Progress
from longplay.runs.options import RunOptions
from planning import plan_experiment

SHORT = {"games": ["qbert"], "num_cycles": 1, "base_visit_frames": 400, "jitter_pct": 0}

pytestmark = [
    # Of the trackers, about the packages they use themselves.
    pytest.mark.filterwarnings("default::DeprecationWarning"),
    pytest.mark.filterwarnings("default::UserWarning"),
    pytest.mark.filterwarnings("default::ResourceWarning"),
]


def play(out: Path, tracker: str | None) -> Path:
    experiment = plan_experiment("stream-smoke-v1", "random", out=out, overrides=SHORT)
    options = RunOptions(tracker=tracker)  # type: ignore[arg-type]
    experiment = replace(experiment, options=options)
    (result,) = experiment.run_sequentially()
    assert result.is_valid, result.error
    return result.run_dir


@pytest.fixture(scope="module")
def untracked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return play(tmp_path_factory.mktemp("untracked") / "out", None)


def check_same(run_dir: Path, untracked: Path) -> None:
    assert {p.name for p in run_dir.iterdir()} == {p.name for p in untracked.iterdir()}
    for name in ROW_FILES:
        assert (run_dir / name).read_bytes() == (untracked / name).read_bytes()


def test_tensorboard_reads_the_score(tmp_path, untracked, monkeypatch):
    monkeypatch.setattr("longplay.runs.loop._TICK_S", 0.0)  # so short a run has none
    run_dir = play(tmp_path / "out", "tensorboard")
    check_same(run_dir, untracked)
    from tensorboard.backend.event_processing.event_accumulator import (
        EventAccumulator,
    )

    (folder,) = (tmp_path / "out/tracking").iterdir()
    assert folder.name == run_dir.name
    events = EventAccumulator(str(folder))
    events.Reload()
    (score,) = events.Scalars("score/final_score")
    expected = RunDirectory(run_dir).score.final_score
    assert (score.step, score.value) == (400, pytest.approx(expected))
    assert events.Scalars("visit")[0].value == 0
    # A point per episode and per sixtieth of the visit, at the frames of the rows.
    run = RunDirectory(run_dir)
    episodes = run.episodes.numpy("end_global_frame_idx", "return")
    returns = events.Scalars("return/qbert")
    assert [point.step for point in returns] == list(episodes["end_global_frame_idx"])
    assert [point.value for point in returns] == pytest.approx(list(episodes["return"]))
    rates = events.Scalars("reward_rate/qbert")
    assert [point.step for point in rates][:3] == [6, 13, 19]  # windows of 7, 7, 6
    assert (len(rates), rates[-1].step) == (60, 399)
    expected = run.curves.rewards[0] / run.curves.frames[0]
    assert [point.value for point in rates] == pytest.approx(list(expected))


def test_wandb_works_offline(tmp_path, untracked, monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    run_dir = play(tmp_path / "out", "wandb")
    check_same(run_dir, untracked)
    (logged,) = (tmp_path / "out/tracking").glob("*/wandb/offline-run-*/*.wandb")
    assert b"score/final_score" in logged.read_bytes()


@pytest.mark.exhaustive
def test_wandb_without_an_account_is_refused(tmp_path, spawn):
    names = ("WANDB_MODE", "WANDB_API_KEY", "NETRC")
    environment = {k: v for k, v in os.environ.items() if k not in names}
    answer = spawn(
        *("run", "stream-smoke-v1", "--agent", "random", "--track", "wandb"),
        *("--set", "base_visit_frames=40", "--out", "out", "--quiet"),
        cwd=tmp_path,
        env={**environment, "HOME": str(tmp_path), "WANDB_SILENT": "true"},
        stdin=subprocess.DEVNULL,
    )
    assert answer.exit_code == 2
    assert "error: --track wandb: " in answer.stderr
    assert "WANDB_MODE=offline" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "out").exists()


class Written:
    def __init__(self) -> None:
        self.rows: list[tuple[int, dict[str, float]]] = []

    def write(self, frame, values) -> None:
        self.rows.append((frame, dict(values)))

    def close(self) -> None:
        pass


def make_progress(frame: int, first_frame: int = 0) -> Progress:
    return Progress(
        frame=frame,
        frames_total=100,
        game_id="qbert",
        visit_idx=0,
        visits_total=1,
        cycle_idx=0,
        last_return=None,
        elapsed_s=2.0,
        first_frame=first_frame,
    )


def start_tracking(run_dir: Path) -> tuple[tracking.Tracking, Written]:
    (plan,) = plan_seeds("stream-smoke-v1", [1000], SHORT)
    written = Written()
    return tracking.Tracking(written, tracking.RunRows(run_dir, plan)), written


def test_at_most_one_write_per_second(tmp_path, monkeypatch):
    clock = iter([0.0, 0.5, 0.999, 1.0, 1.5, 2.5])
    monkeypatch.setattr(tracking.time, "monotonic", lambda: next(clock))
    tracked, written = start_tracking(tmp_path)
    seen: list[int] = []
    watch = tracking.watch_both(lambda progress: seen.append(progress.frame), tracked)
    for frame in range(6):
        watch(make_progress(frame))
    assert seen == [0, 1, 2, 3, 4, 5]
    assert [frame for frame, _ in written.rows] == [0, 3, 5]
    assert written.rows[1][1] == {"fps": 1.5, "visit": 0.0}


def test_rows_are_sent_once_and_whole_and_not_those_before_a_resume(tmp_path):
    tracked, written = start_tracking(tmp_path)
    rows = tmp_path / "metrics.jsonl"
    line = '{{"global_frame_idx":{},"visit_idx":0,"loss":{}}}\n'.format
    rows.write_text(line(9, 1.0) + line(19, 2.0) + line(29, "null") + line(39, 4.0)[:9])
    tracked.observe(make_progress(40, first_frame=10))
    rows.write_text(rows.read_text()[:-9] + line(39, 4.0))
    tracked.send_rows()
    sent = [
        (frame, row["agent/loss"]) for frame, row in written.rows if "fps" not in row
    ]
    assert sent == [(19, 2.0), (39, 4.0)]


def test_another_tracker_is_refused(invoke):
    answer = invoke("run", "stream-smoke-v1", "--agent", "random", "--track", "paper")
    assert answer.exit_code == 2
    assert "--track: expected tensorboard or wandb, found 'paper'" in answer.stderr


def test_missing_tracker_leaves_no_folder(invoke, tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    out = tmp_path / "out"
    command = ("run", "stream-smoke-v1", "--agent", "random", "--seed", "1000")
    answer = invoke(*command, "--track", "tensorboard", "--out", out)
    assert answer.exit_code != 0
    assert "--track tensorboard needs it" in answer.stderr
    assert not out.exists()
