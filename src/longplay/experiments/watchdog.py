"""Ends the daemons of a local Ray when the process that starts it is killed.

Ray's own processes follow their driver, but for its agents: after a SIGKILL of the
driver they stay. A helper process, started before Ray, notes the descendants of the
driver while Ray starts. It waits until the driver is gone, however it ended, and then
kills those that are left. Linux only; elsewhere nothing is done.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

# Seconds between two looks at the processes while Ray starts.
_SCAN_S = 0.2
# Seconds in which the daemons may end by themselves.
_GRACE_S = 3.0


@contextlib.contextmanager
def end_with_this_process() -> Iterator[Callable[[], None]]:
    """Ends the descendants that this process starts inside, when it is gone.

    Yields:
        A function to call when all of them were started.
    """
    if not Path("/proc/self/stat").exists():
        yield lambda: None
        return
    others = find_descendants([os.getpid()])
    arguments = map(str, (os.getpid(), *others))
    command = [sys.executable, "-S", str(Path(__file__)), *arguments]
    helper = subprocess.Popen(command, stdin=subprocess.PIPE, close_fds=True)

    def tell() -> None:
        assert helper.stdin is not None
        with contextlib.suppress(OSError):  # it was killed
            os.write(helper.stdin.fileno(), b"\n")

    try:
        yield tell
    finally:
        # Ray was shut down in the normal way, or by the caller.
        helper.kill()
        helper.communicate()


def find_descendants(pids: Iterable[int]) -> list[int]:
    """The processes that these processes started, and those that they started."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parent = int(_read_stat(int(entry.name))[1])
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = list(pids)
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


def kill_remaining(found: Mapping[int, str]) -> None:
    """Kills the processes that are left; never another one of the same pid.

    Args:
        found: Pid -> when it was started.
    """
    for pid, start in found.items():
        if _read_start(pid) == start:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)


def watch(driver: int, others: Iterable[int]) -> dict[int, str]:
    """Waits until the driver is gone.

    Args:
        driver: Its pid. It writes to our standard input when Ray was started.
        others: Its descendants that are not Ray's.

    Returns:
        Pid -> start of the processes that it started, and that these started.
    """
    found: dict[int, str] = {}
    ignored = {os.getpid(), *others}
    is_starting = True
    while True:
        timeout_s = (_SCAN_S,) if is_starting else ()
        is_told = bool(select.select([sys.stdin], [], [], *timeout_s)[0])
        # Pids are used again: a process that ended may now be another one.
        left = [pid for pid, start in found.items() if _read_start(pid) == start]
        for pid in find_descendants([driver, *left]):
            if pid not in ignored and (start := _read_start(pid)):
                found[pid] = start
        if is_told:
            is_starting = False
            if not os.read(sys.stdin.fileno(), 1):
                return found


if __name__ == "__main__":
    # Ctrl-C is for the driver.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    started = watch(int(sys.argv[1]), map(int, sys.argv[2:]))
    time.sleep(_GRACE_S)
    kill_remaining(started)
