"""Events -> the expected episodes and segments, checked against their files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from longplay.contract.columns import Chunk, Column
from longplay.contract.findings import Finding, FindingLog, Kind, Mask, RowPlace

ENDED_BY = ("terminated", "truncated")


class SpanTable:
    """Episodes or segments derived from the events; their file must agree.

    A span is closed by the row that starts the next one, so that chunks can end
    anywhere.
    """

    _COLUMNS = ("game_id", "global_frame_idx", "terminated", "truncated")

    def __init__(self, id_column: str) -> None:
        self._id_column = id_column
        self._parts: list[dict[str, Column]] = []
        self._open_return = 0.0

    def add(
        self, columns: dict[str, Column], previous: dict[str, Column], starts: Mask
    ) -> None:
        """Adds the rows of a chunk.

        Args:
            columns: The chunk.
            previous: The same columns, shifted by one row.
            starts: Rows that start a span, except the first of the run.
        """
        rewards = columns["reward"]
        at = np.flatnonzero(starts)
        if len(at) == 0:
            self._open_return += float(rewards.sum())
            return
        sums = np.add.reduceat(rewards, at)
        first = self._open_return + rewards[: at[0]].sum()
        self._open_return = float(sums[-1])
        self._close(
            {name: column[at] for name, column in previous.items()},
            np.concatenate(([first], sums[:-1])),
        )

    def close_last(self, last: dict[str, Any]) -> None:
        """Closes the open span after the last row."""
        row = {name: np.array([value]) for name, value in last.items()}
        self._close(row, np.array([self._open_return]))

    def _close(self, ends: dict[str, Column], returns: Column) -> None:
        kept = {name: ends[name] for name in (*self._COLUMNS, self._id_column)}
        self._parts.append({**kept, "return": returns})

    def columns(self) -> dict[str, Column]:
        """The expected rows of the file as columns, with the flags."""
        names = (*self._COLUMNS, self._id_column, "return")
        parts = self._parts or [{name: np.zeros(0, np.int64) for name in names}]
        found = {name: np.concatenate([part[name] for part in parts]) for name in names}
        for flag in ("terminated", "truncated"):
            found[flag] = found[flag].astype(bool)
        end = found.pop("global_frame_idx")
        start = np.concatenate(([0], end[:-1] + 1)) if len(end) else end
        return {
            **found,
            "start_global_frame_idx": start,
            "end_global_frame_idx": end,
            "length": end - start + 1,
        }


def check_spans(
    file: str,
    kind: Kind,
    expected: dict[str, Column],
    chunk: Chunk,
    games: Sequence[str],
    findings: FindingLog,
) -> None:
    """Checks the rows of episodes.jsonl or segments.jsonl against the events."""
    count = len(expected["length"])
    if len(chunk) != count:
        message = f"expected {count} rows from the events, found {len(chunk)}"
        findings.add(Finding(kind, file, message))
    common = min(count, len(chunk))
    lines = chunk.lines[:common]
    names = np.array([*games, "a game not in the schedule"], object)
    both = expected["terminated"] & expected["truncated"]
    wins = "terminated" if kind == "episode row" else "truncated"
    ended_by = np.where(expected[wins], wins == ENDED_BY[1], wins == ENDED_BY[0])
    expected = {**expected, "ended_by": ended_by.astype(np.int64)}
    for name, column in chunk.columns.items():
        key = name.rstrip("_")
        wanted, found = expected[key][:common], column[:common]
        if key == "return":
            bad = ~np.isclose(wanted, found, rtol=1e-9, atol=1e-9)
        else:
            bad = wanted != found
        if key == "ended_by" and findings.is_foreign:
            bad &= ~both[:common]  # the contract does not say which flag wins
        if not bad.any():
            continue
        if key in ("game_id", "ended_by"):
            words = names if key == "game_id" else np.array(ENDED_BY, object)
            wanted, found = words[wanted], words[found]

        place = RowPlace(file, key, lines, " from the events")
        findings.add_rows(kind, place, bad, wanted, found)
