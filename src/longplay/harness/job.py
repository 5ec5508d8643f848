"""One run to be played, as plain values that can travel to another process.

A job goes to a worker, an outcome comes back; results stay on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from longplay.agents.base import LoadedAgent
from longplay.contract.records import RunState
from longplay.contract.rundir import RunDirectory
from longplay.errors import LongplayError, RunCancelled
from longplay.harness.agent_config import AgentConfig
from longplay.harness.episode import (
    Episode,
    EpisodeConfig,
    announce_run,
    ignore_progress,
)
from longplay.harness.status import mark_run
from longplay.plan import RunPlan
from longplay.runner import Observer
from longplay.validation import validate_run


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    seed: int
    run_dir: str
    state: RunState
    final_score: float | None = None
    is_valid: bool | None = None
    error: str | None = None


@dataclass(frozen=True)
class Job:
    """What a worker needs to play a run."""

    episode: EpisodeConfig
    agent_reference: str
    run_dir: str
    retries: int

    @classmethod
    def make(
        cls, plan: RunPlan, agent: LoadedAgent, run_dir: Path, retries: int
    ) -> Job:
        """Writes down a planned run."""
        return cls(
            episode=EpisodeConfig.make(plan, agent),
            agent_reference=agent.absolute_reference,
            run_dir=str(run_dir.absolute()),
            retries=retries,
        )

    @property
    def seed(self) -> int:
        """The run seed."""
        return self.episode.seed

    def load_agent(self) -> LoadedAgent:
        """The agent, in a process that has not got it yet."""
        return AgentConfig.from_entry(self.episode.agent).load(self.agent_reference)


def play_job(
    job: Job,
    agent: LoadedAgent | None = None,
    observer: Observer = ignore_progress,
    validation_workers: int = 1,
) -> Outcome:
    """Plays, scores and validates one run; what goes wrong is its outcome.

    Args:
        job: The run.
        agent: The agent, where it is loaded already.
        observer: Called with the progress.
        validation_workers: Processes that validate.

    Raises:
        RunCancelled: Somebody asked the run to stop.
    """
    run_dir = Path(job.run_dir)
    announce_run(job.episode, run_dir, job.retries)
    try:
        agent = agent or job.load_agent()
        episode = Episode(job.episode.make_plan(), agent, run_dir, observer)
    except LongplayError as error:
        mark_run(run_dir, "FAILED", error)
        return Outcome(job.seed, job.run_dir, "FAILED", error=str(error))
    try:
        episode.run(job.retries)
    except RunCancelled:
        raise
    except LongplayError as error:
        return Outcome(job.seed, job.run_dir, "FAILED", error=str(error))
    return judge_run(job, validation_workers)


def judge_run(job: Job, validation_workers: int = 1) -> Outcome:
    """The outcome of a run that is complete."""
    run_directory = RunDirectory(Path(job.run_dir))
    report = validate_run(run_directory.path, workers=validation_workers)
    score = run_directory.score
    return Outcome(
        job.seed,
        job.run_dir,
        "COMPLETED",
        None if score is None else score.headline,
        report.is_valid,
    )
