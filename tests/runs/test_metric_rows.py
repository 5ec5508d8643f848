"""metrics.jsonl: windows of decisions, bit-identical after a stop, not replayed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import longplay
from longplay.agents.metrics import MeanMetrics
from longplay.errors import AgentError
from playing import play_run
from rows import read_rows

LOUD = """
import os, signal

def init(observation_shape, num_actions):
    return 0

def step(state, previous_observation, observation, reward):
    state += 1
    if state == {stop}:
        os.kill(os.getpid(), signal.SIGTERM)
    return state, 0, {{"count": state, "reward": reward}}

def save(state, directory):
    (directory / "state").write_text(str(state))

def load(directory):
    return int((directory / "state").read_text())
"""
# 2,500 decisions of pong, then 1,000 of breakout.
SETTINGS = {"games": ["pong", "breakout"], "base_visit_frames": 2500}


def write_agent(folder: Path, stop: int = -1) -> Path:
    path = folder / "loud.py"
    path.write_text(LOUD.format(stop=stop))
    return path


def test_a_row_every_thousand_decisions_and_at_visit_ends(tmp_path: Path):
    agent = str(write_agent(tmp_path))
    run_dir = play_run(
        "control-smoke-v1", agent, out=tmp_path / "e", overrides=SETTINGS
    ).run_dir
    rows = read_rows(run_dir / "metrics.jsonl")
    places = [(row["global_frame_idx"], row["visit_idx"]) for row in rows]
    assert places == [(999, 0), (1999, 0), (2499, 0), (3499, 1), (4499, 1), (4999, 1)]
    # Means of the decisions counted 1 … 1000, 1001 … 2000, 2001 … 2500 and so on.
    means = [500.5, 1500.5, 2250.5, 3000.5, 4000.5, 4750.5]
    assert [row["count"] for row in rows] == means
    assert list(rows[0]) == ["global_frame_idx", "visit_idx", "count", "reward"]
    summary = longplay.read_run(run_dir).summary
    assert [visit.metrics["count"] for visit in summary.visits] == [1250.5, 3750.5]


def test_windows_count_decisions_and_not_frames(tmp_path: Path):
    agent = str(write_agent(tmp_path))
    settings = {"games": ["qbert"], "num_cycles": 1, "base_visit_frames": 8100}
    run_dir = play_run(
        "stream-smoke-v1",
        agent,
        out=tmp_path / "e",
        overrides={**settings, "jitter_pct": 0.0},
    ).run_dir
    rows = read_rows(run_dir / "metrics.jsonl")
    events = read_rows(run_dir / "events.jsonl")
    decided = [e["global_frame_idx"] for e in events if e["is_decision_frame"]]
    ends = [row["global_frame_idx"] for row in rows]
    assert ends == [*decided[999::1000], 8099]


def test_an_agent_that_reports_nothing_has_no_file(finished_run: Path):
    assert not (finished_run / "metrics.jsonl").exists()


@pytest.mark.exhaustive
def test_a_resumed_run_has_the_same_metrics(tmp_path: Path, spawn: Callable):
    whole = play_run(
        "control-smoke-v1",
        str(write_agent(tmp_path)),
        out=tmp_path / "whole",
        overrides=SETTINGS,
    ).run_dir
    expected = (whole / "metrics.jsonl").read_bytes()
    folder = tmp_path / "stopping"
    folder.mkdir()
    # Asks to be stopped once; resumed from the checkpoint, it continues to count.
    agent, out = write_agent(folder, stop=3700), tmp_path / "stopped"
    options = (
        *("--set", 'games=["pong","breakout"]'),
        *("--set", "base_visit_frames=2500", "--quiet"),
    )
    first = spawn("run", "control-smoke-v1", "--agent", agent, "--out", out, *options)
    assert first.exit_code == 75, first.stderr
    (run_dir,) = (out / "episodes").iterdir()
    assert (run_dir / "metrics.jsonl").read_bytes() != expected
    answer = spawn("resume", out, "--agent", agent, "--quiet")
    assert answer.exit_code == 0, answer.stderr
    assert (run_dir / "metrics.jsonl").read_bytes() == expected


def test_a_metric_with_a_reserved_name_is_refused(tmp_path: Path):
    agent = write_agent(tmp_path)
    agent.write_text(agent.read_text().replace('"count"', '"visit_idx"'))
    settings = {"games": ["pong"], "base_visit_frames": 30}
    with pytest.raises(AgentError, match="'visit_idx' is reserved"):
        play_run("control-smoke-v1", str(agent), out=tmp_path / "e", overrides=settings)


def test_packs_keep_metrics_and_verify_ignores_them(tmp_path: Path, invoke: Callable):
    agent = str(write_agent(tmp_path))
    settings = {"games": ["pong"], "base_visit_frames": 60}
    run_dir = play_run(
        "control-smoke-v1", agent, out=tmp_path / "e", overrides=settings
    ).run_dir
    pack, unpacked = tmp_path / "run.longplay", tmp_path / "unpacked"
    assert invoke("pack", run_dir, "-o", pack).exit_code == 0
    assert invoke("unpack", pack, "-o", unpacked).exit_code == 0
    metrics = (run_dir / "metrics.jsonl").read_bytes()
    assert (unpacked / "metrics.jsonl").read_bytes() == metrics
    (unpacked / "metrics.jsonl").unlink()
    assert invoke("verify", unpacked).exit_code == 0


DIVERGING = """
def init(observation_shape, num_actions):
    return 0

def step(state, previous_observation, observation, reward):
    state += 1
    loss = float("nan") if state > 990 else 0.5
    return state, 0, {"loss": loss, "bad": float("inf")}
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("level", ["none", "process"])
def test_values_that_are_not_finite_are_left_out_and_counted(
    level: str, invoke: Callable, tmp_path: Path
):
    agent = tmp_path / "diverging.py"
    agent.write_text(DIVERGING)
    answer = invoke(
        *("run", "control-smoke-v1", "--agent", agent, "--out", tmp_path / "e"),
        *("--set", 'games=["pong"]', "--set", "base_visit_frames=1500"),
        *("--isolate", level),
    )
    assert answer.exit_code == 0, answer.stderr
    (run_dir,) = (tmp_path / "e" / "episodes").iterdir()
    first, second = read_rows(run_dir / "metrics.jsonl")
    assert (first["loss"], first["loss.non_finite"]) == (0.5, 10.0)
    assert (second["loss"], second["loss.non_finite"]) == (None, 500.0)
    assert (second["bad"], second["bad.non_finite"]) == (None, 500.0)
    (visit,) = longplay.read_run(run_dir).summary.visits
    assert (visit.metrics["loss"], visit.metrics["bad"]) == (0.5, None)
    assert visit.metrics["loss.non_finite"] == 510.0
    assert longplay.validate_run(run_dir).is_valid
    warning = "values of bad, loss that are not finite"
    assert " ".join(answer.stderr.split()).count(warning) == 1
    assert (run_dir / "agent_output.txt").read_text().count(warning) == 1


def test_an_agent_object_may_report_no_value(tmp_path: Path):
    agent = tmp_path / "silent.py"
    agent.write_text(
        "import math\n"
        "class Agent:\n"
        "    def __init__(self, num_actions, seed): pass\n"
        "    def step(self, *percept): return 0\n"
        "    def metrics(self): return {'loss': math.nan, 'size': None, 'n': 1}\n"
    )
    settings = {"games": ["pong"], "base_visit_frames": 30}
    run_dir = play_run(
        "control-smoke-v1", str(agent), out=tmp_path / "e", overrides=settings
    ).run_dir
    (row,) = read_rows(run_dir / "metrics.jsonl")
    assert (row["loss"], row["size"], row["n"]) == (None, None, 1.0)
    assert row["loss.non_finite"] == row["size.non_finite"] == 1.0


def test_counts_of_a_window_are_saved_with_the_agent():
    means = MeanMetrics()
    means.add({"loss": 2.0})
    means.add({"loss": float("-inf"), "other": float("nan")})
    restored = MeanMetrics()
    restored.restore(means.snapshot())
    expected = {
        "loss": 2.0,
        "other": None,
        "loss.non_finite": 1.0,
        "other.non_finite": 1.0,
    }
    assert restored.take() == means.take() == expected
