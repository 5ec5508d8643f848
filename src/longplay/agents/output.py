"""What an agent prints -> agent_output.txt beside the run.

The terminal belongs to progress and results. One `AgentOutput` goes with an agent from
its import to its end, so that a logging handler made at import writes to the right
place. The file appears with the first character printed.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path

from longplay.contract.files import RowFile

FILE_NAME = "agent_output.txt"
_BUFFER_CHARS = 64 * 1024


class OutputBytes(io.RawIOBase):
    """`sys.stdout.buffer`, for code that prints bytes."""

    def __init__(self, output: io.TextIOBase) -> None:
        self._output = output

    def writable(self) -> bool:
        """Bytes can be written."""
        return True

    def write(self, data: object) -> int:
        """Takes bytes, and passes them on as text."""
        content = bytes(data)  # type: ignore[call-overload]
        self._output.write(content.decode("utf-8", "backslashreplace"))
        return len(content)


class AgentOutput(io.TextIOBase):
    """A text stream that keeps what is printed until it knows its folder."""

    def __init__(self) -> None:
        self.buffer = OutputBytes(self)
        self._pending: list[str] = []
        self._pending_chars = 0
        self._directory: Path | None = None
        self._file: RowFile | None = None
        self._terminal = (sys.stdout, sys.stderr)

    def writable(self) -> bool:
        """Text can be written."""
        return True

    def write(self, text: str) -> int:
        """Takes text as `print` gives it."""
        self._pending.append(text)
        self._pending_chars += len(text)
        if self._pending_chars >= _BUFFER_CHARS:
            self.save()
        return len(text)

    def fileno(self) -> int:
        """The file itself, for a subprocess to write to."""
        if self._directory is None:
            raise io.UnsupportedOperation("there is no file before the run begins")
        self.save()
        return self._open(self._directory).fileno()

    def keep_in(self, directory: Path) -> None:
        """Names the folder the file goes to."""
        self._directory = directory

    def _open(self, directory: Path) -> RowFile:
        if self._file is None:
            self._file = RowFile.extend(directory / FILE_NAME)
        return self._file

    def save(self) -> None:
        """Writes what was printed so far, if there is a folder for it."""
        if not self._pending_chars or self._directory is None:
            return
        text = "".join(self._pending)
        self._pending, self._pending_chars = [], 0
        self._open(self._directory).append(text.encode("utf-8", "backslashreplace"))

    def discard(self) -> None:
        """Forgets what was printed and not written yet."""
        self._pending, self._pending_chars = [], 0

    def finish(self) -> None:
        """Writes the rest and lets the folder go."""
        self.save()
        if self._file is not None:
            self._file.close()
        self._file = self._directory = None

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        """Sends what Python code prints here."""
        self._terminal = (sys.stdout, sys.stderr)
        with contextlib.redirect_stdout(self), contextlib.redirect_stderr(self):
            yield

    @contextlib.contextmanager
    def release(self) -> Iterator[None]:
        """Within `capture`: sends what is printed to the terminal after all."""
        out, err = self._terminal
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
