"""The working directory and the umask, which an agent in this process can change."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def kept_surroundings() -> Iterator[None]:
    """Restores working directory and umask at the end."""
    state = Surroundings()
    try:
        yield
    finally:
        state.restore()


class Surroundings:
    """Working directory and umask of this process, as they are now."""

    def __init__(self) -> None:
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._directory: Path | None = None
        with contextlib.suppress(OSError):  # it was removed
            self._directory = Path.cwd()

    def restore(self) -> None:
        """Restores them, as far as the directory still exists."""
        os.umask(self._umask)
        if self._directory is not None:
            with contextlib.suppress(OSError):
                os.chdir(self._directory)

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Restores them for a while."""
        changed = Surroundings()
        self.restore()
        try:
            yield
        finally:
            changed.restore()
