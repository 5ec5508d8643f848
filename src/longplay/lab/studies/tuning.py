"""Grids of arguments, and the rule that chooses one of their points.

    value of a run     its metric: `normalised` is the value of tuning.json,
                       `reward_rate` the delivered reward per frame
    value of a point   the mean over the tuning seeds
    choice             the point with the highest value; of equal ones the first in the
                       order of the grid

A point is excluded if the agent raised in one of its runs, or if one has no value. The
rule is written to study.json before the first frame.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longplay.contract.documents import TuningRecord
from longplay.contract.files import read_document
from longplay.contract.rundir import RunDirectory
from longplay.errors import DocumentError, IncompleteRunError

RULE = (
    "highest mean of the metric over the tuning seeds; of equal points the first in "
    "the order of the grid; a point with a failed run, or one without a value, is out"
)


def expand_grid(grid: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """All points of a grid; the last argument varies fastest."""
    return [
        dict(zip(grid, values, strict=True))
        for values in itertools.product(*grid.values())
    ]


@dataclass(frozen=True)
class Point:
    """One point of a grid, and the values of its runs.

    Attributes:
        name: The folder of its runs in the study.
        values: The metric of each run; None for a run that failed or has none.
    """

    name: str
    values: tuple[float | None, ...]

    @property
    def value(self) -> float | None:
        """The mean over its runs; None if the point is excluded."""
        known = [value for value in self.values if value is not None]
        if len(known) < len(self.values):
            return None
        return math.fsum(known) / len(known)


def choose_point(points: Sequence[Point]) -> Point:
    """Applies the rule.

    Raises:
        IncompleteRunError: All points are out.
    """
    left = [(p.value, p) for p in points if p.value is not None]
    if not left:
        raise IncompleteRunError(
            f"tuning: expected a point with a value, found none of {len(points)}; "
            "`longplay study show` lists their runs"
        )
    best = max(value for value, _ in left)
    return next(point for value, point in left if value == best)


def read_metric(run: RunDirectory, metric: str) -> float | None:
    """The metric of a completed tuning run.

    Raises:
        DocumentError: Its files are missing or damaged.
    """
    if metric == "normalised":
        return read_document(run.path / "tuning.json", TuningRecord).value
    if run.summary is None:
        raise DocumentError(f"run_summary.json: missing in {run.path}")
    reward = math.fsum(visit.reward_sum for visit in run.summary.visits)
    return reward / run.summary.frames
