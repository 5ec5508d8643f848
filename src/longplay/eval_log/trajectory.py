"""Run directory -> the data that records need.

Documents are read when asked for, events never. Each visit of a run can be looked at as
a trajectory of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from math import isnan
from pathlib import Path
from typing import Any

from longplay.console.base import ACTION_NAMES
from longplay.contract.config import RunConfig
from longplay.contract.documents import (
    PredictionScore,
    RunState,
    RunSummary,
    TuningRecord,
    VisitSummary,
)
from longplay.contract.files import read_document
from longplay.contract.layout import (
    EXPERIMENT_CONFIG,
    RUN_REQUEST,
    RunRequest,
    find_experiment,
    read_experiment_config,
)
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError
from longplay.eval_log.evidence import Evidence, read_evidence
from longplay.eval_log.tasks import TaskMetadata
from longplay.plan import name_trajectory, plan_again


def describe_actions(names: Iterable[str]) -> list[dict[str, str]]:
    """Action names -> the EvalLog's action schemas, in the emulator's order."""
    had = set(names)
    return [
        {"name": name, "description": f"Joystick input, action {index} of 18."}
        for index, name in enumerate(ACTION_NAMES)
        if name in had
    ]


@dataclass(frozen=True)
class PlainTrajectory:
    """A visit of a run, or a run of another tool, as a trajectory."""

    id: str
    metadata: dict[str, Any]
    summary_stats: dict[str, Any]
    reward_info: dict[str, float]
    start_time: float | None
    error_type: str | None
    task_metadata: TaskMetadata | None
    evidence: Evidence


class Trajectory:
    """One run, with the interface that records expect."""

    def __init__(self, run_dir: Path) -> None:
        self.run = RunDirectory(run_dir)

    @property
    def id(self) -> str:
        """Id of the run, independent of its folder's name."""
        config = self.config
        if config.suite is None or config.seed is None:
            return self.run.path.absolute().name
        return name_trajectory(config.suite, config.seed)

    @property
    def state(self) -> RunState:
        """The state of the run; a run without a status counts as ended."""
        status = self.run.status
        return "COMPLETED" if status is None else status.state

    @cached_property
    def task_metadata(self) -> TaskMetadata:
        """The task of the run."""
        return TaskMetadata.from_config(self.config)

    @cached_property
    def metadata(self) -> dict[str, Any]:
        """Task, agent and actions."""
        return {
            **self._identity(self.task_metadata),
            "action_schemas": describe_actions(
                name for visit in self._visits for name in visit.action_names
            ),
        }

    def _identity(self, task: TaskMetadata) -> dict[str, Any]:
        entry = self.config.agent
        return {
            "task_id": task.task_id,
            "seed": task.seed,
            "agent_id": entry and entry.agent_id,
            "agent_name": entry and entry.shown_name,
            "tuning_frames": self._tuning_frames,
        }

    @cached_property
    def config(self) -> RunConfig:
        """config.json, or its planned content if the run failed before writing it."""
        is_there = (self.run.path / "config.json").exists()
        if is_there or self.state == "COMPLETED" or self._request is None:
            return self.run.config
        request = self._request
        plan = plan_again(request.config_given, request.seed, request.suite)
        return plan.config.model_copy(update={"agent": request.agent})

    @cached_property
    def _tuning_frames(self) -> int | None:
        """The tuning budget that the plan of its experiment states."""
        plan = find_experiment(self.run.path) / EXPERIMENT_CONFIG
        if not plan.is_file():
            return None
        return _read_tuning_frames(plan.parent, plan.stat().st_mtime_ns)

    @cached_property
    def _request(self) -> RunRequest | None:
        path = self.run.path / RUN_REQUEST
        return read_document(path, RunRequest) if path.exists() else None

    @cached_property
    def _summary(self) -> RunSummary | None:
        """run_summary.json; only a failed run may lack it."""
        if self.run.summary is None and self.state == "COMPLETED":
            raise DocumentError(f"run_summary.json: missing in {self.run.path}")
        return self.run.summary

    @property
    def _visits(self) -> tuple[VisitSummary, ...]:
        return () if self._summary is None else self._summary.visits

    @cached_property
    def summary_stats(self) -> dict[str, Any]:
        """Steps, seconds, and the usage that the agent reports."""
        summary, status = self._summary, self.run.status
        if summary is None:
            frames = 0 if status is None else status.frame
            return {"n_steps": frames, "n_agent_steps": 0, "n_env_steps": 0}
        return {**(summary.usage or {}), **_count(summary)}

    @property
    def reward(self) -> float:
        """The score as a reward; 0.0 where it is null, or the run failed.

        Raises:
            DocumentError: The run ended well and was not scored.
        """
        if self.state != "COMPLETED":
            return 0.0
        if self.config.is_tuning:
            tuned = read_document(self.run.path / "tuning.json", TuningRecord)
            return tuned.value or 0.0
        if self.run.score is None:
            raise DocumentError(
                f"score.json: missing in {self.run.path}; "
                f"`longplay score {self.run.path}` writes it"
            )
        return self.run.score.reward

    @property
    def reward_info(self) -> dict[str, float]:
        """The reward, as trajectories carry it."""
        return {"reward": self.reward}

    @property
    def error_type(self) -> str | None:
        """The class of the error that ended the run; None if the run completed."""
        status = self.run.status
        if status is None or status.error is None:
            return None if self.state == "COMPLETED" else self.state
        return status.error.type

    @cached_property
    def start_time(self) -> float:
        """Start of the run, in Unix seconds."""
        if self._summary is not None:
            return _parse_utc(self._summary.started_utc)
        status = self.run.status
        return 0.0 if status is None else _parse_utc(status.started_utc)

    @cached_property
    def evidence(self) -> Evidence:
        """Hashes and versions by which the run's record can be checked."""
        return read_evidence(self.run)

    def _visit_rewards(self) -> list[float]:
        """The reward of each visit, from that visit alone."""
        score = self.run.score if self.state == "COMPLETED" else None
        games = {visit.game_id for visit in self._visits}
        has_revisits = len(games) < len(self._visits)
        curves = self.run.curves if has_revisits else None
        if isinstance(score, PredictionScore) and curves is not None:
            # The score of a game is about all its visits.
            errors = curves.normalised_errors().tolist()
            return [0.0 if isnan(error) else 1.0 - error for error in errors]
        score_type = self.config.score_type
        return [score_type.visit_reward(visit, score) for visit in self._visits]

    def visits(self) -> Iterator[PlainTrajectory]:
        """The started visits, each as a trajectory.

        An error belongs to the visit it ended. What an agent used is known of the
        whole run alone.
        """
        for visit, reward in zip(self._visits, self._visit_rewards(), strict=True):
            task = TaskMetadata.from_visit(self.config, visit)
            yield PlainTrajectory(
                id=f"{self.id}/visit-{visit.visit_idx}",
                metadata={
                    **self._identity(task),
                    "action_schemas": describe_actions(visit.action_names),
                },
                summary_stats=_count(visit),
                reward_info={"reward": reward},
                start_time=_parse_utc(visit.started_utc),
                error_type=self.error_type if visit is self._visits[-1] else None,
                task_metadata=task,
                evidence=self.evidence,
            )


@lru_cache(maxsize=16)
def _read_tuning_frames(experiment: Path, mtime_ns: int) -> int | None:
    """Cached: all runs of an experiment share its plan."""
    return read_experiment_config(experiment).tuning_frames


def _count(played: RunSummary | VisitSummary) -> dict[str, Any]:
    return {
        "n_steps": played.frames,
        "n_agent_steps": played.decision_frames,
        "n_env_steps": played.emulator_frames,
        "wall_time_s": played.wall_time_s,
    }


def _parse_utc(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
