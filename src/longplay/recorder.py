"""Frames -> run directory: buffered, append-only, whole rows.

Rows are encoded and written in chunks; nothing is kept of them but the sums of the
current visit, so memory does not grow with the length of a run. The JSONL files are a
pure function of suite, seed and agent. Clocks go into run_summary.json alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from longplay.console.base import ACTION_NAMES
from longplay.contract.files import RowFile
from longplay.contract.records import (
    EpisodeRow,
    EventRow,
    RunSummary,
    ScheduledVisit,
    SegmentRow,
    TimestepRow,
    VisitSummary,
)

# Rows encoded at once: few enough to stay in the processor's cache until they are.
_CHUNK_ROWS = 256

_encode_lines = msgspec.json.Encoder().encode_lines
_reward_of = attrgetter("reward")
_is_decision_of = attrgetter("is_decision_frame")
_game_reward_of = attrgetter("game_reward")
_emulator_frames_of = attrgetter("emulator_frames")


def utc_now() -> str:
    """The time as records write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class _VisitTally:
    """Sums of a visit under way."""

    def __init__(self, visit: ScheduledVisit, actions: Sequence[int]) -> None:
        self.visit = visit
        self.action_names = tuple(ACTION_NAMES[action] for action in actions)
        self.started_utc = utc_now()
        self.started_s = time.perf_counter()
        self.frames = self.decision_frames = self.emulator_frames = 0
        self.episodes = 0
        self.reward_sum = self.game_reward_sum = 0.0

    def add(self, events: Sequence[EventRow], episodes: int) -> None:
        reward_sum = sum(map(_reward_of, events))
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

    def summarise(self, metrics: dict[str, float]) -> VisitSummary:
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


class Recorder:
    """Writes the row files of one run, and sums up what they hold."""

    def __init__(self, run_dir: Path) -> None:
        self._events = RowFile(run_dir / "events.jsonl")
        self._episodes = RowFile(run_dir / "episodes.jsonl")
        self._segments = RowFile(run_dir / "segments.jsonl")
        self._event_rows: list[EventRow] = []
        self._episode_rows: list[EpisodeRow] = []
        self._segment_rows: list[SegmentRow] = []
        self._segment_count = 0
        self._tally: _VisitTally | None = None
        self._visits: list[VisitSummary] = []
        self._started_utc = utc_now()
        self.last_return: float | None = None

    def begin_visit(self, visit: ScheduledVisit, actions: Sequence[int]) -> None:
        """Starts the sums of a visit, and its clock."""
        self._tally = _VisitTally(visit, actions)

    def write(self, event: EventRow) -> None:
        """Takes one frame; it reaches the disk with its chunk."""
        self._event_rows.append(event)
        if len(self._event_rows) >= _CHUNK_ROWS:
            self.flush()

    def write_ends(
        self, episode: EpisodeRow | None, segment: SegmentRow | None
    ) -> None:
        """Takes what the frame just written ended; call it before the next frame."""
        if episode is not None:
            self._episode_rows.append(episode)
            self.last_return = episode.return_
        if segment is not None:
            self._segment_rows.append(segment)

    def flush(self) -> None:
        """Writes what is buffered; events first, as the others refer to them."""
        events, episodes, segments = (
            self._event_rows,
            self._episode_rows,
            self._segment_rows,
        )
        # Taken out first: after a failed write nothing is tried a second time.
        self._event_rows, self._episode_rows, self._segment_rows = [], [], []
        self._events.append(_encode_lines(events))
        if self._tally is not None:
            self._tally.add(events, len(episodes))
        if episodes:
            self._episodes.append(_encode_lines(episodes))
        if segments:
            self._segments.append(_encode_lines(segments))
        self._segment_count += len(segments)

    def end_visit(self, metrics: dict[str, float]) -> None:
        """Writes out a visit and closes its sums."""
        self.flush()
        if self._tally is not None:
            self._visits.append(self._tally.summarise(metrics))
            self._tally = None

    def sync(self) -> None:
        """Waits until every row written is on the disk."""
        for file in (self._events, self._episodes, self._segments):
            file.sync()

    def close(self) -> None:
        """Lets the files go; does not write."""
        for file in (self._events, self._episodes, self._segments):
            file.close()

    def summarise(self, usage: dict[str, Any] | None = None) -> RunSummary:
        """What was played so far; a visit under way counts as far as it got."""
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
            tries=1,
            started_utc=self._started_utc,
            ended_utc=utc_now(),
            chain_head=None,
            visits=tuple(visits),
            usage=usage,
        )
