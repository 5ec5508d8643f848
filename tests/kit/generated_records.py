"""Episode records as plain JSON, as any harness could write them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from longplay.eval_log.records import (
    AgentInfo,
    BenchmarkSubset,
    ExperimentRecord,
)


def make_line(agent: str, task: str, reward: float, **changes: Any) -> dict[str, Any]:
    """A record without `_type` or version; agent ids are `<agent>-id`."""
    line = {
        "experiment_id": f"experiment-{agent}",
        "agent_id": f"{agent}-id",
        "agent_name": agent,
        "task_id": task,
        "task_version_hash": f"hash-{task}",
        "seed": None,
        "split": None,
        "task_description": None,
        "tool_names": [],
        "success": reward > 0,
        "reward": reward,
        "error_type": None,
        "n_steps": 1,
        "n_agent_steps": 1,
        "n_env_steps": 1,
        "wall_time_s": None,
        "usage": {},
        "trajectory_id": f"run-{task}",
        "timestamp": 1000.0,
    }
    line.update(changes)
    return {key: value for key, value in line.items() if value != "absent"}


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def make_experiment_record(agent: str, benchmark: str, n_tasks: int) -> dict[str, Any]:
    """experiment_record.json of the experiment that `make_line` names."""
    info = AgentInfo.from_agent_config({"_type": f"elsewhere.{agent}"})
    record = ExperimentRecord(
        experiment_id=f"experiment-{agent}",
        experiment_name=f"{benchmark}_{agent}",
        timestamp=0.0,
        framework_version="1",
        agent=info,
        benchmark_name=benchmark,
        benchmark_version=None,
        benchmark_subset=BenchmarkSubset(name=benchmark, n_tasks=n_tasks, filter=None),
    )
    document: dict[str, Any] = record.model_dump(mode="json")
    return document


def write_experiment_record(folder: Path, *args: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "experiment_record.json"
    path.write_text(json.dumps(make_experiment_record(*args)))
    return path
