"""Damaged and malicious inputs: a message and an exit code, never a traceback.

All commands run in one process that may use 4 GiB and take 20 s for each.
"""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from command_server import LARGEST_MEMORY_BYTES, LONGEST_S, CommandServer
from hostile_inputs import CASES, Case, Place, make_place


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return make_place(tmp_path_factory.mktemp("hostile"))


@pytest.fixture
def place(original: Place, tmp_path: Path) -> Place:
    return original.copy(tmp_path / "place")


@pytest.fixture(scope="module")
def server() -> Iterator[CommandServer]:
    server = CommandServer()
    yield server
    server.close()


def test_table_has_more_than_a_hundred_inputs() -> None:
    assert len({str(case) for case in CASES}) == len(CASES) >= 100


def _mark(case: Case) -> object:
    marks = [pytest.mark.exhaustive] if case.is_slow else []
    return pytest.param(case, id=str(case), marks=marks)


@pytest.mark.few(50)
@pytest.mark.parametrize("case", [_mark(case) for case in CASES])
def test_hostile_input(case: Case, place: Place, server: CommandServer) -> None:
    answer = server.run(case.prepare(place), place.folder)
    assert answer.traceback == ""
    said = " ".join(answer.output.split())
    assert answer.exit_code == case.exit_code, said
    assert case.words in said
    assert "\x1b" not in answer.output
    assert "\x9b" not in answer.output
    assert answer.seconds < LONGEST_S


# --- Places, in processes of their own ----------------------------------------------


def run_in_shell(script: str, *args: object) -> subprocess.CompletedProcess[str]:
    """Runs `longplay` as `$LONGPLAY` in a shell script, within the limits."""
    longplay = f"{sys.executable} -P -m longplay"
    limits = f"ulimit -v {LARGEST_MEMORY_BYTES // 1024}"
    return subprocess.run(
        ["bash", "-c", f"{limits}; {script}", longplay, *map(str, args)],
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * LONGEST_S,
    )


# Script ($0 is the command, $1 the folder, $2 the run), exit code, words.
SHELL = {
    "standard output is full": (
        "$0 validate $2 > /dev/full",
        1,
        "No space left on device",
    ),
    "standard output as JSON is full": (
        "$0 show $2 --json > /dev/full",
        1,
        "No space left on device",
    ),
    "an error as JSON on a full device": (
        "$0 show $1/nowhere --json > /dev/full",
        1,
        "No space left on device",
    ),
    "a reader that went away": ("$0 suites --json | head -c 1 > /dev/null", 0, ""),
    "a removed working folder": (
        "mkdir $1/gone && cd $1/gone && rmdir $1/gone && $0 validate x",
        2,
        "no such folder",
    ),
    "a run in a removed working folder": (
        "mkdir $1/gone && cd $1/gone && rmdir $1/gone && "
        "$0 run stream-smoke-v1 --agent random",
        1,
        "No such file or directory",
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", SHELL)
def test_hostile_place(name: str, place: Place) -> None:
    script, exit_code, words = SHELL[name]
    done = run_in_shell(script, place.folder, place.run)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert words in done.stderr
    assert done.returncode == exit_code, done.stderr


def test_file_system_without_locks_is_named(
    place: Place, invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    agent = place.folder / "stopping_agent.py"
    answer = invoke("resume", place.stopped, "--agent", agent)
    assert answer.exit_code == 2
    assert "cannot be locked" in answer.stderr.replace("\n", " ")
