"""Analysis results -> drawings: the content of a figure, independent of any library.

A drawing is panels of series: plain numbers and text. `paper.py` draws it with
matplotlib, `figures.py` with plotly, and `drawing_to_csv` writes its data, so the three
always show the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.contract.config import visit_spans
from longplay.contract.curves import WINDOWS, Curves, ratio
from longplay.errors import ConfigError
from longplay.lab.analysis.aggregation import PROFILE_THRESHOLDS
from longplay.lab.analysis.intervals import Estimate, estimate_mean
from longplay.lab.analysis.records import METRICS, AgentNumbers, SuiteComparison
from longplay.lab.analysis.runs import MeasuredRun
from longplay.lab.report.draw.colours import Style, game_colour, style_agents
from longplay.scoring.normalisation import Scale
from longplay.tables import TextTable, Value, render_csv

Reals = NDArray[np.float64]

# Points of a curve in a visit.
POINTS = 20
# Lines whose bands can be told apart; a figure of one panel has more room, and the
# bands of a timeline are those of one run.
_MOST_BANDS = 3
_MOST_BANDS_OF = {"lifetime": 6, "profile": 6, "timeline": 99}

RunsOfAgents = Mapping[str, Sequence[MeasuredRun]]


@dataclass(frozen=True)
class Series:
    """Numbers of one colour.

    Attributes:
        label: In the legend.
        colour: As hex.
        x: (n,).
        y: (n,); NaN interrupts a line.
        low: (n,) lower end of an interval of y, or of x where the panel has
            categories; None where there is none.
        high: (n,) upper end.
        links: (n,) addresses that points lead to; points with links are dots.
        key: Name by which a page adds points; empty for none.
        mark: Number of its dash and symbol; None where the order of series gives it.
    """

    label: str
    colour: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    links: tuple[str, ...] = ()
    key: str = ""
    mark: int | None = None


@dataclass(frozen=True)
class Span:
    """A stretch of the x axis with a name and a colour."""

    start: float
    end: float
    label: str
    colour: str


@dataclass(frozen=True)
class Grid:
    """A table of coloured cells.

    Attributes:
        rows: Names, from top to bottom.
        columns: Names, from left to right.
        values: Row by row; None for an empty cell.
        shades: The same, from 0 (light) to 1 (dark).
        texts: The same, as shown.
        links: The same, addresses that cells lead to; empty for none.
    """

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]
    shades: tuple[tuple[float | None, ...], ...]
    texts: tuple[tuple[str, ...], ...]
    links: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: Above it.
        series: Lines; dots with intervals along x where there are categories.
        categories: Names on the y axis, from top to bottom; y are their positions.
        marks: Values of y, or of x where there are categories, to draw a thin line at.
        spans: Behind the lines.
        is_log: Whether the value axis is logarithmic.
        limits: Limits of the value axis, if known.
        has_bars: Whether intervals are bars at the points of lines, and not bands.
        x_names: Names of x = 0, 1, …; empty where x are numbers.
        grid: Coloured cells in place of series.
    """

    title: str
    series: tuple[Series, ...]
    categories: tuple[str, ...] = ()
    marks: tuple[float, ...] = ()
    spans: tuple[Span, ...] = ()
    is_log: bool = False
    limits: tuple[float, float] | None = None
    has_bars: bool = False
    x_names: tuple[str, ...] = ()
    grid: Grid | None = None

    @property
    def has_lines(self) -> bool:
        """Whether it has lines with intervals, which are bands."""
        is_line = not self.categories and not self.has_bars
        known = (end is not None for series in self.series for end in series.low)
        return is_line and any(known)

    @property
    def dot_rows(self) -> int:
        """Rows of dots: the series of a category are below each other."""
        if all(len(series.x) == 1 for series in self.series):
            return len(self.categories)  # each category has one series
        return len(self.categories) * len(self.series)


@dataclass(frozen=True)
class Drawing:
    """A figure: panels that share the meaning of their axes.

    Panels of a `timeline` share the x axis alone.
    """

    kind: str
    title: str
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    caption: str = ""

    @property
    def has_bands(self) -> bool:
        """Whether intervals of lines are drawn: bands of many hide the lines."""
        labels = {series.label for panel in self.panels for series in panel.series}
        return len(labels) <= self._most_bands

    @property
    def full_caption(self) -> str:
        """The caption, with what is not drawn."""
        if self.has_bands or not any(panel.has_lines for panel in self.panels):
            return self.caption
        return (
            f"{self.caption} Intervals are drawn for up to {self._most_bands} agents; "
            "the numbers of the figure have all."
        )

    @property
    def _most_bands(self) -> int:
        return _MOST_BANDS_OF.get(self.kind, _MOST_BANDS)


def number_marks(drawing: Drawing) -> dict[str, int]:
    """Label of a series -> number of its dash or symbol: distinct without colour.

    Where every panel has one label, its title tells that, and all have the first.
    """
    labels = [{s.label: None for s in panel.series} for panel in drawing.panels]
    has_titles = all(len(own) <= 1 for own in labels)
    fixed = {s.label: s.mark for panel in drawing.panels for s in panel.series}
    return {
        label: 0 if has_titles else n if mark is None else mark
        for n, (label, mark) in enumerate(fixed.items())
    }


# --- what a figure shows --------------------------------------------------------


@dataclass(frozen=True)
class Resolution:
    """How finely curves are drawn.

    Attributes:
        points: Points in a visit; divides 60, the number of its windows.
        neighbours: Points on either side that a point is averaged with.
    """

    points: int = POINTS
    neighbours: int = 0

    def __post_init__(self) -> None:
        if self.points < 1 or WINDOWS % self.points:
            raise ConfigError(
                f"expected a divisor of {WINDOWS}, the windows of a visit, "
                f"found {self.points}",
                option="bins",
            )
        if self.neighbours < 0:
            raise ConfigError(
                f"expected 0 or more points, found {self.neighbours}", option="smooth"
            )

    def smooth(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Sums over each point of a visit and its neighbours: (visits, points)."""
        if not self.neighbours:
            return sums
        place = np.arange(sums.shape[1])
        before = np.pad(np.cumsum(sums, axis=1), ((0, 0), (1, 0)))
        first = np.maximum(place - self.neighbours, 0)
        last = np.minimum(place + self.neighbours, sums.shape[1] - 1)
        return np.asarray(before[:, last + 1] - before[:, first])


DEFAULT_RESOLUTION = Resolution()

# (run, state of its agent) -> the address of the probe; empty for none.
ProbeLinker = Callable[[MeasuredRun, str], str]


def _link_nowhere(run: MeasuredRun, state: str) -> str:
    return ""


@dataclass(frozen=True)
class Shown:
    """A table of a comparison, and the runs behind it.

    Attributes:
        suite: The table.
        runs: Label of an agent -> its runs; shipped agents have none.
        scale: Converts rates into z.
        link: Gives the address of a probe: of a run and a state.
        styles: Label -> how the agent is drawn; the default is that of its name.
        resolution: How finely curves are drawn.
    """

    suite: SuiteComparison
    runs: RunsOfAgents
    scale: Scale
    link: ProbeLinker = _link_nowhere
    styles: Mapping[str, Style] = field(default_factory=dict)
    resolution: Resolution = DEFAULT_RESOLUTION

    @property
    def has_z(self) -> bool:
        """Whether some game has z."""
        return any("average" in agent.numbers for agent in self.suite.agents)

    def style(self, agent: AgentNumbers) -> Style:
        """How the agent is drawn."""
        return self.styles.get(agent.label) or self._default_styles[agent.label]

    @cached_property
    def _default_styles(self) -> dict[str, Style]:
        return style_agents(agent.label for agent in self.suite.agents)

    def curves_of(self, agent: AgentNumbers, game: str) -> Reals:
        """Rates in the visits of a game: (runs with curves, visits, points)."""
        found = []
        for run in self.runs.get(agent.label, ()):
            if run.curves is not None:
                schedule = run.config.schedule
                visits = [v.visit_idx for v in schedule if v.game_id == game]
                found.append(point_rates(run.curves, self.resolution)[visits])
        return np.array(found)

    def lowest_rate(self, game: str) -> float:
        """The lowest rate that is possible in a game, as far as the runs show.

        0 if no run lost a point in any window, else unknown: minus infinity.
        """
        sums = [
            run.curves.rewards[visit.visit_idx].min()
            for runs in self.runs.values()
            for run in runs
            for visit in run.config.schedule
            if run.curves is not None and visit.game_id == game
        ]
        return 0.0 if sums and min(sums) >= 0 else -math.inf


def draw_curves(shown: Shown) -> Drawing:
    """Reward rate over the visits of each game, mean and interval over runs."""
    panels = []
    for game in shown.suite.games:
        series: list[Series] = []
        lowest = shown.lowest_rate(game)
        for agent in shown.suite.agents:
            rates = shown.curves_of(agent, game)
            series += draw_visits(agent.label, shown.style(agent), rates, lowest)
        panels.append(Panel(game, tuple(series)))
    if not any(panel.series for panel in panels):
        raise nothing_to_draw("curves", "no run has its rows")
    return Drawing(
        "curves",
        "Learning curves",
        "visits of the game",
        f"reward per {shown.suite.frame_noun}",
        tuple(panels),
        "Reward rate within the visits of each game; mean and 95 % interval over runs.",
    )


def draw_visits(
    label: str, style: Style, values: Reals, lowest: float = -math.inf
) -> list[Series]:
    """A line per visit, mean and interval over runs.

    Args:
        label: Of the agent.
        style: Of the agent.
        values: (runs, visits, points).
        lowest: The lowest possible value, where intervals end.
    """
    if not len(values):
        return []
    points = values.shape[2]
    return [
        _to_series(
            label,
            style,
            visit + (np.arange(points) + 0.5) / points,
            [estimate_mean(column) for column in values[:, visit].T],
            lowest,
        )
        for visit in range(values.shape[1])
    ]


def point_rates(curves: Curves, resolution: Resolution = DEFAULT_RESOLUTION) -> Reals:
    """Rates of groups of windows: (visits, points)."""
    shape = (len(curves.frames), resolution.points, WINDOWS // resolution.points)
    rewards = curves.rewards.reshape(shape).sum(axis=2)
    frames = curves.frames.reshape(shape).sum(axis=2)
    return ratio(resolution.smooth(rewards), resolution.smooth(frames))


def _to_series(
    label: str,
    style: Style,
    x: Sequence[float] | Reals,
    y: Sequence[Estimate | None],
    lowest: float = -math.inf,
) -> Series:
    points = [(float(a), b) for a, b in zip(x, y, strict=True) if b is not None]
    return Series(
        label,
        style.colour,
        tuple(a for a, _ in points),
        tuple(b.mean for _, b in points),
        tuple(None if b.low is None else max(b.low, lowest) for _, b in points),
        tuple(b.high for _, b in points),
        mark=style.mark,
    )


def draw_games(shown: Shown) -> Drawing:
    """Average performance in every game, or the reward rate where there is no z."""
    metric = "average" if shown.has_z else "rate"
    word = "z" if shown.has_z else f"reward per {shown.suite.frame_noun}"
    if shown.suite.error is not None:
        raise nothing_to_draw("games", "prediction suites have --kind predictions")
    panel = _dots_by_game(shown, metric, marks=(0.0, 1.0) if shown.has_z else ())
    return Drawing(
        "games",
        "Games",
        word,
        "",
        (panel,),
        "Average performance per game; mean and 95 % interval over runs.",
    )


def _dots_by_game(
    shown: Shown, metric: str, marks: tuple[float, ...], *, is_log: bool = False
) -> Panel:
    games = [
        game
        for game in shown.suite.games
        if any(metric in agent.games.get(game, {}) for agent in shown.suite.agents)
    ]
    lowest = {game: _lowest_value(shown, game, metric) for game in games}
    series = []
    count = len(shown.suite.agents)
    for n, agent in enumerate(shown.suite.agents):
        # Side by side within the height of a category.
        shift = 0.6 * ((n + 0.5) / count - 0.5)
        known = [
            (position + shift, clip_low(agent.games[game][metric], lowest[game]))
            for position, game in enumerate(games)
            if metric in agent.games.get(game, {})
        ]
        series.append(draw_dots(agent.label, shown.style(agent), known))
    return Panel("", tuple(series), tuple(games), marks, is_log=is_log)


def _lowest_value(shown: Shown, game: str, metric: str) -> float:
    """The lowest possible value of a game's z, rate or error."""
    if metric == "error":
        return 0.0
    lowest = shown.lowest_rate(game)
    if metric == "rate":
        return lowest
    return float(shown.scale.normalise_game(game, np.array(lowest)))


def clip_low(estimate: Estimate, lowest: float) -> Estimate:
    """An interval without values that are not possible."""
    if estimate.low is None or estimate.low >= lowest:
        return estimate
    return estimate.model_copy(update={"low": lowest})


def draw_dots(
    label: str, style: Style, points: Sequence[tuple[float, Estimate]]
) -> Series:
    """Estimates along x, at positions along y."""
    return Series(
        label,
        style.colour,
        tuple(estimate.mean for _, estimate in points),
        tuple(position for position, _ in points),
        tuple(estimate.low for _, estimate in points),
        tuple(estimate.high for _, estimate in points),
        mark=style.mark,
    )


def draw_predictions(shown: Shown) -> Drawing:
    """The error of every game; lower is better."""
    if shown.suite.error is None:
        raise nothing_to_draw("predictions", "it is not a prediction suite")
    panel = _dots_by_game(shown, "error", (1.0,), is_log=True)
    return Drawing(
        "predictions",
        "Errors",
        (shown.suite.error or "nmse").replace("_", " "),
        "",
        (panel,),
        "Error per game, lower is better; 1 is the best constant. Mean and 95 % "
        "interval over runs.",
    )


def draw_profile(shown: Shown) -> Drawing:
    """Share of (run, game) with z ≥ τ."""
    series = []
    for agent in shown.suite.agents:
        if agent.profile is not None:
            shares = agent.profile.shares
            style = shown.style(agent)
            series.append(_to_series(agent.label, style, PROFILE_THRESHOLDS, shares))
    if not series:
        raise nothing_to_draw("profile", "no game has z")
    return Drawing(
        "profile",
        "Performance profile",
        "τ",
        "share with z ≥ τ",
        (Panel("", tuple(series), limits=(0.0, 1.0)),),
        "Performance profile (Agarwal et al. 2021): share of runs and games with "
        "z ≥ τ; 95 % interval over runs.",
    )


def draw_retention(shown: Shown) -> Drawing:
    """Retention, change at revisit and recovery cost of each agent."""
    names = ("retention", "change_at_revisit", "recovery")
    agents = shown.suite.agents
    panels = []
    for name in names:
        known = [agent for agent in agents if name in agent.numbers]
        series = tuple(
            draw_dots(agent.label, shown.style(agent), [(n, agent.numbers[name])])
            for n, agent in enumerate(known)
        )
        labels = tuple(agent.label for agent in known)
        if known:
            panels.append(Panel(METRICS[name], series, labels, marks=(0.0,)))
    if not panels:
        reasons = {a.absent[name] for a in agents for name in names if name in a.absent}
        raise nothing_to_draw(
            "retention", "; ".join(sorted(reasons)) or "no agent has it"
        )
    return Drawing(
        "retention",
        "Retention",
        "difference of z",
        "",
        tuple(panels),
        "Higher retention, lower change at revisit and lower recovery cost are "
        "better. Mean and 95 % interval over runs.",
    )


def draw_improvement(shown: Shown) -> Drawing:
    """The probability of being better than one agent."""
    known = [agent for agent in shown.suite.agents if agent.improvement is not None]
    if not known:
        raise nothing_to_draw("improvement", "needs two agents with runs")
    series = tuple(
        draw_dots(agent.label, shown.style(agent), [(n, agent.improvement)])
        for n, agent in enumerate(known)
        if agent.improvement is not None
    )
    labels = tuple(agent.label for agent in known)
    return Drawing(
        "improvement",
        "Probability of improvement",
        f"P(better than {shown.suite.versus})",
        "",
        (Panel("", series, labels, marks=(0.5,), limits=(0.0, 1.0)),),
        "Mean over games of P(X > Y) + ½ P(X = Y); 95 % interval over runs.",
    )


def draw_stream(shown: Shown) -> Drawing:
    """One run of each agent from the first frame to the last, games in colour."""
    panels = []
    for agent in shown.suite.agents:
        runs = [run for run in shown.runs.get(agent.label, ()) if run.curves]
        if runs:
            panels.append(_stream_panel(agent.label, runs[0], shown))
    if not panels:
        raise nothing_to_draw("stream", "no run has its rows")
    word = "z" if shown.has_z else f"reward per {shown.suite.frame_noun}"
    return Drawing(
        "stream",
        "The stream",
        shown.suite.frame_noun,
        word,
        tuple(panels),
        f"From the first {shown.suite.frame_noun} to the last, one run per agent."
        + _explain_gaps(shown),
    )


def _explain_gaps(shown: Shown) -> str:
    """Why some visits have no line."""
    without = [game for game in shown.suite.games if game in shown.scale.reasons]
    if not shown.has_z or not without:
        return ""
    return f" No line: {', '.join(without)}, without z."


def _stream_panel(label: str, run: MeasuredRun, shown: Shown) -> Panel:
    """A line per visit, over a span of the game's colour."""
    assert run.curves is not None
    rates = point_rates(run.curves, shown.resolution)
    points = rates.shape[1]
    agent = next(agent for agent in shown.suite.agents if agent.label == label)
    lines, spans = [], []
    schedule = run.config.schedule
    for visit, frames, values in zip(
        schedule, visit_spans(schedule), rates, strict=True
    ):
        x = frames.start + (np.arange(points) + 0.5) / points * len(frames)
        colour = game_colour(visit.game_id)
        spans.append(Span(frames.start, frames.stop, visit.game_id, colour))
        if shown.has_z:
            values = shown.scale.normalise_game(visit.game_id, values)
        if not np.isnan(values).any():
            lines.append(_bare_line(label, shown.style(agent), x, values))
    seed = "" if run.seed is None else f", seed {run.seed}"
    marks = (0.0, 1.0) if shown.has_z else ()
    return Panel(f"{label}{seed}", tuple(lines), marks=marks, spans=tuple(spans))


def _bare_line(label: str, style: Style, x: Reals, y: Reals) -> Series:
    nothing = (None,) * len(x)
    return Series(
        label,
        style.colour,
        tuple(x.tolist()),
        tuple(y.tolist()),
        nothing,
        nothing,
        mark=style.mark,
    )


def nothing_to_draw(kind: str, why: str) -> ConfigError:
    """The error of a figure whose data are missing."""
    return ConfigError(f"nothing to draw: {why}", option=f"kind {kind}")


# --- data -----------------------------------------------------------------------


def table_drawing(drawing: Drawing) -> TextTable:
    """The numbers of a drawing, a row per point."""
    rows: list[tuple[Value, ...]] = []
    for panel in drawing.panels:
        rows += _list_cells(panel)
        for series in panel.series:
            points = zip(series.x, series.y, series.low, series.high, strict=True)
            for x, y, *ends in points:
                if not math.isnan(y):  # the gap of a line
                    place = panel.categories[round(y)] if panel.categories else y
                    low, high = ("" if end is None else end for end in ends)
                    rows.append((panel.title, series.label, x, place, low, high))
    columns = ("panel", "series", "x", "y", "low", "high")
    return TextTable.of("numbers of the figure", columns, rows, names=2)


def drawing_to_csv(drawing: Drawing) -> str:
    """The numbers of a drawing, with all their digits."""
    return render_csv(table_drawing(drawing))


def _list_cells(panel: Panel) -> Iterator[tuple[Value, ...]]:
    """The cells of a grid: a column is a series, a row its x."""
    if panel.grid is None:
        return
    for row, values in zip(panel.grid.rows, panel.grid.values, strict=True):
        for column, value in zip(panel.grid.columns, values, strict=True):
            if value is not None:
                yield panel.title, column, row, value, "", ""
