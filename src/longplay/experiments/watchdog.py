"""Ends the daemons of a local Ray when the process that starts it is killed.

Ray's own processes end with the process that started them, except its agents: they
survive a SIGKILL of that process. So every process that is started inside gets a mark
in its environment. A helper process waits until this process is gone, however it ended,
and then kills the marked ones. Linux only; elsewhere nothing is done.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_VARIABLE = "LONGPLAY_RAY_DRIVER"
# Seconds in which the daemons may end by themselves.
_GRACE_S = 3.0


@contextlib.contextmanager
def end_with_this_process() -> Iterator[None]:
    """Ends the processes that are started inside, when this process is killed."""
    if not Path("/proc/self/environ").exists():
        yield
        return
    mark = secrets.token_hex(16)
    command = [sys.executable, "-S", str(Path(__file__)), mark]
    helper = subprocess.Popen(command, stdin=subprocess.PIPE)
    os.environ[_VARIABLE] = mark
    try:
        yield
    finally:
        # Ray was shut down in the normal way, or by the caller.
        del os.environ[_VARIABLE]
        helper.kill()
        helper.communicate()


def kill_marked(mark: str) -> None:
    """Kills the processes of this user that were started with a mark."""
    entry = f"{_VARIABLE}={mark}".encode()
    for environment in Path("/proc").glob("[0-9]*/environ"):
        # It has ended, or belongs to another user.
        with contextlib.suppress(OSError):
            if entry in environment.read_bytes().split(b"\0"):
                os.kill(int(environment.parent.name), signal.SIGKILL)


if __name__ == "__main__":
    # Ctrl-C is for the process that started this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()  # until that process is gone
    time.sleep(_GRACE_S)
    kill_marked(sys.argv[1])
