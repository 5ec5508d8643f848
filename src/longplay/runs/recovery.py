"""The files of a stopped run -> the rows that a resumed run can keep.

There are two ways to resume. From a checkpoint: the rows before it must be unchanged,
which the chain and the checkpoint's own hashes show; after it, whole rows and one torn
last row are cut off, and anything else is an error. Or by replay from the start: every
recorded row must be reproduced, and the missing rows are written only after that.
Neither changes a file before these checks have passed.
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
    """Checks that the rows before a checkpoint have not changed since.

    Raises:
        ResumeError: Names the file and the line that changed, or a line after the
            checkpoint that is not a valid row.
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
        f"{path.name}:{first}–{last}: these rows changed after the checkpoint at "
        f"frame {checkpoint.frame}; the run cannot be resumed from them"
    )


def _count_lines(file: BinaryIO, size_bytes: int) -> int:
    """Counts the lines in the next `size_bytes` bytes."""
    count = 0
    while size_bytes > 0 and (data := file.read(min(size_bytes, 1024 * 1024))):
        count += data.count(b"\n")
        size_bytes -= len(data)
    return count


def _check_chain(run_dir: Path, config: RunConfig, checkpoint: Checkpoint) -> None:
    """Checks events.jsonl block by block against the chain of digests.jsonl."""
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
                    f"events.jsonl:{last - block.frames + 1}–{last}: these rows do not "
                    "match the chain in digests.jsonl; the run cannot be resumed from "
                    "them"
                )


def _check_tail(path: Path, start: int, row_type: type[msgspec.Struct]) -> None:
    """Checks that only rows follow a position; the last one may be torn."""
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
                    "the run cannot be resumed"
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


# --- By replay from the start -----------------------------------------------------


class KeptRows(CheckedRows):
    """A row file of a run that is replayed, and extended where its rows end."""

    def __init__(self, path: Path, fd: int, start: LinePosition) -> None:
        super().__init__(path, fd, start)
        self._missing: list[bytes] = []
        self._writer: RowFile | None = None

    @classmethod
    def open_kept(cls, path: Path) -> Self:
        """Opens a file; a missing file counts as empty."""
        fd = os.open(path if path.exists() else os.devnull, os.O_RDONLY)
        return cls(path, fd, LinePosition())

    @property
    def _kept_bytes(self) -> int:
        """Length of the recorded rows that were reproduced."""
        return self.size_bytes - sum(map(len, self._missing))

    @property
    def is_exhausted(self) -> bool:
        """Whether the replay has produced rows that are not in the file."""
        return bool(self._missing)

    def append(self, rows: bytes) -> None:
        """Checks rows against the recorded ones, or writes them after those."""
        if self._writer is None:
            super().append(rows)
        else:
            self._writer.append(rows)
            self.size_bytes = self._writer.size_bytes

    def append_beyond(self, logged: bytes, rows: bytes) -> None:
        """Keeps the rows that the file lacks until they may be written."""
        self._missing.append(rows[len(logged) :])

    def check_rest(self, row_type: type[msgspec.Struct]) -> None:
        """Checks that only rows will be cut off; the last one may be torn.

        Raises:
            ResumeError: Names the line that is not a valid row.
        """
        if self.path.exists():
            _check_tail(self.path, self._kept_bytes, row_type)

    def start_writing(self) -> None:
        """Writes the missing rows, and from now on every row."""
        self.close()
        if self.path.exists():
            self._writer = RowFile.reopen(self.path, self._kept_bytes)
        else:
            self._writer = RowFile.create(self.path)
        self._writer.append(b"".join(self._missing))

    def sync(self) -> None:
        """Waits until every row written is on the disk."""
        if self._writer is not None:
            self._writer.sync()

    def close(self) -> None:
        """Closes the file; does nothing the second time."""
        super().close()
        if self._writer is not None:
            self._writer.close()


class KeptEvents(KeptRows):
    """events.jsonl of a replayed run: after its last row, writing starts."""

    on_end: Callable[[], None]

    def append(self, rows: bytes) -> None:
        """As in the base class; the first missing row starts the writing."""
        super().append(rows)
        if self._writer is None and self.is_exhausted:
            self.on_end()

    def sync(self) -> None:
        """Starts the writing at the end of a run that lacked no row."""
        if self._writer is None:
            self.on_end()
        super().sync()


def open_kept_rows(
    run_dir: Path, config: RunConfig, on_end: Callable[[], None]
) -> RowFiles:
    """The row files of a run, for the recorder of its replay.

    Args:
        run_dir: The run directory.
        config: The run's config.
        on_end: Called once, when every row in events.jsonl was reproduced, before
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
    """Explains why a run does not reproduce."""
    difference = error.difference
    if difference.field == "decided_action_idx":
        return ResumeError(
            f"the agent is not deterministic: it decided {difference.logged} at "
            f"frame {difference.frame} and decides {difference.found} now, so the run "
            "cannot be replayed to the frame where it stopped; nothing was changed. "
            "An agent with save and load resumes from a checkpoint"
        )
    return ResumeError(
        f"{difference}: the run does not reproduce when it is replayed; "
        "nothing was changed"
    )
