"""Signals to the processes that an agent forks."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from longplay.runs.signals import stop_on_signals

FORKS = 300
LATEST_S = 0.0015  # by then a forked process waits for the lock

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def end_fork(after_s: float) -> int:
    """Ends a forked process that waits for a lock; returns the signal it died of."""
    lock = threading.Lock()
    lock.acquire()
    pid = os.fork()
    if not pid:
        lock.acquire()
        os._exit(0)
    now = time.perf_counter()
    while time.perf_counter() < now + after_s:
        pass
    os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + 10
    while not (ended := os.waitpid(pid, os.WNOHANG))[0]:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            ended = os.waitpid(pid, 0)
            break
        time.sleep(0.0005)
    return os.WTERMSIG(ended[1])


@pytest.mark.exhaustive
def test_signal_at_any_moment_ends_a_fork() -> None:
    """Also while it is made, or between two instructions just before it waits."""
    with stop_on_signals() as stop:
        for fork in range(FORKS):
            assert end_fork(LATEST_S * fork / FORKS) == signal.SIGTERM, fork
    assert stop.reason is None


def test_fork_leaves_the_handlers_of_the_run() -> None:
    with stop_on_signals() as stop:
        handler = signal.getsignal(signal.SIGTERM)
        assert end_fork(0) == signal.SIGTERM
        assert signal.getsignal(signal.SIGTERM) is handler
        assert signal.SIGTERM not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        signal.raise_signal(signal.SIGTERM)
        assert stop.reason is not None
