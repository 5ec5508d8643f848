"""Row files -> typed columns, every line read strictly.

msgspec checks each row: the right keys, strict types, one object per line. For
longplay's own runs, re-encoding the rows must give exactly the bytes that were read,
which rules out duplicate keys, other spacing and numbers in another spelling. Lines
that fail are reported with their number; the others become NumPy columns.

A file is read once, in parts of whole lines that several processes can decode.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from io import BytesIO
from itertools import islice, repeat
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from typing import (
    Annotated,
    Any,
    BinaryIO,
    Literal,
    Protocol,
    get_args,
    get_origin,
    get_type_hints,
)

import msgspec
import numpy as np
from numpy.typing import NDArray

from longplay.contract.files import LARGEST_ROW_BYTES, open_regular
from longplay.errors import DocumentError, MissingExtraError

_PART_BYTES = 1024 * 1024
# Below this, starting processes takes longer than reading.
_PARALLEL_FROM_BYTES = 64 * 1024 * 1024

# How many parts per process may be in flight or waiting to be consumed.
_PARTS_AHEAD = 8

Column = NDArray[Any]


class _Digest(Protocol):
    """A hash of hashlib."""

    def update(self, data: bytes, /) -> None: ...


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
    # Whether the last line is incomplete, as of a run that was killed.
    is_torn: bool = False

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def has_damage(self) -> bool:
        """Whether a line is not a row, other than a torn last line."""
        bad = self.unreadable[:-1] if self.is_torn else self.unreadable
        return bool(bad)


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

    def read_chunks(
        self, path: Path, workers: int = 1, digest: _Digest | None = None
    ) -> Iterator[Chunk]:
        """Reads a file once, in order, line numbers counted from 1.

        Args:
            path: The file.
            workers: Processes that decode a large file, this one included.
            digest: Is updated with every byte that is read.
        """
        line_count = 0
        for chunk in self._map(_read_parts(path, digest), path, workers):
            chunk.lines += line_count
            for bad in (chunk.unreadable, chunk.uncanonical):
                bad[:] = [BadLine(b.line + line_count, b.field, b.message) for b in bad]
            line_count += chunk.line_count
            yield chunk

    def _map(self, parts: Iterator[bytes], path: Path, workers: int) -> Iterator[Chunk]:
        if workers <= 1 or path.stat().st_size < _PARALLEL_FROM_BYTES:
            yield from map(self.read_part, parts)
            return
        # This process decodes every n-th part itself, and all of them until the other
        # processes have started. They are spawned: a fork would copy running threads.
        numbered = enumerate(parts)
        ahead: deque[tuple[bytes, Future[Chunk] | None]] = deque()
        is_up = False
        with ProcessPoolExecutor(workers - 1, get_context("spawn")) as pool:
            while True:
                for k, data in islice(numbered, _PARTS_AHEAD * workers - len(ahead)):
                    is_own = k % workers == 0
                    future = None if is_own else pool.submit(self.read_part, data)
                    ahead.append((data, future))
                if not ahead:
                    return
                data, future = ahead.popleft()
                if future is not None and (is_up or future.done()):
                    is_up = True
                    yield future.result()
                else:
                    if future is not None:
                        future.cancel()
                    yield self.read_part(data)

    def read_part(self, data: bytes) -> Chunk:
        """Decodes whole lines, counted from the first."""
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
            is_torn=bool(data) and not data.endswith(b"\n"),
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


def _read_parts(path: Path, digest: _Digest | None = None) -> Iterator[bytes]:
    """A file in parts of whole lines, each read once; one empty part if it is empty.

    Raises:
        DocumentError: It is not a regular file, or a line is too long to be a row.
    """
    with open_regular(path) as file:
        is_first = True
        while (data := file.read(_PART_BYTES)) or is_first:
            is_first = False
            if data and data[-1:] != b"\n":
                data += _read_rest(file, path.name)
            if digest is not None:
                digest.update(data)
            yield data


def _read_rest(file: BinaryIO, name: str) -> bytes:
    """The rest of the line in which a part ends."""
    rest = file.readline(LARGEST_ROW_BYTES)
    if len(rest) == LARGEST_ROW_BYTES and rest[-1:] != b"\n":
        raise DocumentError(
            f"{name}: expected rows of at most {LARGEST_ROW_BYTES:,} bytes, found a "
            f"longer one around byte {file.tell():,}"
        )
    return rest


def read_columns(
    path: Path, row_type: type[msgspec.Struct], names: Sequence[str]
) -> Iterator[dict[str, Column]]:
    """Some columns of a file, part by part; text as objects, nothing left out.

    Args:
        path: The file.
        row_type: The struct of a row.
        names: Fields, as they are spelled in the file.

    Raises:
        DocumentError: A line is not a row; names the line.
    """
    kinds = _column_kinds(row_type)
    spelling = {f.encode_name: f.name for f in msgspec.structs.fields(row_type)}
    decode, line_count = msgspec.json.Decoder(row_type).decode_lines, 0
    for data in _read_parts(path):
        try:
            rows = decode(data)
        except _NOT_A_ROW as error:
            chunk = RowReader(row_type, {}, canonical=False).read_part(data)
            bad = chunk.unreadable[0] if chunk.unreadable else None
            where = "" if bad is None else f":{line_count + bad.line}"
            raise DocumentError(
                f"{path.name}{where}: {error}; run `longplay validate` for details"
            ) from error
        line_count += len(rows)
        yield {
            name: np.array(
                [getattr(row, spelling[name]) for row in rows],
                object if kinds[spelling[name]] is str else kinds[spelling[name]],
            )
            for name in names
        }


def make_frame(library: Literal["pandas", "polars"], columns: Mapping[str, Any]) -> Any:
    """Columns -> a data frame of a library, if it is installed.

    Raises:
        MissingExtraError: It is not.
    """
    try:
        frames = import_module(library)
    except ImportError as error:
        raise MissingExtraError(
            f"to_{library}() needs {library}: pip install {library}"
        ) from error
    if library == "pandas":
        return frames.DataFrame(dict(columns))
    # Text as lists, as polars keeps arrays of objects; NaN as null, as Arrow has it.
    return frames.DataFrame(
        {n: c.tolist() if c.dtype.kind in "OU" else c for n, c in columns.items()},
        nan_to_null=True,
    )


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
