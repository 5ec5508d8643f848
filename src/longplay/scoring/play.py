"""Run directory -> the inputs of its score.

One pass over events.jsonl collects the nonzero rewards; everything else is arithmetic
on a few windows per visit.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from longplay.contract.columns import RowReader
from longplay.contract.config import RunConfig, ScheduledVisit, visit_spans
from longplay.contract.files import iter_rows, open_regular
from longplay.contract.rows import PredictionRow, TimestepRow
from longplay.contract.rules import ForecastColumns, SparseColumn
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError, IncompleteRunError
from longplay.scoring.metrics import Rewards, Span


@dataclass(frozen=True)
class PlayedVisit:
    """A visit of the schedule, and the frames it covers."""

    visit: ScheduledVisit
    span: Span


@dataclass(frozen=True)
class Forecasts:
    """Predictions and targets of every frame, (frames,) each."""

    predictions: NDArray[np.float64]
    targets: NDArray[np.float64]


@dataclass(frozen=True)
class Play:
    """The inputs of a score.

    Attributes:
        config: All settings, including the scoring windows.
        visits: The scored visits, from the first on.
        rewards: Delivered rewards.
        game_rewards: The games' own rewards; the same in a streaming run.
        terminated_ends: Last frames of the game episodes that the game ended.
        fps: Frames per second of playing.
        forecasts: Predictions and targets of a prediction run.
    """

    config: RunConfig
    visits: tuple[PlayedVisit, ...]
    rewards: Rewards
    game_rewards: Rewards
    terminated_ends: np.ndarray[Any, np.dtype[np.int64]]
    fps: float | None
    forecasts: Forecasts | None = None

    @property
    def frames(self) -> int:
        """Number of scored frames."""
        return sum(played.span.length for played in self.visits)

    def visits_of(self, game_id: str) -> list[PlayedVisit]:
        """A game's visits, in order."""
        return [p for p in self.visits if p.visit.game_id == game_id]


def played_visits(config: RunConfig) -> tuple[PlayedVisit, ...]:
    """The schedule's visits with the frames they cover."""
    spans = visit_spans(config.played_schedule)
    return tuple(
        PlayedVisit(visit, Span(span[0], span[-1]))
        for visit, span in zip(config.played_schedule, spans, strict=True)
    )


def read_play(run: RunDirectory, *, partial: bool = False) -> Play:
    """Reads the inputs of a run's score.

    Args:
        run: The run.
        partial: Score only the finished visits of an incomplete run.

    Raises:
        IncompleteRunError: Frames are missing, and `partial` is not set.
        DocumentError: A file is missing or broken.
    """
    config = run.config
    if config.is_tuning and not partial:
        raise IncompleteRunError(
            f"{run.path}: a tuning run has no score; its result is in tuning.json. For "
            "a score, play the whole stream, without --stop-after"
        )
    if config.probe is not None:
        raise IncompleteRunError(
            f"{run.path}: a probe has no score; its result is in probe.json"
        )
    scan = _scan_events(run)
    if scan.count < config.total_frames and not partial:
        reached = (
            f"its last frame is {scan.count - 1}" if scan.count else "it has no frame"
        )
        raise IncompleteRunError(
            f"{run.path}: the run is not complete: {reached} of "
            f"0 … {config.total_frames - 1}. Run `longplay resume` to continue, or "
            f"score the finished visits with --partial"
        )
    visits = tuple(p for p in played_visits(config) if p.span.end < scan.count)
    return Play(
        config=config,
        visits=visits,
        rewards=scan.rewards,
        game_rewards=scan.game_rewards,
        terminated_ends=_read_terminated_ends(run),
        fps=_read_fps(run, scan.count),
        forecasts=scan.forecasts,
    )


def check_ended(run: RunDirectory) -> None:
    """Rejects a longplay run whose state is not COMPLETED.

    Raises:
        IncompleteRunError: The run was stopped before its score was written, even if
            all its frames are there.
    """
    if run.status is not None and run.status.state != "COMPLETED":
        raise IncompleteRunError(
            f"{run.path}: the run is not complete: its state is {run.status.state}. "
            "Run `longplay resume` to continue, or score the finished visits with "
            "--partial"
        )


class _RewardRow(msgspec.Struct, gc=False):
    """The columns of events.jsonl that a score needs; contract v1."""

    global_frame_idx: int
    reward: float


class _TimestepRewardRow(_RewardRow, gc=False):
    game_reward: float


class _ForecastRow(_TimestepRewardRow, gc=False):
    prediction: float
    target: float


class _EpisodeEndRow(msgspec.Struct, gc=False):
    """The columns of episodes.jsonl that a score needs."""

    end_global_frame_idx: int
    ended_by: str


@dataclass(frozen=True)
class _Scan:
    """The result of one pass over events.jsonl."""

    count: int
    rewards: Rewards
    game_rewards: Rewards
    forecasts: Forecasts | None


def _scan_events(run: RunDirectory) -> _Scan:
    """Reads the nonzero rewards, and checks that no frame is missing."""
    path, config = run.path / "events.jsonl", run.config
    if not path.is_file():
        raise DocumentError(f"{path.name}: missing in {run.path}")
    row_type, count = _row_type_of(config), 0
    # Rows may come in any order.
    is_seen = np.zeros(min(config.total_frames, path.stat().st_size), np.bool_)
    rewards, game_rewards = SparseColumn(), SparseColumn()
    forecasts = ForecastColumns()
    for chunk in RowReader(row_type, {}, canonical=False).read_chunks(path):
        columns = chunk.columns
        frames = columns["global_frame_idx"]
        count += len(chunk)
        is_inside = (frames >= 0) & (frames < len(is_seen))
        if chunk.has_damage or not is_inside.all():
            raise _not_gapless(count, int(frames.max(initial=-1)))
        is_seen[frames] = True
        rewards.add(frames, columns["reward"])
        if row_type is not _RewardRow:
            game_rewards.add(frames, columns["game_reward"])
        if row_type is _ForecastRow:
            forecasts.add(columns)
    if is_seen.sum() != count or not is_seen[:count].all():
        raise _not_gapless(count, int(np.flatnonzero(is_seen)[-1]))
    delivered = Rewards(*rewards.by_frame())
    has_own = row_type is not _RewardRow
    return _Scan(
        count,
        delivered,
        Rewards(*game_rewards.by_frame()) if has_own else delivered,
        Forecasts(*forecasts.by_frame()) if row_type is _ForecastRow else None,
    )


def _not_gapless(count: int, last_frame: int) -> DocumentError:
    return DocumentError(
        "events.jsonl: expected frames 0, 1, 2, … once each with a reward, found "
        f"{count} rows up to frame {last_frame}; run `longplay validate` for details"
    )


def _row_type_of(config: RunConfig) -> type[_RewardRow]:
    if issubclass(config.event_row, PredictionRow):
        return _ForecastRow
    is_timestep = issubclass(config.event_row, TimestepRow)
    return _TimestepRewardRow if is_timestep else _RewardRow


def _read_terminated_ends(run: RunDirectory) -> Any:
    path, ends = run.path / "episodes.jsonl", []
    if not path.is_file():
        raise DocumentError(f"{path.name}: missing in {run.path}")
    reader = RowReader(_EpisodeEndRow, {"ended_by": ("terminated",)}, canonical=False)
    for chunk in reader.read_chunks(path):
        if chunk.has_damage:
            raise DocumentError(
                f"{path.name}:{chunk.unreadable[0].line}: "
                f"{chunk.unreadable[0].message}; run `longplay validate` for details"
            )
        is_terminated = chunk.columns["ended_by"] == 0
        ends.append(chunk.columns["end_global_frame_idx"][is_terminated])
    return np.concatenate(ends)


def _read_fps(run: RunDirectory, frames: int) -> float | None:
    if run.summary is not None:
        return run.summary.fps
    clock_s = _read_clock(run.path / "events.jsonl")
    return (frames - 1) / clock_s if clock_s else None


class _ClockRow(msgspec.Struct, gc=False):
    """A row of another tool, which may have written its clock in any format."""

    wallclock_time: Any = None


def _read_clock(path: Path) -> float | None:
    """Seconds between the first and the last row, if another tool recorded them."""
    decode = msgspec.json.Decoder(_ClockRow).decode
    moments = []
    with open_regular(path) as file:
        for line in iter_rows(file, path.name):
            with contextlib.suppress(msgspec.DecodeError, TypeError, ValueError):
                moments.append(float(decode(line).wallclock_time))
    return max(moments) - min(moments) if moments else None
