"""Runs all stages of all games, several at a time; can be killed and restarted.

Every stage is a separate command in its own process, so that a stage that fails does
not affect others. Workers only wait for such processes, so they are threads.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from longplay.contract.files import make_directory
from longplay.reference.workspace import Workspace

_MAX_FAILURES = 3


class StageQueue:
    """The games that have a stage to do, and those that a worker has taken."""

    def __init__(
        self, work_dir: Path, games: Sequence[str], stages: Sequence[str]
    ) -> None:
        self._workspaces = {game: Workspace(work_dir, game) for game in games}
        self._stages = stages
        self._failures = dict.fromkeys(games, 0)
        self._taken: set[str] = set()
        self._lock = Lock()

    def take(self) -> tuple[Workspace, str] | None:
        """The first game that is not taken, and its next stage; None without one.

        A worker that gets None can stop: the worker that releases a game takes again.
        """
        with self._lock:
            for game, workspace in self._workspaces.items():
                stage = workspace.next_stage()
                if game in self._taken or game in self.failed:
                    continue
                if stage is not None and stage in self._stages:
                    self._taken.add(game)
                    return workspace, stage
        return None

    def release(self, game: str, succeeded: bool) -> None:
        """Releases a game after a stage, and counts failures."""
        with self._lock:
            self._taken.remove(game)
            self._failures[game] += not succeeded

    @property
    def failed(self) -> list[str]:
        """The games that failed too often."""
        return [g for g, count in self._failures.items() if count >= _MAX_FAILURES]


def make_references(
    work_dir: Path, games: Sequence[str], stages: Sequence[str], workers: int
) -> list[str]:
    """Runs until every stage of every game is done or has failed three times.

    Returns:
        The games that failed.
    """
    make_directory(work_dir, exist_ok=True)
    queue = StageQueue(work_dir, games, stages)
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(_work, queue, work_dir) for _ in range(workers)]:
            done.result()
    return queue.failed


def _work(queue: StageQueue, work_dir: Path) -> None:
    while (job := queue.take()) is not None:
        workspace, stage = job
        succeeded = _run_stage(workspace, stage, work_dir)
        queue.release(workspace.game_id, succeeded)


def _run_stage(workspace: Workspace, stage: str, work_dir: Path) -> bool:
    """Runs a stage's command with its output in a log; returns whether it succeeded."""
    command = [sys.executable, "-m", "longplay", "reference", stage]
    command += ["--game", workspace.game_id, "--work", str(work_dir)]
    with workspace.path(f"{stage}.log").open("ab") as log:
        done = subprocess.run(
            command, check=False, stdout=log, stderr=subprocess.STDOUT
        )
    return done.returncode == 0
