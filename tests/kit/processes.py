"""Processes that tests start and kill."""

from __future__ import annotations

from pathlib import Path


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that only waits to be reaped is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
