"""Signals -> requests that the loop polls.

SIGINT cancels a run; SIGTERM and SIGUSR1, by which cluster schedulers ask for room,
make it wait to be resumed. A handler only sets a flag: the loop makes a checkpoint
first.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Mapping
from types import FrameType
from typing import Any

from longplay.errors import RunCancelled, RunPreempted
from longplay.runs.loop import StopRequest

_PREEMPTING = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGUSR1") if hasattr(signal, name)
)
# The request of the command under way, whichever of its runs it reaches.
_of_command: StopRequest | None = None


@contextlib.contextmanager
def defer_preemption() -> Iterator[None]:
    """Around all that a command does: keeps a request until a loop can take it.

    What is being written when it comes is written to its end.
    """
    global _of_command  # noqa: PLW0603 - signals are the process's, too
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
    """Around a loop: turns signals into a request; a second Ctrl-C interrupts."""
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
def _handling(handlers: Mapping[int, Any]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach the main thread only
        return
    before = {number: signal.signal(number, h) for number, h in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
