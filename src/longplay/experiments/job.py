"""One run to play, as plain values that can be sent to another process.

A worker gets a job and returns a result; rows and documents stay on disk.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from pathlib import Path

from longplay.agents.isolation.levels import Isolation
from longplay.agents.source.config import AgentConfig
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.documents import RunState, Score
from longplay.contract.files import read_document
from longplay.contract.layout import RUN_REQUEST, RunRequest
from longplay.contract.rundir import RunDirectory
from longplay.errors import (
    LongplayError,
    ResumeError,
    RunCancelled,
    RunPreempted,
)
from longplay.experiments.tracking import track_run, watch_both
from longplay.experiments.tuned_score import write_tuning
from longplay.plan import RunPlan
from longplay.runs.checkpoint import read_checkpoint
from longplay.runs.loop import Observer
from longplay.runs.options import DEFAULT_OPTIONS, RunOptions
from longplay.runs.session import Session, ignore_progress
from longplay.runs.status import (
    STALL_TIMEOUT_S,
    RunView,
    archive_try,
    mark_run,
    read_status,
)
from longplay.runs.writer import RunWriter, request_run, write_run_score
from longplay.validation import Report, RunRows, validate_run


@dataclass(frozen=True)
class RunResult:
    """The result of a run.

    Attributes:
        seed: The run seed.
        run_dir: The run directory.
        state: The final state.
        report: The validation report; None if the run is not complete.
        error: The message of the error that ended the run.
        is_refused: Whether nothing was done because the run cannot be resumed.
        resumed_from: How a stopped run was resumed, as text.
        exception: The error itself, if the run was played in this process.
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
        """score.json of a completed run, else None."""
        return RunDirectory(self.run_dir).score if self.state == "COMPLETED" else None

    @property
    def is_valid(self) -> bool | None:
        """Whether validation passed; None if the run was not validated."""
        return None if self.report is None else self.report.is_valid

    def _repr_html_(self) -> str:
        """The run as a notebook shows it."""
        return RunDirectory(self.run_dir)._repr_html_()


@dataclass(frozen=True)
class Needs:
    """What a run needs of the machine that plays it; Ray places it accordingly.

    Attributes:
        cpus: Processors.
        gpus: Graphics processors; may be a fraction.
        memory_gb: Memory in GB (10^9 bytes); None to reserve none.
    """

    cpus: float = 1.0
    gpus: float = 0.0
    memory_gb: float | None = None

    @property
    def resources(self) -> dict[str, float]:
        """The same by Ray's names; memory in bytes."""
        wanted = {
            "CPU": self.cpus,
            "GPU": self.gpus,
            "memory": (self.memory_gb or 0.0) * 10**9,
        }
        return {name: amount for name, amount in wanted.items() if amount > 0}

    def __str__(self) -> str:
        """`2 CPUs, 1 GPU, 8 GB`."""
        parts = [f"{self.cpus:g} CPU{'s' * (self.cpus != 1)}"]
        if self.gpus:
            parts.append(f"{self.gpus:g} GPU{'s' * (self.gpus != 1)}")
        if self.memory_gb:
            parts.append(f"{self.memory_gb:g} GB")
        return ", ".join(parts)


ONE_CPU = Needs()


@dataclass(frozen=True)
class RayPlace:
    """Where Ray plays runs, and when it gives up on one.

    Attributes:
        workers: Parallel runs on a Ray instance that is started on this machine.
        address: Address of a running cluster, instead of `workers`.
        retries: Restarts of a run whose worker was lost.
        stall_timeout_s: A run without a heartbeat for this long counts as lost.
    """

    workers: int | None = None
    address: str | None = None
    retries: int = 1
    stall_timeout_s: float = STALL_TIMEOUT_S


@dataclass(frozen=True)
class Job:
    """The input of a worker that plays a run.

    Attributes:
        plan: The run.
        request: The run and its agent as recorded on disk.
        agent_spec: The agent, as a worker can load it.
        run_dir: The run directory.
        retries: Number of earlier attempts.
        resume_only: Whether to fail instead of restarting a run that cannot be
            resumed.
        needs: What it needs of its machine.
        options: How it is played.
    """

    plan: RunPlan
    request: RunRequest
    agent_spec: str
    run_dir: Path
    retries: int
    resume_only: bool
    needs: Needs = ONE_CPU
    options: RunOptions = DEFAULT_OPTIONS

    @classmethod
    def make(
        cls,
        view: RunView,
        agent: LoadedAgent,
        *,
        resume_only: bool,
        needs: Needs = ONE_CPU,
        options: RunOptions = DEFAULT_OPTIONS,
    ) -> Job:
        """The job of an incomplete run, which keeps the states it was to keep."""
        started = view.run_dir / RUN_REQUEST
        if started.is_file():
            options = options.continue_request(read_document(started, RunRequest))
        return cls(
            view.plan,
            request_run(view.plan, agent, options),
            agent.absolute_spec,
            view.run_dir.absolute(),
            view.retries,
            resume_only,
            needs,
            options,
        )

    @property
    def seed(self) -> int:
        """The run seed."""
        return self.plan.seed

    def load_agent(self) -> LoadedAgent:
        """The agent, in a process that has not loaded it yet."""
        config = AgentConfig.from_entry(self.request.agent)
        isolation = Isolation.from_record(self.request.agent_isolation)
        agent = config.load(self.agent_spec, self.request.agent_files, isolation)
        return agent.with_name(self.request.agent.name)

    def check(self) -> None:
        """Refuses a job whose inputs were changed, before anything is written."""

    def can_resume(self) -> bool:
        """Whether the run on disk can be resumed; archives it otherwise."""
        if not self.run_dir.exists():
            return False
        is_started = (self.run_dir / "config.json").exists()
        checkpoint = read_checkpoint(self.run_dir)
        is_sound = checkpoint is not None and checkpoint.agent_dir is not None
        if is_started and (is_sound or self.resume_only):
            return True
        archive_try(self.run_dir)
        return False

    def open_session(self, agent: LoadedAgent, observer: Observer) -> Session:
        """The session that plays it; raises as `open_session`."""
        return open_session(self.plan, agent, self.run_dir, observer, self.options)

    def validate(self, rows: RunRows | None = None, workers: int = 1) -> RunResult:
        """Validates it after it was completed; reads its rows if they are not given."""
        report = validate_run(self.run_dir, workers=workers, rows=rows)
        return RunResult(self.seed, self.run_dir, "COMPLETED", report)

    def fail(self, error: LongplayError, *, is_refused: bool = False) -> RunResult:
        """The result of a run that failed."""
        return RunResult(
            self.seed,
            self.run_dir,
            "FAILED",
            error=str(error),
            is_refused=is_refused,
            exception=error,
        )


def open_session(
    plan: RunPlan,
    agent: LoadedAgent,
    run_dir: Path,
    observer: Observer,
    options: RunOptions = DEFAULT_OPTIONS,
) -> Session:
    """A session that writes a score, or the result of a tuning run.

    Raises:
        AgentLoadError: The agent cannot be built; nothing was written.
    """
    write_result = write_tuning if plan.config.is_tuning else write_run_score
    return Session(plan, agent, run_dir, observer, write_result, options)


def play_job(
    job: Job,
    agent: LoadedAgent | None = None,
    observer: Observer = ignore_progress,
    validation_workers: int = 1,
    session: Session | None = None,
) -> RunResult:
    """Plays, scores and validates one run; errors become part of its result.

    Args:
        job: The run.
        agent: The agent, if it is already loaded.
        observer: Called with the progress.
        validation_workers: Processes used for validation.
        session: The session, if it is already open.

    Raises:
        RunCancelled, RunPreempted: The run was asked to stop.
    """
    with track_run(job.plan, job.request.agent, job.run_dir, job.options) as tracking:
        watch = watch_both(observer, tracking)
        if session is not None:
            session.observer = watch
        result = _play_tracked(job, agent, watch, validation_workers, session)
        if tracking is not None and result.score is not None:
            tracking.write_score(job.plan.total_frames, result.score)
        return result


def _play_tracked(
    job: Job,
    agent: LoadedAgent | None,
    observer: Observer,
    validation_workers: int,
    session: Session | None = None,
) -> RunResult:
    try:
        job.check()
    except LongplayError as error:
        return job.fail(error)
    is_start = not job.can_resume()
    folder = None
    if is_start or not job.resume_only:
        # Before loading the agent, so that a hang there is visible.
        folder = RunWriter.create(job.plan, job.request, job.run_dir, job.retries)
    try:
        agent = agent or job.load_agent()
        session = session or job.open_session(agent, observer)
        session.workers, session.folder = validation_workers, folder
        if is_start:
            session.run(job.retries)
        else:
            session.resume(job.retries)
    except ResumeError as error:
        if job.resume_only:
            return job.fail(error, is_refused=True)
        archive_try(job.run_dir)
        return _play_tracked(job, agent, observer, validation_workers)
    except (RunCancelled, RunPreempted):
        raise
    except LongplayError as error:
        if folder is not None:
            _mark_failed(job.run_dir, error)
        return job.fail(error)
    result = job.validate(session.rows, validation_workers)
    return replace(result, resumed_from=session.resumed_from)


def _mark_failed(run_dir: Path, error: LongplayError) -> None:
    """Records a failure before the session started."""
    # The disk may still refuse; the error that came first is the one that counts.
    with contextlib.suppress(LongplayError):
        status = read_status(run_dir)
        if status is not None and status.state == "QUEUED":
            mark_run(run_dir, "FAILED", error)
