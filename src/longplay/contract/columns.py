"""Row files -> typed columns, every line read strictly.

msgspec checks each row: the right keys, strict types, one object per line. For
longplay's own runs, re-encoding the rows must give exactly the bytes that were read,
which rules out duplicate keys, other spacing and numbers in another spelling. Lines
that fail are reported with their number; the others become NumPy columns.

A file is split into ranges of whole lines that several processes can read.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from io import BytesIO
from itertools import repeat
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from longplay.contract.files import LARGEST_ROW_BYTES, open_regular
from longplay.errors import DocumentError

_RANGE_BYTES = 1024 * 1024
# Below this, starting processes takes longer than reading.
_PARALLEL_FROM_BYTES = 64 * 1024 * 1024

# How many ranges per process may be in flight or waiting to be consumed.
_RANGES_AHEAD = 8

Column = NDArray[Any]

# Everything msgspec raises for a line that is not a row.
_NOT_A_ROW = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclass(frozen=True)
class BadLine:
    """A line that is not a row, or not in its canonical spelling."""

    line: int
    field: str | None
    message: str


@dataclass
class Chunk:
    """The rows of a range of lines."""

    columns: dict[str, Column]
    lines: NDArray[np.int64]
    line_count: int
    unreadable: list[BadLine] = field(default_factory=list)
    uncanonical: list[BadLine] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.lines)


@dataclass(frozen=True)
class RowReader:
    """How the lines of one file become columns.

    Attributes:
        row_type: The msgspec struct of a row.
        vocabularies: Field -> its known strings; a column holds indices into it, and
            -1 for an unknown string. Other string fields get no column.
        canonical: Whether a row must be spelled as longplay spells it.
    """

    row_type: type[msgspec.Struct]
    vocabularies: Mapping[str, tuple[str, ...]]
    canonical: bool

    def read_chunks(self, path: Path, workers: int = 1) -> Iterator[Chunk]:
        """Reads a file in order, line numbers counted from 1."""
        ranges = _line_ranges(path)
        line_count = 0
        for chunk in self._map(path, ranges, workers):
            chunk.lines += line_count
            for bad in (chunk.unreadable, chunk.uncanonical):
                bad[:] = [BadLine(b.line + line_count, b.field, b.message) for b in bad]
            line_count += chunk.line_count
            yield chunk

    def _map(
        self, path: Path, ranges: list[tuple[int, int]], workers: int
    ) -> Iterator[Chunk]:
        if workers <= 1 or path.stat().st_size < _PARALLEL_FROM_BYTES:
            yield from (self.read_range(path, *bounds) for bounds in ranges)
            return
        # This process reads every n-th range itself, and all of them until the other
        # processes have started. They are spawned, not forked, because DuckDB may have
        # threads running here.
        shared = deque(k for k in range(len(ranges)) if k % workers)
        ahead: dict[int, Future[Chunk]] = {}
        is_up = False
        with ProcessPoolExecutor(workers - 1, get_context("spawn")) as pool:
            for k, bounds in enumerate(ranges):
                while shared and len(ahead) < _RANGES_AHEAD * workers:
                    one = shared.popleft()
                    ahead[one] = pool.submit(self.read_range, path, *ranges[one])
                future = ahead.pop(k, None)
                if future is None:
                    yield self.read_range(path, *bounds)
                elif is_up or future.done():
                    is_up = True
                    yield future.result()
                else:
                    future.cancel()
                    yield self.read_range(path, *bounds)

    def read_range(self, path: Path, start: int, end: int) -> Chunk:
        """Reads a range of bytes that holds whole lines, counted from its first."""
        with open_regular(path) as file:
            file.seek(start)
            data = file.read(end - start)
        decoder = msgspec.json.Decoder(self.row_type)
        try:
            rows = decoder.decode_lines(data)
        except _NOT_A_ROW:
            return self._read_line_by_line(data, decoder)
        if not self._is_sound(rows, data):
            return self._read_line_by_line(data, decoder)
        lines = np.arange(1, len(rows) + 1, dtype=np.int64)
        return Chunk(self._to_columns(rows), lines, len(rows))

    def _is_sound(self, rows: list[Any], data: bytes) -> bool:
        """Whether every line is one row, in canonical spelling if required."""
        if self.canonical:
            return msgspec.json.Encoder().encode_lines(rows) == data
        return len(rows) == data.count(b"\n") and data[-1:] in (b"\n", b"")

    def _read_line_by_line(
        self, data: bytes, decoder: msgspec.json.Decoder[Any]
    ) -> Chunk:
        rows, lines = [], []
        unreadable: list[BadLine] = []
        uncanonical: list[BadLine] = []
        encode = msgspec.json.Encoder().encode
        all_lines = BytesIO(data).readlines()
        for number, line in enumerate(all_lines, start=1):
            try:
                row = decoder.decode(line)
            except _NOT_A_ROW as error:
                unreadable.append(_describe_bad(number, line, str(error)))
                continue
            rows.append(row)
            lines.append(number)
            canonical = encode(row) + b"\n"
            if self.canonical and line != canonical:
                uncanonical.append(
                    BadLine(number, None, _describe_difference(canonical, line))
                )
        return Chunk(
            self._to_columns(rows),
            np.array(lines, np.int64),
            len(all_lines),
            unreadable,
            uncanonical,
        )

    def _to_columns(self, rows: list[Any]) -> dict[str, Column]:
        columns: dict[str, Column] = {}
        for name, kind in _column_kinds(self.row_type).items():
            values: Iterable[Any] = map(attrgetter(name), rows)
            if kind is str and name not in self.vocabularies:
                continue  # free text
            if kind is str:
                code = {s: i for i, s in enumerate(self.vocabularies[name])}
                values, kind = map(code.get, values, repeat(-1)), np.int64
            columns[name] = np.fromiter(values, kind, len(rows))
        return columns


def _line_ranges(path: Path) -> list[tuple[int, int]]:
    """Ranges of whole lines that cover a file; an empty file has one empty range.

    Raises:
        DocumentError: It is not a regular file, or a line is too long to be a row.
    """
    start = 0
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        ranges = [(0, 0)] if size == 0 else []
        while start < size:
            file.seek(min(start + _RANGE_BYTES, size) - 1)
            line = file.readline(LARGEST_ROW_BYTES)
            if len(line) == LARGEST_ROW_BYTES and line[-1:] != b"\n":
                raise DocumentError(
                    f"{path.name}: expected rows of at most {LARGEST_ROW_BYTES:,} "
                    f"bytes, found a longer one around byte {file.tell():,}"
                )
            ranges.append((start, file.tell()))
            start = file.tell()
    return ranges


@cache
def _column_kinds(row_type: type[msgspec.Struct]) -> dict[str, Any]:
    """Field -> int64, float64, bool or str; optional fields get no column."""
    kinds: dict[str, Any] = {}
    for name, hint in get_type_hints(row_type, include_extras=True).items():
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        if get_origin(hint) is Literal:
            hint = str
        if hint in (int, float, bool, str):
            kinds[name] = {int: np.int64, float: np.float64, bool: np.bool_}.get(
                hint, str
            )
    return kinds


def _describe_bad(number: int, line: bytes, error: str) -> BadLine:
    """Takes the field out of a message that ends in "- at `$.field`"."""
    message, _, location = error.partition(" - at `$.")
    name = location.rstrip("`") or None
    shown = line.strip()[:80].decode("utf-8", "backslashreplace")
    return BadLine(number, name, message if name else f"{message}: {shown!r}")


def _describe_difference(expected: bytes, found: bytes) -> str:
    same = (a == b for a, b in zip(expected, found, strict=False))
    at = next((i for i, equal in enumerate(same) if not equal), len(expected) - 1)

    def around(text: bytes) -> str:
        return repr(text[max(0, at - 20) : at + 20].decode("utf-8", "backslashreplace"))

    return f"expected {around(expected)}, found {around(found)} at byte {at}"
