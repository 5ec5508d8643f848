"""The loop: stream x participant -> records, to a recorder.

Everything a run does per frame is on this page. `session` handles folders, status and
signals; the stream decides what an agent may know.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from time import monotonic, perf_counter
from typing import NoReturn, TypeVar

from longplay.agents.metrics import Metrics, find_non_finite
from longplay.contract.rows import EventRow
from longplay.errors import (
    AgentError,
    ConsoleError,
    LongplayError,
    RunCancelled,
    RunPreempted,
    describe_exception,
    describe_text,
)
from longplay.runs.fork_guard import ForkGuard
from longplay.runs.metric_rows import WINDOW_DECISIONS
from longplay.runs.options import CHECKPOINT_S
from longplay.runs.recorder import Recorder
from longplay.stream import Stream
from longplay.tracks.participant import Participant

# Seconds between two ticks: flushing, stop requests and progress reports.
_TICK_S = 0.25
# Part of the time that checkpoints may take.
_CHECKPOINT_SHARE = 0.02
_CLOCK_FRAMES = 16


@dataclass(frozen=True)
class Progress:
    """The progress of a run, for its observer."""

    frame: int
    frames_total: int
    game_id: str
    visit_idx: int
    visits_total: int
    cycle_idx: int
    last_return: float | None
    elapsed_s: float
    # The frame at which this process started or resumed the run.
    first_frame: int = 0
    # What a frame is called on the run's track.
    frame_noun: str = "frame"
    # Delivered reward per frame of the visit so far.
    reward_rate: float | None = None
    # What the agent reported last.
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    # Which of several runs it is; "" for a single run.
    run: str = ""
    # Something that the user should know; "" if there is nothing.
    notice: str = ""

    @classmethod
    def measure(
        cls,
        stream: Stream,
        recorder: Recorder,
        frames_total: int,
        first_frame: int,
        elapsed_s: float,
    ) -> Progress:
        """The progress of a stream that is being recorded, on any track."""
        visit = stream.visit
        return cls(
            frame=stream.global_frame_idx,
            frames_total=frames_total,
            game_id=visit.game_id,
            visit_idx=visit.visit_idx,
            visits_total=len(stream.schedule),
            cycle_idx=visit.cycle_idx,
            last_return=recorder.last_return,
            elapsed_s=elapsed_s,
            first_frame=first_frame,
            reward_rate=recorder.reward_rate,
            metrics=recorder.metric_rows.last,
        )

    @property
    def fps(self) -> float | None:
        """Frames per second so far."""
        frames = self.frame - self.first_frame
        return frames / self.elapsed_s if self.elapsed_s > 0 else None


Observer = Callable[[Progress], None]
_Answer = TypeVar("_Answer")


class StopRequest:
    """A flag that a signal handler sets and the loop polls.

    Attributes:
        reason: What to raise; None until a stop is requested.
    """

    reason: type[RunCancelled] | type[RunPreempted] | None = None


class Run:
    """One run under way."""

    def __init__(
        self,
        stream: Stream,
        participant: Participant,
        recorder: Recorder,
        observer: Observer,
        stop: StopRequest,
        checkpoint: Callable[[], None] = lambda: None,
        checkpoint_s: float = CHECKPOINT_S,
        before_visit: Callable[[], None] | None = None,
    ) -> None:
        self._stream = stream
        self._participant = participant
        self._recorder = recorder
        self._observer = observer
        self._stop = stop
        self._checkpoint = checkpoint
        self._checkpoint_s = checkpoint_s
        # Of a probe: sets the agent back. Then no checkpoint lies within a visit.
        self._before_visit = before_visit
        self._notice = ""
        self._has_warned = False
        self._frames_total = sum(visit.visit_frames for visit in stream.schedule)
        participant.join(stream)
        # No row is written before the agent has processed its frame.
        recorder.before_flush = self._settle
        self._failed_frame: int | None = None
        self.fork_guard = ForkGuard()

    @property
    def frame(self) -> int:
        """The next frame; after an agent's error, the frame at which it failed."""
        if self._failed_frame is not None:
            return self._failed_frame
        return self._stream.global_frame_idx

    def play(self) -> None:
        """Plays to the end of the schedule.

        Raises:
            RunCancelled, RunPreempted: The run was asked to stop.
            RunFailed: The agent, the console or the disk failed.
        """
        stream, recorder = self._stream, self._recorder
        self._first_frame = stream.global_frame_idx
        self._started_s = monotonic()
        self._next_tick_s = self._started_s + _TICK_S
        self._next_checkpoint_s = self._started_s + self._checkpoint_s
        while not stream.done:
            stream.begin_visit()
            recorder.begin_visit(stream.visit, stream.console.actions)
            if self._before_visit is not None:
                self.ask(self._before_visit)
            try:
                last = self._play_visit()
            except ConsoleError:
                self._settle()  # the agent may have failed at an earlier frame
                raise
            self._end_visit(last)
            # The branches of a probe are short: not every one ends with a checkpoint.
            is_probe = self._before_visit is not None and not stream.done
            if not is_probe or self._is_checkpoint_due(monotonic()):
                self._make_checkpoint()
            self._stop_if_asked()
        recorder.sync()

    def _settle(self) -> None:
        """Waits until the agent has processed every frame."""
        try:
            self._participant.settle()
        except BaseException as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> NoReturn:
        """Drops the rows from the frame on at which the agent failed."""
        frame = self._stream.global_frame_idx
        self._failed_frame = self._participant.find_failed_frame(frame)
        self._recorder.drop_from(self._failed_frame)
        self._blame_agent(error)

    def _end_visit(self, last: EventRow) -> None:
        window, visit = self.ask(self._participant.end_visit)
        self._write_metrics(last, window)
        self._recorder.end_visit(visit)

    def _end_window(self, last: EventRow) -> None:
        self._write_metrics(last, self.ask(self._participant.window_metrics))

    def _write_metrics(self, last: EventRow, metrics: Metrics) -> None:
        self.ask(lambda: self._recorder.metric_rows.write(last, metrics))
        if not self._has_warned and (names := find_non_finite(metrics)):
            self._has_warned = True
            self.warn(
                f"the agent reported values of {', '.join(names)} that are not finite, "
                f"first before {self._stream.frame_noun} {self.frame}; they are left "
                "out and counted"
            )

    def warn(self, text: str) -> None:
        """Shows a line to the user now, and keeps it in agent_output.txt."""
        self._notice = describe_text(text)
        sys.stderr.write(f"longplay: {self._notice}\n")
        self._report_progress(monotonic())

    def _play_visit(self) -> EventRow:
        """Plays the rest of a visit; returns its last row."""
        stream, participant = self._stream, self._participant
        write_frame = self._recorder.write_frame
        looks_between_decisions = participant.looks_between_decisions
        decisions = self._recorder.visit_decisions
        while True:
            percept = stream.percept(looks_between_decisions)
            try:
                answer = participant.answer(percept)
            except BaseException as error:
                self._fail(error)
            del percept  # frees memory for the next frame, still warm in the cache
            event = stream.advance(answer)
            write_frame(event, stream)
            if event.truncated:
                # No tick here: a checkpoint now would see a visit that is over but
                # not yet summarised.
                return event
            # An agent computes on decision frames, so the clock is read there, and
            # every few frames in between where decisions are rare.
            if event.is_decision_frame:
                decisions += 1
                if not decisions % WINDOW_DECISIONS:
                    self._end_window(event)
            elif event.visit_frame_idx % _CLOCK_FRAMES:
                continue
            if monotonic() >= self._next_tick_s:
                self._tick()

    def ask(self, question: Callable[[], _Answer]) -> _Answer:
        """Calls the agent outside the frame loop; its errors name the frame."""
        try:
            return question()
        except BaseException as error:
            self._blame_agent(error)

    def _blame_agent(self, error: BaseException) -> NoReturn:
        """Raises an AgentError that names the frame; longplay's own errors pass."""
        place = self._stream.describe_place(self.frame)
        if isinstance(error, AgentError):
            message = describe_text(f"{error} {place}")
            raise AgentError(message) from error.__cause__
        if isinstance(error, LongplayError | KeyboardInterrupt):
            raise error
        raise AgentError(
            f"the agent raised {describe_exception(error)} {place}; "
            "its traceback is in agent_output.txt"
        ) from error

    def _make_checkpoint(self) -> None:
        self._recorder.flush()
        self.ask(self.fork_guard.check)
        started_s = perf_counter()
        self.ask(self._checkpoint)
        taken_s = perf_counter() - started_s
        interval_s = max(self._checkpoint_s, taken_s / _CHECKPOINT_SHARE)
        if interval_s > self._checkpoint_s:
            self._notice = (
                f"a checkpoint took {taken_s:.1f} s: the next one is due in "
                f"{interval_s:.0f} s instead of {self._checkpoint_s:g} s"
            )
        self._next_checkpoint_s = monotonic() + interval_s

    def _is_checkpoint_due(self, now_s: float) -> bool:
        return self._stop.reason is not None or now_s >= self._next_checkpoint_s

    def _stop_if_asked(self) -> None:
        if self._stop.reason is not None:
            place = f"{self._stream.frame_noun} {self.frame}"
            raise self._stop.reason(f"stopped before {place}")

    def _tick(self) -> None:
        """Flushes, stops if asked to, and reports to the observer."""
        now_s = monotonic()
        self._next_tick_s = now_s + _TICK_S
        self.ask(self.fork_guard.check)
        self._recorder.flush()
        if self._before_visit is None and self._is_checkpoint_due(now_s):
            self._make_checkpoint()
            self._stop_if_asked()
        self._report_progress(now_s)

    def _report_progress(self, now_s: float) -> None:
        progress = Progress.measure(
            self._stream,
            self._recorder,
            self._frames_total,
            self._first_frame,
            now_s - self._started_s,
        )
        self._observer(replace(progress, notice=self._notice))
