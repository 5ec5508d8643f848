"""Frames -> run directory: buffered, append-only, whole rows.

Rows are encoded and written in the blocks of digests.jsonl; only the sums of the
current visit are kept, so memory does not grow with the length of a run. The JSONL
files are a pure function of suite, seed and agent. Only run_summary.json contains
times. The recorder's state between two frames is one plain record, from which another
recorder can continue.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from pydantic import Field

from longplay.agents.metrics import Metrics
from longplay.console.base import ACTION_NAMES
from longplay.contract.config import ScheduledVisit
from longplay.contract.curves import VisitWindows
from longplay.contract.digests import Chain, ends_block
from longplay.contract.documents import Document, RunSummary, Utc, VisitSummary
from longplay.contract.files import RowFile, iter_rows, open_regular
from longplay.contract.rows import (
    DigestRow,
    EpisodeRow,
    EventRow,
    SegmentRow,
    TimestepRow,
)
from longplay.contract.rundir import ROW_FILES
from longplay.runs.metric_rows import METRICS_FILE, MetricRows
from longplay.stream import Stream

_encode_lines = msgspec.json.Encoder().encode_lines
_reward_of = attrgetter("reward")
_is_decision_of = attrgetter("is_decision_frame")
_game_reward_of = attrgetter("game_reward")
_emulator_frames_of = attrgetter("emulator_frames")


def _do_nothing() -> None:
    pass


def utc_now() -> str:
    """The current time in the format of the records."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _VisitTally:
    """Sums of the current visit."""

    def __init__(self, visit: ScheduledVisit, actions: Sequence[int]) -> None:
        self.visit = visit
        self.action_names = tuple(ACTION_NAMES[action] for action in actions)
        self.started_utc = utc_now()
        self.started_s = time.perf_counter()
        self.frames = self.decision_frames = self.emulator_frames = 0
        self.episodes = 0
        self.reward_sum = self.game_reward_sum = 0.0
        self.windows = VisitWindows(visit.visit_frames)

    def continue_from(
        self, earlier: VisitSummary, windows: dict[str, list[float]]
    ) -> None:
        """Starts from the sums of an earlier process that played part of the visit."""
        self.windows = VisitWindows(self.visit.visit_frames, windows)
        self.started_utc = earlier.started_utc
        self.started_s -= earlier.wall_time_s
        self.frames = earlier.frames
        self.decision_frames = earlier.decision_frames
        self.emulator_frames = earlier.emulator_frames
        self.episodes = earlier.episodes
        self.reward_sum = earlier.reward_sum
        self.game_reward_sum = earlier.game_reward_sum

    def add(self, events: Sequence[EventRow], episodes: int) -> None:
        reward_sum = sum(map(_reward_of, events))
        self.windows.add(self.frames, events)
        self.frames += len(events)
        self.decision_frames += sum(map(_is_decision_of, events))
        self.reward_sum += reward_sum
        self.episodes += episodes
        if events and isinstance(events[0], TimestepRow):
            self.emulator_frames += sum(map(_emulator_frames_of, events))
            self.game_reward_sum += sum(map(_game_reward_of, events))
        else:
            self.emulator_frames += len(events)
            self.game_reward_sum += reward_sum

    def summarise(self, metrics: Metrics) -> VisitSummary:
        return VisitSummary(
            visit_idx=self.visit.visit_idx,
            game_id=self.visit.game_id,
            cycle_idx=self.visit.cycle_idx,
            frames=self.frames,
            decision_frames=self.decision_frames,
            emulator_frames=self.emulator_frames,
            reward_sum=self.reward_sum,
            game_reward_sum=self.game_reward_sum,
            episodes=self.episodes,
            wall_time_s=time.perf_counter() - self.started_s,
            started_utc=self.started_utc,
            action_names=self.action_names,
            metrics=metrics,
        )


class RecorderState(Document):
    """A recorder's state between two frames; the rows themselves are on the disk."""

    sizes_bytes: dict[str, int] = Field(description="Row file -> its length.")
    chain: str = Field(description="Last chain of digests.jsonl, or zeros.")
    chained_bytes: int = Field(description="Length of events.jsonl at that chain.")
    visit_bytes: int = Field(description="Length of events.jsonl before this visit.")
    segments: int = Field(description="Rows of segments.jsonl.")
    visits: tuple[VisitSummary, ...] = Field(description="Visits that have ended.")
    visit: VisitSummary | None = Field(description="The current visit, so far.")
    windows: dict[str, list[float]] = Field(description="Its sums for curves.jsonl.")
    started_utc: Utc
    last_return: float | None


class RowFiles(NamedTuple):
    """The row files of a run."""

    events: RowFile
    episodes: RowFile
    segments: RowFile
    digests: RowFile
    curves: RowFile

    @classmethod
    def create(cls, run_dir: Path) -> RowFiles:
        """Creates the files; they must not exist yet."""
        return cls(*(RowFile.create(run_dir / name) for name in ROW_FILES))

    @classmethod
    def reopen(cls, run_dir: Path, sizes_bytes: Mapping[str, int]) -> RowFiles:
        """Truncates the files to a recorder's state, to continue from there."""
        return cls(
            *(RowFile.reopen(run_dir / name, sizes_bytes[name]) for name in ROW_FILES)
        )


class Recorder:
    """Writes the row files of one run, and sums them up."""

    def __init__(
        self,
        files: RowFiles,
        chain: Chain | None = None,
        metric_rows: MetricRows | None = None,
    ) -> None:
        self._files = files
        self.metric_rows = metric_rows or MetricRows()
        self._chain = chain or Chain()
        self._chained_bytes = 0
        self._event_rows: list[EventRow] = []
        self._episode_rows: list[EpisodeRow] = []
        self._segment_rows: list[SegmentRow] = []
        self._segment_count = 0
        # Lengths of the files when they were last synced.
        self._synced_bytes = [-1] * len(files)
        self._tally: _VisitTally | None = None
        self._visit_bytes = 0
        self._visits: list[VisitSummary] = []
        self._earlier: VisitSummary | None = None
        self._earlier_windows: dict[str, list[float]] = {}
        self._started_utc = utc_now()
        self.last_return: float | None = None
        # Called before rows leave the buffer; it may drop some.
        self.before_flush: Callable[[], None] = _do_nothing

    @classmethod
    def create(cls, run_dir: Path) -> Recorder:
        """Makes the recorder of a new run."""
        metric_rows = MetricRows(run_dir / METRICS_FILE)
        return cls(RowFiles.create(run_dir), metric_rows=metric_rows)

    @classmethod
    def restore(cls, run_dir: Path, state: RecorderState) -> Recorder:
        """Continues from another recorder's state; later rows are cut off."""
        files = RowFiles.reopen(run_dir, state.sizes_bytes)
        size_bytes = state.sizes_bytes.get(METRICS_FILE, 0)
        metric_rows = MetricRows.restore(run_dir / METRICS_FILE, size_bytes)
        recorder = cls(files, Chain(bytes.fromhex(state.chain)), metric_rows)
        recorder._chained_bytes = state.chained_bytes
        with open_regular(run_dir / "events.jsonl") as events:
            events.seek(state.chained_bytes)
            for row in iter_rows(events, "events.jsonl"):
                recorder._chain.add(row)
        recorder._visit_bytes = state.visit_bytes
        recorder._segment_count = state.segments
        recorder._visits = list(state.visits)
        recorder._earlier = state.visit
        recorder._earlier_windows = state.windows
        recorder._started_utc = state.started_utc
        recorder.last_return = state.last_return
        return recorder

    def snapshot(self) -> RecorderState:
        """Flushes the buffer and returns the state."""
        self.flush()
        return RecorderState(
            sizes_bytes={
                name: file.size_bytes
                for name, file in zip(ROW_FILES, self._files, strict=True)
            }
            | {METRICS_FILE: self.metric_rows.size_bytes},
            chain=self._chain.head.hex(),
            chained_bytes=self._chained_bytes,
            visit_bytes=self._visit_bytes,
            segments=self._segment_count,
            visits=tuple(self._visits),
            visit=None if self._tally is None else self._tally.summarise({}),
            windows={} if self._tally is None else self._tally.windows.sums,
            started_utc=self._started_utc,
            last_return=self.last_return,
        )

    def begin_visit(self, visit: ScheduledVisit, actions: Sequence[int]) -> None:
        """Starts the sums of a visit, and its clock."""
        self._tally = _VisitTally(visit, actions)
        if self._earlier is not None:
            self._tally.continue_from(self._earlier, self._earlier_windows)
            self._earlier = None
        else:
            self._visit_bytes = self._files.events.size_bytes

    def write_frame(self, event: EventRow, stream: Stream) -> None:
        """Records the frame that a stream just played, and everything it ended."""
        self._event_rows.append(event)
        if event.terminated or event.truncated:
            self.write_ends(stream.ended_episode, stream.ended_segment)
        if ends_block(event):
            self.write_digest(event, stream.ram_crc32)

    def write(self, event: EventRow) -> None:
        """Buffers one frame; it is written with its block."""
        self._event_rows.append(event)

    def drop_from(self, frame: int) -> None:
        """Drops the buffered rows of a frame and of all later ones."""
        kept = bisect_left(self._event_rows, frame, key=attrgetter("global_frame_idx"))
        del self._event_rows[kept:]
        self._episode_rows = [
            row for row in self._episode_rows if row.end_global_frame_idx < frame
        ]
        self._segment_rows = [
            row for row in self._segment_rows if row.end_global_frame_idx < frame
        ]

    def write_ends(
        self, episode: EpisodeRow | None, segment: SegmentRow | None
    ) -> None:
        """Buffers the rows that the last frame ended; call it before the next one."""
        if episode is not None:
            self._episode_rows.append(episode)
            self.last_return = episode.return_
        if segment is not None:
            self._segment_rows.append(segment)

    def write_digest(self, event: EventRow, ram_crc32: int) -> None:
        """Closes the block that ends with the last frame."""
        self.flush()
        chain = self._chain.close_block().hex()
        self._chained_bytes = self._files.events.size_bytes
        row = DigestRow(
            event.global_frame_idx,
            event.visit_idx,
            event.visit_frame_idx,
            f"{ram_crc32:08x}",
            chain,
        )
        self._files.digests.append(_encode_lines([row]))

    def flush(self) -> None:
        """Writes the buffered rows; if `before_flush` fails, those that it left."""
        try:
            self.before_flush()
        finally:
            self._write_buffer()

    def _write_buffer(self) -> None:
        """Writes the rows; events first, as the others refer to them."""
        events, episodes, segments = (
            self._event_rows,
            self._episode_rows,
            self._segment_rows,
        )
        # Cleared first, so that rows are not written twice after a failed write.
        self._event_rows, self._episode_rows, self._segment_rows = [], [], []
        rows = _encode_lines(events)
        self._files.events.append(rows)
        self._chain.add(rows)
        if self._tally is not None:
            self._tally.add(events, len(episodes))
        if episodes:
            self._files.episodes.append(_encode_lines(episodes))
        if segments:
            self._files.segments.append(_encode_lines(segments))
        self._segment_count += len(segments)

    @property
    def visit_decisions(self) -> int:
        """Decisions of the current visit that were written out."""
        return 0 if self._tally is None else self._tally.decision_frames

    @property
    def ended_visit_idx(self) -> int | None:
        """The visit that has just ended; None while one is being played."""
        if self._tally is not None or self._earlier is not None or not self._visits:
            return None
        return self._visits[-1].visit_idx

    @property
    def reward_rate(self) -> float | None:
        """Delivered reward per frame of the current visit, so far."""
        tally = self._tally
        return tally.reward_sum / tally.frames if tally and tally.frames else None

    def end_visit(self, metrics: Metrics) -> None:
        """Writes out a visit that was played to its end, and closes its sums."""
        self.flush()
        if self._tally is not None:
            curve = self._tally.windows.to_row(self._tally.visit)
            self._files.curves.append(_encode_lines([curve]))
            self._visits.append(self._tally.summarise(metrics))
            self._tally = None

    def sync(self) -> None:
        """Waits until every row written is on the disk."""
        for file, synced_bytes in zip(self._files, self._synced_bytes, strict=True):
            if file.size_bytes != synced_bytes:
                file.sync()
        self._synced_bytes = [file.size_bytes for file in self._files]
        self.metric_rows.sync()

    def close(self) -> None:
        """Closes the files; does not write."""
        for file in self._files:
            file.close()
        self.metric_rows.close()

    def summarise(
        self, usage: dict[str, Any] | None = None, tries: int = 1
    ) -> RunSummary:
        """Summarises the frames played so far, including an unfinished visit.

        Args:
            usage: The usage that the agent reports.
            tries: How often the run was started or resumed.
        """
        visits = list(self._visits)
        if self._tally is not None:
            visits.append(self._tally.summarise({}))
        frames = sum(visit.frames for visit in visits)
        wall_time_s = sum(visit.wall_time_s for visit in visits)
        return RunSummary(
            frames=frames,
            decision_frames=sum(visit.decision_frames for visit in visits),
            emulator_frames=sum(visit.emulator_frames for visit in visits),
            wall_time_s=wall_time_s,
            fps=frames / wall_time_s if wall_time_s > 0 else None,
            episodes=sum(visit.episodes for visit in visits),
            segments=self._segment_count,
            tries=tries,
            started_utc=self._started_utc,
            ended_utc=utc_now(),
            chain_head=self._chain.head.hex() if self._chained_bytes else None,
            visits=tuple(visits),
            usage=usage,
        )
