"""Signals -> requests that the loop polls.

SIGINT cancels a run; SIGTERM and SIGUSR1, which cluster schedulers send to preempt a
job, queue it to be resumed. A handler only sets a flag: the loop writes a checkpoint
before it stops.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType

from longplay.errors import RunCancelled, RunPreempted
from longplay.runs.loop import StopRequest

Handler = Callable[[int, FrameType | None], None]

_PREEMPTING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)
)
# The request of the current command, shared by all of its runs.
_of_command: StopRequest | None = None
# The signals that have a handler of this module now.
_handled: frozenset[int] = frozenset()


@contextlib.contextmanager
def defer_preemption() -> Iterator[None]:
    """Wraps a whole command: holds a request until a loop can act on it.

    A write in progress when the signal arrives is completed.
    """
    global _of_command  # noqa: PLW0603 - signals are per process, too
    _of_command = stop = StopRequest()

    def remember(number: int, frame: FrameType | None) -> None:
        stop.reason = RunPreempted

    try:
        with _handling(dict.fromkeys(_PREEMPTING, remember)):
            yield
    finally:
        _of_command = None


@contextlib.contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Wraps a loop: turns signals into a request; a second Ctrl-C interrupts."""
    stop = _of_command or StopRequest()

    def cancel(number: int, frame: FrameType | None) -> None:
        stop.reason = RunCancelled
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def preempt(number: int, frame: FrameType | None) -> None:
        stop.reason = RunPreempted

    handlers = {signal.SIGINT: cancel, **dict.fromkeys(_PREEMPTING, preempt)}
    with _handling(handlers):
        yield stop


@contextlib.contextmanager
def _handling(handlers: Mapping[int, Handler]) -> Iterator[None]:
    global _handled  # noqa: PLW0603 - signals are per process, too
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return
    outer = _handled
    before = {
        number: signal.signal(number, handler) for number, handler in handlers.items()
    }
    _handled = _handled.union(handlers)
    try:
        yield
    finally:
        _handled = outer
        for number, handler in before.items():
            signal.signal(number, handler)


class _Forking:
    """A process that the agent forks does not have the handlers of the run.

    Pools of processes end their workers by SIGTERM, at any moment: also while a worker
    is made. Until the copy has its own handlers, signals wait.
    """

    def __init__(self) -> None:
        self._mask = threading.local()

    def before(self) -> None:
        self._mask.before = signal.pthread_sigmask(signal.SIG_BLOCK, _handled)

    def in_parent(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask.before)

    def in_child(self) -> None:
        for number in _handled:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask.before)


if hasattr(os, "register_at_fork"):
    _forking = _Forking()
    os.register_at_fork(
        before=_forking.before,
        after_in_parent=_forking.in_parent,
        after_in_child=_forking.in_child,
    )
