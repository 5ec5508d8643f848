"""status.json: where a run is, written by the run's own loop.

Because the loop itself writes the heartbeat, an agent that hangs shows.
"""

from __future__ import annotations

import os
import platform
import time
from pathlib import Path

from longplay.contract.files import write_document
from longplay.contract.records import RunErrorEntry, RunState, RunStatus
from longplay.recorder import utc_now
from longplay.runner import Progress

HEARTBEAT_S = 5.0


class StatusWriter:
    """Keeps one run's status.json up to date."""

    def __init__(self, run_dir: Path, frames_total: int) -> None:
        self._path = run_dir / "status.json"
        self._next_heartbeat_s = 0.0
        self.status = RunStatus(
            state="QUEUED",
            frame=0,
            frames_total=frames_total,
            game_id=None,
            fps=None,
            heartbeat_utc=utc_now(),
            started_utc=utc_now(),
            pid=os.getpid(),
            host=platform.node(),
            retries=0,
        )
        self._write()

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
            }
        )
        self._write()

    def enter(
        self,
        state: RunState,
        frame: int,
        game_id: str | None = None,
        error: BaseException | None = None,
    ) -> None:
        """Writes a change of state."""
        entry = error and RunErrorEntry(
            type=type(error).__name__, message=str(error), frame=frame, game=game_id
        )
        self.status = self.status.model_copy(
            update={
                "state": state,
                "frame": frame,
                "game_id": game_id,
                "heartbeat_utc": utc_now(),
                "error": entry,
            }
        )
        self._write()
