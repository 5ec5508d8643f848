"""Runs commands one after the other in this process, within limits of its own.

    stdin   {"args": […], "cwd": "…"}    a line per command
    stdout  {"exit_code", "output", "traceback", "seconds", "peak_bytes"}    a line per
            answer; the peak is that of all commands so far

Starting Python and longplay takes longer than most commands: tests of many of them
share a process. `CommandServer` is the tests' side. It kills a process that does not
answer in time, and starts another one for the next command.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LARGEST_MEMORY_BYTES = 4 * 2**30
LONGEST_S = 20.0


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    exit_code: int
    output: str
    traceback: str
    seconds: float
    peak_bytes: int = 0


class CommandServer:
    """A process that runs commands."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._process: subprocess.Popen[str] | None = None

    def run(self, args: list[str], cwd: Path) -> Answer:
        """Runs one command; a command that takes too long has exit code 124."""
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"args": args, "cwd": str(cwd)}) + "\n")
        process.stdin.flush()
        ready, _, _ = select.select([process.stdout], [], [], self._longest_s)
        line = process.stdout.readline() if ready else ""
        if line:
            return Answer(**json.loads(line))
        self.close()
        why = f"killed after {self._longest_s} s" if not ready else "it died"
        return Answer(124, why, why, self._longest_s)

    def _start(self) -> subprocess.Popen[str]:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self._process

    def close(self) -> None:
        """Ends the process, and those it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.communicate()
            self._process = None


def _run_one(args: list[str]) -> dict[str, Any]:
    from typer.testing import CliRunner

    from longplay.cli.app import app

    started_s = time.perf_counter()
    result = CliRunner().invoke(app, args)
    trace = ""
    if result.exception and not isinstance(result.exception, SystemExit):
        trace = "".join(traceback.format_exception(result.exception))
    return {
        "exit_code": result.exit_code,
        "output": result.output,
        "traceback": trace,
        "seconds": time.perf_counter() - started_s,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def _read_commands() -> Iterator[dict[str, Any]]:
    # Commands redirect file descriptor 1 for a while.
    for line in sys.stdin:
        yield json.loads(line)


def main() -> None:
    """Serves until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    from longplay.cli import app  # noqa: F401 - imported before the first command
    from longplay.experiments import experiment  # noqa: F401
    from longplay.verify import verification  # noqa: F401

    limits = (LARGEST_MEMORY_BYTES, LARGEST_MEMORY_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, limits)
    print("ready", file=answers, flush=True)
    for command in _read_commands():
        os.chdir(command["cwd"])
        print(json.dumps(_run_one(command["args"])), file=answers, flush=True)


if __name__ == "__main__":
    main()
