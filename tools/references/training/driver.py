"""Runs all stages of all games, several at a time; can be killed and restarted.

Every stage is a separate command in its own process, so that a stage that fails does
not affect others. Workers only wait for such processes, so they are threads.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from longplay.contract.files import make_directory
from references.training.anchor_facts import AnchorWorkspace
from references.workspace import Workspace

_MAX_FAILURES = 3

# Where `python -m references` is found.
_TOOLS = Path(__file__).parents[2]
# Stage -> the command after `python -m references`, without the game.
MakeCommand = Callable[[str], list[str]]


class StageQueue:
    """The games that have a stage to do, and those that a worker has taken."""

    def __init__(self, workspaces: Sequence[Workspace], stages: Sequence[str]) -> None:
        self._workspaces = {place.game_id: place for place in workspaces}
        self._stages = stages
        self._failures = dict.fromkeys(self._workspaces, 0)
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
    queue = StageQueue([Workspace(work_dir, game) for game in games], stages)
    return _run_all(queue, workers, lambda stage: [stage, "--work", str(work_dir)])


def make_anchors(
    work_dir: Path, games: Sequence[str], options: Sequence[str], workers: int
) -> list[str]:
    """Does the same for the policies of anchors, with options for `anchor`.

    Returns:
        The games that failed.
    """
    make_directory(work_dir, exist_ok=True)
    places = [AnchorWorkspace(work_dir, game) for game in games]
    command = ["anchor", "--work", str(work_dir), *options]
    queue = StageQueue(places, tuple(AnchorWorkspace.results))
    return _run_all(queue, workers, lambda stage: command)


def _run_all(queue: StageQueue, workers: int, make_command: MakeCommand) -> list[str]:
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(_work, queue, make_command) for _ in range(workers)]:
            done.result()
    return queue.failed


def _work(queue: StageQueue, make_command: MakeCommand) -> None:
    while (job := queue.take()) is not None:
        workspace, stage = job
        succeeded = _run_stage(workspace, stage, make_command(stage))
        queue.release(workspace.game_id, succeeded)


def _run_stage(workspace: Workspace, stage: str, arguments: list[str]) -> bool:
    """Runs a stage's command with its output in a log; returns whether it succeeded."""
    command = [sys.executable, "-m", "references", *arguments]
    command += ["--game", workspace.game_id]
    with workspace.path(f"{stage}.log").open("ab") as log:
        done = subprocess.run(
            command,
            check=False,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(_TOOLS)},
        )
    return done.returncode == 0
