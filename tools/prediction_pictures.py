"""The pictures of docs/prediction.md: a prediction run, and the audits.

visits.png    prediction, target and realised return over the first visits of a run
audit.png     reference values against the rollouts of their audit, game by game
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil, sqrt

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from figure_files import SMALL, in_docs_style
from longplay.lab.report.draw.colours import OKABE_ITO
from longplay.reference.facts import AuditedState, ReferenceFacts, describe_r2
from longplay.scoring.play import Play, PlayedVisit
from longplay.scoring.prediction import (
    VisitForecasts,
    collect_forecasts,
    normalised_error,
)

Reals = NDArray[np.float64]

MOST_VISITS = 3
BLUE, ORANGE, _, _, YELLOW = OKABE_ITO[:5]
# Name of a line: its colour and width. The first is drawn first.
LINES = {
    "realised return": (YELLOW, 0.9),
    "prediction": (ORANGE, 0.9),
    "target: the reference value": (BLUE, 1.1),
}


def _make_figure(width_in: float, height_in: float) -> Figure:
    return Figure(figsize=(width_in, height_in), layout="constrained")


# --- visits ---------------------------------------------------------------------------


@in_docs_style
def draw_visits(play: Play) -> Figure:
    """The first visits of a prediction run, one panel each."""
    shown = play.visits[:MOST_VISITS]
    figure = _make_figure(9.2, 0.9 + 1.9 * len(shown))
    for axes, visit in zip(
        figure.subplots(len(shown), squeeze=False).flat, shown, strict=True
    ):
        _draw_visit(axes, visit, collect_forecasts(play, visit))
    figure.supxlabel("timestep of the visit")
    figure.supylabel("discounted sum of rewards (signs)")
    handles = [Line2D([], [], color=c, linewidth=w) for c, w in LINES.values()]
    handles.append(Line2D([], [], color="0.3", linewidth=0.7, linestyle=":"))
    labels = [*LINES, "game over"]
    figure.legend(handles, labels, loc="outside upper left", ncols=len(labels))
    return figure


def _draw_visit(axes: Axes, visit: PlayedVisit, found: VisitForecasts) -> None:
    nmse = normalised_error(found.predictions, found.targets)
    axes.set_title(visit.visit.game_id, loc="left", fontweight="bold")
    axes.set_title(
        "nmse –" if nmse is None else f"nmse {nmse:.2f}", loc="right", fontsize=SMALL
    )
    lines = (found.returns, found.predictions, found.targets)
    ends = np.flatnonzero(found.ends).tolist()
    for (colour, width), line in zip(LINES.values(), lines, strict=True):
        for first, values in split_games(line, ends):
            x = np.arange(first, first + len(values))
            axes.plot(x, values, color=colour, linewidth=width)
    for end in ends:
        axes.axvline(end, color="0.3", linewidth=0.7, linestyle=":")
    axes.set_xlim(0, len(found.ends))


def split_games(line: Reals, ends: Sequence[int]) -> Iterator[tuple[int, Reals]]:
    """The game episodes of a line as (first timestep, values): it breaks at game over.

    A line may be shorter than its visit: returns of a truncated game are not known.
    """
    starts = [0, *(end + 1 for end in ends)]
    for start, stop in zip(starts, [*starts[1:], len(line)], strict=True):
        if start < min(stop, len(line)):
            yield start, line[start:stop]


# --- audits ---------------------------------------------------------------------------

MOST_COLUMNS = 4


def arrange_panels(games: int) -> tuple[int, int]:
    """Rows and columns: as few rows as fit, as even as they can be."""
    rows = ceil(games / MOST_COLUMNS)
    return rows, ceil(games / rows)


@in_docs_style
def draw_audits(references: Sequence[ReferenceFacts]) -> Figure:
    """The audit of every reference, one panel each."""
    rows, columns = arrange_panels(len(references))
    figure = _make_figure(2.2 * columns + 0.4, 2.2 * rows + 0.4)
    grid = figure.subplots(rows, columns, squeeze=False).flat
    for axes, facts in zip(grid, references, strict=False):
        _draw_audit(axes, facts)
    for axes in grid[len(references) :]:
        axes.set_axis_off()
    figure.supxlabel("reference value")
    figure.supylabel("mean return of rollouts; bars: ± standard error")
    return figure


def _draw_audit(axes: Axes, facts: ReferenceFacts) -> None:
    audited = facts.audit.audited
    axes.set_title(facts.game, loc="left", fontweight="bold")
    r2 = f"R² {describe_r2(facts.audit.summary.r2_corrected)}"
    axes.set_title(r2, loc="right", fontsize=SMALL)
    values = [state.value for state in audited]
    means = [state.mean_return for state in audited]
    errors = [_standard_error(state) for state in audited]
    axes.axline((0, 0), slope=1, color="0.6", linewidth=0.8, linestyle="--", zorder=0)
    axes.errorbar(
        values,
        means,
        errors,
        fmt="o",
        markersize=2,
        color=BLUE,
        ecolor=f"{BLUE}80",
        elinewidth=0.9,
    )
    axes.set(xlim=(limits := _find_limits(values, means, errors)), ylim=limits)


def _standard_error(state: AuditedState) -> float:
    return sqrt(state.sampling_variance)


def _find_limits(
    values: Sequence[float], means: Sequence[float], errors: Sequence[float]
) -> tuple[float, float]:
    """One range for both axes, with a margin; never empty."""
    bounds = [m + s * e for m, e in zip(means, errors, strict=True) for s in (-1, 1)]
    low, high = min((*values, *bounds)), max((*values, *bounds))
    spare = 0.06 * (high - low) or 0.5
    return low - spare, high + spare
