"""digests.jsonl, the evidence: which frames have a row, and how rows are chained.

Every 256th frame of a visit and the visit's last frame have a row. Its `ram_crc32` is
a CRC-32 rolled over the machine's memory after every console step since the visit's
start. Its `chain` is SHA-256(previous chain ‖ bytes of events.jsonl since the previous
row); before the first row the chain is 32 zero bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Sequence
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from longplay.contract.columns import Chunk
from longplay.contract.config import ScheduledVisit, visit_spans
from longplay.contract.files import LARGEST_ROW_BYTES, open_regular
from longplay.contract.findings import Finding, FindingLog, RowPlace
from longplay.contract.rows import DigestRow, EventRow

BLOCK_FRAMES = 256
NO_CHAIN = bytes(32)


class Block(NamedTuple):
    """The frames up to a row of digests.jsonl; fields describe the last frame."""

    global_frame_idx: int
    visit_idx: int
    visit_frame_idx: int
    frames: int


def ends_block(event: EventRow) -> bool:
    """Whether digests.jsonl has a row at this frame."""
    return event.truncated or (event.visit_frame_idx + 1) % BLOCK_FRAMES == 0


def iter_blocks(schedule: Sequence[ScheduledVisit]) -> Iterator[Block]:
    """All blocks of a schedule, in order."""
    for visit, span in zip(schedule, visit_spans(schedule), strict=True):
        for first in range(0, len(span), BLOCK_FRAMES):
            block = span[first : first + BLOCK_FRAMES]
            last = first + len(block) - 1
            yield Block(block[-1], visit.visit_idx, last, len(block))


class Chain:
    """The hash chain, updated row by row."""

    def __init__(self, head: bytes = NO_CHAIN) -> None:
        self.head = head
        self._hash = hashlib.sha256(head)

    def add(self, rows: bytes) -> None:
        """Adds bytes of events.jsonl."""
        self._hash.update(rows)

    def close_block(self) -> bytes:
        """The chain at the end of a block."""
        self.head = self._hash.digest()
        self._hash = hashlib.sha256(self.head)
        return self.head


def read_last_chain(path: Path) -> str | None:
    """The chain of the last row, if there is one."""
    with open_regular(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        file.seek(max(0, size_bytes - LARGEST_ROW_BYTES))
        lines = file.read(LARGEST_ROW_BYTES).splitlines()
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return msgspec.json.decode(lines[-1], type=DigestRow).chain if lines else None
    return None


def check_digests(
    file: str,
    rows: Chunk,
    schedule: Sequence[ScheduledVisit],
    frames: int,
    findings: FindingLog,
) -> None:
    """Checks the rows' positions against the blocks of a run of that many frames."""
    # Not all of them: a schedule may announce any number of frames.
    due = takewhile(lambda b: b.global_frame_idx < frames, iter_blocks(schedule))
    blocks = list(due)
    if len(rows) != len(blocks):
        message = f"expected {len(blocks)} rows, found {len(rows)}"
        findings.add(Finding("digest row", file, message))
    both = min(len(rows), len(blocks))
    for position, name in enumerate(Block._fields[:3]):
        found = rows.columns[name][:both]
        expected = np.array([block[position] for block in blocks[:both]], np.int64)
        place = RowPlace(file, name, rows.lines)
        findings.add_rows("digest row", place, found != expected, expected, found)
