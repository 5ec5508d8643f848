"""EvalLog records of control runs: rewards, steps and visits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import longplay
from longplay.eval_log.export import ExportOptions, export_jsonl
from longplay.plan import name_benchmark
from rows import read_rows


@pytest.fixture(scope="module")
def experiment(control_run: Path) -> Path:
    return control_run.parent.parent


def export(experiment: Path, folder: Path, level: Any) -> list[dict[str, Any]]:
    path = folder / "records.jsonl"
    export_jsonl(experiment, path, ExportOptions(level))
    return read_rows(path)


def test_reward_of_a_run_is_its_cumulative_reward(
    experiment: Path, control_run: Path, tmp_path: Path
) -> None:
    (record,) = export(experiment, tmp_path, "run")
    rows = read_rows(control_run / "events.jsonl")
    assert record["reward"] == sum(row["reward"] for row in rows)
    assert record["success"] is True


def test_environment_steps_are_emulator_frames(
    experiment: Path, control_run: Path, tmp_path: Path
) -> None:
    (record,) = export(experiment, tmp_path, "run")
    frames = sum(
        row["emulator_frames"] for row in read_rows(control_run / "events.jsonl")
    )
    steps = (record["n_steps"], record["n_agent_steps"], record["n_env_steps"])
    assert steps == (900, 900, frames)
    assert 900 < frames < 3600


def test_visits_are_described_in_timesteps(experiment: Path, tmp_path: Path) -> None:
    first, _ = export(experiment, tmp_path, "visit")
    description = first["task_description"]
    assert description.startswith("breakout for 450 timesteps, in cycle 0 of: ")


def test_rewards_of_visits_add_up_to_the_delivered_ones(
    experiment: Path, control_run: Path, tmp_path: Path
) -> None:
    records = export(experiment, tmp_path, "visit")
    rows = read_rows(control_run / "events.jsonl")
    assert [record["reward"] for record in records] == [
        sum(row["reward"] for row in rows if row["visit_idx"] == visit)
        for visit in (0, 1)
    ]
    suite = name_benchmark(longplay.read_run(control_run).config)
    assert [record["task_id"] for record in records] == [
        f"{suite}/breakout/cycle-0/seed-1",
        f"{suite}/asterix/cycle-0/seed-1",
    ]


def test_record_describes_the_task(experiment: Path, tmp_path: Path) -> None:
    (record,) = export(experiment, tmp_path, "run")
    words = record["task_description"]
    assert "breakout, asterix" in words
    assert "timesteps of 4 emulator frames" in words
