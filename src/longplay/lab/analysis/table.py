"""Runs -> tidy columns: one row per run, visit and window."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longplay.contract.curves import WINDOWS, ratio
from longplay.errors import MissingExtraError
from longplay.lab.analysis.runs import MeasuredRun, RunReader

if TYPE_CHECKING:
    import pyarrow


_COLUMNS = {
    "run": np.int64,
    "agent": np.str_,
    "suite": np.str_,
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
}


@dataclass(frozen=True)
class Table:
    """Columns of one length.

    `run` counts the runs from 0, `visit` the visits of the game from 1, `window` the
    windows of the visit from 0; `visit_idx` is the position in the schedule, `frame`
    the first frame of the window, `rate` the reward per frame in it, NaN if it is
    empty.
    """

    columns: dict[str, NDArray[Any]]

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(self.columns["run"])

    def arrow(self) -> pyarrow.Table:
        """The same as an Arrow table."""
        try:
            import pyarrow
        except ImportError as error:
            raise MissingExtraError.of("Arrow tables need pyarrow", "report") from error
        return pyarrow.table(self.columns)


def read_table(path: str | Path, reader: RunReader | None = None) -> Table:
    """The windows of all complete runs at or below a path.

    Args:
        path: A run, an experiment, a study, or a folder of them.
        reader: How to read; by default without packs.

    Raises:
        NotARunError: There is no run.
    """
    reader = reader or RunReader()
    return make_table(reader.read([Path(path)]).runs)


def make_table(runs: Iterable[MeasuredRun]) -> Table:
    """The windows of runs that have curves."""
    parts = [_rows_of(n, run) for n, run in enumerate(runs) if run.curves is not None]
    return Table(
        {
            # The empty array sets the type if there are no runs.
            name: np.concatenate([np.empty(0, kind), *(part[name] for part in parts)])
            for name, kind in _COLUMNS.items()
        }
    )


def _rows_of(number: int, run: MeasuredRun) -> dict[str, NDArray[Any]]:
    curves, schedule = run.curves, run.config.schedule
    assert curves is not None
    frames, rewards = curves.frames.ravel(), curves.rewards.ravel()

    def per_visit(values: Sequence[Any]) -> NDArray[Any]:
        return np.repeat(np.array(values), WINDOWS)

    seen: dict[str, int] = {}
    visits = []
    for visit in schedule:
        seen[visit.game_id] = seen.get(visit.game_id, 0) + 1
        visits.append(seen[visit.game_id])
    n = len(frames)
    return {
        "run": np.full(n, number),
        "agent": np.full(n, run.agent.name),
        "suite": np.full(n, run.conditions.suite),
        "seed": np.full(n, -1 if run.seed is None else run.seed),
        "game": per_visit([visit.game_id for visit in schedule]),
        "cycle": per_visit([visit.cycle_idx for visit in schedule]),
        "visit": per_visit(visits),
        "visit_idx": per_visit([visit.visit_idx for visit in schedule]),
        "window": np.tile(np.arange(WINDOWS), len(schedule)),
        "frame": np.cumsum(frames) - frames,
        "frames": frames,
        "reward": rewards,
        "rate": ratio(rewards, frames),
    }
