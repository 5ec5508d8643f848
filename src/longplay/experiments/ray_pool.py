"""Jobs -> results, on Ray: one task is one whole run.

This is the only module that imports ray. Only the job and its result are sent; rows
stay on disk, where the driver also reads the heartbeats. Ray's own retries are off. The
run of a worker that is lost, or silent for too long, resumes from its last checkpoint;
without an intact one it is archived and restarted with the same seed. An agent's own
error is not retried: the same seed would raise it again.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from longplay.contract.records import RunStatus
from longplay.errors import (
    ConfigError,
    LongplayError,
    MissingExtraError,
    RunCancelled,
    RunFailed,
    RunPreempted,
)
from longplay.experiments.job import Job, RunResult, judge_run, play_job
from longplay.runs.status import is_lost, mark_run, read_status

# Otherwise Ray takes 127.0.0.1 for the machine's network address and listens there.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:
    raise MissingExtraError("running on Ray needs ray: pip install '.[ray]'") from error

_POLL_S = 0.5
_STOP_TIMEOUT_S = 15.0


class WorkerLost(RunFailed):
    """The worker of a run died, or sent no heartbeat for too long."""


def _play(job: Job) -> RunResult:
    """Plays a job in a worker."""
    try:
        # Not every exception can be pickled; its message can.
        return replace(play_job(job), exception=None)
    except RunCancelled as error:
        return RunResult(job.seed, job.run_dir, "CANCELLED", error=str(error))
    except RunPreempted as error:
        return RunResult(job.seed, job.run_dir, "QUEUED", error=str(error))
    except LongplayError as error:  # a disk error: nothing could be recorded
        return RunResult(job.seed, job.run_dir, "FAILED", error=str(error))


class RayPool:
    """Runs jobs on a local Ray or on a cluster; a context manager."""

    def __init__(
        self,
        workers: int | None,
        address: str | None,
        retries: int,
        stall_timeout_s: float,
    ) -> None:
        self._workers = workers
        self._address = address
        self._retries = retries
        self._stall_timeout_s = stall_timeout_s
        self._waiting: deque[Job] = deque()
        self._running: dict[Any, Job] = {}
        self._results: dict[int, RunResult] = {}
        self._losses: Counter[int] = Counter()

    def __enter__(self) -> RayPool:
        """Starts Ray, or connects to it.

        Raises:
            ConfigError: There is no cluster at the address.
        """
        try:
            self._connect()
        except (ConnectionError, RuntimeError, ValueError, RayError) as error:
            where = "on this machine" if self._address is None else self._address
            raise ConfigError(f"cannot reach a Ray {where}: {error}") from error
        return self

    def __exit__(self, *ended_by: object) -> None:
        """Shuts Ray down."""
        ray.shutdown()

    def run(self, jobs: Sequence[Job], on_poll: Callable[[], None]) -> list[RunResult]:
        """Plays all jobs; returns the results in the order of the jobs.

        Raises:
            RunCancelled: Ctrl-C; the workers are stopped, their runs CANCELLED.
        """
        self._waiting = deque(jobs)
        try:
            limit = self._workers or int(ray.cluster_resources().get("CPU", 1))  # type: ignore[no-untyped-call]
            # A new process for every run: module state of an agent must not leak.
            play = ray.remote(max_retries=0, num_cpus=1, max_calls=1)(_play)
            while self._waiting or self._running:
                while self._waiting and len(self._running) < limit:
                    job = self._waiting.popleft()
                    self._running[play.remote(job)] = job
                done, _ = ray.wait(list(self._running), timeout=_POLL_S)
                for task in done:
                    self._collect(task)
                self._stop_silent_runs()
                on_poll()
        except KeyboardInterrupt as error:
            self._cancel()
            raise RunCancelled("stopped; the running runs are CANCELLED") from error
        return [self._results[job.seed] for job in jobs]

    def _connect(self) -> None:
        quiet: dict[str, Any] = {
            "log_to_driver": False,
            "logging_level": logging.ERROR,
        }
        if self._address is not None:
            ray.init(address=self._address, **quiet)
            return
        # Loopback only, and no dashboard: no server should be reachable.
        ray.init(
            address="local",
            num_cpus=self._workers,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            **quiet,
        )

    def _collect(self, task: Any) -> None:
        job = self._running.pop(task)
        try:
            self._results[job.seed] = ray.get(task)
        except RayError as error:
            self._handle_loss(job, error)

    def _handle_loss(self, job: Job, cause: Exception) -> None:
        """Restarts a lost run, or fails it after the last retry."""
        loss = WorkerLost(f"the worker was lost: {type(cause).__name__}")
        run_dir = job.run_dir
        status = read_status(run_dir)
        if status is not None and status.state == "COMPLETED":
            self._results[job.seed] = judge_run(job)
            return
        self._losses[job.seed] += 1
        if self._losses[job.seed] <= self._retries:
            self._waiting.appendleft(replace(job, retries=job.retries + 1))
            return
        mark_run(run_dir, "FAILED", loss)
        self._results[job.seed] = RunResult(
            job.seed, job.run_dir, "FAILED", error=str(loss)
        )

    def _stop_silent_runs(self) -> None:
        """Kills workers without a heartbeat; their runs are then handled as lost."""
        for task, job in self._running.items():
            status = _read_active_status(job)
            if status is not None and is_lost(status, self._stall_timeout_s):
                ray.cancel(task, force=True)

    def _cancel(self) -> None:
        """Asks the workers to stop; kills those that do not."""
        for task in self._running:
            ray.cancel(task, force=False)
        if self._running:
            tasks = list(self._running)
            ray.wait(tasks, num_returns=len(tasks), timeout=_STOP_TIMEOUT_S)
        for job in self._running.values():
            if _read_active_status(job):
                mark_run(job.run_dir, "CANCELLED", RunCancelled("stopped"))


def _read_active_status(job: Job) -> RunStatus | None:
    """The status of a run that has started and not ended.

    The status of an earlier attempt is ignored.
    """
    status = read_status(job.run_dir)
    if status is None or status.retries != job.retries:
        return None
    return status if status.state in ("QUEUED", "RUNNING") else None
