"""Runs -> tidy columns: one row per run and visit, or per run, visit and window."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longplay.contract.columns import make_frame
from longplay.contract.curves import WINDOWS, ratio
from longplay.contract.files import write_file
from longplay.errors import ConfigError, MissingExtraError
from longplay.lab.analysis.runs import MeasuredRun, RunReader
from longplay.scoring.anchors import Anchors, shipped_anchors
from longplay.scoring.normalisation import make_scale

if TYPE_CHECKING:
    import pyarrow

# Rows that a notebook shows.
_SHOWN_ROWS = 10

_COLUMNS = {
    "run": np.int64,
    "suite": np.str_,
    "agent": np.str_,
    "arguments": np.str_,
    "seed": np.int64,
    "game": np.str_,
    "cycle": np.int64,
    "visit": np.int64,
    "visit_idx": np.int64,
    "window": np.int64,
    "frame": np.int64,
    "frames": np.int64,
    "reward": np.float64,
    "rate": np.float64,
    "z": np.float64,
}


@dataclass(frozen=True)
class Table:
    """Columns of one length.

    Of runs: `run` counts the runs from 0, `visit` the visits of the game from 0,
    `window` the windows of the visit from 0 (it is missing if a row is a whole visit).
    `arguments` are the agent's, as JSON; `seed` is -1 for a run of another tool.
    `visit_idx` is the position in the schedule, `frame` the first frame of the row,
    `rate` its reward per frame, NaN if it has no frame, and `z` the rate between the
    anchors of the game, NaN without them.
    """

    columns: dict[str, NDArray[Any]]

    @classmethod
    def join(
        cls, kinds: Mapping[str, type], parts: Sequence[Mapping[str, NDArray[Any]]]
    ) -> Table:
        """One table below the other.

        Args:
            kinds: Column -> its type, also if there are no rows.
            parts: Column -> rows, of each part.
        """
        return cls(
            {
                name: np.concatenate(
                    [np.empty(0, kind), *(part[name] for part in parts)]
                )
                for name, kind in kinds.items()
            }
        )

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def arrow(self) -> pyarrow.Table:
        """The same as an Arrow table; a number that is NaN is null there."""
        try:
            import pyarrow
        except ImportError as error:
            raise MissingExtraError.of("Arrow tables need pyarrow", "report") from error
        columns = {
            name: pyarrow.array(column, from_pandas=True)  # NaN becomes null
            for name, column in self.columns.items()
        }
        return pyarrow.table(columns)

    def to_pandas(self) -> Any:
        """The same as a `pandas.DataFrame`; pandas must be installed."""
        return make_frame("pandas", self.columns)

    def to_polars(self) -> Any:
        """The same as a `polars.DataFrame`; polars must be installed."""
        return make_frame("polars", self.columns)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The same for any library that reads Arrow: `polars.DataFrame(table)`."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The first rows, as a notebook shows them."""
        from longplay.tables import TextTable, count, make_cell, render_html

        first = [column[:_SHOWN_ROWS].tolist() for column in self.columns.values()]
        rows = tuple(
            tuple(make_cell(None if _is_nan(value) else value) for value in row)
            for row in zip(*first, strict=True)
        )
        title = count(len(self), "row")
        return render_html(TextTable(title, tuple(self.columns), rows, names=0))

    def write(self, path: Path) -> None:
        """Writes *.csv or *.parquet; a number that is NaN is empty, or null.

        Raises:
            ConfigError: The ending is another one.
            MissingExtraError: Parquet needs pyarrow, which is not installed.
        """
        if path.suffix == ".csv":
            write_file(path, self._to_csv().encode())
        elif path.suffix == ".parquet":
            write_file(path, self._to_parquet())
        else:
            raise ConfigError(f"{path}: expected *.csv or *.parquet")

    def _to_csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        values = [column.tolist() for column in self.columns.values()]
        for row in zip(*values, strict=True):
            writer.writerow(["" if _is_nan(value) else value for value in row])
        return text.getvalue()

    def _to_parquet(self) -> bytes:
        table = self.arrow()
        from pyarrow import parquet

        sink = io.BytesIO()
        parquet.write_table(table, sink)
        return sink.getvalue()


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def read_table(
    path: str | Path, reader: RunReader | None = None, *, windows: bool = True
) -> Table:
    """The complete runs at or below a path.

    Args:
        path: A run, an experiment, a study, or a folder of them.
        reader: How to read; by default without packs.
        windows: Whether a row is a window, or a whole visit.

    Raises:
        NotARunError: There is no run.
    """
    reader = reader or RunReader()
    return make_table(reader.read([Path(path)]).runs, windows=windows)


def make_table(
    runs: Iterable[MeasuredRun],
    anchors: Anchors | None = None,
    *,
    windows: bool = True,
) -> Table:
    """The table of runs; with windows, of those that have curves.

    Args:
        runs: The runs.
        anchors: For z; by default the shipped ones.
        windows: Whether a row is a window, or a whole visit.
    """
    anchors = anchors or shipped_anchors()
    parts = [
        _rows_of(number, run, anchors, windows=windows)
        for number, run in enumerate(runs)
        if run.curves is not None or not windows
    ]
    kinds = {n: kind for n, kind in _COLUMNS.items() if windows or n != "window"}
    return Table.join(kinds, parts)


def _rows_of(
    number: int, run: MeasuredRun, anchors: Anchors, *, windows: bool
) -> dict[str, NDArray[Any]]:
    schedule = run.config.schedule
    frames, rewards = run.totals.frames, run.totals.rewards
    per_visit = 1
    if windows and run.curves is not None:
        frames, rewards = run.curves.frames.ravel(), run.curves.rewards.ravel()
        per_visit = WINDOWS

    def repeat(values: Sequence[Any]) -> NDArray[Any]:
        return np.repeat(np.array(values), per_visit)

    n, rates = len(frames), ratio(rewards, frames)
    return {
        "run": np.full(n, number),
        "suite": np.full(n, run.conditions.suite),
        "agent": np.full(n, run.agent.name),
        "arguments": np.full(n, describe_arguments(run)),
        "seed": np.full(n, -1 if run.seed is None else run.seed),
        "game": repeat([visit.game_id for visit in schedule]),
        "cycle": repeat([visit.cycle_idx for visit in schedule]),
        "visit": repeat(_count_visits(run)),
        "visit_idx": repeat([visit.visit_idx for visit in schedule]),
        "window": np.tile(np.arange(per_visit), len(schedule)),
        "frame": np.cumsum(frames) - frames,
        "frames": frames,
        "reward": rewards,
        "rate": rates,
        "z": _normalise(run, anchors, rates.reshape(len(schedule), per_visit)).ravel(),
    }


def describe_arguments(run: MeasuredRun) -> str:
    """The arguments of a run's agent, as JSON."""
    entry = run.config.agent
    arguments = {} if entry is None else entry.config.get("args", {})
    return json.dumps(arguments, sort_keys=True)


def _count_visits(run: MeasuredRun) -> list[int]:
    """The number of each visit among those of its game, from 0."""
    seen: Counter[str] = Counter()
    numbers = []
    for visit in run.config.schedule:
        numbers.append(seen[visit.game_id])
        seen[visit.game_id] += 1
    return numbers


def _normalise(
    run: MeasuredRun, anchors: Anchors, rates: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(visits, windows) rates -> z of each visit's game."""
    config, conditions = run.config, run.conditions
    scale = make_scale(anchors, conditions.suite, config.games, conditions.emulator)
    columns = [scale.games.index(visit.game_id) for visit in config.schedule]
    lower, span = scale.lower[columns, None], scale.span[columns, None]
    return np.asarray((rates - lower) / span)
