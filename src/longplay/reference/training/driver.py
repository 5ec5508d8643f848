"""All stages of all games, by a few worker processes that can be killed at any time.

Every stage is a command of its own in a process of its own, so that a stage that fails
takes nothing with it. A game is held by a lock while a worker is at it.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from longplay.contract.files import make_directory
from longplay.reference.workplace import Workplace

_IDLE_S = 30.0
_MAX_FAILURES = 3


def make_references(
    work_dir: Path, games: Sequence[str], stages: Sequence[str], workers: int
) -> None:
    """Works until every stage of every game is done or has failed three times."""
    make_directory(work_dir, exist_ok=True)
    arguments = (work_dir, tuple(games), tuple(stages))
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_work, args=arguments) for _ in range(workers)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


def _work(work_dir: Path, games: Sequence[str], stages: Sequence[str]) -> None:
    failures = dict.fromkeys(games, 0)
    while todo := [g for g in games if _is_open(work_dir, g, stages, failures[g])]:
        if not any(_try_stage(work_dir, game, failures) for game in todo):
            time.sleep(_IDLE_S)


def _is_open(work_dir: Path, game: str, stages: Sequence[str], failed: int) -> bool:
    return failed < _MAX_FAILURES and Workplace(work_dir, game).next_stage() in stages


def _try_stage(work_dir: Path, game: str, failures: dict[str, int]) -> bool:
    """Does a game's next stage; False if another worker is at it."""
    place = Workplace(work_dir, game)
    try:
        with FileLock(place.path("lock"), timeout=0):
            stage = place.next_stage()
            if stage is None:
                return False
            failures[game] += not _run_stage(place, stage, work_dir)
            return True
    except Timeout:
        return False


def _run_stage(place: Workplace, stage: str, work_dir: Path) -> bool:
    """Runs a stage's command, its output in a log; whether it went well."""
    command = [sys.executable, "-m", "longplay", "reference", stage]
    command += ["--game", place.game_id, "--work", str(work_dir)]
    with place.path(f"{stage}.log").open("ab") as log:
        done = subprocess.run(
            command, check=False, stdout=log, stderr=subprocess.STDOUT
        )
    return done.returncode == 0
