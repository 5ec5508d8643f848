"""What an agent prints -> agent_output.txt beside the run.

The terminal belongs to progress and results. The file appears with the first
character printed.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path

from longplay.contract.files import RowFile

FILE_NAME = "agent_output.txt"
_BUFFER_CHARS = 64 * 1024


class AgentOutput(io.TextIOBase):
    """A text stream that keeps what is printed until it knows its folder."""

    def __init__(self) -> None:
        self._pending: list[str] = []
        self._pending_chars = 0
        self._directory: Path | None = None
        self._file: RowFile | None = None

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

    def keep_in(self, directory: Path) -> None:
        """Names the folder the file goes to."""
        self._directory = directory

    def save(self) -> None:
        """Writes what was printed so far, if there is a folder for it."""
        if not self._pending_chars or self._directory is None:
            return
        text = "".join(self._pending)
        self._pending, self._pending_chars = [], 0
        if self._file is None:
            self._file = RowFile(self._directory / FILE_NAME)
        self._file.append(text.encode("utf-8", "backslashreplace"))

    def finish(self) -> None:
        """Writes the rest and closes the file."""
        self.save()
        if self._file is not None:
            self._file.close()

    @contextlib.contextmanager
    def capture(self) -> Iterator[None]:
        """Sends what Python code prints here."""
        with contextlib.redirect_stdout(self), contextlib.redirect_stderr(self):
            yield
