"""Paths -> a comparison, a figure or a report, for callers in Python.

    comparison = longplay.compare("runs/mine", baselines=True)
    comparison.suites[0].agents[0].numbers["headline"].mean
    comparison.plot("games").save("games.pdf")
    comparison.report("report")

A notebook shows a comparison as its tables, and a figure as a picture.
"""

from __future__ import annotations

import html
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from longplay.contract.files import write_file
from longplay.errors import ConfigError, NotARunError
from longplay.lab.analysis.comparison import Request, runs_by_label
from longplay.lab.analysis.comparison import compare as compare_agents
from longplay.lab.analysis.records import Comparison as Analysis
from longplay.lab.analysis.records import SuiteComparison
from longplay.lab.analysis.runs import FoundRuns, RunReader
from longplay.lab.analysis.table import Table
from longplay.lab.probes.numbers import add_memory
from longplay.lab.report.draw.colours import Style, read_styles, style_agents
from longplay.lab.report.draw.drawings import (
    POINTS,
    Drawing,
    Resolution,
    Shown,
    drawing_to_csv,
)
from longplay.lab.report.draw.kinds import choose_agents, choose_games, draw
from longplay.lab.report.draw.paper import Columns, render_paper
from longplay.lab.report.memory_tables import describe_memory, list_memory_tables
from longplay.lab.report.site.report import ReportInput, write_report
from longplay.lab.report.site.verdicts import open_pack, open_probe, read_trust
from longplay.lab.report.tables import (
    CSV_COLUMNS,
    describe_suite,
    list_numbers,
    make_agents_table,
    make_games_table,
)
from longplay.scoring.anchors import shipped_anchors
from longplay.scoring.normalisation import make_scale
from longplay.tables import render_html

if TYPE_CHECKING:
    import pyarrow

# Of a picture in a notebook; `Figure.save` writes those of a paper.
_NOTEBOOK_DPI = 150
_NUMBERS = ("tuning_frames", "mean", "low", "high")


@dataclass(frozen=True)
class Figure:
    """A figure, which a notebook shows as a picture.

    Attributes:
        drawing: What it shows, independent of any library.
        columns: Width in columns of a paper.
    """

    drawing: Drawing
    columns: Columns = 1

    def save(self, path: str | Path) -> None:
        """Writes *.pdf, *.png, *.svg, or its numbers as *.csv.

        Raises:
            ConfigError: The ending is another one.
        """
        path = Path(path)
        if path.suffix == ".csv":
            self.save_numbers(path)
        else:
            file_format = path.suffix.removeprefix(".")
            write_file(path, render_paper(self.drawing, file_format, self.columns))

    def save_numbers(self, path: str | Path) -> None:
        """Writes its numbers as CSV, whatever the ending of the file."""
        write_file(Path(path), drawing_to_csv(self.drawing).encode())

    def _repr_png_(self) -> bytes:
        return render_paper(self.drawing, "png", self.columns, _NOTEBOOK_DPI)


@dataclass(frozen=True)
class Comparison:
    """Agents, compared suite by suite.

    Attributes:
        analysis: Every number with its interval, as in `analysis.json`.
        found: The runs behind the numbers, and those that were left out.
        request: What was asked for.
    """

    analysis: Analysis
    found: FoundRuns
    request: Request

    @property
    def suites(self) -> tuple[SuiteComparison, ...]:
        """The agents of each suite, with their numbers."""
        return self.analysis.suites

    @cached_property
    def numbers(self) -> Table:
        """Every number as a row: agent, game ("" for all), metric, mean, interval."""
        rows = list_numbers(self.suites)
        columns = zip(*rows, strict=True) if rows else ((),) * len(CSV_COLUMNS)
        return Table(
            {
                name: np.array(values, _column_type(name))
                for name, values in zip(CSV_COLUMNS, columns, strict=True)
            }
        )

    def arrow(self) -> pyarrow.Table:
        """`numbers` as an Arrow table; an interval that is not known is null."""
        return self.numbers.arrow()

    def to_pandas(self) -> Any:
        """`numbers` as a `pandas.DataFrame`; pandas must be installed."""
        return self.numbers.to_pandas()

    def to_polars(self) -> Any:
        """`numbers` as a `polars.DataFrame`; polars must be installed."""
        return self.numbers.to_polars()

    def plot(
        self,
        kind: str = "curves",
        *,
        suite: str | None = None,
        columns: Columns = 1,
        agents: Sequence[str] | None = None,
        games: Sequence[str] | int | None = None,
        bins: int = POINTS,
        smooth: int = 0,
        styles: str | Path | None = None,
    ) -> Figure:
        """Draws one figure.

        Args:
            kind: As `longplay plot --kind`.
            suite: The suite or the title of its table; needed if there are several.
            columns: Width in columns of a paper.
            agents: Only these agents, by their labels.
            games: Only these games, or the number of those in which agents differ most.
            bins: Points of a curve in a visit; divides 60.
            smooth: Points on either side that a point of a curve is averaged with.
            styles: File with colours and markers of agents, *.toml.

        Raises:
            ConfigError: There are several suites, the runs lack the data for it, or an
                option is out of range.
            UnknownNameError: There is no such kind, agent or game.
        """
        table = self._choose_suite(suite)
        shown = Shown(
            table,
            runs_by_label(self.found, table),
            make_scale(self.request.anchors, table.suite, table.games, table.emulator),
            styles=self._style_agents(styles),
            resolution=Resolution(bins, smooth),
        )
        if agents is not None:
            shown = choose_agents(shown, agents)
        if games is not None:
            shown = choose_games(shown, kind, games)
        return Figure(draw(kind, shown), columns)

    def _style_agents(self, path: str | Path | None) -> dict[str, Style]:
        """Label -> colour and marker, the same on all suites."""
        given = None if path is None else read_styles(Path(path))
        agents = (agent for suite in self.suites for agent in suite.agents)
        return style_agents({agent.label for agent in agents}, given)

    def _choose_suite(self, suite: str | None) -> SuiteComparison:
        chosen = [
            table for table in self.suites if suite in (None, table.suite, table.title)
        ]
        if len(chosen) != 1:
            names = ", ".join(table.title for table in self.suites)
            found = "none" if suite is None else suite
            raise ConfigError(f"expected one of {names}, found {found}", option="suite")
        return chosen[0]

    def report(self, out: str | Path, *, styles: str | Path | None = None) -> Path:
        """Writes an HTML report, which opens from disk; returns its first page.

        Args:
            out: Folder to create.
            styles: File with colours and markers of agents, *.toml.

        Raises:
            ConfigError: The file of styles is not valid.
            OutputError: The folder exists and is not empty.
        """
        request = self.request
        options = ["--baselines"] if request.with_baselines else []
        for name, value in (
            ("--suite", request.suite),
            ("--versus", request.versus),
            ("--styles", None if styles is None else Path(styles).name),
        ):
            options += [] if value is None else [name, shlex.quote(value)]
        given = ReportInput(
            self.found,
            self.analysis,
            request.anchors,
            read_trust,
            options,
            self._style_agents(styles),
        )
        write_report(Path(out), given)
        return Path(out) / "index.html"

    def _repr_html_(self) -> str:
        return "\n".join(map(_suite_to_html, self.suites))


def _column_type(name: str) -> Any:
    if name in _NUMBERS:
        return np.float64  # None becomes NaN
    return np.int64 if name == "n" else object


def _suite_to_html(suite: SuiteComparison) -> str:
    """The tables of a suite, each with the notes below it."""
    parts = []
    for tables, notes in (
        ([make_agents_table(suite)], describe_suite(suite)),
        (list_memory_tables(suite, with_games=False), describe_memory(suite)),
        ([make_games_table(suite)], ()),
    ):
        parts += [render_html(table) for table in tables]
        parts += [f"<p>{html.escape(note)}</p>" for note in notes]
    return "\n".join(parts)


def compare_runs(
    found: FoundRuns,
    *,
    baselines: bool = False,
    suite: str | None = None,
    versus: str | None = None,
) -> Comparison:
    """Compares agents, with the numbers of probes where runs have them."""
    request = Request(shipped_anchors(), suite, versus, baselines)
    analysis = compare_agents(found, request)
    analysis = add_memory(analysis, found, request.anchors, open_probe)
    return Comparison(analysis, found, request)


def require_runs(found: FoundRuns) -> FoundRuns:
    """The runs that were found.

    Raises:
        NotARunError: None is complete; names the reasons.
    """
    if not found.runs:
        reasons = "; ".join(f"{left.path}: {left.reason}" for left in found.left_out)
        raise NotARunError(
            f"expected at least one complete run, found none ({reasons})"
        )
    return found


def compare(
    *paths: str | Path,
    baselines: bool = False,
    suite: str | None = None,
    versus: str | None = None,
) -> Comparison:
    """Compares agents: differences with confidence intervals.

    Args:
        paths: Runs, experiments, studies, packs, or folders of them.
        baselines: Whether to show the shipped baselines, too.
        suite: Only this suite.
        versus: Compare with this agent instead of the first.

    Raises:
        NotARunError: No run at the paths is complete.
        UnknownNameError: The suite or the agent is not among the runs.
    """
    found = require_runs(RunReader(open_pack).read(map(Path, paths)))
    return compare_runs(found, baselines=baselines, suite=suite, versus=versus)


class FigureOptions(TypedDict, total=False):
    """The options of a figure, as `Comparison.plot` describes them."""

    columns: Columns
    agents: Sequence[str] | None
    games: Sequence[str] | int | None
    bins: int
    smooth: int
    styles: str | Path | None


def plot(
    *paths: str | Path,
    kind: str = "curves",
    out: str | Path | None = None,
    baselines: bool = False,
    suite: str | None = None,
    versus: str | None = None,
    **options: Unpack[FigureOptions],
) -> Figure:
    """Draws one figure for a paper; a notebook shows it.

    Args:
        paths: Runs, experiments, studies, packs, or folders of them.
        kind: As `longplay plot --kind`.
        out: File to write: *.pdf, *.png, *.svg, or *.csv for the numbers.
        baselines: Whether to show the shipped baselines, too.
        suite: Only this suite; needed if the runs are of several.
        versus: Compare with this agent instead of the first.
        options: `columns`, `agents`, `games`, `bins`, `smooth` and `styles`, as
            `Comparison.plot`.

    Raises:
        ConfigError: As `Comparison.plot`.
        NotARunError, UnknownNameError: As `compare` and `Comparison.plot`.
    """
    comparison = compare(*paths, baselines=baselines, suite=suite, versus=versus)
    figure = comparison.plot(kind, **options)
    if out is not None:
        figure.save(out)
    return figure


def report(
    *paths: str | Path,
    out: str | Path,
    baselines: bool = False,
    suite: str | None = None,
    versus: str | None = None,
    styles: str | Path | None = None,
) -> Path:
    """Writes an HTML report: figures, tables and all numbers, readable offline.

    Args:
        paths: Runs, experiments, studies, packs, or folders of them.
        out: Folder to create.
        baselines: Whether to show the shipped baselines, too.
        suite: Only this suite.
        versus: Compare with this agent instead of the first.
        styles: File with colours and markers of agents, *.toml.

    Returns:
        Its first page.

    Raises:
        ConfigError: The file of styles is not valid.
        OutputError: The folder exists and is not empty.
        NotARunError, UnknownNameError: As `compare`.
    """
    comparison = compare(*paths, baselines=baselines, suite=suite, versus=versus)
    return comparison.report(out, styles=styles)
