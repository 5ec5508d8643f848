"""Experiments and schedules of absurd sizes: commands answer within seconds."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from generated_runs import AGENT_CONFIG, AGENT_ID, write
from longplay.plan import plan_run

GOLDEN = Path(__file__).parent.parent / "golden" / "v1"
# Of this process; a few on an idle machine.
MOST_CPU_S = 40.0


def plan_experiment(folder: Path, seeds: int, overrides: dict[str, Any]) -> Path:
    """An experiment that is only planned."""
    suite = "stream-smoke-v1"
    plan = {
        "experiment_id": "0123456789abcdef",
        "experiment_name": "large",
        "suite": plan_run(suite, 0, overrides).benchmark_name,
        "seeds": list(range(seeds)),
        "n_tasks": seeds,
        "config_given": {"suite": suite, "overrides": overrides},
        "agent": {"config": AGENT_CONFIG, "agent_id": AGENT_ID},
    }
    folder.mkdir()
    write(folder / "experiment_config.json", plan)
    return folder


def answer_in_time(invoke: Callable[..., Any], *command: object) -> str:
    started_s = time.process_time()
    answer = invoke(*command)
    assert answer.exit_code == 0, answer.stderr
    assert time.process_time() - started_s < MOST_CPU_S
    return str(answer.stdout)


def test_dry_run_of_100_000_seeds(invoke):
    command = ("run", "stream-smoke-v1", "--dry-run", "--seeds", "0-99999")
    text = answer_in_time(invoke, *command)
    assert text.count("dry run: nothing was written") == 10
    assert "… and 99,990 more seeds" in text


@pytest.mark.exhaustive
@pytest.mark.parametrize("overrides", [{}, {"base_visit_frames": 77}])
def test_status_of_100_000_planned_seeds(invoke, tmp_path, overrides):
    folder = plan_experiment(tmp_path / "large", 100_000, overrides)
    assert answer_in_time(invoke, "status", folder).count("QUEUED") == 100_000


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_littered", [False, True])
def test_status_of_3_000_seeds_of_9_999_visits(invoke, tmp_path, is_littered):
    overrides = {"num_cycles": 3333, "base_visit_frames": 100}
    folder = plan_experiment(tmp_path / "large", 3_000, overrides)
    if is_littered:  # names that a run of another version could have
        for seed in range(9):
            (folder / "episodes" / f"other_seed-{seed}").mkdir(parents=True)
    assert answer_in_time(invoke, "status", folder).count("QUEUED") == 3_000


def test_show_of_many_visits(invoke, tmp_path):
    text = answer_in_time(invoke, "show", claim_visits(tmp_path / "run", 20_000))
    assert "… and 19,500 more visits" in text


@pytest.mark.exhaustive
def test_show_of_a_million_visits(invoke, tmp_path):
    answer_in_time(invoke, "show", claim_visits(tmp_path / "run", 1_000_000))


def claim_visits(run_dir: Path, visits: int) -> Path:
    """A run whose config has that many visits."""
    shutil.copytree(GOLDEN, run_dir)
    config = json.loads((run_dir / "config.json").read_text())
    visit = config["schedule"][0]
    config["schedule"] = [{**visit, "visit_idx": n} for n in range(visits)]
    (run_dir / "config.json").write_text(json.dumps(config))
    return run_dir
