"""Findings of validation: counted per kind, the first few kept.

Kinds that the contract document does not state are findings for longplay's own runs
and notes for the runs of other tools.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Kind = Literal[
    "missing file",
    "unreadable document",
    "unreadable line",
    "not canonical",
    "frame order",
    "missing frames",
    "schedule",
    "truncated flag",
    "visit end",
    "episode id",
    "segment id",
    "life loss",
    "decision cadence",
    "held decision",
    "delay law",
    "action range",
    "delivered reward",
    "emulator frames",
    "target",
    "episode row",
    "segment row",
    "digest row",
    "curve row",
    "contract version",
    "contract hash",
    "suite claim",
    "probe claim",
    "summary",
    "score",
    "other rollouts",
    "state",
    "runner profile",
    "no evidence",
    "no origin",
]

# Not stated by the contract document: notes for the runs of other tools.
UNSTATED: frozenset[Kind] = frozenset(
    {
        "visit end",
        "episode id",
        "segment id",
        "decision cadence",
        "held decision",
        "delay law",
        "runner profile",
    }
)

# Describes a run without being an error: always a note.
NOTED: frozenset[Kind] = frozenset({"other rollouts", "no evidence", "no origin"})

_SHOWN_PER_KIND = 5

Mask = NDArray[np.bool_]
Column = NDArray[Any]


@dataclass(frozen=True)
class Finding:
    """One violation of the contract, and where it was found."""

    kind: Kind
    file: str
    message: str
    line: int | None = None
    field: str | None = None

    def __str__(self) -> str:
        """`episodes.jsonl:17 length: expected 90, found 91`."""
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        field = f" {self.field}" if self.field else ""
        return f"{where}{field}: {self.message}"


class RowPlace(NamedTuple):
    """A column of a file: where rows were found.

    Attributes:
        file: The file.
        column: The column.
        lines: (rows,) lines of the file.
        source: What the expected values follow from, as `" from the events"`.
    """

    file: str
    column: str
    lines: NDArray[np.int64]
    source: str = ""


@dataclass
class FindingLog:
    """All findings counted per kind; the first few of each kept."""

    is_foreign: bool = False
    counts: Counter[Kind] = field(default_factory=Counter)
    shown: list[Finding] = field(default_factory=list)
    note_counts: Counter[Kind] = field(default_factory=Counter)
    notes: list[Finding] = field(default_factory=list)

    def _is_note(self, kind: Kind) -> bool:
        return kind in NOTED or (self.is_foreign and kind in UNSTATED)

    def add(self, finding: Finding) -> None:
        """Counts a finding, or a note."""
        is_note = self._is_note(finding.kind)
        counts = self.note_counts if is_note else self.counts
        counts[finding.kind] += 1
        if counts[finding.kind] <= _SHOWN_PER_KIND:
            (self.notes if is_note else self.shown).append(finding)

    def extend(self, other: FindingLog) -> None:
        """Adds all findings and notes of another log."""
        self.counts += other.counts
        self.note_counts += other.note_counts
        self.shown += other.shown
        self.notes += other.notes

    def add_rows(
        self,
        kind: Kind,
        place: RowPlace,
        bad: Mask,
        expected: Any,
        found: Column,
    ) -> None:
        """Counts every row where `bad` is set; describes the first few.

        Args:
            kind: Of the findings.
            place: Where the rows are.
            bad: (rows,) which of them are wrong.
            expected: What they must be: one value per row, or words for all.
            found: (rows,) what they are.
        """
        rows = np.flatnonzero(bad)
        for row in rows[:_SHOWN_PER_KIND].tolist():
            wanted = expected if isinstance(expected, str) else expected[row]
            message = f"expected {wanted}{place.source}, found {found[row]}"
            line = int(place.lines[row])
            self.add(Finding(kind, place.file, message, line, place.column))
        rest = len(rows) - _SHOWN_PER_KIND
        if rest > 0:
            is_note = self._is_note(kind)
            (self.note_counts if is_note else self.counts)[kind] += rest
