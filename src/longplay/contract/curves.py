"""curves.jsonl: sums over every sixtieth of each visit, which the run itself writes.

A visit of n frames is divided into 60 windows; frame i is in window floor(60 i / n).
Sixty is divisible by 10, 3 and 2, so every window of the definitions is a range of
them. The first tenth has ceil(n / 10) frames, the last one floor(n / 10).

A visit has a row once it has ended. Every sum is made by one float64 addition per
frame, in the order of frames, so that the recorder and a later reader of the rows get
the same bits. Numbers about a run come from these rows: its events need not be there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from operator import add, attrgetter
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from longplay.contract.columns import Column
from longplay.contract.config import RunConfig, ScheduledVisit
from longplay.contract.findings import Finding, FindingLog
from longplay.contract.rows import CurveRow, EventRow, PredictionRow
from longplay.errors import DocumentError

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]

CURVES_FILE = "curves.jsonl"
WINDOWS = 60
WHOLE = slice(0, 60)
HEAD = slice(0, 6)
TAIL = slice(54, 60)
FIRST_HALF = slice(0, 30)
SECOND_HALF = slice(30, 60)

_reward_of = attrgetter("reward")
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(CurveRow).decode
_NOT_A_ROW = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def _error_of(row: PredictionRow) -> float:
    error = row.prediction - row.target
    return error * error


def _square_of(row: PredictionRow) -> float:
    return row.target * row.target


# Field of a row -> what it sums; prediction runs have all of them.
_TERMS: dict[str, Callable[[Any], float]] = {
    "reward_sums": _reward_of,
    "squared_error_sums": _error_of,
    "target_sums": attrgetter("target"),
    "squared_target_sums": _square_of,
}


# --- While a run is played --------------------------------------------------------


class VisitWindows:
    """The sums of the visit under way.

    Attributes:
        sums: Field of a row -> its sum per window; empty before the first frame.
    """

    def __init__(
        self, visit_frames: int, sums: dict[str, list[float]] | None = None
    ) -> None:
        self._visit_frames = visit_frames
        self.sums = {} if sums is None else sums

    def add(self, first: int, rows: Sequence[EventRow]) -> None:
        """Adds frames `first`, `first` + 1, … of the visit."""
        if rows and not self.sums:
            is_plain = not isinstance(rows[0], PredictionRow)
            names = list(_TERMS)[:1] if is_plain else list(_TERMS)
            self.sums = {name: [0.0] * WINDOWS for name in names}
        start = 0
        while start < len(rows):
            window = (first + start) * WINDOWS // self._visit_frames
            # The window ends before frame ceil((window + 1) n / 60).
            end = -(-(window + 1) * self._visit_frames // WINDOWS) - first
            part = rows[start:end]
            for name, sums in self.sums.items():
                # Not `sum`, which from Python 3.12 on rounds once for many additions.
                sums[window] = reduce(add, map(_TERMS[name], part), sums[window])
            start = end

    def to_row(self, visit: ScheduledVisit) -> CurveRow:
        """The row of the visit, when it has ended."""
        return _make_row(visit, self.sums)


def _make_row(visit: ScheduledVisit, sums: Mapping[str, list[float]]) -> CurveRow:
    return CurveRow(
        visit.visit_idx, visit.game_id, visit.cycle_idx, visit.visit_frames, **sums
    )


# --- From the rows of a run -------------------------------------------------------


class WindowSums:
    """The windows of all visits of a run, from columns of its events.

    Chunks must come in the order of the file.
    """

    def __init__(self, config: RunConfig) -> None:
        self._visits = config.played_schedule
        self._lengths = np.array([v.visit_frames for v in self._visits], np.int64)
        predicts = issubclass(config.event_row, PredictionRow)
        names = list(_TERMS) if predicts else list(_TERMS)[:1]
        self._sums = {name: np.zeros((len(self._visits), WINDOWS)) for name in names}
        self._frames = np.zeros(len(self._visits), np.int64)

    def add(
        self, visits: Column, visit_frames: Column, columns: Mapping[str, Column]
    ) -> int:
        """Adds the rows of a chunk, and returns how many are inside their visits."""
        is_inside = (visits >= 0) & (visits < len(self._lengths))
        is_inside &= visit_frames >= 0
        is_inside &= visit_frames < self._lengths[np.where(is_inside, visits, 0)]
        visits, visit_frames = visits[is_inside], visit_frames[is_inside]
        places = visits, visit_frames * WINDOWS // self._lengths[visits]
        for name, values in _terms_of(columns, len(self._sums) > 1).items():
            # One addition per row, in their order, as while the run was played.
            np.add.at(self._sums[name], places, values[is_inside])
        np.add.at(self._frames, visits, 1)
        return len(visits)

    def to_curves(self) -> Curves:
        """The windows so far, if rows were added in order."""
        frames = count_frames(self._lengths.tolist(), int(self._frames.sum()))
        return Curves(frames, *(sums.copy() for sums in self._sums.values()))

    def to_rows(self) -> list[CurveRow]:
        """The rows of the visits that have ended."""
        ended = np.flatnonzero(self._frames == self._lengths).tolist()
        return [
            _make_row(
                self._visits[k],
                {name: sums[k].tolist() for name, sums in self._sums.items()},
            )
            for k in ended
        ]


def _terms_of(columns: Mapping[str, Column], predicts: bool) -> dict[str, Column]:
    terms = {"reward_sums": columns["reward"]}
    if predicts:
        errors = columns["prediction"] - columns["target"]
        terms["squared_error_sums"] = errors * errors
        terms["target_sums"] = columns["target"]
        terms["squared_target_sums"] = columns["target"] * columns["target"]
    return terms


def check_curves(
    content: bytes, expected: Sequence[CurveRow], findings: FindingLog
) -> None:
    """Checks curves.jsonl against the rows that follow from the events."""
    lines = content.splitlines(keepends=True)
    if len(lines) != len(expected):
        message = f"expected {len(expected)} rows from the events, found {len(lines)}"
        findings.add(Finding("curve row", CURVES_FILE, message))
    for number, (line, row) in enumerate(zip(lines, expected, strict=False), 1):
        if line != _encode(row) + b"\n":
            findings.add(_describe_difference(line, row, number))


def _describe_difference(line: bytes, row: CurveRow, number: int) -> Finding:
    """The first field in which a line is not the expected row."""
    try:
        found = _decode(line)
    except _NOT_A_ROW as error:
        return Finding("unreadable line", CURVES_FILE, str(error), number)
    for name in CurveRow.__struct_fields__:
        wanted, given = getattr(row, name), getattr(found, name)
        if repr(wanted) == repr(given):
            continue
        if isinstance(wanted, list) and isinstance(given, list):
            pairs = enumerate(zip(wanted, given, strict=True))
            # As text, because 0.0 equals -0.0.
            name, wanted, given = next(
                (f"{name}.{k}", *pair)
                for k, pair in pairs
                if repr(pair[0]) != repr(pair[1])
            )
        message = f"expected {wanted} from the events, found {given}"
        return Finding("curve row", CURVES_FILE, message, number, name)
    message = f"expected {_encode(row)[:80]!r}…, found another spelling"
    return Finding("not canonical", CURVES_FILE, message, number)


def parse_curve_rows(content: bytes) -> list[CurveRow]:
    """The rows of curves.jsonl; a torn last line does not count.

    Raises:
        DocumentError: A line is not a row.
    """
    rows = []
    for number, line in enumerate(content.splitlines(keepends=True), 1):
        if not line.endswith(b"\n"):
            break
        try:
            rows.append(_decode(line))
        except _NOT_A_ROW as error:
            raise DocumentError(f"{CURVES_FILE}:{number}: {error}") from error
    return rows


# --- As arrays --------------------------------------------------------------------


@dataclass(frozen=True)
class Curves:
    """The windows of a run's V visits.

    Attributes:
        frames: (V, 60) frames played in each window.
        rewards: (V, 60) sum of delivered rewards.
        squared_errors: (V, 60) sum of (prediction - target)²; prediction runs.
        targets: (V, 60) sum of targets; prediction runs.
        squared_targets: (V, 60) sum of target²; prediction runs.
    """

    frames: Ints
    rewards: Reals
    squared_errors: Reals | None = None
    targets: Reals | None = None
    squared_targets: Reals | None = None

    @classmethod
    def from_rows(
        cls, rows: Sequence[CurveRow], schedule: Sequence[ScheduledVisit]
    ) -> Self:
        """The windows of a run's visits; those of visits without a row are empty.

        Raises:
            DocumentError: The rows are not those of the first visits of the schedule.
        """
        for number, row in enumerate(rows, 1):
            _check_place(number, row, schedule)
        arrays = [
            np.array([getattr(row, name) for row in rows]).reshape(-1, WINDOWS)
            for name in _names_of(rows)
        ]
        missing = np.zeros((len(schedule) - len(rows), WINDOWS))
        played = sum(row.frames for row in rows)
        return cls(
            count_frames([visit.visit_frames for visit in schedule], played),
            *(np.concatenate((array, missing)) for array in arrays),
        )

    def rates(self, windows: slice = WHOLE) -> Reals:
        """Reward per frame over a range of windows: (V,), NaN where none was played."""
        return ratio(
            self.rewards[:, windows].sum(axis=1), self.frames[:, windows].sum(axis=1)
        )

    def rate_of_first(self, visit: int, frames: int) -> float:
        """Reward per frame over the first frames of a visit.

        Within a window the reward is taken to be spread evenly. NaN if the visit is
        shorter.
        """
        played = np.concatenate(([0], np.cumsum(self.frames[visit])))
        collected = np.concatenate(([0.0], np.cumsum(self.rewards[visit])))
        if frames > played[-1]:
            return float("nan")
        return float(np.interp(frames, played, collected)) / frames

    def normalised_errors(self) -> Reals:
        """The nmse of each visit as far as it was played: (V,), NaN for none."""
        if self.squared_errors is None or self.targets is None:
            return np.full(len(self.frames), np.nan)
        assert self.squared_targets is not None
        n = self.frames.sum(axis=1)
        mean = ratio(self.targets.sum(axis=1), n)
        variance = ratio(self.squared_targets.sum(axis=1), n) - mean**2
        mse = ratio(self.squared_errors.sum(axis=1), n)
        # As in `scoring.prediction`: below this there is nothing to predict.
        with np.errstate(invalid="ignore"):
            return ratio(mse, np.where(variance < 1e-6, 0.0, variance))

    def pool(self, groups: Iterable[Sequence[int]]) -> Curves:
        """The sums of groups of visits: one row per group."""
        rows = [list(group) for group in groups]
        sums = {field.name: getattr(self, field.name) for field in fields(self)}
        return Curves(
            **{
                name: np.array([values[visits].sum(axis=0) for visits in rows])
                for name, values in sums.items()
                if values is not None
            }
        )


def group_visits(games: Sequence[str]) -> dict[str, list[int]]:
    """Game -> its visits, from the game of each visit."""
    groups: dict[str, list[int]] = {}
    for visit, game in enumerate(games):
        groups.setdefault(game, []).append(visit)
    return groups


def _check_place(
    number: int, row: CurveRow, schedule: Sequence[ScheduledVisit]
) -> None:
    found = (row.visit_idx, row.game_id, row.cycle_idx, row.frames)
    due = None
    if number <= len(schedule):
        visit = schedule[number - 1]
        due = (number - 1, visit.game_id, visit.cycle_idx, visit.visit_frames)
    if found != due:
        wanted = "no row after the last visit" if due is None else due
        raise DocumentError(
            f"{CURVES_FILE}:{number}: expected visit_idx, game_id, cycle_idx and "
            f"frames of the schedule ({wanted}), found {found}"
        )


def _names_of(rows: Sequence[CurveRow]) -> list[str]:
    """The sums that all rows have."""
    names = list(_TERMS)
    return [n for n in names if all(getattr(row, n) is not None for row in rows)]


def ratio(numerators: Reals, denominators: NDArray[Any]) -> Reals:
    """Element by element; NaN where the denominator is 0."""
    nothing = np.full(np.shape(numerators), np.nan)
    filled = np.divide(numerators, denominators, out=nothing, where=denominators != 0)
    return np.asarray(filled, np.float64)


def count_frames(visit_frames: Sequence[int], played: int) -> Ints:
    """Frames in each window if the first `played` frames of a schedule were played.

    Args:
        visit_frames: (V,) lengths of the visits.
        played: Frames played.

    Returns:
        (V, 60).
    """
    lengths = np.asarray(visit_frames, np.int64)[:, np.newaxis]
    # The first frame of window k is ceil(k n / 60).
    edges: Ints = -(-np.arange(WINDOWS + 1) * lengths // WINDOWS)
    before = np.cumsum(lengths, axis=0) - lengths
    reached = np.minimum(edges, np.maximum(played - before, 0))
    return np.asarray(np.diff(reached, axis=1), np.int64)
