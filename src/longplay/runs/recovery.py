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
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from longplay.contract.config import GLOBAL_ACTION_SET, RunConfig
from longplay.contract.digests import Chain, iter_blocks
from longplay.contract.files import RowFile, iter_rows, open_regular, shorten
from longplay.contract.rows import CurveRow, DigestRow, EpisodeRow, SegmentRow
from longplay.contract.rundir import ROW_FILES
from longplay.errors import DifferenceError, DocumentError, ResumeError
from longplay.runs.checked_rows import CheckedRows, LinePosition
from longplay.runs.checkpoint import Checkpoint, covered_part, hash_part
from longplay.runs.recorder import RecorderState, RowFiles
from longplay.stream import StreamState

_encode = msgspec.json.Encoder().encode
_NOT_A_ROW = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


# --- From a checkpoint ------------------------------------------------------------


def check_position(config: RunConfig, checkpoint: Checkpoint) -> None:
    """Checks that a checkpoint describes a place in the run that it belongs to.

    Raises:
        ResumeError: Names the field that was edited; a stream restored from it could
            play past the end of its schedule.
    """
    stream, recorder = checkpoint.record.stream, checkpoint.record.recorder
    hashed = checkpoint.record.sha256
    for field, is_sound, found in (
        *_check_stream(config, stream),
        *_check_recorder(recorder, stream),
        ("sha256", set(ROW_FILES) <= hashed.keys(), sorted(hashed)),
    ):
        if not is_sound:
            raise ResumeError(
                f"checkpoint.json {field}: expected a value that fits config.json and "
                f"the row files, found {shorten(found)}; the run cannot be resumed "
                "from it"
            )


# Field, whether it is sound, and its value.
_Check = tuple[str, bool, object]


def _check_stream(config: RunConfig, stream: StreamState) -> Iterator[_Check]:
    schedule, actions = config.played_schedule, range(len(GLOBAL_ACTION_SET))
    visit, frame = stream.visit_idx, stream.visit_frame_idx
    # After the last frame there is no visit left.
    yield "stream.visit_idx", 0 <= visit <= len(schedule), visit
    left = schedule[visit].visit_frames if 0 <= visit < len(schedule) else 1
    yield "stream.visit_frame_idx", 0 <= frame < left, frame
    before = sum(one.visit_frames for one in schedule[: max(0, visit)])
    position = stream.global_frame_idx
    yield "stream.global_frame_idx", position == before + frame, position
    for name in ("episode_id", "segment_id", "episode_start", "segment_start"):
        value = getattr(stream, name)
        yield f"stream.{name}", 0 <= value <= position, value
    yield "stream.phase", 0 <= stream.phase < config.decision_interval, stream.phase
    for name in ("decided", "prev_applied"):
        value = getattr(stream, name)
        yield f"stream.{name}", value in actions, value
    is_queue = len(stream.queue) in (0, config.delay)
    yield "stream.queue", is_queue, f"{len(stream.queue)} actions"
    yield "stream.queue", all(one in actions for one in stream.queue), "other actions"


def _check_recorder(recorder: RecorderState, stream: StreamState) -> Iterator[_Check]:
    sizes, frames = recorder.sizes_bytes, stream.global_frame_idx
    is_complete = set(ROW_FILES) <= sizes.keys() and min(sizes.values()) >= 0
    yield "recorder.sizes_bytes", is_complete, sizes
    for name in ("chained_bytes", "visit_bytes"):
        value = getattr(recorder, name)
        yield f"recorder.{name}", 0 <= value <= sizes.get(ROW_FILES[0], 0), value
    is_hex = re.fullmatch("[0-9a-f]{64}", recorder.chain) is not None
    yield "recorder.chain", is_hex, recorder.chain[:80]
    yield "recorder.segments", 0 <= recorder.segments <= frames, recorder.segments
    visits = len(recorder.visits)
    yield "recorder.visits", visits <= stream.visit_idx, visits


def is_covered(run_dir: Path, checkpoint: Checkpoint) -> bool:
    """Whether all row files are at least as long as the checkpoint says."""
    sizes = checkpoint.record.recorder.sizes_bytes
    return all(
        (run_dir / name).is_file()
        and (run_dir / name).stat().st_size >= sizes.get(name, 0)
        for name in ROW_FILES
    )


def check_rows(run_dir: Path, config: RunConfig, checkpoint: Checkpoint) -> None:
    """Checks that the rows before a checkpoint have not changed since.

    Raises:
        ResumeError: Names the file and the line that changed, or a line after the
            checkpoint that is not a valid row.
    """
    check_position(config, checkpoint)
    state = checkpoint.record.recorder
    try:
        for name in ROW_FILES[1:]:
            _check_hash(run_dir / name, *covered_part(name, state), checkpoint)
        _check_chain(run_dir, config, checkpoint)
        events = run_dir / ROW_FILES[0]
        _check_hash(events, *covered_part(events.name, state), checkpoint)
        for name, row_type in _row_types(config).items():
            _check_tail(run_dir / name, state.sizes_bytes[name], row_type)
    except (DocumentError, *_NOT_A_ROW) as error:
        raise ResumeError(f"{error}; the run cannot be resumed") from error


def _row_types(config: RunConfig) -> dict[str, type[msgspec.Struct]]:
    types = (config.event_row, EpisodeRow, SegmentRow, DigestRow, CurveRow)
    return dict(zip(ROW_FILES, types, strict=True))


def _check_hash(path: Path, start: int, end: int, checkpoint: Checkpoint) -> None:
    if hash_part(path, start, end) == checkpoint.record.sha256[path.name]:
        return
    with open_regular(path) as file:
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
    chain, chained_bytes = Chain(), 0
    state = checkpoint.record.recorder
    with (
        open_regular(run_dir / "events.jsonl") as events,
        open_regular(run_dir / "digests.jsonl") as digests,
    ):
        rows = iter_rows(events, "events.jsonl")
        chains = iter_rows(digests, "digests.jsonl")
        for block in iter_blocks(config.played_schedule):
            if block.global_frame_idx >= checkpoint.frame:
                break
            content = b"".join(itertools.islice(rows, block.frames))
            chain.add(content)
            chained_bytes += len(content)
            digest = msgspec.json.decode(next(chains, b"{}"), type=DigestRow)
            if chain.close_block().hex() != digest.chain:
                last = block.global_frame_idx + 1
                raise ResumeError(
                    f"events.jsonl:{last - block.frames + 1}–{last}: these rows do not "
                    "match the chain in digests.jsonl; the run cannot be resumed from "
                    "them"
                )
    if (chain.head.hex(), chained_bytes) != (state.chain, state.chained_bytes):
        raise ResumeError(
            f"checkpoint.json recorder.chain: expected {chain.head.hex()} at byte "
            f"{chained_bytes:,} of events.jsonl, found {state.chain} at "
            f"{state.chained_bytes:,}; the run cannot be resumed from it"
        )


def _check_tail(path: Path, start: int, row_type: type[msgspec.Struct]) -> None:
    """Checks that only rows follow a position; the last one may be torn."""
    decoder = msgspec.json.Decoder(row_type)
    with open_regular(path) as file:
        number = _count_lines(file, start)
        for line in iter_rows(file, path.name):
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
    frames = checkpoint.record.stream.visit_frame_idx
    decode = msgspec.json.Decoder(config.event_row).decode
    with open_regular(run_dir / "events.jsonl") as events:
        events.seek(checkpoint.record.recorder.visit_bytes)
        rows = itertools.islice(iter_rows(events, "events.jsonl"), frames)
        try:
            return [decode(row).applied_action_idx for row in rows]
        except _NOT_A_ROW as error:
            raise ResumeError(
                f"checkpoint.json recorder.visit_bytes: expected the start of visit "
                f"{checkpoint.record.stream.visit_idx} in events.jsonl, found {error}"
            ) from error


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
        if not path.exists() and not path.is_symlink():
            return cls(path, os.open(os.devnull, os.O_RDONLY), LinePosition())
        try:
            return cls.open(path)
        except DocumentError as error:
            raise ResumeError(f"{error}; the run cannot be resumed") from error

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
