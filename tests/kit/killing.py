"""Runs commands in their own processes and injects signals or errors.

Process and signal are real; only the clock is not: it advances by one with every read,
so that checkpoints are frequent, and always on the same frames.
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

from longplay.agents.isolation.keeper import list_descendants
from longplay.cli import options
from longplay.contract import files
from longplay.contract.rundir import ROW_FILES
from longplay.runs import loop
from longplay.stream import Stream
from longplay.tracks.participant import Participant

# In reads of the clock; there is one on every decision frame.
TICK_S, CHECKPOINT_S = 7.0, 29.0
TIMEOUT_S = 300

# Where a fault can be injected: before a frame, a sync, a rename, a truncation, or the
# agent's save and load; in the middle of a write, or of removing a folder.
PLACES = (
    *("frame", "os_write", "os_fsync", "os_replace"),
    *("ftruncate", "save", "load", "rmtree"),
)


@dataclass(frozen=True)
class Fault:
    """A fault that is injected at the n-th call of a place.

    Attributes:
        place: One of `PLACES`.
        n: Counted from 1.
        signal: The signal sent to the process, or
        error: the errno with which the call fails.
        is_at_agent: Whether the signal is sent to the agent's own process.
    """

    place: str
    n: int
    signal: int = signal.SIGKILL
    error: int = 0
    is_at_agent: bool = False

    def trigger(self, *args: Any) -> None:
        """Injects the fault into a call with these arguments."""
        if self.is_at_agent:
            *_, agent = list_descendants(os.getpid())  # below its keeper
            os.kill(agent, self.signal)
            return
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
    """How a process ended; the exit code is negative if a signal killed it."""

    exit_code: int
    output: str
    # Number of calls of each place; empty for a process that was killed.
    counts: dict[str, int]

    @property
    def words(self) -> str:
        """What was printed, without line breaks."""
        return " ".join(self.output.split())


class _FaultInjector:
    """Counts the calls of each place, and injects the fault."""

    def __init__(self, fault: Fault | None) -> None:
        self._fault = fault
        self.counts: Counter[str] = Counter()

    def install(self) -> None:
        """Patches every place."""
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
            self.counts[place] += 1
            fault = self._fault
            if fault and (fault.place, fault.n) == (place, self.counts[place]):
                fault.trigger(*args)
            return real(*args, **options)

        return watched


def _run_main(args: list[str], fault: Fault | None, folder: Path) -> None:
    """Runs the command line; the target of the process."""
    output = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    reads = count()
    loop.monotonic = lambda: float(next(reads))
    loop._TICK_S, options.CHECKPOINT_S = TICK_S, CHECKPOINT_S
    loop._CHECKPOINT_SHARE = 1e9  # a save may take as long as it likes
    injector = _FaultInjector(fault)
    injector.install()
    sys.argv = ["longplay", *args]
    from longplay.cli import main

    try:
        main()
    finally:
        (folder / "counts.json").write_text(json.dumps(injector.counts))


_processes = multiprocessing.get_context("forkserver")
# Preloaded, so that a process starts within milliseconds.
_processes.set_forkserver_preload(
    ["longplay.experiments.experiment", "longplay.cli.app"]
)


def run_command(folder: Path, *args: object, fault: Fault | None = None) -> Ended:
    """Runs `longplay …` in a process, with a fault if one is given.

    Args:
        folder: Where the process writes its output.
        *args: The command line.
        fault: The fault to inject.
    """
    folder.mkdir(exist_ok=True)
    counts = folder / "counts.json"
    counts.unlink(missing_ok=True)
    command = [str(arg) for arg in args]
    process = _processes.Process(target=_run_main, args=(command, fault, folder))
    process.start()
    process.join(TIMEOUT_S)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError(f"{command}, {fault}: still running after {TIMEOUT_S} s")
    return Ended(
        process.exitcode,
        (folder / "output.txt").read_text(),
        json.loads(counts.read_text()) if counts.exists() else {},
    )


# --- reading run directories ------------------------------------------------------


def find_run_dir(out: Path) -> Path | None:
    """The only run of an experiment, if it was started."""
    found = list((out / "episodes").glob("*"))
    return found[0] if found else None


def read_status(run_dir: Path) -> dict[str, Any]:
    """status.json."""
    return json.loads((run_dir / "status.json").read_text())


def read_rows(run_dir: Path) -> dict[str, bytes]:
    """The four row files."""
    return {name: (run_dir / name).read_bytes() for name in ROW_FILES}


def read_result(run_dir: Path) -> dict[str, Any]:
    """Everything that must be identical to an uninterrupted run."""
    score = json.loads((run_dir / "score.json").read_text())
    summary = json.loads((run_dir / "run_summary.json").read_text())
    del score["fps"], summary["score_sha256"]  # the hash covers fps
    for entry in (summary, *summary["visits"]):
        for name in ("wall_time_s", "fps", "tries", "started_utc", "ended_utc"):
            entry.pop(name, None)
    return {**read_rows(run_dir), "score": score, "summary": summary}


def read_tree(folder: Path) -> dict[str, bytes]:
    """The content of every file under a folder, to detect changes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
