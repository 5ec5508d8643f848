"""Captures what an agent prints and writes it to the run's agent_output.txt.

The terminal is reserved for progress and results. An agent has one `AgentOutput` from
its import to its end, so that a logging handler created at import writes to the right
place. The file is created with the first character printed, and ends with a line that
says so when an agent prints too much.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path

from longplay.contract.files import RowFile

FILE_NAME = "agent_output.txt"
MOST_BYTES = 16_000_000
_BUFFER_CHARS = 64 * 1024
# Whether agents loaded now print to the terminal, as `--debug` asks for.
_is_terminal_open = False


@contextlib.contextmanager
def print_to_terminal() -> Iterator[None]:
    """Agents loaded within it print to the terminal and may stop in a debugger."""
    global _is_terminal_open  # noqa: PLW0603 - so is sys.stdout
    _is_terminal_open = True
    try:
        yield
    finally:
        _is_terminal_open = False


class OutputBytes(io.RawIOBase):
    """`sys.stdout.buffer`, for code that prints bytes."""

    def __init__(self, output: io.TextIOBase) -> None:
        self._output = output

    def writable(self) -> bool:
        """Bytes can be written."""
        return True

    def write(self, data: object) -> int:
        """Decodes bytes and writes them as text."""
        content = bytes(data)  # type: ignore[call-overload]
        self._output.write(content.decode("utf-8", "backslashreplace"))
        return len(content)


class AgentOutput(io.TextIOBase):
    """A text stream that buffers what is printed until it knows its folder.

    Args:
        most_bytes: What is printed beyond this size of the file is dropped.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most_bytes = most_bytes
        self.buffer = OutputBytes(self)
        self._pending: list[str] = []
        self._pending_chars = 0
        self._directory: Path | None = None
        self._file: RowFile | None = None
        self._terminal = (sys.stdout, sys.stderr)
        self._is_captured = not _is_terminal_open

    def writable(self) -> bool:
        """Text can be written."""
        return True

    def write(self, text: str) -> int:
        """Buffers text."""
        if not self._is_captured:
            return sys.stderr.write(text)
        if self._pending_chars <= self._most_bytes:  # the rest would be dropped anyway
            self._pending.append(text)
            self._pending_chars += len(text)
        if self._pending_chars >= _BUFFER_CHARS:
            self.save()
        return len(text)

    def write_error(self, traceback_text: str) -> None:
        """Adds the traceback of the agent's error, whatever it has printed."""
        self.save()
        if not self._is_captured or self._directory is None:
            self.write(traceback_text)
            return
        text = traceback_text[-_BUFFER_CHARS:]
        self._open(self._directory).append(text.encode("utf-8", "backslashreplace"))

    def fileno(self) -> int:
        """The file itself, for a subprocess to write to."""
        if self._directory is None:
            raise io.UnsupportedOperation("there is no file before the run starts")
        self.save()
        return self._open(self._directory).fileno()

    def keep_in(self, directory: Path) -> None:
        """Sets the folder for the file."""
        self._directory = directory

    def _open(self, directory: Path) -> RowFile:
        if self._file is None:
            self._file = RowFile.extend(directory / FILE_NAME)
        return self._file

    def save(self) -> None:
        """Writes the buffered text, if the folder is known."""
        if not self._pending_chars or self._directory is None:
            return
        text = "".join(self._pending)
        self._pending, self._pending_chars = [], 0
        file = self._open(self._directory)
        left = self._most_bytes - file.size_bytes
        if left >= 0:
            file.append(self._cut(text.encode("utf-8", "backslashreplace"), left))

    def _cut(self, content: bytes, most_bytes: int) -> bytes:
        if len(content) <= most_bytes:
            return content
        kept = content[:most_bytes].decode("utf-8", "ignore")
        notice = f"[longplay keeps {self._most_bytes:,} bytes; the rest is dropped]"
        return f"{kept}\n{notice}\n".encode()

    def discard(self) -> None:
        """Discards the buffered text."""
        self._pending, self._pending_chars = [], 0

    def finish(self) -> None:
        """Writes the rest and closes the file."""
        self.save()
        if self._file is not None:
            self._file.close()
        self._file = self._directory = None

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        """Redirects `sys.stdout` and `sys.stderr` to this stream."""
        if not self._is_captured:
            yield
            return
        self._terminal = (sys.stdout, sys.stderr)
        with contextlib.redirect_stdout(self), contextlib.redirect_stderr(self):
            yield

    @contextlib.contextmanager
    def release(self) -> Iterator[None]:
        """Within `capture`: redirects them back to the terminal."""
        if not self._is_captured:
            yield
            return
        out, err = self._terminal
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            yield
