"""Ends the daemons of a local Ray when the process that started it is killed.

Ray's own processes follow their driver, but for its agents: after a SIGKILL of the
driver they stay. A helper process waits until the driver is gone, however it ended,
and then kills the daemons that it was told of. Linux only; elsewhere nothing is done.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

# Seconds in which the daemons may end by themselves.
_GRACE_S = 3.0


@contextlib.contextmanager
def end_with_this_process() -> Iterator[None]:
    """Ends all present descendants of this process when it is gone."""
    found = [f"{pid}:{_read_start(pid)}" for pid in find_descendants(os.getpid())]
    if not found:
        yield
        return
    command = [sys.executable, "-S", str(Path(__file__)), *found]
    helper = subprocess.Popen(command, stdin=subprocess.PIPE, close_fds=True)
    try:
        yield
    finally:
        # Ray was shut down in the normal way, or by the caller.
        helper.kill()
        helper.communicate()


def find_descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parent = int(_read_stat(int(entry.name))[1])
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _read_stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name: state, parent and so on."""
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return text.rpartition(")")[2].split()


def _read_start(pid: int) -> str:
    """When a process was started; "" if it is gone."""
    try:
        return _read_stat(pid)[19]
    except (OSError, IndexError):
        return ""


def kill_remaining(found: Sequence[str]) -> None:
    """Kills the processes `PID:START` that are left; never another one of that pid."""
    for entry in found:
        pid, _, start = entry.partition(":")
        if start and _read_start(int(pid)) == start:
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGKILL)


if __name__ == "__main__":
    # Ctrl-C is for the driver.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()  # returns when the driver is gone
    time.sleep(_GRACE_S)
    kill_remaining(sys.argv[1:])
