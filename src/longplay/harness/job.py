"""One run to be played, as plain values that can travel to another process.

A job goes to a worker, an outcome comes back; results stay on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from longplay.agents.loading import LoadedAgent
from longplay.contract.records import RunState
from longplay.contract.rundir import RunDirectory
from longplay.errors import (
    AgentLoadError,
    ConfigError,
    LongplayError,
    ResumeError,
    RunCancelled,
    RunPreempted,
)
from longplay.harness.agent_config import AgentConfig
from longplay.harness.episode import (
    Episode,
    EpisodeConfig,
    announce_run,
    ignore_progress,
)
from longplay.harness.status import archive_try, mark_run
from longplay.plan import RunPlan
from longplay.runner import Observer
from longplay.trust.checkpoint import read_checkpoint
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
    # Whether nothing was done, because the run cannot go on.
    is_refused: bool = False
    # How a resumed run was taken up.
    went_on: str | None = None


@dataclass(frozen=True)
class Job:
    """What a worker needs to play a run."""

    episode: EpisodeConfig
    agent_reference: str
    run_dir: str
    retries: int
    # Whether to go on with what is there, or to say why not; never to start again.
    must_go_on: bool = False

    @classmethod
    def make(
        cls,
        plan: RunPlan,
        agent: LoadedAgent,
        run_dir: Path,
        retries: int,
        *,
        must_go_on: bool = False,
    ) -> Job:
        """Writes down a planned run."""
        return cls(
            episode=EpisodeConfig.make(plan, agent),
            agent_reference=agent.absolute_reference,
            run_dir=str(run_dir.absolute()),
            retries=retries,
            must_go_on=must_go_on,
        )

    @property
    def seed(self) -> int:
        """The run seed."""
        return self.episode.seed

    def load_agent(self) -> LoadedAgent:
        """The agent, in a process that has not got it yet."""
        config = AgentConfig.from_entry(self.episode.agent)
        return config.load(self.agent_reference, self.episode.agent_files)


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
        RunCancelled, RunPreempted: Somebody asked the run to stop.
    """
    run_dir = Path(job.run_dir)
    way = _choose_way(job)
    is_announced = way == "start" or not job.must_go_on
    if is_announced:
        announce_run(job.episode, run_dir, job.retries)
    try:
        agent = agent or job.load_agent()
        episode = Episode(job.episode.make_plan(), agent, run_dir, observer)
        if way == "start":
            episode.run(job.retries)
        else:
            episode.resume(job.retries)
    except ResumeError as error:
        if not job.must_go_on:
            archive_try(run_dir)
            return play_job(job, agent, observer, validation_workers)
        return Outcome(
            job.seed, job.run_dir, "FAILED", error=str(error), is_refused=True
        )
    except (RunCancelled, RunPreempted):
        raise
    except LongplayError as error:
        if isinstance(error, (AgentLoadError, ConfigError)) and is_announced:
            mark_run(run_dir, "FAILED", error)
        return Outcome(job.seed, job.run_dir, "FAILED", error=str(error))
    return replace(judge_run(job, validation_workers), went_on=episode.went_on)


def _choose_way(job: Job) -> Literal["start", "go on"]:
    """Goes on where there is something to go on with; archives what is no use."""
    run_dir = Path(job.run_dir)
    if not run_dir.exists():
        return "start"
    is_begun = (run_dir / "config.json").exists()
    checkpoint = read_checkpoint(run_dir)
    is_sound = checkpoint is not None and checkpoint.agent_dir is not None
    if is_begun and (is_sound or job.must_go_on):
        return "go on"
    archive_try(run_dir)
    return "start"


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
