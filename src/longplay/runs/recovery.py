"""What a stopped run left on the disk -> what of it can be kept.

Two ways lead on. From a checkpoint: the rows before it must be those that were written,
which the chain and the checkpoint's own hashes tell; after it, whole rows and one torn
last row may be cut off, and nothing else. Or by playing again: every row that is there
must come out once more, and what is missing is written only when all of them have.
Neither changes anything before it is sure.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from longplay.contract.digests import Chain, iter_blocks
from longplay.contract.files import RowFile
from longplay.contract.records import (
    DigestRow,
    EpisodeRow,
    RunConfig,
    SegmentRow,
)
from longplay.contract.rundir import ROW_FILES
from longplay.errors import DifferenceError, ResumeError
from longplay.runs.checked_rows import CheckedRows, LinePosition
from longplay.runs.checkpoint import Checkpoint, covered_part, hash_part
from longplay.runs.recorder import RowFiles

_encode = msgspec.json.Encoder().encode
_NOT_A_ROW = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# --- From a checkpoint ------------------------------------------------------------


def is_covered(run_dir: Path, checkpoint: Checkpoint) -> bool:
    """Whether all row files are at least as long as the checkpoint says."""
    sizes = checkpoint.record.recorder.sizes_bytes
    return all(
        (run_dir / name).is_file() and (run_dir / name).stat().st_size >= sizes[name]
        for name in ROW_FILES
    )


def check_rows(run_dir: Path, config: RunConfig, checkpoint: Checkpoint) -> None:
    """Sees that the rows before a checkpoint are those that were written.

    Raises:
        ResumeError: Names the file and the line where they are not, or where something
            after them is no row.
    """
    state = checkpoint.record.recorder
    for name in ROW_FILES[1:]:
        _check_hash(run_dir / name, *covered_part(name, state), checkpoint)
    _check_chain(run_dir, config, checkpoint)
    _check_hash(run_dir / ROW_FILES[0], *covered_part(ROW_FILES[0], state), checkpoint)
    for name, row_type in _row_types(config).items():
        _check_tail(run_dir / name, state.sizes_bytes[name], row_type)


def _row_types(config: RunConfig) -> dict[str, type[msgspec.Struct]]:
    types = (config.event_row, EpisodeRow, SegmentRow, DigestRow)
    return dict(zip(ROW_FILES, types, strict=True))


def _check_hash(path: Path, start: int, end: int, checkpoint: Checkpoint) -> None:
    if hash_part(path, start, end) == checkpoint.record.sha256[path.name]:
        return
    with path.open("rb") as file:
        first = _count_lines(file, start) + 1
        last = first + _count_lines(file, end - start) - 1
    raise ResumeError(
        f"{path.name}:{first}–{last}: not the rows that were written before the "
        f"checkpoint at frame {checkpoint.frame}; the run cannot go on from them"
    )


def _count_lines(file: BinaryIO, size_bytes: int) -> int:
    """Lines in the next so many bytes."""
    count = 0
    while size_bytes > 0 and (data := file.read(min(size_bytes, 1024 * 1024))):
        count += data.count(b"\n")
        size_bytes -= len(data)
    return count


def _check_chain(run_dir: Path, config: RunConfig, checkpoint: Checkpoint) -> None:
    """Walks events.jsonl block by block along the chain of digests.jsonl."""
    chain = Chain()
    with (
        (run_dir / "events.jsonl").open("rb") as events,
        (run_dir / "digests.jsonl").open("rb") as digests,
    ):
        for block in iter_blocks(config.played_schedule):
            if block.global_frame_idx >= checkpoint.frame:
                break
            chain.add(b"".join(itertools.islice(events, block.frames)))
            digest = msgspec.json.decode(digests.readline(), type=DigestRow)
            if chain.close_block().hex() != digest.chain:
                last = block.global_frame_idx + 1
                raise ResumeError(
                    f"events.jsonl:{last - block.frames + 1}–{last}: not the rows that "
                    "were written, by the chain in digests.jsonl; the run cannot go on "
                    "from them"
                )


def _check_tail(path: Path, start: int, row_type: type[msgspec.Struct]) -> None:
    """Sees that after a place there are only rows, the last one perhaps torn."""
    decoder = msgspec.json.Decoder(row_type)
    with path.open("rb") as file:
        number = _count_lines(file, start)
        for line in file:
            number += 1
            if not line.endswith(b"\n"):
                return  # torn
            try:
                is_row = _encode(decoder.decode(line)) + b"\n" == line
            except _NOT_A_ROW:
                is_row = False
            if not is_row:
                raise ResumeError(
                    f"{path.name}:{number}: expected a row, found {line[:80]!r}; "
                    "such a run cannot go on"
                )


def read_applied(run_dir: Path, config: RunConfig, checkpoint: Checkpoint) -> list[int]:
    """The actions applied in the checkpoint's visit."""
    state = checkpoint.record.recorder
    with (run_dir / "events.jsonl").open("rb") as events:
        events.seek(state.visit_bytes)
        rows = events.read(state.sizes_bytes["events.jsonl"] - state.visit_bytes)
    if checkpoint.record.stream.visit_frame_idx == 0:
        return []
    decoder = msgspec.json.Decoder(config.event_row)
    return [row.applied_action_idx for row in decoder.decode_lines(rows)]


# --- By playing again -------------------------------------------------------------


class KeptRows(CheckedRows):
    """A row file of a run that is played again, to go on where its rows end."""

    def __init__(self, path: Path, fd: int, start: LinePosition) -> None:
        super().__init__(path, fd, start)
        self._missing: list[bytes] = []
        self._writer: RowFile | None = None

    @classmethod
    def open_kept(cls, path: Path) -> Self:
        """Opens a file; one that is gone counts as empty."""
        fd = os.open(path if path.exists() else os.devnull, os.O_RDONLY)
        return cls(path, fd, LinePosition())

    @property
    def _kept_bytes(self) -> int:
        """The length of what is there and has come out again."""
        return self.size_bytes - sum(map(len, self._missing))

    @property
    def is_exhausted(self) -> bool:
        """Whether rows came out that are not in the file."""
        return bool(self._missing)

    def append(self, rows: bytes) -> None:
        """Holds rows against those that are there, or writes them after those."""
        if self._writer is None:
            super().append(rows)
        else:
            self._writer.append(rows)
            self.size_bytes = self._writer.size_bytes

    def append_beyond(self, logged: bytes, rows: bytes) -> None:
        """Keeps what is missing in the file until it may be written."""
        self._missing.append(rows[len(logged) :])

    def check_rest(self, row_type: type[msgspec.Struct]) -> None:
        """Sees that what will be cut off is rows, the last one perhaps torn.

        Raises:
            ResumeError: Names the line that is none.
        """
        if self.path.exists():
            _check_tail(self.path, self._kept_bytes, row_type)

    def start_writing(self) -> None:
        """Writes what is missing, and from now on everything."""
        self.close()
        if self.path.exists():
            self._writer = RowFile.reopen(self.path, self._kept_bytes)
        else:
            self._writer = RowFile.create(self.path)
        self._writer.append(b"".join(self._missing))

    def sync(self) -> None:
        """Waits until what was written is on the disk."""
        if self._writer is not None:
            self._writer.sync()

    def close(self) -> None:
        """Closes the file; does nothing the second time."""
        super().close()
        if self._writer is not None:
            self._writer.close()


class KeptEvents(KeptRows):
    """events.jsonl of a run that is played again: when it ends, writing begins."""

    on_end: Callable[[], None]

    def append(self, rows: bytes) -> None:
        """As the others; with the first row that is not there, writing begins."""
        super().append(rows)
        if self._writer is None and self.is_exhausted:
            self.on_end()

    def sync(self) -> None:
        """At the end of a run of which no row was missing, writing begins here."""
        if self._writer is None:
            self.on_end()
        super().sync()


def open_kept_rows(
    run_dir: Path, config: RunConfig, on_end: Callable[[], None]
) -> RowFiles:
    """The row files of a run, for a recorder that plays it again.

    Args:
        run_dir: Where the run is.
        config: The run's.
        on_end: Called once, when every row in events.jsonl has come out again, before
            anything is written.
    """
    events = KeptEvents.open_kept(run_dir / ROW_FILES[0])
    others = [KeptRows.open_kept(run_dir / name) for name in ROW_FILES[1:]]

    def start_writing() -> None:
        files = (events, *others)
        for file, row_type in zip(files, _row_types(config).values(), strict=True):
            file.check_rest(row_type)
        on_end()
        for file in files:
            file.start_writing()

    events.on_end = start_writing
    return RowFiles(events, *others)


def explain_difference(error: DifferenceError) -> ResumeError:
    """Says what it means that a run played again comes out otherwise."""
    difference = error.difference
    if difference.field == "decided_action_idx":
        return ResumeError(
            f"the agent is not deterministic: it had decided {difference.logged} at "
            f"frame {difference.frame} and decides {difference.found} now, so the run "
            "cannot be played again to where it was; nothing was changed. An agent "
            "with save and load goes on from a checkpoint"
        )
    return ResumeError(
        f"{difference}: the run comes out otherwise when it is played again; "
        "nothing was changed"
    )
