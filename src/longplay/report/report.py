"""A comparison and its runs -> a folder of pages that work offline.

    index.html · style.css · page.js · plotly.min.js
    analysis.json · numbers.csv
    <suite>/agents.tex · games.tex · <figure>.csv · <figure>.png

Same runs, same bytes: no clock, path or machine name is in it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longplay.analysis.anchors import Anchors
from longplay.analysis.comparison import runs_by_label
from longplay.analysis.labels import describe_seeds
from longplay.analysis.normalisation import make_scale
from longplay.analysis.records import Comparison, SuiteComparison
from longplay.analysis.runs import FoundRuns, MeasuredRun
from longplay.contract.files import make_directory, write_document, write_file
from longplay.errors import ConfigError
from longplay.report.drawings import KINDS, Drawing, Shown, draw, drawing_to_csv
from longplay.report.figures import make_figure, plotly_script
from longplay.report.pages import make_site_folder, render_page
from longplay.report.paper import render_paper
from longplay.report.tables import (
    Cell,
    TextTable,
    comparison_to_csv,
    describe_suite,
    make_agents_table,
    make_games_table,
    render_latex,
)

# A run -> its trust level: claimed, replayed or re-executed.
TrustReader = Callable[[MeasuredRun], str]


@dataclass(frozen=True)
class Linked:
    """A table, and files beside it: name -> address."""

    table: TextTable
    files: dict[str, str]


@dataclass(frozen=True)
class PageFigure:
    """A figure on a page."""

    id: str
    title: str
    caption: str
    data: dict[str, Any]
    files: dict[str, str]


@dataclass(frozen=True)
class Section:
    """The section of a page about one suite."""

    id: str
    suite: SuiteComparison
    agents: Linked
    games: Linked
    notes: tuple[str, ...]
    figures: tuple[PageFigure, ...]
    differences: TextTable | None
    provenance: TextTable


@dataclass(frozen=True)
class ReportInput:
    """The inputs of a report."""

    found: FoundRuns
    comparison: Comparison
    anchors: Anchors
    trust: TrustReader
    options: Sequence[str] = field(default=())


def write_report(directory: Path, given: ReportInput) -> None:
    """Writes the pages and all their files.

    Raises:
        OutputError: The folder exists and is not empty.
        MissingExtraError: plotly, matplotlib or jinja2 is not installed.
    """
    make_site_folder(directory)
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
        runs=len(given.found.runs),
        agents=len({run.agent for run in given.found.runs}),
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
    name = _slug(suite.suite, taken)
    make_directory(directory / name)
    runs = runs_by_label(given.found, suite)
    scale = make_scale(given.anchors, suite.suite, suite.games)
    shown = Shown(suite, runs, scale)
    agents, games = make_agents_table(suite), make_games_table(suite)
    for kind, table in (("agents", agents), ("games", games)):
        path = directory / name / f"{kind}.tex"
        write_file(path, render_latex(table).encode())
    figures = [_write_figure(directory, name, drawing) for drawing in _draw_all(shown)]
    return Section(
        id=name,
        suite=suite,
        agents=Linked(agents, {"CSV": "numbers.csv", "LaTeX": f"{name}/agents.tex"}),
        games=Linked(games, {"CSV": "numbers.csv", "LaTeX": f"{name}/games.tex"}),
        notes=tuple(describe_suite(suite)),
        figures=tuple(figures),
        differences=_table_differences(runs),
        provenance=_table_provenance(runs, given.trust),
    )


def _slug(text: str, taken: Sequence[str]) -> str:
    """An unused folder name of letters, digits and dashes."""
    slug = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60].rstrip("-")
    slug = slug or "suite"
    name, number = slug, 2
    while name in taken:
        name, number = f"{slug}-{number}", number + 1
    return name


def _draw_all(shown: Shown) -> list[Drawing]:
    """The figures that these runs can have."""
    drawings = []
    for kind in KINDS:
        try:
            drawings.append(draw(kind, shown))
        except ConfigError:  # says that there is nothing to draw; the notes say why
            continue
    return drawings


def _write_figure(directory: Path, name: str, drawing: Drawing) -> PageFigure:
    files = {
        "CSV": f"{name}/{drawing.kind}.csv",
        "PNG": f"{name}/{drawing.kind}.png",
    }
    write_file(directory / files["CSV"], drawing_to_csv(drawing).encode())
    write_file(directory / files["PNG"], render_paper(drawing, "png", 2))
    return PageFigure(
        id=f"{name}-{drawing.kind}",
        title=drawing.title,
        caption=drawing.caption,
        data=make_figure(drawing),
        files=files,
    )


# --- provenance -----------------------------------------------------------------


def _table_differences(runs: Mapping[str, Sequence[MeasuredRun]]) -> TextTable | None:
    """Settings in which the agents differ; None if they do not."""
    configs = {
        label: _flatten(members[0].config.agent.config)
        for label, members in runs.items()
        if members and members[0].config.agent is not None
    }
    names = sorted({name for config in configs.values() for name in config})
    rows = [
        (Cell(name, name), *(_setting_cell(c.get(name)) for c in configs.values()))
        for name in names
        if len({json.dumps(c.get(name)) for c in configs.values()}) > 1
    ]
    if not rows:
        return None
    return TextTable("settings that differ", ("setting", *configs), tuple(rows))


def _flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in config.items():
        if isinstance(value, Mapping) and value:
            flat |= _flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _setting_cell(value: Any) -> Cell:
    text = "–" if value is None else str(value)
    return Cell(text if len(text) <= 24 else f"{text[:23]}…", text)


def _table_provenance(
    runs: Mapping[str, Sequence[MeasuredRun]], trust: TrustReader
) -> TextTable:
    columns = (
        "agent",
        "seed",
        "isolation",
        "trust",
        "agent id",
        "chain head",
        "commit",
        "longplay",
        "ale-py",
        "numpy",
    )
    rows = [
        (Cell(label, label), *(Cell(text, text) for text in _origin_of(run, trust)))
        for label, members in runs.items()
        for run in members
    ]
    return TextTable("provenance", columns, tuple(rows))


def _origin_of(run: MeasuredRun, trust: TrustReader) -> list[str]:
    config = run.config
    versions = config.versions or {}
    commit = (config.git.commit if config.git else None) or "–"
    is_dirty = bool(config.git and config.git.is_dirty)
    return [
        "–" if run.seed is None else str(run.seed),
        run.agent.isolation,
        trust(run),
        (run.agent.agent_id or "–")[:8],
        run.identity[:8],
        commit[:8] + ("+" if is_dirty else ""),
        *(versions.get(name, "–") for name in ("longplay", "ale_py", "numpy")),
    ]


def _list_commands(given: ReportInput) -> list[str]:
    """The commands that reproduce the runs, one per agent and suite."""
    commands = []
    for suite in given.comparison.suites:
        for label, members in runs_by_label(given.found, suite).items():
            if members:
                commands.append(_run_command(label, members))
    return commands


def _run_command(label: str, runs: Sequence[MeasuredRun]) -> str:
    config = runs[0].config
    words = ["longplay", "run"]
    words.append(config.config_given.suite if config.config_given else "SUITE")
    words += ["--agent", runs[0].agent.name]
    if config.agent is not None:
        for name, value in (config.agent.config.get("args") or {}).items():
            words += ["--agent-arg", f"{name}={_plain(value)}"]
    if config.config_given is not None:
        for name, value in config.config_given.overrides.items():
            words += ["--set", f"{name}={_plain(value)}"]
    seeds = describe_seeds([run.seed for run in runs]).replace("–", "-")
    words += ["--seeds", seeds.replace(" ", "")]
    if runs[0].agent.isolation != "none":
        words += ["--isolate", runs[0].agent.isolation]
    return f"{shlex.join(words)}  # {label}"


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _report_command(options: Sequence[str]) -> str:
    return " ".join(["longplay", "report", "PATH…", "-o", "DIR", *options])
