"""The states of its agent that a run keeps: at the end of visits, and of the run.

    <run>/agent/visit-<i>/      as saved at the end of visit i, before the next percept
    <run>/agent/final/          as saved at the end of the run
        agent/                  what the agent saved
        global_random.json      the states of the global generators

The layout is the same at every isolation level. A state is in its place as a whole or
not at all, and before the checkpoint of its visit's end becomes the current one: a run
that is stopped anywhere and resumed ends with the same states. States are kept in the
order of visits until the limit is reached; nothing is kept after that.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from longplay.agents.global_random import GlobalRandomState
from longplay.agents.isolation.server import SAVED_AGENT, SAVED_RANDOM_STATE
from longplay.contract.documents import FileDigest
from longplay.contract.files import (
    hash_tree,
    make_directory,
    move_directory,
    size_of_tree,
    sync_tree,
    write_file,
)
from longplay.contract.rundir import KEPT_AGENT, name_state
from longplay.errors import RecordingError
from longplay.runs.options import RunOptions


class KeptStates:
    """Keeps the states of one run.

    Args:
        run_dir: The run directory.
        options: Which states are kept, and how many bytes.
        visits: Number of visits of the run.
        saves_generators: Whether what the agent saves includes its generators.
    """

    def __init__(
        self, run_dir: Path, options: RunOptions, visits: int, saves_generators: bool
    ) -> None:
        self._folder = run_dir / KEPT_AGENT
        self._options = options
        self._visits = visits
        self._saves_generators = saves_generators

    def wants(self, visit_idx: int | None) -> bool:
        """Whether the state after a visit is to be kept; None is the final state."""
        if visit_idx is None:
            return self._options.keep_agent != "none"
        return self._options.keep_agent == "visits"

    def has(self, visit_idx: int | None) -> bool:
        """Whether a state is there."""
        return (self._folder / name_state(visit_idx)).is_dir()

    def keep(
        self, visit_idx: int | None, saved: Path, generators: GlobalRandomState
    ) -> str:
        """Keeps a copy of a saved state, in place of an earlier copy.

        Args:
            visit_idx: The visit that ended; None for the final state.
            saved: What the agent saved.
            generators: The global generators of this process when it did.

        Returns:
            Why it is not kept, if it is the first one beyond the limit; else "".

        Raises:
            RecordingError: It cannot be written.
        """
        if not self.wants(visit_idx):
            return ""
        earlier = self._list_earlier(visit_idx)
        if earlier and not earlier[-1].is_dir():
            return ""  # the limit was reached
        for left_behind in self._folder.glob(".*.part"):
            shutil.rmtree(left_behind, ignore_errors=True)
        part = self._folder / f".{name_state(visit_idx)}.part"
        try:
            self._copy(saved, generators, part)
            return self._place(part, self._folder / name_state(visit_idx), earlier)
        except RecordingError:  # the disk is full: leave it as it was
            shutil.rmtree(part, ignore_errors=True)
            self._remove_if_empty()
            raise

    def _place(self, part: Path, target: Path, earlier: Sequence[Path]) -> str:
        """Moves a copy to its place if it fits; else returns why not."""
        size_bytes = sum(map(size_of_tree, [*earlier, part]))
        limit = self._options.limit_bytes
        shutil.rmtree(target, ignore_errors=True)
        if limit is not None and size_bytes > limit:
            shutil.rmtree(part, ignore_errors=True)
            self._remove_if_empty()
            return (
                f"no state of the agent is kept from {target.name} on: the states "
                f"would take {size_bytes:,} bytes, and --keep-agent-bytes allows "
                f"{limit:,}"
            )
        sync_tree(part)
        move_directory(part, target)
        return ""

    def keep_anew(self, visit_idx: int | None, save: Callable[[Path], None]) -> None:
        """Keeps the agent as it is now, if the state is not there."""
        if not self.wants(visit_idx) or self.has(visit_idx):
            return
        with tempfile.TemporaryDirectory() as folder:
            generators = GlobalRandomState.read()
            save(Path(folder))
            generators.restore()
            self.keep(visit_idx, Path(folder), generators)

    def describe(self) -> dict[str, FileDigest] | None:
        """State -> its size and tree hash; None without states."""
        found = {
            path.name: FileDigest(bytes=size_of_tree(path), sha256=hash_tree(path))
            for path in self._iter_states()
        }
        return found or None

    def _list_earlier(self, visit_idx: int | None) -> list[Path]:
        """The states that come before one and count against the same limit."""
        if self._options.keep_agent != "visits":
            return []
        visits = self._visits if visit_idx is None else visit_idx
        return [self._folder / name_state(visit) for visit in range(visits)]

    def _iter_states(self) -> Iterator[Path]:
        for visit_idx in (*range(self._visits), None):
            if self.has(visit_idx):
                yield self._folder / name_state(visit_idx)

    def _copy(self, saved: Path, generators: GlobalRandomState, part: Path) -> None:
        try:
            make_directory(part)
            if self._saves_generators:
                shutil.copytree(saved, part, dirs_exist_ok=True)
            else:
                shutil.copytree(saved, part / SAVED_AGENT)
        except OSError as error:
            raise RecordingError(f"cannot copy {saved} to {part}: {error}") from error
        if not self._saves_generators:
            content = msgspec.json.encode(generators)
            write_file(part / SAVED_RANDOM_STATE, content)

    def _remove_if_empty(self) -> None:
        if self._folder.is_dir() and not any(self._folder.iterdir()):
            self._folder.rmdir()
