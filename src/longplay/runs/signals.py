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


def _limit_to_this_process(handler: Handler) -> Handler:
    """A handler that a forked process of the agent does not have.

    Pools of processes end their workers by SIGTERM.
    """
    pid = os.getpid()

    def handle(number: int, frame: FrameType | None) -> None:
        if os.getpid() == pid:
            handler(number, frame)
            return
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    return handle


@contextlib.contextmanager
def _handling(handlers: Mapping[int, Handler]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return
    before = {
        number: signal.signal(number, _limit_to_this_process(handler))
        for number, handler in handlers.items()
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
