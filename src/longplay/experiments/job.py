"""One run to be played, as plain values that can travel to another process.

A job goes to a worker and a result comes back; rows and documents stay on disk.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from longplay.agents.config import AgentConfig
from longplay.agents.loading import LoadedAgent
from longplay.analysis.tuning import write_tuning
from longplay.contract.layout import RunRequest
from longplay.contract.records import RunState, Score
from longplay.contract.rundir import RunDirectory
from longplay.errors import (
    AgentLoadError,
    ConfigError,
    LongplayError,
    ResumeError,
    RunCancelled,
    RunPreempted,
)
from longplay.plan import RunPlan
from longplay.runs.checkpoint import read_checkpoint
from longplay.runs.loop import Observer
from longplay.runs.session import (
    Session,
    announce_run,
    ignore_progress,
    request_run,
    write_run_score,
)
from longplay.runs.status import RunView, archive_try, mark_run
from longplay.validation import Report, validate_run


@dataclass(frozen=True)
class RunResult:
    """How a run ended.

    Attributes:
        seed: The run seed.
        run_dir: Where it is recorded.
        state: The state it ended in.
        report: What validation found; None if the run is not complete.
        error: What went wrong, in words.
        is_refused: Whether nothing was done, because the run cannot be resumed.
        resumed_from: How a stopped run was resumed, in words.
        exception: What went wrong, in the process that played the run.
    """

    seed: int
    run_dir: Path
    state: RunState
    report: Report | None = None
    error: str | None = None
    is_refused: bool = False
    resumed_from: str | None = None
    exception: LongplayError | None = field(default=None, compare=False, repr=False)

    @property
    def score(self) -> Score | None:
        """score.json of a run that is complete."""
        return RunDirectory(self.run_dir).score if self.state == "COMPLETED" else None

    @property
    def is_valid(self) -> bool | None:
        """Whether validation found nothing; None if it did not take place."""
        return None if self.report is None else self.report.is_valid


@dataclass(frozen=True)
class Job:
    """What a worker needs to play a run.

    Attributes:
        plan: The run.
        request: The same as it is written down, with the agent.
        agent_reference: Where a worker finds the agent.
        run_dir: Where to record it.
        retries: How many tries there were before.
        resume_only: Whether to continue what is on disk or say why not, and never to
            start again.
    """

    plan: RunPlan
    request: RunRequest
    agent_reference: str
    run_dir: Path
    retries: int
    resume_only: bool

    @classmethod
    def make(cls, view: RunView, agent: LoadedAgent, *, resume_only: bool) -> Job:
        """The job of a run that is not complete."""
        return cls(
            view.plan,
            request_run(view.plan, agent),
            agent.absolute_reference,
            view.run_dir.absolute(),
            view.retries,
            resume_only,
        )

    @property
    def seed(self) -> int:
        """The run seed."""
        return self.plan.seed

    def load_agent(self) -> LoadedAgent:
        """The agent, in a process that has not loaded it yet."""
        config = AgentConfig.from_entry(self.request.agent)
        return config.load(self.agent_reference, self.request.agent_files)

    def fail(self, error: LongplayError, *, is_refused: bool = False) -> RunResult:
        """The result of a run that could not be played to its end."""
        return RunResult(
            self.seed,
            self.run_dir,
            "FAILED",
            error=str(error),
            is_refused=is_refused,
            exception=error,
        )


def open_session(
    plan: RunPlan, agent: LoadedAgent, run_dir: Path, observer: Observer
) -> Session:
    """A session that ends with the result that the plan asks for.

    Raises:
        AgentLoadError: The agent cannot be built; nothing was written.
    """
    write_result = write_tuning if plan.config.is_tuning else write_run_score
    return Session(plan, agent, run_dir, observer, write_result)


def play_job(
    job: Job,
    agent: LoadedAgent | None = None,
    observer: Observer = ignore_progress,
    validation_workers: int = 1,
    session: Session | None = None,
) -> RunResult:
    """Plays, scores and validates one run; what goes wrong is in its result.

    Args:
        job: The run.
        agent: The agent, where it is loaded already.
        observer: Called with the progress.
        validation_workers: Processes that validate.
        session: The session, if it was built already to see whether it can be.

    Raises:
        RunCancelled, RunPreempted: Somebody asked the run to stop.
    """
    is_start = not _can_resume(job)
    is_announced = is_start or not job.resume_only
    if is_announced:  # before the agent is loaded, so that one that hangs there shows
        announce_run(job.plan, job.request, job.run_dir, job.retries)
    try:
        agent = agent or job.load_agent()
        session = session or open_session(job.plan, agent, job.run_dir, observer)
        if is_start:
            session.run(job.retries)
        else:
            session.resume(job.retries)
    except ResumeError as error:
        if job.resume_only:
            return job.fail(error, is_refused=True)
        archive_try(job.run_dir)
        return play_job(job, agent, observer, validation_workers)
    except (RunCancelled, RunPreempted):
        raise
    except LongplayError as error:
        if isinstance(error, (AgentLoadError, ConfigError)) and is_announced:
            mark_run(job.run_dir, "FAILED", error)
        return job.fail(error)
    result = judge_run(job, validation_workers)
    return replace(result, resumed_from=session.resumed_from)


def _can_resume(job: Job) -> bool:
    """Whether a try on disk can be continued; archives one that cannot."""
    if not job.run_dir.exists():
        return False
    is_begun = (job.run_dir / "config.json").exists()
    checkpoint = read_checkpoint(job.run_dir)
    is_sound = checkpoint is not None and checkpoint.agent_dir is not None
    if is_begun and (is_sound or job.resume_only):
        return True
    archive_try(job.run_dir)
    return False


def judge_run(job: Job, validation_workers: int = 1) -> RunResult:
    """The result of a run that is complete."""
    report = validate_run(job.run_dir, workers=validation_workers)
    return RunResult(job.seed, job.run_dir, "COMPLETED", report)
