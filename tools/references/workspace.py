"""A folder in which references are made: results, next stage, progress.

    WORK/progress.md                      all games, for people
    WORK/<game>/progress.json             current stage and its progress
    WORK/<game>/training.safetensors      checkpoint of a running training
    WORK/<game>/trained.safetensors       its result                       (train)
    WORK/<game>/policy.safetensors        the policy, frozen and measured  (freeze)
    WORK/<game>/visits.json               it and random play, compared     (visits)
    WORK/<game>/play/*.safetensors        visits of the frozen policy
    WORK/<game>/values.safetensors        its value function               (values)
    WORK/<game>/audit.json                values compared with rollouts    (audit)
    WORK/<game>/rollouts/*.safetensors    states of recorded visits, measured

A stage is done when its file exists; files are written atomically. So a process that is
killed at any moment continues when it is started again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock, Timeout

from longplay.contract.files import (
    make_directory,
    read_json,
    write_document,
    write_file,
)
from longplay.errors import ConfigError, UnknownNameError
from longplay.reference.library import REFERENCE_GAMES

RESULTS = {
    "train": "trained.safetensors",
    "freeze": "policy.safetensors",
    "values": "values.safetensors",
    "audit": "audit.json",
}
STAGES = tuple(RESULTS)


class Workspace:
    """The folder of one game.

    Attributes:
        games: The games that can be worked on.
        game_kind: What they are called in errors.
        results: Stage -> its result file, in the order of stages.
    """

    games: ClassVar[tuple[str, ...]] = REFERENCE_GAMES
    game_kind: ClassVar[str] = "game of the prediction track"
    results: ClassVar[dict[str, str]] = RESULTS

    def __init__(self, work_dir: Path, game_id: str) -> None:
        if game_id not in self.games:
            raise UnknownNameError(self.game_kind, game_id, self.games)
        self.game_id = game_id
        self._work_dir = work_dir
        self.folder = work_dir / game_id
        make_directory(self.folder, exist_ok=True)

    def path(self, name: str) -> Path:
        """A file of this game."""
        return self.folder / name

    def result(self, stage: str) -> Path:
        """The result file of a stage."""
        return self.folder / self.results[stage]

    def next_stage(self) -> str | None:
        """The first stage that is not done."""
        return next((s for s in self.results if not self.result(s).exists()), None)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Locks this game for one process.

        Raises:
            ConfigError: Another process has locked it.
        """
        lock = FileLock(self.path("lock"))
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise ConfigError(
                f"{self.game_id}: another process is working on it in {self.folder}"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def report(self, stage: str, **figures: Any) -> None:
        """Writes the progress of a stage."""
        entry = {"game": self.game_id, "stage": stage, **figures}
        write_document(self.path("progress.json"), entry)
        write_progress(self._work_dir, self.games)


def read_progress(
    work_dir: Path, games: Sequence[str] = REFERENCE_GAMES
) -> list[dict[str, Any]]:
    """The progress of every game, in this order."""
    paths = [work_dir / game / "progress.json" for game in games]
    return [read_json(path) for path in paths if path.exists()]


def describe_progress(
    work_dir: Path, games: Sequence[str] = REFERENCE_GAMES
) -> list[tuple[str, str, str]]:
    """The progress as text: game, stage, figures."""
    rows = []
    for entry in read_progress(work_dir, games):
        game, stage = entry.pop("game"), entry.pop("stage")
        figures = ", ".join(f"{name} {value}" for name, value in entry.items())
        rows.append((game, stage, figures))
    return rows


def write_progress(work_dir: Path, games: Sequence[str] = REFERENCE_GAMES) -> None:
    """Writes progress.md."""
    lines = ["| game | stage | figures |", "|---|---|---|"]
    lines += [f"| {' | '.join(row)} |" for row in describe_progress(work_dir, games)]
    write_file(work_dir / "progress.md", ("\n".join(lines) + "\n").encode())


class RateTimer:
    """Measures a rate, and tells when the next report is due."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._started = self._last = time.monotonic()

    def is_due(self) -> bool:
        """Whether the interval has passed; if so, the next one starts."""
        now = time.monotonic()
        if now - self._last < self._interval_s:
            return False
        self._last = now
        return True

    def rate(self, count: int) -> int:
        """Count per second since the start."""
        return round(count / max(1e-9, time.monotonic() - self._started))
