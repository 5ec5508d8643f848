"""Jobs -> results, on Ray: one task is one whole run.

This is the only module that imports ray. Only the job and its result are sent; rows
stay on disk, where the process that started Ray also reads the heartbeats. Ray's own
retries are off. The run of a worker that is lost, or silent for too long, resumes from
its last checkpoint; without an intact one it is archived and restarted with the same
seed. An agent's own error is not retried: the same seed would raise it again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from longplay.contract.documents import RunState, RunStatus
from longplay.errors import (
    ConfigError,
    LongplayError,
    MissingExtraError,
    RunCancelled,
    RunFailed,
    RunPreempted,
)
from longplay.experiments.job import Job, Needs, RayPlace, RunResult, play_job
from longplay.experiments.watchdog import end_with_this_process
from longplay.runs.loop import StopRequest
from longplay.runs.signals import stop_on_signals
from longplay.runs.status import HEARTBEAT_S, is_lost, mark_run, read_status

# Otherwise Ray takes 127.0.0.1 for the machine's network address and listens there.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
try:
    import ray
    from ray.exceptions import RayError
except ImportError as error:
    raise MissingExtraError.of("running on Ray needs ray", "ray") from error

_POLL_S = 0.5
_STOP_TIMEOUT_S = 15.0
_CONNECT_TIMEOUT_S = 5.0
# The start of an HTTP/2 connection: the fixed text, and an empty SETTINGS frame. A
# server answers with a SETTINGS frame of its own (RFC 9113, 3.4).
_HTTP2_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(
    (0, 0, 0, 4, 0, 0, 0, 0, 0)
)
_HTTP2_HEADER_BYTES = 9
_HTTP2_SETTINGS = 4
_LOCAL_HOSTS = ("localhost", "127.0.0.1")
# A process on another node that has not reported for this long is taken to be gone.
_SILENCE_S = 3 * HEARTBEAT_S
# Reason to stop -> the state of the runs that were in progress.
_STOPPED_STATES: dict[type[LongplayError], RunState] = {
    RunCancelled: "CANCELLED",
    RunPreempted: "QUEUED",
}


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
    """Runs jobs on a local Ray instance or on a cluster; a context manager."""

    def __init__(self, place: RayPlace) -> None:
        self._place = place
        self._jobs: Iterator[Job] = iter(())
        # Lost runs, and a new job for which there was no room.
        self._waiting: deque[Job] = deque()
        self._running: dict[Any, Job] = {}
        self._losses: Counter[Path] = Counter()
        self._cleanup = contextlib.ExitStack()
        self._stop = StopRequest()
        self._on_result: Callable[[Job, RunResult], None] = lambda job, result: None

    def __enter__(self) -> RayPool:
        """Starts Ray, or connects to it.

        Raises:
            ConfigError: There is no cluster at the address.
        """
        try:
            self._connect()
        except (OSError, RuntimeError, ValueError, RayError) as error:
            self._cleanup.close()
            address = self._place.address
            where = "on this machine" if address is None else f"at {address}"
            raise ConfigError(f"cannot reach Ray {where}: {error}") from error
        # After Ray was started, which sets handlers of its own.
        self._stop = self._cleanup.enter_context(stop_on_signals())
        return self

    def __exit__(self, *ended_by: object) -> None:
        """Shuts Ray down."""
        ray.shutdown()
        self._cleanup.close()

    def check_needs(self, needs: Iterable[Needs]) -> None:
        """Refuses needs that no node of the cluster could satisfy even when idle.

        Raises:
            ConfigError: Names what is needed, and the largest node.
        """
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        for needed in needs:
            wanted = needed.resources.items()
            if not any(all(n.get(k, 0) >= v for k, v in wanted) for n in nodes):
                largest: dict[str, float] = max(
                    nodes, key=lambda node: node.get("CPU", 0), default={}
                )
                raise ConfigError(
                    f"a run needs {needed}, and no node of this Ray has that; the "
                    f"largest has {_describe_node(largest)}"
                )

    def run(
        self,
        jobs: Iterable[Job],
        on_result: Callable[[Job, RunResult], None],
        on_poll: Callable[[list[Job]], None],
    ) -> None:
        """Plays all jobs.

        Args:
            jobs: Taken one by one, when there is room for the next.
            on_result: Called with each job that has ended.
            on_poll: Called twice a second with the jobs in progress.

        Raises:
            RunCancelled: Ctrl-C; the workers are stopped, their runs CANCELLED.
            RunPreempted: SIGTERM or SIGUSR1; their runs are QUEUED.
        """
        self._jobs, self._on_result = iter(jobs), on_result
        # A new process for every run: module state of an agent must not leak.
        play = ray.remote(max_retries=0, max_calls=1)(_play)
        while self._fill(play) or self._running or self._waiting:
            self._wait()
            on_poll(list(self._running.values()))
            if self._stop.reason is not None:
                state: RunState = _STOPPED_STATES[self._stop.reason]
                self._stop_runs(state, self._stop.reason("stopped"))
                raise self._stop.reason(f"stopped; the running runs are {state}")

    def _connect(self) -> None:
        quiet: dict[str, Any] = {
            "log_to_driver": False,
            "logging_level": logging.ERROR,
        }
        if (address := self._place.address) is not None:
            _check_address(address)
            ray.init(address=address, **quiet)
            return
        self._cleanup.enter_context(end_with_this_process())
        # Loopback only, and no dashboard: no server should be reachable.
        ray.init(
            address="local",
            num_cpus=self._place.workers,
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            **quiet,
        )

    # --- jobs in, results out -----------------------------------------------------

    def _fill(self, play: Any) -> bool:
        """Starts jobs while there is room; returns whether any was started."""
        is_started = False
        while (job := self._next_job()) is not None:
            if not self._has_room(job):
                self._waiting.appendleft(job)
                break
            needs = job.needs
            options: dict[str, Any] = {"num_cpus": needs.cpus, "num_gpus": needs.gpus}
            if needs.memory_gb is not None:
                options["memory"] = needs.resources["memory"]
            self._running[play.options(**options).remote(job)] = job
            is_started = True
        return is_started

    def _next_job(self) -> Job | None:
        """The next job whose run no process plays; None if there is none now."""
        for job in list(self._waiting):
            if self._losses[job.run_dir] == 0 or _is_released(job):
                self._waiting.remove(job)
                return job
        return next(self._jobs, None)

    def _has_room(self, job: Job) -> bool:
        """Whether the cluster's processors suffice for one more job."""
        used = sum(running.needs.cpus for running in self._running.values())
        total = ray.cluster_resources().get("CPU", 0.0)  # type: ignore[no-untyped-call]
        return not self._running or used + job.needs.cpus <= total

    def _wait(self) -> None:
        """Waits for a job to end, or for the next poll."""
        if not self._running:  # a lost run whose process still reports
            time.sleep(_POLL_S)
            return
        done, _ = ray.wait(list(self._running), timeout=_POLL_S)
        for task in done:
            self._collect(task)
        self._stop_silent_runs()

    def _collect(self, task: Any) -> None:
        job = self._running.pop(task)
        try:
            result = ray.get(task)
        except RayError as error:
            self._handle_loss(job, error)
        else:
            self._on_result(job, result)

    def _handle_loss(self, job: Job, cause: Exception) -> None:
        """Restarts a lost run, or fails it after the last retry."""
        loss = WorkerLost(f"the worker was lost: {type(cause).__name__}")
        run_dir = job.run_dir
        status = read_status(run_dir)
        if status is not None and status.state == "COMPLETED":
            self._on_result(job, job.validate())
            return
        self._losses[run_dir] += 1
        if self._losses[run_dir] <= self._place.retries:
            self._waiting.appendleft(replace(job, retries=job.retries + 1))
            return
        mark_run(run_dir, "FAILED", loss)
        self._on_result(job, RunResult(job.seed, run_dir, "FAILED", error=str(loss)))

    def _stop_silent_runs(self) -> None:
        """Kills workers without a heartbeat; their runs are then handled as lost."""
        for task, job in self._running.items():
            status = _read_status_of(job, "QUEUED", "RUNNING")
            if status is not None and is_lost(status, self._place.stall_timeout_s):
                ray.cancel(task, force=True)

    def _stop_runs(self, state: RunState, error: LongplayError) -> None:
        """Asks the workers to write a checkpoint and stop.

        Those that do not are killed when Ray is shut down.
        """
        for task in self._running:
            ray.cancel(task, force=False)
        if self._running:
            tasks = list(self._running)
            ray.wait(tasks, num_returns=len(tasks), timeout=_STOP_TIMEOUT_S)
        # Ray knows one way to ask, as if by Ctrl-C: a run may say that it is CANCELLED.
        active: tuple[RunState, ...] = ("QUEUED", "RUNNING")
        changed = active if state == "CANCELLED" else (*active, "CANCELLED")
        for job in self._running.values():
            if _read_status_of(job, *changed):
                mark_run(job.run_dir, state, error)


def _check_address(address: str) -> None:
    """Refuses an address where Ray does not listen; Ray would wait for minutes.

    Raises:
        OSError: Nothing answers, or not in gRPC, which Ray speaks over HTTP/2.
    """
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return  # `auto`: Ray looks for it on this machine
    if host in _LOCAL_HOSTS and not address.startswith("ray://"):
        host = ray.util.get_node_ip_address()  # type: ignore[no-untyped-call] # as Ray does
    with socket.create_connection((host, int(port)), _CONNECT_TIMEOUT_S) as connection:
        connection.sendall(_HTTP2_PREFACE)
        header = connection.recv(_HTTP2_HEADER_BYTES)
    if len(header) < _HTTP2_HEADER_BYTES or header[3] != _HTTP2_SETTINGS:
        raise ConnectionError("another service is listening there")


def _describe_node(resources: dict[str, float]) -> str:
    memory = resources.get("memory", 0.0) / 10**9
    return str(Needs(resources.get("CPU", 0.0), resources.get("GPU", 0.0), memory))


def _is_released(job: Job) -> bool:
    """Whether the process that played a lost run is gone.

    Ray may lose a node whose processes still write.
    """
    status = read_status(job.run_dir)
    if status is None or status.state not in ("QUEUED", "RUNNING"):
        return True
    return is_lost(status, _SILENCE_S)


def _read_status_of(job: Job, *states: RunState) -> RunStatus | None:
    """The status of a run that has started, if it is in one of these states.

    The status of an earlier attempt is ignored.
    """
    status = read_status(job.run_dir)
    if status is None or status.retries != job.retries:
        return None
    return status if status.state in states else None
