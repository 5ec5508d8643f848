"""events.jsonl -> sums per sixtieth of each visit, from one scan, cached.

A visit of n frames is divided into 60 windows; frame i is in window floor(60 i / n).
Sixty is divisible by 10, 3 and 2, so every window of the definitions is a range of
them. The first tenth has ceil(n / 10) frames, the last one floor(n / 10).

The scan keeps 60 sums per visit, however long a run is. The result is cached outside
the run directory, under the SHA-256 of events.jsonl. A run may only claim to have rows
with that hash, so it is checked before a scan is cached: no run can change what is
cached for another.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.contract.files import (
    hash_file,
    make_directory,
    read_json,
    write_document,
)
from longplay.contract.records import PredictionRow, RunConfig
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError, RecordingError

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]

_EVENTS = "events.jsonl"
WINDOWS = 60
WHOLE = slice(0, 60)
HEAD = slice(0, 6)
TAIL = slice(54, 60)
FIRST_HALF = slice(0, 30)
SECOND_HALF = slice(30, 60)

_CACHE_VERSION = 2
_SUMS = {"rewards": "fsum(reward)"}
# What prediction rows add to those of the other tracks: the prediction, the target.
_PREDICTION_COLUMNS = PredictionRow.__struct_fields__[-2:]
_PREDICTION_SUMS = {
    "squared_errors": "fsum((prediction - target) ** 2)",
    "targets": "fsum(target)",
    "squared_targets": "fsum(target ** 2)",
}


@dataclass(frozen=True)
class Curves:
    """The windows of a run's V visits.

    Attributes:
        frames: (V, 60) frames played in each window.
        rewards: (V, 60) sum of delivered rewards.
        squared_errors: (V, 60) sum of (prediction - target)²; prediction runs.
        targets: (V, 60) sum of targets; prediction runs.
        squared_targets: (V, 60) sum of target²; prediction runs.
    """

    frames: Ints
    rewards: Reals
    squared_errors: Reals | None = None
    targets: Reals | None = None
    squared_targets: Reals | None = None

    def rates(self, windows: slice = WHOLE) -> Reals:
        """Reward per frame over a range of windows: (V,), NaN where none was played."""
        return ratio(
            self.rewards[:, windows].sum(axis=1), self.frames[:, windows].sum(axis=1)
        )

    def rate_of_last(self, share: float) -> float:
        """Reward per frame over the last share of the run, to the nearest window."""
        frames, rewards = self.frames.ravel(), self.rewards.ravel()
        starts = np.cumsum(frames) - frames
        kept = starts >= round((1 - share) * frames.sum())
        return float(rewards[kept].sum() / frames[kept].sum())

    def rate_of_first(self, visit: int, frames: int) -> float:
        """Reward per frame over the first frames of a visit.

        Within a window the reward is taken to be spread evenly. NaN if the visit is
        shorter.
        """
        played = np.concatenate(([0], np.cumsum(self.frames[visit])))
        collected = np.concatenate(([0.0], np.cumsum(self.rewards[visit])))
        if frames > played[-1]:
            return float("nan")
        return float(np.interp(frames, played, collected)) / frames

    def normalised_errors(self) -> Reals:
        """The nmse of each visit as far as it was played: (V,), NaN for none."""
        if self.squared_errors is None or self.targets is None:
            return np.full(len(self.frames), np.nan)
        assert self.squared_targets is not None
        n = self.frames.sum(axis=1)
        mean = ratio(self.targets.sum(axis=1), n)
        variance = ratio(self.squared_targets.sum(axis=1), n) - mean**2
        mse = ratio(self.squared_errors.sum(axis=1), n)
        # As in `scoring.prediction`: below this there is nothing to predict.
        with np.errstate(invalid="ignore"):
            return ratio(mse, np.where(variance < 1e-6, 0.0, variance))


def ratio(numerators: Reals, denominators: NDArray[Any]) -> Reals:
    """Element by element; NaN where the denominator is 0."""
    nothing = np.full(np.shape(numerators), np.nan)
    filled = np.divide(numerators, denominators, out=nothing, where=denominators != 0)
    return np.asarray(filled, np.float64)


def count_frames(visit_frames: Sequence[int], played: int) -> Ints:
    """Frames in each window if the first `played` frames of a schedule were played.

    Args:
        visit_frames: (V,) lengths of the visits.
        played: Frames played.

    Returns:
        (V, 60).
    """
    lengths = np.asarray(visit_frames, np.int64)[:, np.newaxis]
    # The first frame of window k is ceil(k n / 60).
    edges: Ints = -(-np.arange(WINDOWS + 1) * lengths // WINDOWS)
    before = np.cumsum(lengths, axis=0) - lengths
    reached = np.minimum(edges, np.maximum(played - before, 0))
    return np.asarray(np.diff(reached, axis=1), np.int64)


def read_curves(run: RunDirectory, cache: Path | None = None) -> Curves:
    """The windows of a run, from the cache or from a scan.

    Args:
        run: The run, with its row files.
        cache: Cache folder; None for no cache.

    Raises:
        DocumentError: Rows are missing, repeated, malformed, or not those that
            run_summary.json records.
    """
    if cache is None:
        return scan_events(run)
    events = run.path / _EVENTS
    recorded = recorded_sha256(run)
    curves = None if recorded is None else find_curves(run, recorded, cache)
    if curves is not None:
        return curves
    sha256 = hash_file(events)
    if recorded is None:
        curves = find_curves(run, sha256, cache)
    elif sha256 != recorded:
        raise DocumentError(
            f"{_EVENTS}: expected SHA-256 {recorded}, as in run_summary.json, found "
            f"{sha256}; see `longplay validate`"
        )
    if curves is None:
        curves = scan_events(run)
        # A cache that cannot be written costs time, not results.
        with contextlib.suppress(RecordingError):
            make_directory(cache, exist_ok=True)
            write_document(_cache_path(run.config, sha256, cache), _to_json(curves))
    return curves


def find_curves(run: RunDirectory, sha256: str, cache: Path) -> Curves | None:
    """The windows of a run, if its rows were scanned before.

    Args:
        run: Its documents.
        sha256: SHA-256 of its events.jsonl, which need not be there.
        cache: Folder where scans are kept.
    """
    return _read_cached(run.config, _cache_path(run.config, sha256, cache))


def recorded_sha256(run: RunDirectory) -> str | None:
    """The SHA-256 of events.jsonl in run_summary.json; None if there is none.

    Raises:
        DocumentError: events.jsonl is missing, or its length is not the recorded one.
    """
    path = run.path / _EVENTS
    if not path.is_file():
        raise DocumentError(f"{_EVENTS}: missing in {run.path}")
    rows = run.summary.rows if run.summary else None
    recorded = rows.get(_EVENTS) if rows else None
    if recorded is None:
        return None
    size_bytes = path.stat().st_size
    if recorded.bytes != size_bytes:
        raise DocumentError(
            f"{_EVENTS}: expected {recorded.bytes:,} bytes, as in run_summary.json, "
            f"found {size_bytes:,}; see `longplay validate`"
        )
    return recorded.sha256


def cache_folder() -> Path:
    """The cache folder of scans."""
    return machine_cache() / "curves"


def machine_cache() -> Path:
    """$LONGPLAY_CACHE, or longplay's folder in the platform's cache folder."""
    if given := os.environ.get("LONGPLAY_CACHE"):
        return Path(given)
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "longplay"


def _cache_path(config: RunConfig, sha256: str, cache: Path) -> Path:
    identity = {
        "version": _CACHE_VERSION,
        "rows": sha256,
        "visit_frames": [visit.visit_frames for visit in config.played_schedule],
        "contract": config.benchmark_contract_version,
    }
    text = json.dumps(identity, sort_keys=True)
    return cache / f"{hashlib.sha256(text.encode()).hexdigest()}.json"


def scan_events(run: RunDirectory) -> Curves:
    """One pass over events.jsonl.

    Raises:
        DocumentError: Rows are missing, repeated or malformed.
    """
    sums = dict(_SUMS)
    needs = ["visit_idx", "visit_frame_idx", "global_frame_idx", "reward"]
    if issubclass(run.config.event_row, PredictionRow):
        sums |= _PREDICTION_SUMS
        needs += _PREDICTION_COLUMNS
    lengths = [visit.visit_frames for visit in run.config.played_schedule]
    rows = run.events.group(
        f"visit_idx, visit_frame_idx * {WINDOWS} // {lengths}[visit_idx + 1]",
        f"count(*), max(global_frame_idx), {', '.join(sums.values())}",
        needs=tuple(needs),
    )
    if run.events.is_torn and rows and rows[-1][0] is None and rows[-1][2] == 1:
        rows.pop()  # the torn line itself
    return _to_curves(lengths, rows, list(sums))


def _to_curves(
    lengths: list[int], rows: list[tuple[Any, ...]], names: list[str]
) -> Curves:
    """Rows of (visit, window, frames, last frame, sums …) -> arrays, checked."""
    frames = np.zeros((len(lengths), WINDOWS), np.int64)
    sums = np.zeros((len(names), len(lengths), WINDOWS))
    last_frame = max((row[3] for row in rows if row[3] is not None), default=-1)
    for visit, window, count, _, *values in rows:
        is_known = visit is not None and window is not None and 0 <= window < WINDOWS
        if not is_known or any(value is None for value in values):
            raise _not_gapless(sum(row[2] for row in rows), last_frame)
        frames[visit, window] = count
        sums[:, visit, window] = values
    if not np.array_equal(frames, count_frames(lengths, last_frame + 1)):
        raise _not_gapless(int(frames.sum()), last_frame)
    return Curves(frames, **dict(zip(names, sums, strict=True)))


def _not_gapless(count: int, last_frame: int) -> DocumentError:
    return DocumentError(
        "events.jsonl: expected frames 0, 1, 2, … once each, all in their visits, "
        f"found {count} rows up to frame {last_frame}; see `longplay validate`"
    )


def _to_json(curves: Curves) -> dict[str, Any]:
    arrays = {
        name: getattr(curves, name).tolist()
        for name in (*_SUMS, *_PREDICTION_SUMS)
        if getattr(curves, name) is not None
    }
    return {"version": _CACHE_VERSION, "played": int(curves.frames.sum()), **arrays}


def _read_cached(config: RunConfig, path: Path) -> Curves | None:
    """The result of an earlier scan; None if it is missing or damaged."""
    lengths = [visit.visit_frames for visit in config.played_schedule]
    shape = (len(lengths), WINDOWS)
    try:
        found = read_json(path)
        frames = count_frames(lengths, found["played"])
        arrays = {
            name: np.array(found[name], np.float64).reshape(shape)
            for name in (*_SUMS, *_PREDICTION_SUMS)
            if name in found
        }
        return Curves(frames, **arrays)
    except (DocumentError, KeyError, TypeError, ValueError):
        return None
