"""Progress of a run -> one line of text, which a caller in Python sees rewritten."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from typing import TextIO

from longplay.errors import escape_controls
from longplay.runs.loop import Observer, Progress

_LONGEST_NAME = 24
# Reward rate and metrics at the end of a line.
_MOST_NUMBERS = 5
# The first seconds of a run import, compile and fill buffers: they predict nothing.
_ESTIMATE_AFTER_S = 5.0
# Seconds between two lines where a line cannot be rewritten.
_PLAIN_EVERY_S = 5.0


def format_seconds(seconds: float) -> str:
    """`1:02:03`, or `2:03` below an hour."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def describe_progress(progress: Progress, *, is_short: bool = False) -> dict[str, str]:
    """The parts of a progress line, in order; abbreviated if it is short."""
    fps = progress.fps or 0.0
    has_estimate = fps > 0 and progress.elapsed_s >= _ESTIMATE_AFTER_S
    left = (progress.frames_total - progress.frame) / fps if has_estimate else None
    last = "–" if progress.last_return is None else f"{progress.last_return:g}"
    visit, cycle, frame, returned = (
        ("v", "c", "", "ret ")
        if is_short
        else ("visit ", "cycle ", f"{progress.frame_noun} ", "last return ")
    )
    return {
        "run": progress.run,
        "game": progress.game_id,
        "visit": f"{visit}{progress.visit_idx}/{progress.visits_total}",
        "cycle": f"{cycle}{progress.cycle_idx}",
        "frame": f"{frame}{progress.frame:,}/{progress.frames_total:,}",
        "return": f"{returned}{last}",
        "fps": f"{fps:,.0f} fps",
        "left": "" if left is None else f"{format_seconds(left)} left",
    }


def format_metric(value: float | None) -> str:
    """A metric with three digits; – if it had no finite value."""
    return "–" if value is None else f"{value:.3g}"


def describe_learning(
    reward_rate: float | None, metrics: Mapping[str, float | None], frame_noun: str = ""
) -> list[str]:
    """`reward 0.012 per frame`, then the agent's metrics as `loss 1.5`.

    Args:
        reward_rate: Delivered reward per frame of the visit.
        metrics: What the agent reported; the names can be any text.
        frame_noun: What a frame is called; "" for abbreviated text.
    """
    shown = [
        f"{escape_controls(name)[:_LONGEST_NAME]} {format_metric(value)}"
        for name, value in metrics.items()
    ]
    if reward_rate is None:
        return shown
    rate = f"{reward_rate:.3g}"
    return [f"reward {rate} per {frame_noun}" if frame_noun else f"rew {rate}", *shown]


def describe_line(progress: Progress) -> str:
    """The parts of a progress line and the first of the agent's numbers."""
    parts = filter(None, describe_progress(progress).values())
    numbers = describe_learning(
        progress.reward_rate, progress.metrics, progress.frame_noun
    )
    return " · ".join([*parts, *numbers[:_MOST_NUMBERS]])


@contextlib.contextmanager
def showing_progress(is_shown: bool | None, observer: Observer) -> Iterator[Observer]:
    """Shows the progress on one line of stderr, beside calling an observer.

    Args:
        is_shown: Whether to show it; None shows it on a terminal and in a notebook.
        observer: Is called with the progress, too.

    Yields:
        The observer for the run.
    """
    line = _Line(sys.stderr)  # bound now: during the run stderr captures the agent
    if not (line.is_rewritten if is_shown is None else is_shown):
        yield observer
        return

    def watch(progress: Progress) -> None:
        observer(progress)
        line.show(describe_line(progress))

    try:
        yield watch
    finally:
        line.clear()


class _Line:
    """A line that is rewritten on a terminal and in a notebook; else one every 5 s."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._is_terminal = file.isatty()
        # Jupyter's stream: not a terminal, but its pages understand "\r".
        is_notebook = type(file).__module__.partition(".")[0] == "ipykernel"
        self.is_rewritten = self._is_terminal or is_notebook
        self._shown = 0
        self._next_plain_s = 0.0

    def show(self, text: str) -> None:
        if self._is_terminal:
            text = text[: shutil.get_terminal_size().columns - 1]
        if self.is_rewritten:
            self._write(f"\r{text.ljust(self._shown)}")
            self._shown = len(text)
        elif time.monotonic() >= self._next_plain_s:
            self._next_plain_s = time.monotonic() + _PLAIN_EVERY_S
            self._write(f"{text}\n")

    def clear(self) -> None:
        if self._shown:
            self._write(f"\r{' ' * self._shown}\r")

    def _write(self, text: str) -> None:
        # The terminal may be gone; the run continues.
        with contextlib.suppress(OSError, ValueError):
            self._file.write(text)
            self._file.flush()
