"""status.json: the state and progress of a run, written by the run's own loop.

Because the loop itself writes the heartbeat, a hanging agent becomes visible. A run in
progress whose process is gone, or whose heartbeat is too old, is STALE. The run cannot
write that state itself, so the readers here derive it.
"""

from __future__ import annotations

import os
import platform
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from longplay.contract.documents import RunErrorEntry, RunState, RunStatus
from longplay.contract.files import (
    move_directory,
    read_document,
    size_of_tree,
    write_document,
)
from longplay.contract.rundir import KEPT_AGENT, RunDirectory
from longplay.errors import DocumentError, RunPreempted, name_error
from longplay.plan import RunPlan
from longplay.runs.loop import Progress
from longplay.runs.recorder import utc_now

HEARTBEAT_S = 5.0
STALL_TIMEOUT_S = 600.0


class StatusWriter:
    """Keeps one run's status.json up to date."""

    def __init__(self, path: Path, status: RunStatus) -> None:
        self._path = path
        self._next_heartbeat_s = 0.0
        self.status = status

    @classmethod
    def create(cls, run_dir: Path, frames_total: int, retries: int = 0) -> StatusWriter:
        """Writes the status of a run that was not started yet."""
        status = RunStatus(
            state="QUEUED",
            frame=0,
            frames_total=frames_total,
            game_id=None,
            fps=None,
            heartbeat_utc=utc_now(),
            started_utc=utc_now(),
            pid=os.getpid(),
            host=platform.node(),
            retries=retries,
        )
        writer = cls(run_dir / "status.json", status)
        writer._write()
        return writer

    def _write(self) -> None:
        write_document(self._path, self.status)

    def observe(self, progress: Progress) -> None:
        """Writes a heartbeat if one is due."""
        if time.monotonic() < self._next_heartbeat_s:
            return
        self._next_heartbeat_s = time.monotonic() + HEARTBEAT_S
        self.status = self.status.model_copy(
            update={
                "state": "RUNNING",
                "frame": progress.frame,
                "game_id": progress.game_id,
                "fps": progress.fps,
                "heartbeat_utc": utc_now(),
                "reward_rate": progress.reward_rate,
                "metrics": dict(progress.metrics),
            }
        )
        self._write()

    def enter(
        self,
        state: RunState,
        frame: int,
        game_id: str | None = None,
        error: BaseException | None = None,
        fps: float | None = None,
    ) -> None:
        """Writes a change of state."""
        entry = error and _describe_error(error, frame, game_id)
        self.status = self.status.model_copy(
            update={
                "state": state,
                "frame": frame,
                "game_id": game_id,
                "fps": fps or self.status.fps,
                "heartbeat_utc": utc_now(),
                "error": entry,
            }
        )
        self._write()


def _describe_error(
    error: BaseException, frame: int, game_id: str | None
) -> RunErrorEntry:
    return RunErrorEntry(
        type=name_error(error), message=str(error), frame=frame, game=game_id
    )


@dataclass(frozen=True)
class RunView:
    """The state of a planned run, as another process sees it."""

    plan: RunPlan
    run_dir: Path
    state: RunState
    status: RunStatus | None

    @property
    def is_pending(self) -> bool:
        """Whether it is not complete and no process works on it."""
        if self.state == "QUEUED":
            return self.status is None or is_preempted(self.status)
        return self.state in ("FAILED", "CANCELLED", "STALE")

    @property
    def retries(self) -> int:
        """The retry count that the next try will have."""
        return 0 if self.status is None else self.status.retries + 1

    @property
    def kept_agent_bytes(self) -> int:
        """Size of the states of the agent that the run has kept so far."""
        return size_of_tree(self.run_dir / KEPT_AGENT)

    def to_json(self) -> dict[str, Any]:
        """The view as plain JSON values."""
        status = self.status
        score = RunDirectory(self.run_dir).score if self.state == "COMPLETED" else None
        return {
            "trajectory_id": self.plan.trajectory_id,
            "task_id": self.plan.task_id,
            "seed": self.plan.seed,
            "state": self.state,
            "frame": status.frame if status else 0,
            "frames_total": self.plan.total_frames,
            "headline": self.plan.headline,
            "headline_value": score and score.headline,
            "game_id": status and status.game_id,
            "fps": status and status.fps,
            "reward_rate": status and status.reward_rate,
            "metrics": status.metrics if status else {},
            "heartbeat_utc": status and status.heartbeat_utc,
            "retries": status.retries if status else 0,
            "kept_agent_bytes": self.kept_agent_bytes,
            "error": status.error.model_dump() if status and status.error else None,
        }


def view_run(
    plan: RunPlan, run_dir: Path, stall_timeout_s: float = STALL_TIMEOUT_S
) -> RunView:
    """Reads a run's state: QUEUED if not started, STALE if its process is gone."""
    status = read_status(run_dir)
    if status is None:
        return RunView(plan, run_dir, "QUEUED", None)
    return RunView(plan, run_dir, derive_state(status, stall_timeout_s), status)


def derive_state(
    status: RunStatus, stall_timeout_s: float = STALL_TIMEOUT_S
) -> RunState:
    """The state that a run wrote; STALE if its process is gone."""
    is_in_progress = status.state in ("QUEUED", "RUNNING") and not is_preempted(status)
    is_stale = is_in_progress and is_lost(status, stall_timeout_s)
    return "STALE" if is_stale else status.state


def read_status(run_dir: Path) -> RunStatus | None:
    """The status that a run wrote; None before it has started.

    Raises:
        DocumentError: Names the run whose status cannot be read.
    """
    path = run_dir / "status.json"
    if not path.exists():
        return None
    try:
        return read_document(path, RunStatus)
    except DocumentError as error:
        raise DocumentError(
            f"{run_dir.name}/{error}; move {run_dir} away and `longplay retry` starts "
            "the run from scratch"
        ) from error


def describe_age(utc: str) -> str:
    """The age of a heartbeat: `12 s ago`, `3 h ago`."""
    age_s = (datetime.now(UTC) - datetime.fromisoformat(utc)).total_seconds()
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if age_s >= 2 * seconds:
            return f"{age_s / seconds:.0f} {unit} ago"
    return f"{max(age_s, 0):.0f} s ago"


def is_preempted(status: RunStatus) -> bool:
    """Whether a run was preempted and waits to be resumed."""
    is_stopped = status.error is not None and status.error.type == RunPreempted.__name__
    return status.state == "QUEUED" and is_stopped


def is_lost(status: RunStatus, stall_timeout_s: float) -> bool:
    """Whether the process of a run in progress is dead or hangs."""
    beat = datetime.fromisoformat(status.heartbeat_utc)
    # A heartbeat far in the future is from a wrong clock, and would never get old.
    if abs((datetime.now(UTC) - beat).total_seconds()) > stall_timeout_s:
        return True
    return status.host == platform.node() and not _is_alive(status.pid)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    """Whether a process has ended but was not reaped; False except on Linux."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "Z"


def mark_run(run_dir: Path, state: RunState, error: Exception) -> None:
    """Writes a state on behalf of a run whose own process cannot."""
    old = read_status(run_dir)
    if old is None:
        return
    entry = _describe_error(error, old.frame, old.game_id)
    changed = old.model_copy(update={"state": state, "error": entry})
    write_document(run_dir / "status.json", changed)


def archive_try(run_dir: Path) -> None:
    """Moves the files of a try into its experiment's archive."""
    archive = run_dir.parent.parent / "archive" / run_dir.name
    number = len(list(archive.iterdir())) if archive.exists() else 0
    move_directory(run_dir, archive / str(number))
