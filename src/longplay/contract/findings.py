"""Findings of validation: counted per kind, the first few kept.

Kinds that the contract document does not state are findings for longplay's own runs
and notes for the runs of other tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

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
        return (
            f"{where} {self.field}: {self.message}"
            if self.field
            else (f"{where}: {self.message}")
        )


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
        file: str,
        column: str,
        bad: Mask,
        lines: NDArray[np.int64],
        describe: Callable[[int], str],
    ) -> None:
        """Counts every row where `bad` is set; describes the first few."""
        rows = np.flatnonzero(bad)
        for row in rows[:_SHOWN_PER_KIND].tolist():
            self.add(Finding(kind, file, describe(row), int(lines[row]), column))
        rest = len(rows) - _SHOWN_PER_KIND
        if rest > 0:
            is_note = self._is_note(kind)
            (self.note_counts if is_note else self.counts)[kind] += rest
