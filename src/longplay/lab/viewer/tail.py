"""A file of rows that grows -> its new rows, read once each.

A run under way is shown again every few seconds; its files are never read from their
start again. A file that was cut back or replaced, as when a run is resumed, is: the
reader notices by the bytes before its position, and starts over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from io import BufferedReader
from pathlib import Path
from typing import Generic, TypeVar

import msgspec
import numpy as np

from longplay.contract.config import RunConfig
from longplay.contract.curves import Curves, WindowSums, count_frames
from longplay.contract.files import LARGEST_ROW_BYTES, open_regular
from longplay.contract.rows import EpisodeRow, PredictionRow
from longplay.errors import DocumentError
from longplay.runs.metric_rows import METRICS_FILE
from longplay.verify.pack_file import PackFile

_CHUNK_BYTES = 4 * 2**20
# Bytes read per refresh: about a second. A page fills in over several of them.
_MOST_BYTES = 256 * 2**20
# Bytes before the position that must not have changed.
_SEAM_BYTES = 256
# More rows of episodes or metrics than this are not shown.
MOST_ROWS = 200_000
_MOST_METRICS = 24
_MOST_PACKED_BYTES = 64 * 2**20

_NOT_A_ROW = (msgspec.MsgspecError, ValueError, RecursionError)
_Row = TypeVar("_Row")


class Tail:
    """A position in a file that grows.

    Attributes:
        restarts: How often the file was read from its start.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._seam = b""
        self.restarts = 0

    def chunks(self) -> Iterator[bytes]:
        """The whole lines that were added, in chunks; nothing if there is no file.

        Raises:
            DocumentError: A line is too long to be a row, or it is not a file.
        """
        try:
            file = open_regular(self._path)
        except FileNotFoundError:
            return
        except OSError as error:
            raise DocumentError(f"{self._path.name}: {error.strerror}") from error
        with file:
            self._find_place(file)
            end = self._offset + _MOST_BYTES
            while self._offset < end and (chunk := self._read_lines(file)):
                yield chunk

    def _find_place(self, file: BufferedReader) -> None:
        file.seek(self._offset - len(self._seam))
        if file.read(len(self._seam)) != self._seam or self.restarts == 0:
            self._offset, self._seam = 0, b""
            self.restarts += 1
            file.seek(0)

    def _read_lines(self, file: BufferedReader) -> bytes:
        """The next whole lines; nothing at the end of the file."""
        chunk = file.read(_CHUNK_BYTES)
        whole = chunk[: chunk.rfind(b"\n") + 1]
        if len(chunk) - len(whole) > LARGEST_ROW_BYTES:
            raise DocumentError(
                f"{self._path.name}: expected rows of at most {LARGEST_ROW_BYTES:,} "
                f"bytes, found a longer one after byte {self._offset + len(whole):,}"
            )
        file.seek(len(whole) - len(chunk), os.SEEK_CUR)
        self._offset += len(whole)
        self._seam = (self._seam + whole)[-_SEAM_BYTES:]
        return whole


class RowTail(Generic[_Row]):
    """The rows of a file that grows, decoded and kept.

    Attributes:
        rows: All rows so far, up to `MOST_ROWS`.
    """

    def __init__(self, path: Path, row_type: type[_Row]) -> None:
        self._name = path.name
        self._tail = Tail(path)
        self._decoder = msgspec.json.Decoder(row_type)
        self._restarts = 0
        self.rows: list[_Row] = []

    def update(self) -> None:
        """Reads what was added.

        Raises:
            DocumentError: A line is not such a row.
        """
        for chunk in self._tail.chunks():
            if self._tail.restarts != self._restarts:
                self._restarts = self._tail.restarts
                self.rows = []
            try:
                new = self._decoder.decode_lines(chunk)
            except _NOT_A_ROW as error:
                raise DocumentError(f"{self._name}: {error}") from error
            self.rows += new[: MOST_ROWS - len(self.rows)]


class _FrameRow(msgspec.Struct, gc=False):
    """The columns of events.jsonl that windows need."""

    visit_idx: int
    visit_frame_idx: int
    reward: float


class _PredictionFrameRow(_FrameRow, gc=False):
    prediction: float
    target: float


class WindowTail:
    """events.jsonl, as it grows -> sums per window of each visit."""

    def __init__(self, run_dir: Path, config: RunConfig) -> None:
        predicts = issubclass(config.event_row, PredictionRow)
        self._row_type = _PredictionFrameRow if predicts else _FrameRow
        self._config = config
        self._tail = Tail(run_dir / "events.jsonl")
        self._restarts = 0
        self._sums = WindowSums(config)

    def update(self) -> None:
        """Reads what was added.

        Raises:
            DocumentError: A line is not a row of this run.
        """
        for chunk in self._tail.chunks():
            if self._tail.restarts != self._restarts:
                self._restarts = self._tail.restarts
                self._sums = WindowSums(self._config)
            self._add(chunk)

    def _add(self, chunk: bytes) -> None:
        try:
            rows = msgspec.json.Decoder(self._row_type).decode_lines(chunk)
            columns = {
                name: np.array([getattr(row, name) for row in rows])
                for name in self._row_type.__struct_fields__
            }
            visits = columns.pop("visit_idx").astype(np.int64)
            frames = columns.pop("visit_frame_idx").astype(np.int64)
        except (*_NOT_A_ROW, OverflowError) as error:
            raise DocumentError(f"events.jsonl: {error}") from error
        if self._sums.add(visits, frames, columns) < len(rows):
            raise DocumentError("events.jsonl: expected rows of the run's visits")

    def curves(self) -> Curves:
        """The windows so far, the last one as far as it was played."""
        return self._sums.to_curves()

    def whole_curves(self) -> Curves:
        """The windows that were played to their end; the others are empty."""
        lengths = [visit.visit_frames for visit in self._config.played_schedule]
        found = self.curves()
        is_whole = found.frames == count_frames(lengths, sum(lengths))
        sums = {part.name: getattr(found, part.name) for part in fields(found)}
        whole = {n: part * is_whole for n, part in sums.items() if part is not None}
        return Curves(**whole)


@dataclass
class MetricPoints:
    """One metric of an agent over the run."""

    frames: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


class GrowingRun:
    """The files of one run, read as they grow."""

    def __init__(self, run_dir: Path, config: RunConfig) -> None:
        self.config = config
        self.windows = WindowTail(run_dir, config)
        self._episodes = RowTail(run_dir / "episodes.jsonl", EpisodeRow)
        self._metrics = RowTail(run_dir / METRICS_FILE, dict[str, float | None])

    @property
    def episodes(self) -> list[EpisodeRow]:
        """The episodes that have ended."""
        return self._episodes.rows

    def update(self, *, with_windows: bool) -> None:
        """Reads what was added to the files.

        Args:
            with_windows: Whether to read events.jsonl, too: of a complete run,
                curves.jsonl has the windows.

        Raises:
            DocumentError: A file is damaged.
        """
        self._episodes.update()
        self._metrics.update()
        if with_windows:
            self.windows.update()

    def metrics(self) -> dict[str, MetricPoints]:
        """Metric -> its points."""
        return collect_metrics(self._metrics.rows)


def collect_metrics(
    rows: Iterable[Mapping[str, float | None]],
) -> dict[str, MetricPoints]:
    """Metric -> its finite points; the first `_MOST_METRICS` in order of appearance."""
    found: dict[str, MetricPoints] = {}
    for row in rows:
        frame = int(row.get("global_frame_idx") or 0)
        for name, value in row.items():
            if value is None or name in ("global_frame_idx", "visit_idx"):
                continue
            if name in found or len(found) < _MOST_METRICS:
                points = found.setdefault(name, MetricPoints())
                points.frames.append(frame)
                points.values.append(value)
    return found


def read_packed_metrics(packed: PackFile) -> dict[str, MetricPoints]:
    """The metrics of a packed run.

    Raises:
        DocumentError: There are too many, or they are damaged.
    """
    if METRICS_FILE not in packed.documents:
        return {}
    if packed.manifest.sizes[METRICS_FILE] > _MOST_PACKED_BYTES:
        raise DocumentError(
            f"{METRICS_FILE}: expected at most {_MOST_PACKED_BYTES:,} bytes in a pack"
        )
    try:
        rows = msgspec.json.Decoder(dict[str, float | None]).decode_lines(
            b"".join(packed.iter_content(METRICS_FILE))
        )
    except _NOT_A_ROW as error:
        raise DocumentError(f"{METRICS_FILE}: {error}") from error
    return collect_metrics(rows[:MOST_ROWS])
