"""Experiment directories made of documents alone: nothing is played."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from longplay.contract.files import render_document
from longplay.contract.layout import find_started_runs
from longplay.eval_log.records import EpisodeRecord, ExperimentRecord
from longplay.eval_log.run_records import (
    experiment_of,
    iter_run_records,
    read_experiment_id,
)
from longplay.eval_log.tasks import Benchmark
from longplay.plan import plan_run

SUITE = "stream-smoke-v1"
AGENT_CONFIG = {"_type": "longplay.agents.random.RandomAgent", "args": {}}
# SHA-256 of {"_type": "longplay.agents.random.RandomAgent", "args": {}}
AGENT_ID = "3e085336c69714249bd19f0f8d8061a1aff7724fd19aba8916bced23d505e1f1"
EXPERIMENT_ID = "0123456789abcdef"
STARTED = "2026-01-31T12:00:00.000Z"
STARTED_S = 1769860800.0
GAME_ACTIONS = {
    "centipede": ["NOOP", "FIRE", "UP"],
    "ms_pacman": ["NOOP", "LEFT", "RIGHT"],
    "qbert": ["NOOP", "FIRE", "DOWN"],
}


def write(path: Path, document: Any) -> None:
    path.write_bytes(render_document(document))


def edit(path: Path, **changes: Any) -> None:
    """Changes some keys of a document; None takes a key away."""
    document = json.loads(path.read_text())
    for key, value in changes.items():
        if value is None:
            del document[key]
        else:
            document[key] = value
    path.write_text(json.dumps(document))


def iter_records(directory: Path, level: str = "run") -> Iterator[EpisodeRecord]:
    """The records of an experiment or run directory, made from its summaries."""
    experiment_id = read_experiment_id(experiment_of(directory))
    return iter_run_records(find_started_runs(directory), experiment_id, level)


def run_dir_of(directory: Path, seed: int) -> Path:
    return directory / "episodes" / f"{SUITE}_seed-{seed}"


def write_plan(directory: Path, seeds: Sequence[int]) -> None:
    """Plans an experiment; its runs need not be there."""
    plan = {
        "experiment_id": EXPERIMENT_ID,
        "experiment_name": f"{SUITE}_random",
        "suite": SUITE,
        "seeds": list(seeds),
        "n_tasks": len(seeds),
        "config_given": {"suite": SUITE, "overrides": {}},
        "agent": {"config": AGENT_CONFIG, "agent_id": AGENT_ID},
    }
    write(directory / "experiment_config.json", plan)


def make_experiment(directory: Path, seeds: Iterable[int]) -> Path:
    """An experiment whose runs have all ended well."""
    directory.mkdir(parents=True)
    seeds = list(seeds)
    write_plan(directory, seeds or [0])
    for seed in seeds:
        make_run(run_dir_of(directory, seed), seed)
    return directory


def describe_experiment(directory: Path, n_seeds: int = 3) -> ExperimentRecord:
    """experiment_record.json of an experiment made here."""
    record = ExperimentRecord.from_experiment(
        "generated",
        directory,
        AGENT_CONFIG,
        Benchmark.from_suite(SUITE, range(n_seeds)),
        git_cwd=str(directory.parent),
    )
    return record.model_copy(update={"experiment_id": EXPERIMENT_ID})


def make_run(run_dir: Path, seed: int) -> Path:
    """A run directory without rows; rewards tell seed and visit."""
    run_dir.mkdir(parents=True)
    config = plan_run(SUITE, seed).config
    agent = {"config": AGENT_CONFIG, "agent_id": AGENT_ID}
    request = {
        "trajectory_id": f"{SUITE}_seed-{seed}",
        "task_id": f"{SUITE}/seed-{seed}",
        "suite": SUITE,
        "seed": seed,
        "config_given": {"suite": SUITE, "overrides": {}},
        "agent": agent,
        "agent_reference": "random",
    }
    write(run_dir / "episode_config.json", request)
    versions = {"longplay": "0.1.0", "ale_py": "0.12.1"}
    document = {**config.model_dump(mode="json"), "agent": agent, "versions": versions}
    write(run_dir / "config.json", document)
    write(run_dir / "run_summary.json", summarise(config.schedule, seed))
    frames = config.total_frames
    status = {**make_status("COMPLETED"), "frame": frames, "frames_total": frames}
    write(run_dir / "status.json", status)
    scored = {
        "frames": frames,
        "benchmark_contract_hash": config.benchmark_contract_hash,
    }
    write(run_dir / "score.json", {**make_score(0.25 + seed), **scored})
    return run_dir


def summarise(schedule: Iterable[Any], seed: int) -> dict[str, Any]:
    visits = [
        {
            "visit_idx": visit.visit_idx,
            "game_id": visit.game_id,
            "cycle_idx": visit.cycle_idx,
            "frames": visit.visit_frames,
            "decision_frames": visit.visit_frames // 4,
            "emulator_frames": visit.visit_frames,
            "reward_sum": 10.0 * seed + visit.visit_idx,
            "game_reward_sum": 10.0 * seed + visit.visit_idx,
            "episodes": 1,
            "wall_time_s": 0.5,
            "started_utc": STARTED,
            "action_names": GAME_ACTIONS[visit.game_id],
            "metrics": {},
        }
        for visit in schedule
    ]
    totals = {
        name: sum(visit[name] for visit in visits)
        for name in ("frames", "decision_frames", "emulator_frames", "episodes")
    }
    return {
        "schema_version": 1,
        **totals,
        "wall_time_s": 3.0,
        "fps": 4000.0,
        "segments": len(visits),
        "tries": 1,
        "started_utc": STARTED,
        "ended_utc": STARTED,
        "chain_head": None,
        "usage": None,
        "visits": visits,
    }


def make_status(state: str, error: str | None = None) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "state": state,
        "frame": 77,
        "frames_total": 12_000,
        "game_id": None,
        "fps": None,
        "heartbeat_utc": STARTED,
        "started_utc": STARTED,
        "pid": 1,
        "host": "somewhere",
        "retries": 0,
        "error": error
        and {"type": error, "message": "it broke", "frame": 77, "game": "qbert"},
    }


def make_score(final_score: float | None) -> dict[str, Any]:
    maps = ("scores", "episode_counts", "visit_frames", "forgetting", "plasticity")
    means = ("forgetting_index", "plasticity")
    return {
        "final_score": final_score,
        "mean_score": final_score,
        "bottom_k_score": final_score,
        **{f"per_game_{name}": {} for name in maps},
        **{f"{name}_{kind}": None for name in means for kind in ("mean", "median")},
        "fps": 4000.0,
        "frames": 12_000,
        "benchmark_contract_version": "v1",
        "benchmark_contract_hash": "0" * 64,
    }
