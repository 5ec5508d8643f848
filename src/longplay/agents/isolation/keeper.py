"""The process between referee and agent: no process of the agent outlives it.

The keeper is the agent's parent and the reaper of its orphans, so every descendant of
the agent becomes the keeper's child in the end. It reports how the agent ended and
kills all descendants: when the agent ends, when they use too much memory, and when the
referee closes the lifeline or dies. It never runs the agent's code.

Only the standard library is imported here.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
from pathlib import Path

_POLL_S = 1.0
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def keep(
    agent_pid: int,
    lifeline: int,
    status: int,
    memory_bytes: int | None,
    folder: str,
) -> None:
    """Waits for the agent's end and cleans up after it.

    Args:
        agent_pid: A child of this process.
        lifeline: A pipe whose other end the referee holds; it writes there before it
            closes it.
        status: A pipe to write `{"status", "memory_bytes"}` to.
        memory_bytes: Limit of resident memory of the agent and its descendants.
        folder: The agent's own folder; removed here only if the referee has died.
    """
    exceeded = _wait_for_end(agent_pid, lifeline, memory_bytes)
    with contextlib.suppress(ProcessLookupError):
        os.kill(agent_pid, signal.SIGKILL)
    _, raw_status = os.waitpid(agent_pid, 0)
    report = {"status": raw_status, "memory_bytes": exceeded}
    with contextlib.suppress(OSError):
        os.write(status, json.dumps(report).encode())
    _kill_descendants()
    if _is_cut(lifeline):
        shutil.rmtree(folder, ignore_errors=True)


def _is_cut(lifeline: int) -> bool:
    """Whether the referee died: the pipe was closed and nothing was written."""
    # Its process id does not tell: pipes are closed before children get a new parent.
    os.set_blocking(lifeline, False)
    try:
        return os.read(lifeline, 1) == b""
    except BlockingIOError:
        return False


def _wait_for_end(
    agent_pid: int, lifeline: int, memory_bytes: int | None
) -> int | None:
    """Waits; returns the resident memory if it exceeds the limit."""
    agent_fd = os.pidfd_open(agent_pid)
    poll = select.poll()
    poll.register(agent_fd, select.POLLIN)
    poll.register(lifeline, select.POLLIN)
    timeout_ms = None if memory_bytes is None else _POLL_S * 1000
    while not poll.poll(timeout_ms):
        if memory_bytes is not None:
            resident = sum(map(_resident_bytes, list_descendants(os.getpid())))
            if resident > memory_bytes:
                return resident
    return None


def _kill_descendants() -> None:
    """Kills all descendants, repeatedly: new forks become children of this process."""
    while True:
        for pid in list_descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def list_descendants(ancestor: int) -> list[int]:
    """All descendants of a process, read from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and (parent := _parent_of(entry)) is not None:
            children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    pending = [ancestor]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def _parent_of(process: Path) -> int | None:
    try:
        text = (process / "stat").read_bytes()
    except OSError:
        return None  # it has ended
    # The program's name is in parentheses and may contain any character.
    return int(text.rpartition(b")")[2].split()[1])


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_bytes().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
