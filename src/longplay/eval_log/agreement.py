"""Documents of a run -> do they agree, with each other, the plan and the row files?

An export checks what can be checked without reading rows, before it writes a line: the
settings against suite and seed, request and experiment against the settings, totals
against the visits, the chain's head against the last digest, the score against its hash
and, on the control track, against the totals, and the row files against their recorded
lengths. `validate` and `verify` read
the rows as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from longplay.claims import check_plan
from longplay.contract.config import RunConfig
from longplay.contract.digests import read_last_chain
from longplay.contract.documents import ControlScore, RunSummary, Score
from longplay.contract.files import hash_file, read_document, shorten
from longplay.contract.layout import (
    EXPERIMENT_CONFIG,
    RUN_REQUEST,
    ExperimentConfig,
    RunRequest,
)
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError
from longplay.plan import name_benchmark, name_trajectory

_TOTALS = ("frames", "decision_frames", "emulator_frames", "episodes")


def check_agreement(run: RunDirectory, experiment: ExperimentConfig | None) -> None:
    """Checks the documents of a run that has ended.

    Args:
        run: The run.
        experiment: The plan of its experiment.

    Raises:
        DocumentError: Names the file and the field of the first contradiction.
    """
    for contradiction in _find_contradictions(run, experiment):
        raise DocumentError(contradiction)


def _find_contradictions(
    run: RunDirectory, experiment: ExperimentConfig | None
) -> Iterator[str]:
    if run.has_config:
        yield from map(str, check_plan(run.config))
        yield from _check_request(run)
        if experiment is not None:
            yield from _check_experiment(run.config, experiment)
        if run.summary is not None:
            yield from _check_summary(run, run.summary)
    if run.summary is not None and run.summary.rows is not None:
        yield from _check_sizes(run.path, run.summary)
        yield from _check_chain_head(run.path / "digests.jsonl", run.summary)
    if run.status is not None and run.status.state == "COMPLETED":
        yield from _check_result(run)


def _compare(
    file: str, source: str, pairs: Mapping[str, tuple[Any, Any]]
) -> Iterator[str]:
    """Messages for (expected, found) pairs that differ."""
    for field, (expected, found) in pairs.items():
        is_same = expected == found
        if isinstance(expected, float) and isinstance(found, float):
            is_same = math.isclose(expected, found, rel_tol=1e-12, abs_tol=1e-12)
        if not is_same:
            yield (
                f"{file} {field}: expected {shorten(expected)} from {source}, "
                f"found {shorten(found)}"
            )


def _check_request(run: RunDirectory) -> Iterator[str]:
    if not (run.path / RUN_REQUEST).exists():
        return
    config, request = run.config, read_document(run.path / RUN_REQUEST, RunRequest)
    pairs = {
        "seed": (config.seed, request.seed),
        "suite": (config.suite, request.suite),
        "config_given": (config.config_given, request.config_given),
        "agent": (config.agent, request.agent),
        "trajectory_id": (
            name_trajectory(config.suite or "", config.seed or 0),
            request.trajectory_id,
        ),
    }
    yield from _compare(RUN_REQUEST, "config.json", pairs)


def _check_experiment(config: RunConfig, plan: ExperimentConfig) -> Iterator[str]:
    pairs = {
        "suite": (plan.suite, name_benchmark(config)),
        "config_given": (plan.config_given, config.config_given),
        "agent": (plan.agent, config.agent),
    }
    yield from _compare("config.json", EXPERIMENT_CONFIG, pairs)


def _check_summary(run: RunDirectory, summary: RunSummary) -> Iterator[str]:
    visits, planned = summary.visits, run.config.played_schedule
    totals = {
        name: (sum(getattr(visit, name) for visit in visits), getattr(summary, name))
        for name in _TOTALS
    }
    yield from _compare("run_summary.json", "its visits", totals)
    is_complete = run.status is None or run.status.state == "COMPLETED"
    if len(visits) > len(planned) or (is_complete and len(visits) < len(planned)):
        yield (
            f"run_summary.json visits: expected {len(planned)} from config.json, "
            f"found {len(visits)}"
        )
    for position, (visit, due) in enumerate(zip(visits, planned, strict=False)):
        pairs = {
            f"visits.{position}.{name}": (getattr(due, name), getattr(visit, name))
            for name in ("visit_idx", "cycle_idx", "game_id")
        }
        if is_complete:
            field = f"visits.{position}.frames"
            pairs[field] = (due.visit_frames, visit.frames)
        yield from _compare("run_summary.json", "config.json", pairs)


def _check_sizes(run_dir: Path, summary: RunSummary) -> Iterator[str]:
    for name, recorded in (summary.rows or {}).items():
        path = run_dir / name
        found = path.stat().st_size if path.is_file() else None
        pairs = {"length in bytes": (recorded.bytes, found)}
        yield from _compare(name, "run_summary.json", pairs)


def _check_chain_head(digests: Path, summary: RunSummary) -> Iterator[str]:
    if digests.is_file():
        pairs = {"chain_head": (read_last_chain(digests), summary.chain_head)}
        yield from _compare("run_summary.json", "digests.jsonl", pairs)


def _check_result(run: RunDirectory) -> Iterator[str]:
    """Checks status and score of a completed run; its readers refuse a missing one."""
    config, summary, status = run.config, run.summary, run.status
    if status is not None and summary is not None:
        pairs = {
            "frame": (summary.frames, status.frame),
            "frames_total": (config.total_frames, status.frames_total),
        }
        yield from _compare("status.json", "config.json and run_summary.json", pairs)
    name = "tuning.json" if config.is_tuning else "score.json"
    if summary is not None and summary.score_sha256 and (run.path / name).exists():
        hashes = {"SHA-256": (summary.score_sha256, hash_file(run.path / name))}
        yield from _compare(name, "run_summary.json score_sha256", hashes)
    if run.score is not None and summary is not None and not config.is_tuning:
        yield from _check_score(config, summary, run.score)


def _check_score(config: RunConfig, summary: RunSummary, score: Score) -> Iterator[str]:
    names = ("benchmark_contract_version", "benchmark_contract_hash")
    pairs: dict[str, tuple[Any, Any]] = {
        "frames": (config.total_frames, score.frames),
        "complete": (True, score.complete),
        **{name: (getattr(config, name), getattr(score, name)) for name in names},
    }
    yield from _compare("score.json", "config.json", pairs)
    if isinstance(score, ControlScore):
        yield from _compare("score.json", "run_summary.json", _sums(summary, score))


def _sums(summary: RunSummary, score: ControlScore) -> dict[str, tuple[Any, Any]]:
    """The totals of a control run: by the visits' sums, and as scored."""
    pairs: dict[str, tuple[Any, Any]] = {}
    for name, source in (
        ("cumulative_reward", "reward_sum"),
        ("cumulative_game_score", "game_reward_sum"),
    ):
        per_game: dict[str, float] = {}
        for visit in summary.visits:
            total = per_game.get(visit.game_id, 0.0) + getattr(visit, source)
            per_game[visit.game_id] = total
        pairs[name] = (math.fsum(per_game.values()), getattr(score, name))
        found = getattr(score, f"per_game_{name}")
        for game_id in {**per_game, **found}:
            field = f"per_game_{name}.{game_id}"
            pairs[field] = (per_game.get(game_id), found.get(game_id))
    return pairs
