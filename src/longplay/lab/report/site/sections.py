"""The parts of a page about runs of one suite: figures, settings, provenance.

Report and viewer share them, so that both show the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from longplay.errors import ConfigError
from longplay.lab.analysis.commands import run_command
from longplay.lab.analysis.intervals import Estimate
from longplay.lab.analysis.records import AgentNumbers, SuiteComparison
from longplay.lab.analysis.runs import MeasuredRun
from longplay.lab.report.draw.drawings import Drawing, Shown, table_drawing
from longplay.lab.report.draw.kinds import KINDS, draw
from longplay.lab.report.memory_tables import describe_memory, list_memory_tables
from longplay.lab.report.tables import (
    describe_suite,
    format_estimate,
    head_metric,
    make_agents_table,
    make_games_table,
)
from longplay.tables import NOTHING, Cell, TextTable, count

# A run -> its trust level: claimed, replayed or re-executed.
TrustReader = Callable[[MeasuredRun], str]

# A table behind a figure has at most so many rows; its CSV file has all.
_MOST_ROWS = 600
# The first of these that runs have stands above the table of agents.
_LEAD_KINDS = ("average", "predictions", "games")
# Headline of a track -> what it is, for readers of a page.
_MEANINGS = {
    "final_score": "reward per frame at the end of each game's last visit: a weighted "
    "sum of the mean over games and the mean over the worst games",
    "cumulative_reward": "delivered reward, summed over all timesteps",
    "nmse": "squared error of the predictions over the variance of their targets, mean "
    "over games: 0 is perfect, 1 is the best constant",
}


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
    """The part of a page about one suite.

    Attributes:
        id: Of its element.
        suite: The numbers.
        summary: Who is ahead, and by how much, in one sentence.
        meanings: What the numbers mean, a sentence each.
        agents: One row per agent, the lead and its difference first.
        games: One row per game and agent.
        notes: About both tables.
        figures: The lead figure first.
        provenance: One row per run.
        differences: Settings in which agents differ; None if they do not.
        probes: Tables of what probes measured.
    """

    id: str
    suite: SuiteComparison
    summary: str
    meanings: tuple[str, ...]
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
        summarise_suite(suite),
        tuple(_explain_numbers(suite)),
        _put_lead_first(suite, make_agents_table(suite)),
        make_games_table(suite),
        (*describe_suite(suite), *describe_memory(suite)),
        tuple(figures),
        table_provenance(shown.runs, trust),
        probes=tuple(list_memory_tables(suite, with_games=True)),
    )


def _put_lead_first(suite: SuiteComparison, table: TextTable) -> TextTable:
    """The columns in the order of a page, which may show only the first ones."""
    head = _name_lead(suite)
    first = [table.columns.index(n) for n in (head, f"Δ {head}") if n in table.columns]
    rest = [n for n in range(1, len(table.columns)) if n not in first]
    return table.choose((0, *first, *rest))


def _name_lead(suite: SuiteComparison) -> str:
    return head_metric(suite.lead, suite.headline, suite.error)


def _explain_numbers(suite: SuiteComparison) -> Iterator[str]:
    """What the numbers of a suite mean, of those that it has."""
    if (meaning := _MEANINGS.get(suite.headline)) is not None:
        yield f"{suite.headline.replace('_', ' ')}: {meaning}."
    if any("average" in agent.numbers for agent in suite.agents):
        yield "z: 0 is the random agent, 1 the upper anchor of the game."


def summarise_suite(suite: SuiteComparison) -> str:
    """Who is ahead in the lead and by how much: `A is above B by 0.31 ±0.05 in …`."""
    sign = 1 if suite.lead_is_better == "more" else -1
    ranked = sorted(
        (agent for agent in suite.agents if suite.lead in agent.numbers),
        key=lambda agent: -sign * agent.numbers[suite.lead].mean,
    )
    lead = "average z" if suite.lead == "average" else _name_lead(suite)
    if not ranked:
        return ""
    best = ranked[0]
    if len(ranked) == 1:
        value = format_estimate(best.numbers[suite.lead])
        return f"{best.label}: {lead} {value}, {count(len(best.seeds), 'run')}."
    other = _find_rival(suite, ranked)
    gap = _find_gap(suite, best, other)
    amount = format_estimate(gap)
    if gap.half_width is not None and not gap.excludes_zero:
        names = f"{best.label} and {other.label}"
        return f"{names} do not clearly differ in {lead}: {amount}."
    side = "above" if sign > 0 else "below"
    text = f"{best.label} is {side} {other.label} by {amount} in {lead}"
    if gap.half_width is None:
        text += ", without an interval"
    return f"{text}; lower is better." if sign < 0 else f"{text}."


def _find_rival(suite: SuiteComparison, ranked: Sequence[AgentNumbers]) -> AgentNumbers:
    """The agent that others are compared with, or the second if that is the first."""
    for agent in ranked[1:]:
        if agent.label == suite.versus:
            return agent
    return ranked[1]


def _find_gap(
    suite: SuiteComparison, best: AgentNumbers, other: AgentNumbers
) -> Estimate:
    """How far the best agent is from another one, as a positive number.

    Differences are known from `suite.versus` alone; others are those of the means.
    """
    apart = best.numbers[suite.lead].mean - other.numbers[suite.lead].mean
    found = best.difference if other.label == suite.versus else None
    if best.label == suite.versus:
        found = other.difference
    if found is None:
        return Estimate(mean=abs(apart), n=0)
    if found.mean >= 0:
        return found
    low, high = (None if end is None else -end for end in (found.high, found.low))
    return found.model_copy(update={"mean": -found.mean, "low": low, "high": high})


def draw_all(shown: Shown) -> list[Drawing]:
    """The figures that these runs can have, the lead figure first."""
    drawings = []
    for kind in KINDS:
        try:
            drawings.append(draw(kind, shown))
        except ConfigError:  # says that there is nothing to draw; the notes say why
            continue
    kinds = [drawing.kind for drawing in drawings]
    lead = next((kind for kind in _LEAD_KINDS if kind in kinds), None)
    return sorted(drawings, key=lambda drawing: drawing.kind != lead)


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
    name = config.agent.name if config.agent else None
    isolation = config.agent_isolation
    command = run_command(config.config_given, agent, seeds, isolation, name)
    return f"{command}  # {label}"
