"""The process between referee and agent: no process of the agent outlives it.

The keeper is the agent's parent and the reaper of its orphans, so every descendant of
the agent becomes the keeper's child in the end. It reports how the agent ended and
kills all descendants: when the agent ends, when they use too much memory, and when the
referee closes the lifeline or dies. It never runs the agent's code.

Only the standard library is imported here.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic

from longplay.agents.isolation.folders import list_memory_devices, remove_tree
from longplay.agents.isolation.seccomp import Listener

_POLL_S = 1.0
# Lines of /proc/PID/status.
_OWN_SIZES = ("VmRSS", "VmSwap", "VmPTE", "HugetlbPages")


def keep(
    agent_pid: int,
    lifeline: int,
    status: int,
    memory_bytes: int | None,
    folder: str,
    listener: int | None,
) -> None:
    """Waits for the agent's end and cleans up after it.

    Args:
        agent_pid: A child of this process.
        lifeline: A pipe whose other end the referee holds; it writes there before it
            closes it.
        status: A pipe to write `{"status", "memory_bytes"}` to.
        memory_bytes: Limit of the memory of the agent and its descendants.
        folder: The agent's own folder; removed here only if the referee has died.
        listener: The descriptor of the agent's filter; None without a sandbox.
    """
    exceeded = _wait_for_end(agent_pid, lifeline, memory_bytes, listener)
    with contextlib.suppress(ProcessLookupError):
        os.kill(agent_pid, signal.SIGKILL)
    _, raw_status = os.waitpid(agent_pid, 0)
    report = {"status": raw_status, "memory_bytes": exceeded}
    with contextlib.suppress(OSError):
        os.write(status, json.dumps(report).encode())
    _kill_descendants()
    if _is_cut(lifeline):
        remove_tree(Path(folder))


def _is_cut(lifeline: int) -> bool:
    """Whether the referee died: the pipe was closed and nothing was written."""
    # Its process id does not tell: pipes are closed before children get a new parent.
    os.set_blocking(lifeline, False)
    try:
        return os.read(lifeline, 1) == b""
    except BlockingIOError:
        return False


def _wait_for_end(
    agent_pid: int,
    lifeline: int,
    memory_bytes: int | None,
    listener: int | None,
) -> int | None:
    """Waits; returns the memory in use if it exceeds the limit."""
    poll = select.poll()
    for fd in (os.pidfd_open(agent_pid), lifeline, listener):
        if fd is not None:
            poll.register(fd, select.POLLIN)
    waiting = None if listener is None else Listener(listener, _find_error)
    timeout_ms = None if memory_bytes is None else _POLL_S * 1000
    next_look_s = monotonic()
    while True:
        ready = [fd for fd, _ in poll.poll(timeout_ms)]
        if ready and ready != [listener]:
            return None
        if ready and waiting is not None:
            waiting.answer()
        # The agent decides how often the listener wakes this process.
        if memory_bytes is not None and monotonic() >= next_look_s:
            next_look_s = monotonic() + _POLL_S
            used = count_memory_bytes(list_descendants(os.getpid()))
            if used > memory_bytes:
                return used


def _find_error(process: int) -> int:
    """The error of a call of the agent that names a process, 0 if it is its own.

    Args:
        process: A process or thread; a process group if it is negative.
    """
    above = abs(process)
    while above > 1:  # -1 stands for all processes of the user
        parent = _parent_of(Path(f"/proc/{above}"))
        if parent is None:
            return errno.ESRCH
        if parent == os.getpid():
            return 0
        above = parent
    return errno.EPERM


def _kill_descendants() -> None:
    """Kills its children until it has none: orphans of those become its children.

    Without a sandbox they may still fork, faster than all of /proc can be read: what is
    found there has forked and ended.
    """
    while True:
        for pid in reversed(_list_children()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return


def _list_children() -> list[int]:
    try:
        text = Path(f"/proc/self/task/{os.getpid()}/children").read_bytes()
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return list_descendants(os.getpid())
    return list(map(int, text.split()))


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


def count_memory_bytes(pids: Iterable[int]) -> int:
    """Memory of processes: resident, swapped out, and in open files without a disk.

    Page tables count, too: reading a page in every 2 MiB of a mapping of 1 TiB takes no
    other memory, and 2 GiB of them. Huge pages are not part of the resident memory. An
    anonymous file (memfd), or one on a tmpfs, takes memory also while no process has
    it mapped.
    """
    own = shared = 0
    devices = list_memory_devices()
    files: dict[tuple[int, int], int] = {}
    for pid in pids:
        sizes = _read_sizes(pid)
        shared += sizes.get("RssShmem", 0)
        own -= sizes.get("RssShmem", 0)
        own += sum(sizes.get(name, 0) for name in _OWN_SIZES)
        files.update(_list_open_files(pid, devices))
    return own + max(shared, sum(files.values()))


def _read_sizes(pid: int) -> dict[str, int]:
    """The lines of /proc/PID/status in bytes."""
    with contextlib.suppress(OSError):
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
        lines = (line.split() for line in text.splitlines() if line.endswith(" kB"))
        return {name[:-1]: int(size) * 1024 for name, size, _ in lines}
    return {}  # it has ended


def _list_open_files(
    pid: int, devices: frozenset[int]
) -> Iterator[tuple[tuple[int, int], int]]:
    """Device and inode of the files in memory that a process has open -> bytes."""
    with contextlib.suppress(OSError):
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                found = link.stat()
                is_anonymous = str(link.readlink()).startswith("/memfd:")
                if is_anonymous or found.st_dev in devices:
                    yield (found.st_dev, found.st_ino), found.st_blocks * 512
