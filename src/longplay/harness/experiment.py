"""Agent x suite x seed -> an experiment directory.

runs/<UTC>_<suite>_<agent>_<8 hex>/        or exactly DIR with --out DIR
  experiment_config.json                   what was planned, before the first frame
  experiment_summary.json                  how it ended
  episodes/<suite>_seed-<n>/               the run directory
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longplay.agents.base import LoadedAgent, load_agent
from longplay.contract.files import make_directory, read_document, write_document
from longplay.contract.records import RunStatus, Score
from longplay.contract.version import SCHEMA_VERSION
from longplay.errors import OutputError
from longplay.harness.episode import Episode, ignore_progress
from longplay.plan import RunPlan, plan_run
from longplay.runner import Observer
from longplay.scoring.streaming import score_run, write_score
from longplay.validation import Report, validate_run

if TYPE_CHECKING:
    from longplay.agents.base import StreamingAgent


@dataclass(frozen=True)
class RunResult:
    """What a finished run left behind."""

    experiment_dir: Path
    run_dir: Path
    score: Score
    report: Report


@dataclass(frozen=True)
class Experiment:
    """One agent on one suite: one planned run, in one directory."""

    plan: RunPlan
    agent: LoadedAgent
    directory: Path

    @property
    def name(self) -> str:
        """What the experiment is called in records."""
        return f"{self.plan.suite_name}_{self.agent.name}"

    @property
    def run_dir(self) -> Path:
        """Where the run is recorded."""
        return self.directory / "episodes" / self.plan.trajectory_id

    def run(
        self, observer: Observer = ignore_progress, validation_workers: int = 1
    ) -> RunResult:
        """Plays, scores and validates, and writes the experiment's own files.

        Raises:
            OutputError: The folder exists, or the disk is too small.
            AgentLoadError: The agent cannot be built; nothing was written.
            RunCancelled, RunFailed: The run ended early; its status says why.
        """
        self._check_output()
        episode = Episode(self.plan, self.agent, self.run_dir, observer)
        make_directory(self.directory)
        write_document(self.directory / "experiment_config.json", self._describe())
        score = None
        try:
            episode.run()
            score = score_run(self.run_dir)
            write_score(self.run_dir, score)
        finally:
            self._summarise(score)
        report = validate_run(self.run_dir, workers=validation_workers)
        return RunResult(self.directory, self.run_dir, score, report)

    def _check_output(self) -> None:
        if self.directory.exists():
            raise OutputError(
                f"{self.directory} exists already; give --out a folder that does not"
            )
        parents = self.directory.absolute().parents
        existing = next(parent for parent in parents if parent.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise OutputError(
                f"cannot make {self.directory}: {existing} is not a folder that can be "
                "written to; give --out another one"
            )
        needed_mb = self.plan.expected_bytes / 1e6
        free_mb = shutil.disk_usage(existing).free / 1e6
        if free_mb < needed_mb:
            raise OutputError(
                f"the run needs about {needed_mb:,.0f} MB of disk, {existing} has "
                f"{free_mb:,.0f} MB free; make room, or give --out a folder elsewhere"
            )

    def _describe(self) -> dict[str, Any]:
        """experiment_config.json: the plan, before the first frame."""
        return {
            "schema_version": SCHEMA_VERSION,
            "experiment_id": self._experiment_id(),
            "experiment_name": self.name,
            "suite": self.plan.suite_name,
            "seeds": [self.plan.seed],
            "n_tasks": 1,
            "config_given": self.plan.given.model_dump(),
            "agent": self.agent.entry.model_dump(),
        }

    def _experiment_id(self) -> str:
        text = f"{self.name}{self.directory.absolute()}"
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def _summarise(self, score: Score | None) -> None:
        """experiment_summary.json: how each run ended."""
        if not (self.run_dir / "status.json").exists():
            return
        status = read_document(self.run_dir / "status.json", RunStatus)
        write_document(
            self.directory / "experiment_summary.json",
            {
                "schema_version": SCHEMA_VERSION,
                "experiment_id": self._experiment_id(),
                "experiment_name": self.name,
                "suite": self.plan.suite_name,
                "n_tasks": 1,
                "runs": [
                    {
                        "trajectory_id": self.plan.trajectory_id,
                        "task_id": self.plan.task_id,
                        "seed": self.plan.seed,
                        "state": status.state,
                        "frames": status.frame,
                        "frames_total": status.frames_total,
                        "final_score": score and score.final_score,
                        "error": status.error and status.error.model_dump(),
                    }
                ],
            },
        )


def default_directory(plan: RunPlan, agent: LoadedAgent) -> Path:
    """runs/<UTC>_<suite>_<agent>_<8 hex>, in the working directory."""
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    agent_name = re.sub(r"[^A-Za-z0-9._-]+", "-", agent.name)
    name = f"{started}_{plan.suite_name}_{agent_name}_{secrets.token_hex(4)}"
    return Path("runs") / name


def run(
    suite: str,
    agent: str | Callable[..., StreamingAgent],
    *,
    seed: int = 0,
    out: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    agent_args: Mapping[str, Any] | None = None,
    observer: Observer = ignore_progress,
) -> RunResult:
    """Sends an agent through a suite, and scores and validates the run.

    Args:
        suite: Id of a suite (`longplay suites`).
        agent: A name, `file.py[:attr]`, `module:attr`, or a class or factory called
            as `agent(num_actions, seed, **agent_args)`.
        seed: Run seed: schedule, emulators and agent follow from it.
        out: Experiment directory to make; one under `runs/` if not given.
        overrides: Settings of the suite to change.
        agent_args: Arguments for the agent.
        observer: Called with the progress a few times per second.

    Returns:
        The folders, the score and the validation report.
    """
    plan = plan_run(suite, seed, overrides)
    loaded = load_agent(agent, agent_args)
    directory = Path(out) if out is not None else default_directory(plan, loaded)
    return Experiment(plan, loaded, directory).run(observer)
