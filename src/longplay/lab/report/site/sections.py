"""The parts of a page about runs of one suite: figures, settings, provenance.

Report and viewer share them, so that both show the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longplay.errors import ConfigError
from longplay.lab.analysis.commands import run_command
from longplay.lab.analysis.records import SuiteComparison
from longplay.lab.analysis.runs import MeasuredRun
from longplay.lab.report.draw.drawings import Drawing, Shown, table_drawing
from longplay.lab.report.draw.kinds import KINDS, draw
from longplay.lab.report.memory_tables import describe_memory, list_memory_tables
from longplay.lab.report.tables import (
    describe_suite,
    make_agents_table,
    make_games_table,
)
from longplay.tables import NOTHING, Cell, TextTable

# A run -> its trust level: claimed, replayed or re-executed.
TrustReader = Callable[[MeasuredRun], str]

# A table behind a figure has at most so many rows; its CSV file has all.
_MOST_ROWS = 600


@dataclass(frozen=True)
class PageFigure:
    """A figure on a page.

    Attributes:
        id: Of its element.
        title: Above it.
        caption: Below it.
        data: `{data, layout}` of plotly.js.
        files: Name -> address of files beside it.
        table: Its numbers, where the page has no file with them.
    """

    id: str
    title: str
    caption: str
    data: dict[str, Any]
    files: dict[str, str]
    table: TextTable | None = None


@dataclass(frozen=True)
class Section:
    """The part of a page about one suite."""

    id: str
    suite: SuiteComparison
    agents: TextTable
    games: TextTable
    notes: tuple[str, ...]
    figures: tuple[PageFigure, ...]
    provenance: TextTable
    differences: TextTable | None = None
    probes: tuple[TextTable, ...] = ()


def make_section(
    name: str, shown: Shown, figures: Iterable[PageFigure], trust: TrustReader
) -> Section:
    """The tables of a suite, with some figures.

    Args:
        name: Id of its element.
        shown: A table of a comparison, with its runs.
        figures: Shown between the tables.
        trust: Reads the trust level of a run.
    """
    suite = shown.suite
    return Section(
        name,
        suite,
        make_agents_table(suite),
        make_games_table(suite),
        (*describe_suite(suite), *describe_memory(suite)),
        tuple(figures),
        table_provenance(shown.runs, trust),
        probes=tuple(list_memory_tables(suite, with_games=True)),
    )


def draw_all(shown: Shown) -> list[Drawing]:
    """The figures that these runs can have."""
    drawings = []
    for kind in KINDS:
        try:
            drawings.append(draw(kind, shown))
        except ConfigError:  # says that there is nothing to draw; the notes say why
            continue
    return drawings


def table_figure(drawing: Drawing) -> TextTable:
    """The first numbers of a figure."""
    table = table_drawing(drawing)
    if (rows := len(table.rows)) <= _MOST_ROWS:
        return table
    title = f"{table.title}, the first {_MOST_ROWS} of {rows}"
    return replace(table, title=title, rows=table.rows[:_MOST_ROWS])


def table_agent_differences(
    runs: Mapping[str, Sequence[MeasuredRun]],
) -> TextTable | None:
    """Settings in which the agents differ; None if they do not."""
    configs = {
        label: members[0].config.agent.config
        for label, members in runs.items()
        if members and members[0].config.agent is not None
    }
    return table_differences(configs)


def table_differences(given: Mapping[str, Mapping[str, Any]]) -> TextTable | None:
    """Settings in which some configs differ; None if they do not.

    Args:
        given: Heading of a column -> a config, nested or not.
    """
    configs = {label: _flatten(config) for label, config in given.items()}
    names = sorted({name for config in configs.values() for name in config})
    rows = []
    for name in names:
        values = [config.get(name) for config in configs.values()]
        if len({json.dumps(value) for value in values}) > 1:
            rows.append((Cell(name, name), *_setting_cells(values)))
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


def _setting_cells(values: Sequence[Any]) -> list[Cell]:
    """Values cut to a readable length, unless that makes different ones look alike."""
    texts = [NOTHING if value is None else str(value) for value in values]
    cut = [text if len(text) <= 24 else f"{text[:23]}…" for text in texts]
    shown = cut if len(set(cut)) == len(set(texts)) else texts
    return [Cell(text, whole) for text, whole in zip(shown, texts, strict=True)]


def table_provenance(
    runs: Mapping[str, Sequence[MeasuredRun]], trust: TrustReader
) -> TextTable:
    """Who and what made every run."""
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


def describe_command(label: str, runs: Sequence[MeasuredRun]) -> str:
    """The command that makes the runs of an agent again."""
    config, seeds = runs[0].config, [run.seed for run in runs]
    agent = config.agent.config if config.agent else {"_type": runs[0].agent.name}
    command = run_command(config.config_given, agent, seeds, config.agent_isolation)
    return f"{command}  # {label}"
