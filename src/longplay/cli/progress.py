"""Progress of a run: one live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from longplay.cli.toolkit import SafeConsole
from longplay.runs.loop import Progress
from longplay.runs.progress import (
    describe_learning,
    describe_line,
    describe_progress,
    format_seconds,
)
from longplay.runs.status import RunView

if TYPE_CHECKING:
    from longplay.verify.replay import ReplayProgress

_PLAIN_EVERY_S = 5.0
_BAR_CELLS = 20
_ROOM_FOR_WORDS = 125


def describe_replay(progress: ReplayProgress) -> str:
    """`1,536/4,165 rows · 2/6 visits · 9,800 fps · 0:12 left`."""
    fps = progress.fps or 0.0
    parts = [
        f"{progress.frames:,}/{progress.frames_total:,} rows",
        f"{fps:,.0f} fps",
    ]
    if progress.visits_total > 1:
        parts.insert(1, f"{progress.visits}/{progress.visits_total} visits")
    if fps:
        left_s = (progress.frames_total - progress.frames) / fps
        parts.append(f"{format_seconds(left_s)} left")
    return " · ".join(parts)


class ProgressLine:
    """Observes a run and shows its progress; use as a context manager.

    Args:
        quiet: Show nothing.
        note: A line for the user, printed once something is being played: an error
            before that stands alone.
    """

    def __init__(self, *, quiet: bool, note: str | None = None) -> None:
        # Bound to the real stream now: during the run stderr captures the agent.
        console = SafeConsole(stderr=True)
        self._console = SafeConsole(
            file=console.file, force_terminal=console.is_terminal, width=console.width
        )
        self._quiet = quiet
        self._next_plain_s = 0.0
        self._notice = ""
        self._note = note
        self._live: Live | None = None
        if console.is_terminal and not quiet:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )

    def __enter__(self) -> ProgressLine:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self._print_note()
        if self._live is not None:
            self._live.stop()

    def _print_note(self) -> None:
        note, self._note = self._note, None
        if note is not None:
            self._print(note, "dim")

    def __call__(self, progress: Progress) -> None:
        """Shows the progress of a run."""
        self._print_note()
        if progress.notice not in ("", self._notice):
            self._notice = progress.notice
            self._print(progress.notice)
        self._show(
            lambda: _live_line(progress, self._console.width),
            lambda: describe_line(progress),
        )

    def show_replay(self, progress: ReplayProgress) -> None:
        """Shows the progress of a replay."""
        self.show_text(describe_replay(progress))

    def show_text(self, text: str) -> None:
        """Shows a line of text."""
        self._show(lambda: Text(text), lambda: text)

    def show_runs(self, views: Sequence[RunView]) -> None:
        """Shows the progress of several runs."""
        self._print_note()
        self.show_text(_describe_runs(views))

    def _print(self, text: str, style: str = "yellow") -> None:
        """Prints a line that stays."""
        if not self._quiet:
            with contextlib.suppress(OSError, ValueError):  # the terminal is gone
                self._console.print(Text(text, style), soft_wrap=True)

    def _show(
        self, live_line: Callable[[], RenderableType], plain_line: Callable[[], str]
    ) -> None:
        if self._quiet:
            return
        try:
            if self._live is not None:
                self._live.update(live_line(), refresh=True)
            elif time.monotonic() >= self._next_plain_s:
                self._next_plain_s = time.monotonic() + _PLAIN_EVERY_S
                print(plain_line(), file=self._console.file, flush=True)
        except (OSError, ValueError):  # the terminal is gone; the run continues
            self._quiet = True


def _describe_runs(views: Sequence[RunView]) -> str:
    """`2/4 runs complete · seed 2 qbert 1,200/12,039 · …`."""
    done = sum(view.state == "COMPLETED" for view in views)
    parts = [f"{done}/{len(views)} runs complete"]
    for view in views:
        if view.state == "RUNNING" and view.status is not None:
            at = f"{view.status.frame:,}/{view.status.frames_total:,}"
            parts.append(f"seed {view.plan.seed} {view.status.game_id} {at}")
    return " · ".join(parts)


def _live_line(progress: Progress, width: int) -> Table:
    """The line with a bar on a wide terminal, the short line on a narrow one.

    Reward rate and metrics are shown as far as there is room.
    """
    is_short = width < _ROOM_FOR_WORDS
    done = round(_BAR_CELLS * progress.frame / progress.frames_total)
    bar = Text("━" * done, "green") + Text("━" * (_BAR_CELLS - done), "bright_black")
    styles = {"game": "bold cyan", "left": "bold"}
    parts = [
        Text(text, styles.get(name, ""), no_wrap=True)
        for name, text in describe_progress(progress, is_short=is_short).items()
        if text
    ]
    gap = 1 if is_short else 2
    used = sum(part.cell_len + gap for part in parts) + (0 if is_short else _BAR_CELLS)
    noun = "" if is_short else progress.frame_noun
    for text in describe_learning(progress.reward_rate, progress.metrics, noun):
        used += cell_len(text) + gap
        if used > width:
            break
        parts.append(Text(text, no_wrap=True))
    line = Table.grid(padding=(0, gap))
    line.add_row(*parts) if is_short else line.add_row(bar, *parts)
    return line
