"""Agents -> figures that sum up a comparison: aggregates, and one curve over a life.

Both aggregate over games within a run; intervals are over runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from longplay.lab.analysis.aggregation import interquartile_mean, optimality_gap
from longplay.lab.analysis.intervals import Estimate, estimate_mean
from longplay.lab.analysis.records import AgentNumbers, ScoreMatrix
from longplay.lab.report.draw.drawings import (
    Drawing,
    Panel,
    Reals,
    Series,
    Shown,
    clip_low,
    draw_dots,
    draw_visits,
    nothing_to_draw,
)

# Title of a panel -> (runs, games) to (runs,), and the lowest possible value.
_Aggregates = Mapping[str, tuple[Callable[[Reals], Reals], float]]

_OF_Z: _Aggregates = {
    "IQM": (interquartile_mean, -math.inf),
    "mean": (lambda z: z.mean(axis=1), -math.inf),
    "median": (lambda z: np.median(z, axis=1), -math.inf),
    "optimality gap": (optimality_gap, 0.0),
}
_OF_ERRORS: _Aggregates = {
    "median": (lambda errors: np.median(errors, axis=1), 0.0),
    "IQM": (interquartile_mean, 0.0),
    "mean": (lambda errors: errors.mean(axis=1), 0.0),
}
# The IQM of fewer games leaves none out: it is the mean.
_FEWEST_FOR_IQM = 4
# A line at z = 1 would leave no room for agents that are far below it.
_NEAR_UPPER = 0.5


def draw_average(shown: Shown) -> Drawing:
    """Aggregates of each agent with intervals: IQM, mean, median, optimality gap.

    The headline of agents whose games share no scale.
    """
    matrix = shown.suite.matrix
    if matrix is None or matrix.number == "rate":
        return _draw_headline(shown)
    aggregates = _OF_Z if matrix.number == "average" else _OF_ERRORS
    panels = [
        _draw_aggregate(shown, matrix, title)
        for title in aggregates
        if title != "IQM" or len(matrix.games) >= _FEWEST_FOR_IQM
    ]
    if not any(panel.series for panel in panels):
        raise nothing_to_draw("average", "no agent has a value for each run and game")
    number = "z" if matrix.number == "average" else _name_error(shown)
    return Drawing(
        "average",
        "Averages",
        number,
        "",
        tuple(panels),
        f"Aggregates of {number} over {len(matrix.games)} games within a run; mean "
        "and 95 % interval over runs."
        + (" A lower optimality gap is better." if number == "z" else ""),
    )


def _draw_aggregate(shown: Shown, matrix: ScoreMatrix, title: str) -> Panel:
    """One aggregate: a row per agent."""
    has_z = matrix.number == "average"
    aggregate, lowest = (_OF_Z if has_z else _OF_ERRORS)[title]
    estimates = {}
    for agent in shown.suite.agents:
        if agent.label in matrix.scores:
            values = aggregate(np.array(matrix.scores[agent.label]))
            estimate = estimate_mean(values)
            assert estimate is not None  # a matrix has at least one run
            estimates[agent.label] = clip_low(estimate, lowest)
    marks: tuple[float, ...] = (1.0,)  # the random agent's gap; the best constant
    if has_z and title != "optimality gap":
        marks = _mark_z(e.mean for e in estimates.values())
    return _draw_rows(shown, title, estimates, marks)


def _mark_z(values: Iterable[float]) -> tuple[float, ...]:
    """The random agent, and the upper anchor unless all are far below it."""
    return (0.0, 1.0) if max(values, default=0.0) > _NEAR_UPPER else (0.0,)


def _draw_rows(
    shown: Shown,
    title: str,
    estimates: Mapping[str, Estimate],
    marks: tuple[float, ...] = (),
) -> Panel:
    agents = [agent for agent in shown.suite.agents if agent.label in estimates]
    series = tuple(
        draw_dots(agent.label, shown.style(agent), [(n, estimates[agent.label])])
        for n, agent in enumerate(agents)
    )
    labels = tuple(agent.label for agent in agents)
    return Panel(title, series, labels, marks)


def _draw_headline(shown: Shown) -> Drawing:
    estimates = {
        agent.label: agent.numbers["headline"]
        for agent in shown.suite.agents
        if "headline" in agent.numbers
    }
    if not estimates:
        raise nothing_to_draw("average", "no agent has a score")
    headline = shown.suite.headline.replace("_", " ")
    return Drawing(
        "average",
        "Averages",
        headline,
        "",
        (_draw_rows(shown, "", estimates),),
        f"{headline[0].upper()}{headline[1:]}; mean and 95 % interval over runs. Games "
        "without z share no scale, so there is no average over games.",
    )


def _name_error(shown: Shown) -> str:
    return (shown.suite.error or "nmse").replace("_", " ")


def draw_lifetime(shown: Shown) -> Drawing:
    """One curve over the life: z at the same place of each game's n-th visit."""
    if not shown.has_z:
        reasons = {*shown.suite.games_without_z.values()} or {"predictions have no z"}
        raise nothing_to_draw("lifetime", "; ".join(sorted(reasons)))
    games = [game for game in shown.suite.games if game not in shown.scale.reasons]
    lowest = _lowest_mean(shown, games)
    series: list[Series] = []
    for agent in shown.suite.agents:
        z = _average_games(shown, agent, games)
        series += draw_visits(agent.label, shown.style(agent), z, lowest)
    if not series:
        raise nothing_to_draw("lifetime", "no run has its rows")
    return Drawing(
        "lifetime",
        "Over the life",
        "visits of each game",
        "z, mean over games",
        (Panel("", tuple(series), marks=_mark_z(y for s in series for y in s.y)),),
        f"z at the same place of each game's visits, mean over {len(games)} games; "
        "mean and 95 % interval over runs.",
    )


def _average_games(shown: Shown, agent: AgentNumbers, games: list[str]) -> Reals:
    """Mean of z over games: (runs, visits, points); the visits that all games have."""
    found = [
        shown.scale.normalise_game(game, shown.curves_of(agent, game)) for game in games
    ]
    visits = min(z.shape[1] if z.ndim > 1 else 0 for z in found)
    if not visits:
        return np.empty((0, 0, 0))
    return np.asarray(np.mean([z[:, :visits] for z in found], axis=0))


def _lowest_mean(shown: Shown, games: list[str]) -> float:
    """The lowest possible mean of z over games."""
    lowest = [
        shown.scale.normalise_game(game, np.array(shown.lowest_rate(game)))
        for game in games
    ]
    return float(np.mean(lowest))
