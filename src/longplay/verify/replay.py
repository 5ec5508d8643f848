"""Replays logged visits and compares every row.

A visit is a pure function of game, emulator seed and actions. So replay runs the stream
of the run on the logged decisions instead of an agent's, and its recorder gets
`CheckedRows` instead of files. Pixels are fetched only for the frames that are shown.

Visits are independent: each starts with the ids of its first logged row and with the
last logged chain before it. So they can be replayed by any number of processes;
whether the ids of consecutive visits match is checked at the end.

Invalid content in a file is reported as a difference, never as a crash. A line that is
not a valid row is read as action 0, and then differs from the replayed row.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from itertools import accumulate
from multiprocessing import get_context
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np

from longplay.console.base import Observation
from longplay.contract.config import GLOBAL_ACTION_SET, RunConfig, visit_spans
from longplay.contract.digests import BLOCK_FRAMES, NO_CHAIN, Chain, ends_block
from longplay.contract.files import open_regular
from longplay.contract.rows import LARGEST_VALUE, DigestRow, EventRow
from longplay.errors import (
    CannotVerifyError,
    ConsoleError,
    DifferenceError,
    LongplayError,
    RowDifference,
)
from longplay.runs.checked_rows import (
    LONGEST_ROW_BYTES,
    CheckedRows,
    IgnoredRows,
    LinePosition,
)
from longplay.runs.recorder import Recorder, RowFiles
from longplay.stream import Stream, StreamState
from longplay.tracks.catalogue import make_stream

_CHUNK_BYTES = 1024 * 1024
_TICK_S = 0.25
_NUM_ACTIONS = len(GLOBAL_ACTION_SET)
_NOT_A_ROW = (msgspec.MsgspecError, ValueError, RecursionError)


@dataclass(frozen=True)
class ReplayProgress:
    """The progress of a replay, for its observer."""

    frames: int
    frames_total: int
    visits: int
    visits_total: int
    elapsed_s: float

    @property
    def fps(self) -> float | None:
        """Frames per second so far, of all processes together."""
        return self.frames / self.elapsed_s if self.elapsed_s > 0 else None


ReplayObserver = Callable[[ReplayProgress], None]


def ignore_replay(progress: ReplayProgress) -> None:
    """The default observer: does nothing."""


class RowIds(NamedTuple):
    """The ids that are counted across visits."""

    episode_id: int
    segment_id: int


@dataclass(frozen=True)
class VisitTask:
    """One visit to be replayed, as plain values that can be sent to a process.

    Attributes:
        run_dir: The run directory.
        config: The run's config, with only this visit in its schedule.
        first_frame: Frame of the run it starts with.
        events: Where its rows start in events.jsonl.
        digests: Where its rows start in digests.jsonl.
        chain: The last logged chain before it.
    """

    run_dir: Path
    config: RunConfig
    first_frame: int
    events: LinePosition
    digests: LinePosition
    chain: bytes

    @property
    def visit_idx(self) -> int:
        """Which visit of the run it is."""
        return self.config.schedule[0].visit_idx

    @property
    def frames(self) -> int:
        """Number of frames to play."""
        return self.config.schedule[0].visit_frames


@dataclass(frozen=True)
class VisitOutcome:
    """The result of replaying a visit.

    Attributes:
        visit_idx: Which visit.
        first_frame: Frame of the run it starts with.
        first_ids: Ids of its first row, as logged.
        next_ids: Ids that the row after it must have.
        difference: The first row that differs from the log.
        problem: Why it could not be played at all.
    """

    visit_idx: int
    first_frame: int
    first_ids: RowIds
    next_ids: RowIds
    difference: RowDifference | None = None
    problem: str | None = None


# --- Feeding a stream -----------------------------------------------------------


class ReplayedFrame(NamedTuple):
    """A replayed frame with its pixels.

    Attributes:
        observation: What the agent saw before it acted on this frame, RGB.
        row: The frame's row of events.jsonl.
        episode_return: Return of the game episode before this frame.
    """

    observation: Observation
    row: EventRow
    episode_return: float


class PlayedBlock(NamedTuple):
    """Frames up to a row of digests.jsonl, or to the last answer.

    Attributes:
        last: Row of the last frame.
        shown: The frames whose pixels were requested.
    """

    last: EventRow
    shown: list[ReplayedFrame]


def begin_visit(stream: Stream, recorder: Recorder) -> None:
    """Starts the next visit of a stream, for a recorder that sums it up."""
    stream.begin_visit()
    recorder.begin_visit(stream.visit, stream.console.actions)


def feed_stream(
    stream: Stream,
    recorder: Recorder,
    answers: Iterable[object],
    shown: range = range(0),
) -> Iterator[PlayedBlock]:
    """Plays one frame per answer and records it, without an agent.

    A block is yielded after it was recorded. So if the recorder compares rows with a
    log, no frame is seen before its row was compared.

    Args:
        stream: Plays the frames.
        recorder: Records them.
        answers: The answer to each frame, in place of an agent's.
        shown: Frames of the run whose pixels are fetched.
    """
    event, frames = None, list[ReplayedFrame]()
    for answer in answers:
        is_shown = stream.global_frame_idx in shown
        pixels = stream.percept().observation if is_shown else None
        episode_return = stream.episode_return
        event = stream.advance(answer)
        if pixels is not None:
            frames.append(ReplayedFrame(pixels, event, episode_return))
        recorder.write_frame(event, stream)
        if ends_block(event):
            yield PlayedBlock(event, frames)
            frames = []
    if event is not None and not ends_block(event):
        recorder.flush()
        yield PlayedBlock(event, frames)


# The largest id that a row can contain.
_Id = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class LoggedDecision(msgspec.Struct, gc=False):
    """The fields that replay reads from a row of events.jsonl; it computes the rest."""

    decided_action_idx: int
    is_decision_frame: bool
    episode_id: _Id
    segment_id: _Id
    prediction: float | None = None

    @property
    def answer(self) -> float:
        """The prediction of a prediction run, else the action; 0 if invalid."""
        if self.prediction is None:
            return self.action
        return self.prediction if abs(self.prediction) <= LARGEST_VALUE else 0.0

    @property
    def action(self) -> int:
        """The decided action, or 0 if it is not a valid one."""
        action = self.decided_action_idx
        return action if 0 <= action < _NUM_ACTIONS else 0


_NO_DECISION = LoggedDecision(0, False, 0, 0)


def read_decisions(
    path: Path, start_byte: int, frames: int
) -> Generator[LoggedDecision]:
    """The decisions of the next `frames` rows; invalid rows give action 0."""
    decode = msgspec.json.Decoder(LoggedDecision).decode
    with open_regular(path) as file:
        file.seek(start_byte)
        for _ in range(frames):
            try:
                yield decode(file.readline(LONGEST_ROW_BYTES))
            except _NOT_A_ROW:
                yield _NO_DECISION


# --- One visit ------------------------------------------------------------------


def replay_visit(task: VisitTask, report: Callable[[int], None]) -> VisitOutcome:
    """Replays one visit, up to its first difference."""
    path = task.run_dir / "events.jsonl"
    with closing(read_decisions(path, task.events.byte, 1)) as rows:
        first = next(rows)
    first_ids = RowIds(first.episode_id, first.segment_id)
    difference, problem, next_ids = None, None, first_ids
    try:
        next_ids = _compare_with_log(task, first_ids, report)
    except DifferenceError as error:
        difference = error.difference
    except LongplayError as error:
        problem = str(error)
    return VisitOutcome(
        task.visit_idx, task.first_frame, first_ids, next_ids, difference, problem
    )


def _compare_with_log(
    task: VisitTask, ids: RowIds, report: Callable[[int], None]
) -> RowIds:
    """Replays a visit and compares it with its log; returns the next ids."""
    stream = start_stream(task.config, 0, task.first_frame, ids)
    path = task.run_dir / "events.jsonl"
    decisions = read_decisions(path, task.events.byte, task.frames)
    with closing(open_checked(task)) as recorder, closing(decisions):
        answers = (decision.answer for decision in decisions)
        for block in feed_stream(stream, recorder, answers):
            report(block.last.visit_frame_idx + 1)
    end = stream.snapshot()
    return RowIds(end.episode_id, end.segment_id)


def start_stream(
    config: RunConfig, visit_idx: int, first_frame: int, ids: RowIds
) -> Stream:
    """The stream of a run at the start of a visit.

    Args:
        config: Config of the run.
        visit_idx: Position of the visit in the config's schedule.
        first_frame: Frame of the run that the visit starts with.
        ids: Ids of the visit's first row.
    """
    stream = make_stream(config)
    start = StreamState(
        global_frame_idx=first_frame,
        visit_idx=visit_idx,
        episode_start=first_frame,
        segment_start=first_frame,
        **ids._asdict(),
    )
    stream.restore(start, ())
    return stream


def open_checked(task: VisitTask, *, may_be_unfinished: bool = False) -> Recorder:
    """A recorder that compares rows with the log, from a visit's start on.

    Args:
        task: The visit.
        may_be_unfinished: Whether the last digests may be missing, as in a run that
            is still being played.
    """
    digests = _UnfinishedRows if may_be_unfinished else CheckedRows
    files = RowFiles(
        CheckedRows.open(task.run_dir / "events.jsonl", task.events),
        # They follow from the events; validation checks them against each other.
        IgnoredRows(),
        IgnoredRows(),
        digests.open(task.run_dir / "digests.jsonl", task.digests),
        IgnoredRows(),
    )
    return Recorder(files, Chain(task.chain))


class _UnfinishedRows(CheckedRows):
    """A row file that ends where the run was stopped."""

    def append_beyond(self, logged: bytes, rows: bytes) -> None:
        """There is nothing to compare with yet."""


# --- Where visits are in the files ----------------------------------------------


class LineIndex(NamedTuple):
    """Where some lines start, and the number of whole lines."""

    bytes_before: list[int]
    line_count: int


def index_lines(path: Path, wanted: Sequence[int]) -> LineIndex:
    """Finds the start of lines, counted from 0 and given in order.

    A line that the file does not have starts at its end.
    """
    starts: list[int] = []
    line_count = offset = 0
    with open_regular(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            ends = np.flatnonzero(np.frombuffer(chunk, np.uint8) == ord("\n"))
            while len(starts) < len(wanted):
                line = wanted[len(starts)] - line_count
                if line > len(ends):
                    break
                starts.append(offset + int(ends[line - 1]) + 1 if line else offset)
            line_count += len(ends)
            offset += len(chunk)
    starts += [offset] * (len(wanted) - len(starts))
    return LineIndex(starts, line_count)


def plan_replay(run_dir: Path, config: RunConfig) -> list[VisitTask]:
    """One task per visit of a complete run."""
    spans = visit_spans(config.played_schedule)
    first_frames = [span.start for span in spans]
    blocks = [-(-len(span) // BLOCK_FRAMES) for span in spans]
    first_blocks = [0, *accumulate(blocks)][:-1]
    events = index_lines(run_dir / "events.jsonl", first_frames)
    digests_path = run_dir / "digests.jsonl"
    digests = index_lines(digests_path, first_blocks)
    # Each visit starts from the digest row before its own.
    ends = index_lines(digests_path, [max(0, block - 1) for block in first_blocks])
    return [
        VisitTask(
            run_dir,
            _single_out(config, position),
            first_frames[position],
            LinePosition(events.bytes_before[position], first_frames[position]),
            LinePosition(digests.bytes_before[position], first_blocks[position]),
            _read_chain(digests_path, ends.bytes_before[position])
            if position
            else NO_CHAIN,
        )
        for position in range(len(spans))
    ]


def _single_out(config: RunConfig, position: int) -> RunConfig:
    """The config with a single visit, so that a task stays small."""
    seeds = config.emulator_seeds or ()
    return config.model_copy(
        update={
            "schedule": (config.played_schedule[position],),
            "stop_frame": None,
            "emulator_seeds": (seeds[position],),
        }
    )


def _read_chain(path: Path, start_byte: int) -> bytes:
    """A logged chain; zeros for a broken row, which its own visit reports."""
    with open_regular(path) as file:
        file.seek(start_byte)
        line = file.readline(LONGEST_ROW_BYTES)
    try:
        return bytes.fromhex(msgspec.json.decode(line, type=DigestRow).chain)
    except _NOT_A_ROW:
        return NO_CHAIN


# --- Many visits ----------------------------------------------------------------


def replay_visits(
    tasks: Sequence[VisitTask], workers: int, observer: ReplayObserver
) -> list[VisitOutcome]:
    """Replays visits, the longest first; returns the results in order of visits."""
    by_length = sorted(tasks, key=lambda task: -task.frames)
    watch = ReplayWatch([task.frames for task in by_length], observer)
    workers = min(workers, len(by_length))
    play = _replay_here if workers <= 1 else _replay_spread
    outcomes = play(by_length, workers, watch)
    for outcome in outcomes:
        if outcome.problem is not None:
            raise CannotVerifyError(
                f"visit {outcome.visit_idx} cannot be replayed here: {outcome.problem}"
            )
    return sorted(outcomes, key=lambda outcome: outcome.visit_idx)


class ReplayWatch:
    """Sums the progress of all visits, and reports it to the observer."""

    def __init__(self, visit_frames: Sequence[int], observer: ReplayObserver) -> None:
        self._frames = visit_frames
        self._observer = observer
        self._started_s = monotonic()
        self._next_tick_s = self._started_s

    def tell(self, played: Sequence[int]) -> None:
        """Reports the frames played of each visit, if a report is due."""
        now_s = monotonic()
        if now_s < self._next_tick_s:
            return
        self._next_tick_s = now_s + _TICK_S
        self._observer(
            ReplayProgress(
                frames=sum(played),
                frames_total=sum(self._frames),
                visits=sum(map(int.__eq__, played, self._frames)),
                visits_total=len(self._frames),
                elapsed_s=now_s - self._started_s,
            )
        )


def _replay_here(
    tasks: Sequence[VisitTask], workers: int, watch: ReplayWatch
) -> list[VisitOutcome]:
    played = [0] * len(tasks)

    def replay(position: int, task: VisitTask) -> VisitOutcome:
        def report(frames: int) -> None:
            played[position] = frames
            watch.tell(played)

        return replay_visit(task, report)

    return [replay(position, task) for position, task in enumerate(tasks)]


def _replay_spread(
    tasks: Sequence[VisitTask], workers: int, watch: ReplayWatch
) -> list[VisitOutcome]:
    # Spawned: a fork would copy running threads.
    context = get_context("spawn")
    played = context.RawArray("q", len(tasks))
    pool = ProcessPoolExecutor(workers, context, _share, (played,))
    try:
        futures = [
            pool.submit(_replay_shared, position, task)
            for position, task in enumerate(tasks)
        ]
        pending: set[Future[VisitOutcome]] = set(futures)
        while pending:
            pending = wait(pending, timeout=_TICK_S).not_done
            watch.tell(list(played))
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise ConsoleError(
            "a process that replayed visits died; try fewer --workers"
        ) from error
    finally:
        pool.shutdown(cancel_futures=True)


# Frames played of each task, where the parent can see them; set in each process.
_played: Any = None


def _share(played: Any) -> None:
    global _played  # noqa: PLW0603 - a pool's initializer can only set a global
    _played = played
    # Ctrl-C reaches every process: these end silently, the parent reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _replay_shared(position: int, task: VisitTask) -> VisitOutcome:
    def report(frames: int) -> None:
        _played[position] = frames

    return replay_visit(task, report)
