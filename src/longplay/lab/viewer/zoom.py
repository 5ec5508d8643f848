"""A range of frames -> its rewards, for fine bins, and how often each action was used.

Only the rows of the range are read. Rows are in the order of their frames, so the first
one is found by bisection.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from longplay.console.base import ACTION_NAMES
from longplay.contract.config import RunConfig, visit_spans
from longplay.contract.files import LARGEST_ROW_BYTES, open_regular
from longplay.errors import DocumentError

Reals = NDArray[np.float64]

# In a wider range, the bins of the whole run are fine enough.
MOST_FRAMES = 250_000
_MOST_BINS = 1000
_CHUNK_BYTES = 4 * 2**20
# As many rows have about 80 MB; rows that need more are not longplay's.
_MOST_BYTES = 256 * 2**20


class _Row(msgspec.Struct, gc=False):
    """The column of events.jsonl that finds a row."""

    global_frame_idx: int


class _Reward(_Row, gc=False):
    reward: float


class _Action(_Row, gc=False):
    applied_action_idx: int


_AnyRow = TypeVar("_AnyRow", bound=_Row)


@dataclass(frozen=True)
class Zoom:
    """A part of a run that is shown larger.

    Attributes:
        frames: Its frames.
        rewards: (frames,) delivered rewards, NaN where there is no row; None if the
            part is too long, or the run has no rows.
    """

    frames: range
    rewards: Reals | None = None


def read_zoom(run_dir: Path, frames: range) -> Zoom:
    """The rewards of some frames of a run directory.

    Raises:
        DocumentError: events.jsonl is missing, or a line is not a row.
    """
    if len(frames) > MOST_FRAMES:
        return Zoom(frames)
    rewards = np.full(len(frames), np.nan)
    for row in _read_part(run_dir, frames, _Reward):
        rewards[row.global_frame_idx - frames.start] = row.reward
    return Zoom(frames, rewards)


def count_actions(run_dir: Path, frames: range) -> list[int] | None:
    """How many of some frames each action was applied on; None if they are too many.

    Raises:
        DocumentError: events.jsonl is missing, or a line is not a row.
    """
    if len(frames) > MOST_FRAMES:
        return None
    counts = [0] * len(ACTION_NAMES)
    for row in _read_part(run_dir, frames, _Action):
        if not 0 <= row.applied_action_idx < len(counts):
            raise DocumentError(
                f"events.jsonl: expected actions from 0 to {len(counts) - 1}, found "
                f"{row.applied_action_idx} at frame {row.global_frame_idx}"
            )
        counts[row.applied_action_idx] += 1
    return counts


def _read_part(
    run_dir: Path, frames: range, row_type: type[_AnyRow]
) -> Iterator[_AnyRow]:
    """The rows of some frames."""
    try:
        with open_regular(run_dir / "events.jsonl") as file:
            file.seek(_find_row(file, frames.start))
            for row in _iter_rows(file, row_type):
                if row.global_frame_idx >= frames.stop:
                    break
                if row.global_frame_idx >= frames.start:
                    yield row
    except OSError as error:
        raise DocumentError(f"events.jsonl: {error.strerror}") from error
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise DocumentError(f"events.jsonl: {error}") from error


def _find_row(file: BufferedReader, frame: int) -> int:
    """Where a row starts that is at most a chunk before the row of a frame."""
    low, high = 0, file.seek(0, os.SEEK_END)
    while high - low > _CHUNK_BYTES:
        middle = (low + high) // 2
        file.seek(middle)
        file.readline(LARGEST_ROW_BYTES)  # the rest of a row
        start, line = file.tell(), file.readline(LARGEST_ROW_BYTES)
        is_whole = line.endswith(b"\n")
        if is_whole and msgspec.json.decode(line, type=_Row).global_frame_idx <= frame:
            low = start
        else:
            high = middle
    return low


def _iter_rows(file: BufferedReader, row_type: type[_AnyRow]) -> Iterator[_AnyRow]:
    """The rows from a position on; a torn last one is left out."""
    decode = msgspec.json.Decoder(row_type).decode_lines
    left, rest = _MOST_BYTES, b""
    while left > 0 and (chunk := file.read(_CHUNK_BYTES)):
        left -= len(chunk)
        lines, end, rest = (rest + chunk).rpartition(b"\n")
        if len(rest) > LARGEST_ROW_BYTES:
            raise DocumentError(
                f"events.jsonl: expected rows of at most {LARGEST_ROW_BYTES:,} bytes"
            )
        yield from decode(lines + end)


@dataclass(frozen=True)
class FineBins:
    """Bins of some frames, none across two visits.

    Attributes:
        x: (n,) middle of each bin.
        rates: (n,) reward per frame; NaN where a frame has no row.
        starts_visit: (n,) whether a bin is the first one of its visit.
    """

    x: Reals
    rates: Reals
    starts_visit: NDArray[np.bool_]


def bin_rewards(config: RunConfig, frames: range, rewards: Reals) -> FineBins:
    """Reward rates in bins of equal size, down to single frames."""
    size = math.ceil(len(frames) / _MOST_BINS)
    spans = visit_spans(config.played_schedule)
    visits = np.array([span.start for span in spans])
    inside = visits[(visits >= frames.start) & (visits < frames.stop)]
    edges = np.union1d(np.arange(frames.start, frames.stop, size), inside)
    counts = np.diff(np.append(edges, frames.stop))
    sums = np.add.reduceat(rewards, edges - frames.start)
    return FineBins(edges + (counts - 1) / 2, sums / counts, np.isin(edges, inside))
