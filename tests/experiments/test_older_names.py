"""Runs of changed suites with older names are read by the name they carry."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import longplay
from longplay.eval_log.log import EvalLog
from longplay.experiments.experiment import Experiment, plan_seeds

OVERRIDES = {"games": ["pong", "qbert"], "base_visit_frames": 40}


@pytest.fixture
def older(tmp_path: Path) -> Experiment:
    """Two runs, named as before 0.2: after their contract hashes."""
    plans = plan_seeds("stream-smoke-v1", [1000, 1001], OVERRIDES, None)
    named = tuple(replace(plan, has_older_name=True) for plan in plans)
    experiment = Experiment.create(named, "random", out=tmp_path / "older")
    experiment.run_sequentially()
    return experiment


def test_they_are_found_and_valid(older: Experiment, invoke: Callable[..., Any]):
    names = {path.name for path in (older.directory / "episodes").iterdir()}
    assert names == {plan.trajectory_id for plan in older.plans}
    assert len({name.partition("_")[0] for name in names}) == 2
    for plan in older.plans:
        assert longplay.validate_run(older.run_dir(plan)).is_valid
    answer = invoke("status", older.directory, "--json")
    assert [run["state"] for run in answer.json] == ["COMPLETED"] * 2
    assert len(EvalLog.load(older.directory).episodes) == 2


def test_a_lost_run_is_played_again_under_its_older_name(
    older: Experiment, invoke: Callable[..., Any]
):
    lost = older.run_dir(older.plans[1])
    expected = (lost / "events.jsonl").read_bytes()
    shutil.rmtree(lost)
    answer = invoke("resume", older.directory, "--quiet")
    assert answer.exit_code == 0, answer.stderr
    assert (lost / "events.jsonl").read_bytes() == expected
    assert len(list((older.directory / "episodes").iterdir())) == 2
    assert longplay.validate_run(lost).is_valid


def test_a_foreign_folder_does_not_change_the_names(tmp_path: Path, invoke: Callable):
    out = tmp_path / "new"
    longplay.run("stream-smoke-v1", "random", out=out, overrides=OVERRIDES)
    (out / "episodes" / "notes").mkdir()
    answer = invoke("status", out, "--json")
    assert [run["state"] for run in answer.json] == ["COMPLETED"]
