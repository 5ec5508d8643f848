"""Run directory -> the inputs of its score.

One pass over events.jsonl collects the nonzero rewards; everything else is arithmetic
on a few windows per visit.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.contract.records import (
    PredictionRow,
    RunConfig,
    ScheduledVisit,
    TimestepRow,
)
from longplay.contract.rundir import (
    FRAMES_FINGERPRINT,
    RunDirectory,
    fingerprint_frames,
)
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
    ends = list(itertools.accumulate(v.visit_frames for v in config.played_schedule))
    return tuple(
        PlayedVisit(visit, Span(end - visit.visit_frames, end - 1))
        for visit, end in zip(config.played_schedule, ends, strict=True)
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
    scan = _scan_events(run)
    if scan.last_frame + 1 < config.total_frames and not partial:
        reached = (
            f"its last frame is {scan.last_frame}" if scan.count else "it has no frame"
        )
        raise IncompleteRunError(
            f"{run.path}: the run is not complete: {reached} of "
            f"0 … {config.total_frames - 1}. Run `longplay resume` to continue, or "
            f"score the finished visits with --partial"
        )
    visits = tuple(p for p in played_visits(config) if p.span.end <= scan.last_frame)
    return Play(
        config=config,
        visits=visits,
        rewards=scan.rewards,
        game_rewards=scan.game_rewards,
        terminated_ends=_read_terminated_ends(run),
        fps=_read_fps(run, scan.count, scan.clock_s),
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


@dataclass(frozen=True)
class _Scan:
    """The result of one pass over events.jsonl."""

    count: int
    last_frame: int
    rewards: Rewards
    game_rewards: Rewards
    clock_s: float | None
    forecasts: Forecasts | None


def _scan_events(run: RunDirectory) -> _Scan:
    """Reads the nonzero rewards, and checks that no frame is missing."""
    names, dense = ["reward"], []
    if issubclass(run.config.event_row, TimestepRow):
        names.append("game_reward")
    if issubclass(run.config.event_row, PredictionRow):
        dense = ["global_frame_idx", "prediction", "target"]
    numbers = [*names, *dense[1:]]
    count, null_count, last, fingerprint, clock_s, *lists = run.events.aggregate(
        f"""count(*), count(*) - count(global_frame_idx + {" + ".join(numbers)}),
        max(global_frame_idx), {FRAMES_FINGERPRINT},
        max(TRY_CAST(wallclock_time AS DOUBLE))
        - min(TRY_CAST(wallclock_time AS DOUBLE)),
        {", ".join([*map(_list_sparse, names), *map(_list_dense, dense)])}""",
        needs=("global_frame_idx", *numbers, "wallclock_time"),
    )
    if run.events.is_torn and null_count:  # the torn line itself
        count, null_count = count - 1, null_count - 1
    last_frame = -1 if last is None else int(last)
    is_gapless = fingerprint == fingerprint_frames(count)
    if null_count or not is_gapless or last_frame >= run.config.total_frames:
        raise DocumentError(
            f"events.jsonl: expected frames 0, 1, 2, … once each with a reward, found "
            f"{count} rows up to frame {last_frame}; run `longplay validate` for "
            "details"
        )
    rewards = _make_rewards(*lists[:2])
    game_rewards = _make_rewards(*lists[2:4]) if len(names) > 1 else rewards
    forecasts = _make_forecasts(*lists[4:]) if dense else None
    return _Scan(count, last_frame, rewards, game_rewards, clock_s, forecasts)


def _list_sparse(column: str) -> str:
    """SQL: the frames where a column is nonzero, and its values there."""
    where = f"FILTER (WHERE {column} <> 0)"
    return f"list(global_frame_idx) {where}, list({column}) {where}"


def _list_dense(column: str) -> str:
    """SQL: all values of a column."""
    return f"list({column}) FILTER (WHERE global_frame_idx IS NOT NULL)"


def _make_forecasts(
    frames: list[int] | None,
    predictions: list[float] | None,
    targets: list[float] | None,
) -> Forecasts:
    order = np.argsort(frames or [], kind="stable")
    return Forecasts(
        np.array(predictions or [], np.float64)[order],
        np.array(targets or [], np.float64)[order],
    )


def _make_rewards(frames: list[int] | None, values: list[float] | None) -> Rewards:
    order = np.argsort(frames or [], kind="stable")
    return Rewards(
        np.array(frames or [], np.int64)[order],
        np.array(values or [], np.float64)[order],
    )


def _read_terminated_ends(run: RunDirectory) -> Any:
    (ends,) = run.episodes.aggregate(
        "list(end_global_frame_idx) FILTER (WHERE ended_by = 'terminated')",
        needs=("end_global_frame_idx", "ended_by"),
    )
    return np.array(ends or [], np.int64)


def _read_fps(run: RunDirectory, frames: int, clock_s: float | None) -> float | None:
    if run.summary is not None:
        return run.summary.fps
    return (frames - 1) / clock_s if clock_s else None
