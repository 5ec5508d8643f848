"""Row files that check appended rows against the rows they already contain.

A recorder with such files writes nothing: every row it appends must be identical, byte
for byte, to the logged row. So replay, re-execution and resuming need no comparison of
their own.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from longplay.contract.files import RowFile, open_regular
from longplay.errors import DifferenceError, DocumentError, RowDifference

# A row has about 300 bytes; a line longer than this is not a valid row.
LONGEST_ROW_BYTES = 4096
_SHOWN_CHARS = 200
_NOT_JSON = (msgspec.MsgspecError, ValueError, RecursionError)


class LinePosition(NamedTuple):
    """The start of a line: bytes and lines before it."""

    byte: int = 0
    line: int = 0


class CheckedRows(RowFile):
    """A row file opened for comparison; nothing on the disk changes."""

    def __init__(self, path: Path, fd: int, start: LinePosition) -> None:
        super().__init__(path, fd, start.byte)
        self._line_count = start.line

    @classmethod
    def open(cls, path: Path, start: LinePosition | None = None) -> Self:
        """Opens a file for comparison, starting at one of its lines.

        Raises:
            DocumentError: It is missing, or not a regular file.
        """
        try:
            with open_regular(path) as file:
                fd = os.dup(file.fileno())
        except OSError as error:
            raise DocumentError(f"cannot read {path}: {error.strerror}") from error
        return cls(path, fd, start or LinePosition())

    def append(self, rows: bytes) -> None:
        """Checks rows against the next rows of the file.

        Raises:
            DifferenceError: Names the first row that differs.
        """
        logged = os.pread(self._fd, len(rows), self.size_bytes)
        if not rows.startswith(logged):
            raise DifferenceError(self._locate(logged, rows))
        if len(logged) < len(rows):
            self.append_beyond(logged, rows)
        self.size_bytes += len(rows)
        self._line_count += rows.count(b"\n")

    def append_beyond(self, logged: bytes, rows: bytes) -> None:
        """Handles rows of which the file contains only the beginning, `logged`.

        In a complete log that is a difference. A subclass that resumes a log which was
        cut short writes the missing rows.
        """
        raise DifferenceError(self._locate(logged, rows))

    def sync(self) -> None:
        """Nothing was written."""

    def _locate(self, logged: bytes, rows: bytes) -> RowDifference:
        same = (a == b for a, b in zip(logged, rows, strict=False))
        at = next((i for i, equal in enumerate(same) if not equal), len(logged))
        start = rows.rfind(b"\n", 0, at) + 1
        found = rows[start : rows.find(b"\n", at) + 1]
        line = os.pread(self._fd, LONGEST_ROW_BYTES, self.size_bytes + start)
        field, logged_value, found_value = compare_rows(line.split(b"\n")[0], found)
        return RowDifference(
            self.path.name,
            self._line_count + rows.count(b"\n", 0, start) + 1,
            _frame_of(found),
            field,
            logged_value,
            found_value,
        )


class IgnoredRows(RowFile):
    """A row file that discards its rows."""

    def __init__(self) -> None:
        super().__init__(Path(os.devnull), -1, 0)

    def append(self, rows: bytes) -> None:
        """Discards the rows."""
        self.size_bytes += len(rows)

    def sync(self) -> None:
        """Nothing was written."""


def compare_rows(logged: bytes, found: bytes) -> tuple[str, str | None, str]:
    """The first field in which a line differs from a valid row, and both values."""
    try:
        before = msgspec.json.decode(logged)
    except _NOT_JSON:
        before = None
    after = msgspec.json.decode(found)
    if isinstance(before, dict):
        for name, value in after.items():
            if name not in before:
                return name, None, _spell(value)
            # As text: to Python 1 is 1.0 is True.
            if repr(before[name]) != repr(value):
                return name, _spell(before[name]), _spell(value)
    return "row", _show(logged) if logged else None, _show(found.rstrip())


def _frame_of(row: bytes) -> int:
    fields = msgspec.json.decode(row)
    frame: int = fields.get("global_frame_idx", fields.get("end_global_frame_idx"))
    return frame


def _spell(value: Any) -> str:
    return _show(msgspec.json.encode(value))


def _show(text: bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace")
    return shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}…"
