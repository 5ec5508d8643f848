"""Commands in processes of their own, struck by a signal or an error as a test says.

The process is a real one, and so is the signal; only its clock is not: it goes on by
one with every look, so that checkpoints come often, and always on the same frames.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from longplay.contract import files
from longplay.contract.rundir import ROW_FILES
from longplay.runs import loop
from longplay.stream import Stream
from longplay.tracks.participant import Participant

# In looks at the clock; there is one on every decision frame.
TICK_S, CHECKPOINT_S = 7.0, 29.0
TIMEOUT_S = 300

# Where a process can be struck: before a frame, a sync, a rename, a cut, or the agent's
# own saving and loading; when half of a write is done; when a folder is half removed.
PLACES = (
    *("frame", "os_write", "os_fsync", "os_replace"),
    *("ftruncate", "save", "load", "rmtree"),
)


@dataclass(frozen=True)
class Blow:
    """What happens when a process comes to a place for the n-th time.

    Attributes:
        place: One of `PLACES`.
        n: Counted from 1.
        signal: What the process is sent, or
        error: the errno with which the call fails.
    """

    place: str
    n: int
    signal: int = signal.SIGKILL
    error: int = 0

    def strike(self, *args: Any) -> None:
        """Strikes a call with these arguments."""
        if self.error or self.signal == signal.SIGKILL:
            _do_half(self.place, *args)
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        os.kill(os.getpid(), self.signal)


def _do_half(place: str, *args: Any) -> None:
    if place == "os_write":
        fd, data = args
        os.write(fd, data[: len(data) // 2])
    elif place == "rmtree":
        for path in [p for p in Path(args[0]).rglob("*") if p.is_file()][:1]:
            path.unlink()


@dataclass(frozen=True)
class Ended:
    """How a process ended; minus the signal's number if that killed it."""

    exit_code: int
    output: str
    # How often it came to each place; of one that was killed, nobody knows.
    comings: dict[str, int]

    @property
    def words(self) -> str:
        """What was printed, without line breaks."""
        return " ".join(self.output.split())


class _Fate:
    """Counts how often the process comes to each place, and strikes there."""

    def __init__(self, blow: Blow | None) -> None:
        self._blow = blow
        self.comings: Counter[str] = Counter()

    def lie_in_wait(self) -> None:
        """Puts itself in front of everything that can be struck."""
        for name in ("os_write", "os_fsync", "os_replace"):
            setattr(files, name, self._watch(name, getattr(files, name)))
        os.ftruncate = self._watch("ftruncate", os.ftruncate)
        shutil.rmtree = self._watch("rmtree", shutil.rmtree)  # type: ignore[assignment]
        Stream.advance = self._watch("frame", Stream.advance)  # type: ignore[method-assign]
        for name in ("save", "load"):
            real = getattr(Participant, name)
            setattr(Participant, name, self._watch(name, real))

    def _watch(self, place: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **options: Any) -> Any:
            self.comings[place] += 1
            blow = self._blow
            if blow and (blow.place, blow.n) == (place, self.comings[place]):
                blow.strike(*args)
            return real(*args, **options)

        return watched


def _obey(args: list[str], blow: Blow | None, folder: Path) -> None:
    """What the process does."""
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    looks = count()
    loop.monotonic = lambda: float(next(looks))
    loop._TICK_S, loop._CHECKPOINT_S = TICK_S, CHECKPOINT_S
    fate = _Fate(blow)
    fate.lie_in_wait()
    sys.argv = ["longplay", *args]
    from longplay.cli import main

    try:
        main()
    finally:
        (folder / "comings.json").write_text(json.dumps(fate.comings))


_processes = multiprocessing.get_context("forkserver")
# Imported once, so that a process costs milliseconds.
_processes.set_forkserver_preload(
    ["longplay.experiments.experiment", "longplay.cli.app"]
)


def run_command(folder: Path, *args: object, blow: Blow | None = None) -> Ended:
    """Runs `longplay …` in a process that may be struck.

    Args:
        folder: Where the process may leave what it prints.
        *args: The command line.
        blow: What happens to it, if anything.
    """
    folder.mkdir(exist_ok=True)
    comings = folder / "comings.json"
    comings.unlink(missing_ok=True)
    command = [str(arg) for arg in args]
    process = _processes.Process(target=_obey, args=(command, blow, folder))
    process.start()
    process.join(TIMEOUT_S)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{command}, {blow}: still running after {TIMEOUT_S} s")
    return Ended(
        process.exitcode,
        (folder / "output.txt").read_text(),
        json.loads(comings.read_text()) if comings.exists() else {},
    )


# --- what is left on the disk -----------------------------------------------------


def find_run_dir(out: Path) -> Path | None:
    """The one run of an experiment, if it was begun."""
    found = list((out / "episodes").glob("*"))
    return found[0] if found else None


def read_status(run_dir: Path) -> dict[str, Any]:
    """status.json."""
    return json.loads((run_dir / "status.json").read_text())


def read_rows(run_dir: Path) -> dict[str, bytes]:
    """The four row files."""
    return {name: (run_dir / name).read_bytes() for name in ROW_FILES}


def read_result(run_dir: Path) -> dict[str, Any]:
    """All that must come out the same however often a run was stopped."""
    score = json.loads((run_dir / "score.json").read_text())
    summary = json.loads((run_dir / "run_summary.json").read_text())
    del score["fps"], summary["score_sha256"]  # the hash covers fps
    for entry in (summary, *summary["visits"]):
        for name in ("wall_time_s", "fps", "tries", "started_utc", "ended_utc"):
            entry.pop(name, None)
    return {**read_rows(run_dir), "score": score, "summary": summary}


def read_tree(folder: Path) -> dict[str, bytes]:
    """Every file under a folder, to see whether anything changed."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
