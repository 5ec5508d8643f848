"""A comparison and its runs -> a folder of pages that work offline.

    index.html · style.css · page.js · plotly.min.js
    analysis.json · numbers.csv
    <suite>/<table>.csv · <table>.tex · <figure>.csv · <figure>.png

Same runs, same bytes: no clock, path or machine name is in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from longplay.contract.files import make_directory, write_document, write_file
from longplay.lab.analysis.comparison import runs_by_label
from longplay.lab.analysis.records import Comparison, SuiteComparison
from longplay.lab.analysis.runs import FoundRuns
from longplay.lab.report.draw.colours import Style
from longplay.lab.report.draw.drawings import Drawing, Shown, drawing_to_csv
from longplay.lab.report.draw.figures import make_figure, plotly_script
from longplay.lab.report.draw.paper import render_paper
from longplay.lab.report.site.pages import make_slug, render_page, writing_site
from longplay.lab.report.site.sections import (
    PageFigure,
    Section,
    TrustReader,
    describe_command,
    draw_all,
    make_section,
    table_agent_differences,
)
from longplay.lab.report.tables import comparison_to_csv, suite_to_csv
from longplay.scoring.anchors import Anchors
from longplay.scoring.normalisation import make_scale
from longplay.tables import TextTable, count, render_csv, render_latex

# Of pictures on a page; `longplay plot` makes those of a paper.
_PAGE_DPI = 150


@dataclass(frozen=True)
class ReportInput:
    """The inputs of a report."""

    found: FoundRuns
    comparison: Comparison
    anchors: Anchors
    trust: TrustReader
    options: Sequence[str] = field(default=())
    styles: Mapping[str, Style] = field(default_factory=dict)


def write_report(directory: Path, given: ReportInput) -> None:
    """Writes the pages and all their files.

    Raises:
        OutputError: The folder exists and is not empty.
        MissingExtraError: plotly, matplotlib or jinja2 is not installed.
    """
    with writing_site(directory) as folder:
        _write_pages(folder, given)


def _write_pages(directory: Path, given: ReportInput) -> None:
    sections: list[Section] = []
    for suite in given.comparison.suites:
        taken = [section.id for section in sections]
        sections.append(_write_section(directory, suite, given, taken))
    write_document(directory / "analysis.json", _without_paths(given.comparison))
    numbers = comparison_to_csv(given.comparison)
    write_file(directory / "numbers.csv", numbers.encode())
    write_file(directory / "plotly.min.js", plotly_script().encode())
    page = render_page(
        "report.html",
        comparison=given.comparison,
        sections=sections,
        has_z=any(
            "average" in agent.numbers
            for suite in given.comparison.suites
            for agent in suite.agents
        ),
        runs=count(len(given.found.runs), "run"),
        agents=count(len({run.agent for run in given.found.runs}), "agent"),
        commands=[*_list_commands(given), _report_command(given.options)],
    )
    write_file(directory / "index.html", page)


def _without_paths(comparison: Comparison) -> Comparison:
    """Removes the paths of this machine: a report may be published."""
    left_out = [
        left.model_copy(update={"path": Path(left.path).name})
        for left in comparison.left_out
    ]
    return comparison.model_copy(update={"left_out": tuple(left_out)})


def _write_section(
    directory: Path, suite: SuiteComparison, given: ReportInput, taken: Sequence[str]
) -> Section:
    name = make_slug(suite.title, taken)
    make_directory(directory / name)
    runs = runs_by_label(given.found, suite)
    scale = make_scale(given.anchors, suite.suite, suite.games, suite.emulator)
    shown = Shown(suite, runs, scale, styles=given.styles)
    figures = [_write_figure(directory, name, drawing) for drawing in draw_all(shown)]
    made = make_section(name, shown, figures, given.trust)
    place = _Place(directory, name)
    differences = table_agent_differences(runs)
    return replace(
        made,
        agents=place.write_table(
            "agents", made.agents, suite_to_csv(suite, by_game=False)
        ),
        games=place.write_table(
            "by-game", made.games, suite_to_csv(suite, by_game=True)
        ),
        provenance=place.write_table("provenance", made.provenance),
        differences=differences and place.write_table("settings", differences),
        probes=tuple(
            place.write_table(f"probes-{number}", table)
            for number, table in enumerate(made.probes)
        ),
    )


@dataclass(frozen=True)
class _Place:
    """The folder of a section."""

    directory: Path
    name: str

    def write_table(self, kind: str, table: TextTable, numbers: str = "") -> TextTable:
        """Writes a table as CSV and LaTeX; its CSV may have more than it shows."""
        files = {"CSV": f"{self.name}/{kind}.csv", "LaTeX": f"{self.name}/{kind}.tex"}
        content = numbers or render_csv(table)
        write_file(self.directory / files["CSV"], content.encode())
        write_file(self.directory / files["LaTeX"], render_latex(table).encode())
        return replace(table, files=files)


def _write_figure(directory: Path, name: str, drawing: Drawing) -> PageFigure:
    files = {
        "CSV": f"{name}/{drawing.kind}.csv",
        "PNG": f"{name}/{drawing.kind}.png",
    }
    write_file(directory / files["CSV"], drawing_to_csv(drawing).encode())
    write_file(directory / files["PNG"], render_paper(drawing, "png", 2, _PAGE_DPI))
    return PageFigure(
        id=f"{name}-{drawing.kind}",
        title=drawing.title,
        caption=drawing.full_caption,
        data=make_figure(drawing),
        files=files,
    )


def _list_commands(given: ReportInput) -> list[str]:
    """The commands that reproduce the runs, one per agent and suite."""
    commands = []
    for suite in given.comparison.suites:
        for label, members in runs_by_label(given.found, suite).items():
            if members:
                commands.append(describe_command(label, members))
    return commands


def _report_command(options: Sequence[str]) -> str:
    return " ".join(["longplay", "report", "PATH…", "-o", "DIR", *options])
