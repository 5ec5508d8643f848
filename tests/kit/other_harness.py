"""Logs as the harness of the EvalLog's origin writes them: keys, types and layout.

Three generations. The older has the names of the specification, without the two fields
of the second repository; the newer renames some keys and adds others. In between, the
investigator was called a judge. Values are made up; no code of that harness is used.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Literal

Generation = Literal["older", "judged", "newer"]

EXPERIMENT_ID = "20260404_195953_clicker_web"
COMMIT = "f" * 40
TASKS = ("click", "type", "scroll")
FINDINGS = {
    "older": {"difficulty": "hard", "feasible": True, "failure_root_cause": "slow"},
    "judged": {"difficulty": None, "feasible": False, "failure_root_cause": "stuck"},
    "newer": {
        "analysis": "The page never loaded.",
        "evidence": [
            {"step": 6, "quote": "loading", "_type": "cube_harness.eval_log.Evidence"}
        ],
        "summary": "The agent waited.",
        "outcome": "failure",
        "primary_blame": "env_failure",
        "primary_blame_confidence": 4,
        "other_blames": [],
        "hypothesis": "Reload the page.",
        "hypothesis_confidence": 3,
    },
}
# Key of the older generation -> key of the newer one.
RENAMED = {
    "experiment_id": "evaluation_id",
    "task_id": "sample_id",
    "task_version_hash": "sample_hash",
    "success": "is_correct",
    "reward": "score",
    "error_type": "error",
    "n_steps": "num_turns",
    "prompt_tokens": "input_tokens",
    "completion_tokens": "output_tokens",
    "cached_tokens": "input_tokens_cache_read",
    "cache_creation_tokens": "input_tokens_cache_write",
}
JUDGED = {
    "investigator_llm_config": "judge_config",
    "investigated_at": "judged_at",
    "findings": "judge_output",
    "investigation_metadata": "judge_metadata",
}


def mark(kind: str, **values: Any) -> dict[str, Any]:
    """A record, with the name of its class last, as that harness writes it."""
    return {**values, "_type": f"cube_harness.eval_log.{kind}"}


def make_agent(generation: Generation, name: str) -> dict[str, Any]:
    config = {
        "llm_config": {"model_name": "small-1", "_type": "cube_harness.llm.LLMConfig"},
        "_type": f"cube_harness.agents.{name.lower()}.{name}",
    }
    text = json.dumps(config, sort_keys=True)
    agent: dict[str, Any] = {
        "agent_id": hashlib.sha256(text.encode()).hexdigest(),
        "config_type": config["_type"],
        "config": config,
        "llm_model": "small-1",
        "framework_version": "0.5.2",
        "dependency_versions": {"cube-harness": "0.5.2"},
        "git_commit": COMMIT,
        "git_remote_url": f"https://github.com/o/r/tree/{COMMIT}",
        "git_is_dirty": False,
        "description": None,
    }
    if generation == "newer":
        agent |= {
            "primary_dependencies": ["cube-harness"],
            "cube_standard_git_commit": None,
            "cube_standard_git_is_dirty": None,
        }
    return mark("AgentInfo", **agent)


def make_experiment(generation: Generation, name: str, n_tasks: int) -> dict[str, Any]:
    subset = {"name": "web_[level=l1]", "n_tasks": n_tasks, "filter": None}
    shared = {
        "experiment_name": f"{name}_web",
        "agent": make_agent(generation, name),
        "benchmark_name": "web_[level=l1]",
        "benchmark_version": "0.1.0",
    }
    investigator = {"model": "m", "prompt_version": "1", "investigated_at": "noon"}
    shared |= rename(
        generation,
        {
            "investigator_llm_config": mark(
                "InvestigatorLLMConfig", **rename(generation, investigator)
            )
        },
    )
    experiment_id = f"{EXPERIMENT_ID}_{name}"
    if generation == "older":
        return mark(
            "ExperimentRecord",
            experiment_id=experiment_id,
            timestamp=1_775_000_000.5,
            framework_version="0.5.2",
            benchmark_subset=mark("BenchmarkSubset", **subset),
            **shared,
        )
    if generation == "newer":
        subset["task_ids"] = None
        shared |= {"debug_limit": None, "is_official": None}
    return mark(
        "ExperimentRecord",
        evaluation_id=experiment_id,
        evaluation_timestamp=1_775_000_000.5,
        eval_library=mark("EvalLibrary", name="cube-harness", version="0.5.2"),
        benchmark_subset=mark("BenchmarkSubset", **subset),
        **shared,
    )


def make_episode(
    generation: Generation, name: str, task: str, reward: float, error: str | None
) -> dict[str, Any]:
    usage = {
        "prompt_tokens": 500,
        "completion_tokens": 200,
        "total_tokens": 700,
        "cached_tokens": 50,
        "cache_creation_tokens": 10,
        "total_cost_usd": 0.05,
        "n_llm_calls": 3,
    }
    record = {
        "experiment_id": f"{EXPERIMENT_ID}_{name}",
        "task_id": task,
        "task_version_hash": hashlib.sha256(task.encode()).hexdigest(),
        "seed": 42,
        "split": "test",
        "task_description": "",
        "tool_names": ["click", "scroll"],
        "success": reward > 0,
        "reward": reward,
        "error_type": error,
        "n_steps": 7,
        "n_agent_steps": 3,
        "n_env_steps": 4,
        "wall_time_s": 10.0,
        "usage": mark("UsageSummary", **rename(generation, usage)),
        "trajectory_id": f"{task}_ep0",
        "timestamp": 1_775_000_100.0,
        "verifier": None,
        "findings": None,
    }
    if generation != "older":
        record["investigation_metadata"] = None
    return mark("EpisodeRecord", **rename(generation, record))


def rename(generation: Generation, values: dict[str, Any]) -> dict[str, Any]:
    if generation == "older":
        return values
    names = RENAMED | (JUDGED if generation == "judged" else {})
    return {names.get(name, name): value for name, value in values.items()}


def write_log(
    directory: Path, generation: Generation, name: str, rewards: dict[str, float | str]
) -> Path:
    """Writes an experiment directory; the reward of a failed task is its error."""
    write_json(
        directory / "experiment_record.json",
        make_experiment(generation, name, len(TASKS)),
    )
    write_json(directory / "experiment_config.json", {"name": f"{name}_web"})
    for task, reward in rewards.items():
        error = reward if isinstance(reward, str) else None
        value = 0.0 if isinstance(reward, str) else reward
        record = make_episode(generation, name, task, value, error)
        folder = directory / "episodes" / f"{task}_ep0"
        write_json(folder / "episode_config.json", {"task_id": task})
        write_json(folder / "status.json", {"status": "COMPLETED"})
        write_json(folder / "episode_record.json", record)
    # An earlier try, which no reader counts.
    archived = directory / "episodes" / "click_ep0.archived_20260404"
    record = make_episode(generation, name, "click", 0.0, "TimeoutError")
    write_json(archived / "episode_record.json", record)
    return directory


def write_json(path: Path, document: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=2))
