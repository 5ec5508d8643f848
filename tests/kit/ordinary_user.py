"""Makes this process one of an ordinary user, for tests that were started as root."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path

_NOBODY = 65534
_CLONE_NEWNS, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20000, 0x1000, 0x4000, 0x40000
_libc = ctypes.CDLL(None, use_errno=True)


def open_parents(folder: Path) -> None:
    """Lets other users pass through the temporary folders above a folder."""
    for above in folder.parents:
        mode = above.stat().st_mode & 0o7777
        if mode & 0o005 != 0o005:
            above.chmod(mode | 0o055)


def become_ordinary_user() -> None:
    """Changes user and groups; does nothing for an ordinary user."""
    if os.geteuid() != 0:
        return
    _open_way_to([Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]])
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)
    # The home folder of root is out of reach.
    os.environ["HOME"] = "/"


def _open_way_to(folders: list[Path]) -> None:
    """Makes folders reachable that are in a folder which only root can enter.

    It is replaced in a mount namespace of this process: no other process sees it.
    """
    closed = {folder: _find_closed(folder) for folder in folders}
    if not any(closed.values()):
        return
    _check(_libc.unshare(_CLONE_NEWNS))
    _check(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None))
    opened = {path: os.open(path, os.O_PATH) for path, above in closed.items() if above}
    for above in {above for above in closed.values() if above}:
        _check(_libc.mount(b"tmpfs", os.fsencode(above), b"tmpfs", 0, b"mode=755"))
    for path, fd in opened.items():
        path.mkdir(parents=True, exist_ok=True)
        source = f"/proc/self/fd/{fd}".encode()
        flags = _MS_BIND | _MS_REC
        _check(_libc.mount(source, os.fsencode(path), None, flags, None))
        os.close(fd)


def _find_closed(folder: Path) -> Path | None:
    """The topmost folder on the way that others cannot enter."""
    above = [path for path in folder.resolve().parents if not path.stat().st_mode & 1]
    return above[-1] if above else None


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
