"""All stages of all games, several at a time; whatever is killed goes on later.

Every stage is a command of its own in a process of its own, so that a stage that fails
takes nothing with it. Workers only wait for such processes, so they are threads.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from longplay.contract.files import make_directory
from longplay.reference.workplace import Workplace

_MAX_FAILURES = 3


class Shift:
    """Which games still have a stage to do, and which of them a worker is at."""

    def __init__(
        self, work_dir: Path, games: Sequence[str], stages: Sequence[str]
    ) -> None:
        self._places = {game: Workplace(work_dir, game) for game in games}
        self._stages = stages
        self._failures = dict.fromkeys(games, 0)
        self._taken: set[str] = set()
        self._lock = Lock()

    def take(self) -> tuple[Workplace, str] | None:
        """The first game that nobody is at, and its next stage; None if there is none.

        Who finds none may go home: nobody else gives back a game without looking for
        its next stage.
        """
        with self._lock:
            for game, place in self._places.items():
                stage = place.next_stage()
                if game in self._taken or game in self.failed:
                    continue
                if stage is not None and stage in self._stages:
                    self._taken.add(game)
                    return place, stage
        return None

    def give_back(self, game: str, went_well: bool) -> None:
        """Tells how a stage went."""
        with self._lock:
            self._taken.remove(game)
            self._failures[game] += not went_well

    @property
    def failed(self) -> list[str]:
        """The games that were given up."""
        return [g for g, count in self._failures.items() if count >= _MAX_FAILURES]


def make_references(
    work_dir: Path, games: Sequence[str], stages: Sequence[str], workers: int
) -> list[str]:
    """Works until every stage of every game is done or has failed three times.

    Returns:
        The games that failed.
    """
    make_directory(work_dir, exist_ok=True)
    shift = Shift(work_dir, games, stages)
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(_work, shift, work_dir) for _ in range(workers)]:
            done.result()
    return shift.failed


def _work(shift: Shift, work_dir: Path) -> None:
    while (job := shift.take()) is not None:
        place, stage = job
        shift.give_back(place.game_id, _run_stage(place, stage, work_dir))


def _run_stage(place: Workplace, stage: str, work_dir: Path) -> bool:
    """Runs a stage's command, its output in a log; whether it went well."""
    command = [sys.executable, "-m", "longplay", "reference", stage]
    command += ["--game", place.game_id, "--work", str(work_dir)]
    with place.path(f"{stage}.log").open("ab") as log:
        done = subprocess.run(
            command, check=False, stdout=log, stderr=subprocess.STDOUT
        )
    return done.returncode == 0
