"""A leaderboard -> its site, which opens from disk without a server.

index.html · style.css · page.js · plotly.min.js · leaderboard.json
agents/<agent>.html             its runs, settings, probes and packs
packs/<16 hex>.longplay
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from longplay.contract.files import make_directory, write_document, write_file
from longplay.contract.layout import probes_of
from longplay.errors import DocumentError
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.labels import describe_seeds
from longplay.lab.analysis.runs import FoundRuns, MeasuredRun
from longplay.lab.probes.numbers import add_memory
from longplay.lab.report.draw.colours import Style, style_agents
from longplay.lab.report.draw.drawings import Drawing, Panel, draw_dots
from longplay.lab.report.draw.figures import make_figure, plotly_script
from longplay.lab.report.memory_tables import list_memory_tables
from longplay.lab.report.site.leaderboard import (
    PACKS,
    Entry,
    Leaderboard,
    SuiteBoard,
    pack_address,
)
from longplay.lab.report.site.pages import make_slug, render_page, writing_site
from longplay.lab.report.site.sections import PageFigure, describe_command
from longplay.lab.report.site.verdicts import open_probe
from longplay.lab.report.tables import estimate_cell, head_metric, order_metrics
from longplay.scoring.anchors import Anchors
from longplay.tables import NOTHING, Cell, TextTable, Value, count

_AGENTS = "agents"
_ENTRY_PX = 34


@dataclass(frozen=True)
class BoardSection:
    """The part of the first page about one suite."""

    id: str
    suite: SuiteBoard
    lead: str
    figure: PageFigure | None
    table: TextTable


@dataclass(frozen=True)
class AgentSection:
    """The part of an agent's page about one suite."""

    suite: SuiteBoard
    facts: Sequence[tuple[str, str]]
    numbers: TextTable
    runs: TextTable
    probes: Sequence[TextTable]
    settings: Sequence[tuple[str, str]]
    command: str


def write_leaderboard(
    directory: Path, board: Leaderboard, runs: Sequence[MeasuredRun], anchors: Anchors
) -> None:
    """Writes the site, with the packs that it links to.

    Args:
        directory: A new folder.
        board: What to show.
        runs: The runs that the board was made of.
        anchors: The anchors that define z.

    Raises:
        OutputError: The folder exists and is not empty.
        MissingExtraError: jinja2 or plotly is not installed.
    """
    with writing_site(directory) as folder:
        write_document(folder / "leaderboard.json", board)
        _copy_packs(folder, board, runs)
        pages = _name_pages(board)
        _write_index(folder, board, pages)
        if pages:
            make_directory(folder / _AGENTS)
        for agent, address in pages.items():
            _write_agent(folder / address, board, agent, runs, anchors)


def _copy_packs(
    directory: Path, board: Leaderboard, runs: Sequence[MeasuredRun]
) -> None:
    linked = {
        address
        for suite in board.suites
        for entry in suite.entries
        for address in entry.packs.values()
    }
    if linked:
        make_directory(directory / PACKS)
    for run in runs:
        if run.path.is_file() and (address := pack_address(run.path)) in linked:
            shutil.copyfile(run.path, directory / address)


def _name_pages(board: Leaderboard) -> dict[str, str]:
    """Name of an agent -> the address of its page."""
    slugs: dict[str, str] = {}
    for suite in board.suites:
        for entry in suite.entries:
            if entry.agent not in slugs:
                slugs[entry.agent] = make_slug(entry.agent, list(slugs.values()))
    return {agent: f"{_AGENTS}/{slug}.html" for agent, slug in slugs.items()}


# --- the first page -------------------------------------------------------------


def _write_index(directory: Path, board: Leaderboard, pages: Mapping[str, str]) -> None:
    sections: list[BoardSection] = []
    styles = style_agents(pages)
    for suite in board.suites:
        name = make_slug(suite.suite, [section.id for section in sections])
        sections.append(
            BoardSection(
                name,
                suite,
                _head(suite, suite.lead),
                _draw_board(name, suite, styles),
                make_board_table(suite, pages),
            )
        )
    if has_figures := any(section.figure for section in sections):
        write_file(directory / "plotly.min.js", plotly_script().encode())
    page = render_page(
        "leaderboard.html",
        board=board,
        sections=sections,
        has_figures=has_figures,
        refused=count(len(board.refused), "run"),
        has_disputes=any(
            e.is_disputed for suite in board.suites for e in suite.entries
        ),
    )
    write_file(directory / "index.html", page)


def _head(suite: SuiteBoard, name: str) -> str:
    return head_metric(name, suite.headline, suite.error)


def _draw_board(
    name: str, suite: SuiteBoard, styles: Mapping[str, Style]
) -> PageFigure | None:
    """The number that ranks, of every entry that has it, the best on top."""
    ranked = [entry for entry in suite.entries if suite.lead in entry.numbers]
    if not ranked:
        return None
    series = tuple(
        draw_dots(
            entry.agent, styles[entry.agent], [(place, entry.numbers[suite.lead])]
        )
        for place, entry in enumerate(ranked)
    )
    names = tuple(entry.agent for entry in ranked)
    marks = (0.0, 1.0) if suite.lead == "average" else ()
    head = _head(suite, suite.lead)
    unit = f"{head} z" if suite.lead == "average" else head
    panel = Panel("", series, names, marks)
    data = make_figure(Drawing("board", head, unit, "", (panel,)))
    data["layout"]["showlegend"] = False  # names are on the axis
    data["layout"]["margin"]["t"] = 20
    data["layout"]["height"] = 90 + _ENTRY_PX * len(ranked)
    caption = "Mean and 95 % interval over the official seeds; the first is ranked 1."
    return PageFigure(f"{name}-figure", f"Ranked by {head}", caption, data, {})


def make_board_table(
    suite: SuiteBoard, pages: Mapping[str, str] | None = None
) -> TextTable:
    """One row per entry, the number that ranks first.

    Args:
        suite: The entries.
        pages: Name of an agent -> the address of its page.
    """
    found = order_metrics(suite.error, (entry.numbers for entry in suite.entries))
    lead, *others = sorted(found, key=lambda name: name != suite.lead) or [suite.lead]
    heads = (_head(suite, name) for name in others)
    marks = ("marks",) if any(map(_describe_marks, suite.entries)) else ()
    checked = ("trust", "checked by", "packs")
    tuning = f"says: tuning {suite.frame_noun}s"
    said = ("says: isolation", tuning, "says: source")
    rows = [
        (
            Cell("–" if entry.rank is None else str(entry.rank), entry.rank),
            Cell(entry.agent, entry.agent, page=(pages or {}).get(entry.agent, "")),
            estimate_cell(entry.numbers.get(lead)),
            *(Cell(_describe_marks(entry), _describe_marks(entry)) for _ in marks),
            _seeds_cell(entry),
            *(estimate_cell(entry.numbers.get(name)) for name in others),
            Cell(entry.trust, entry.trust),
            Cell(", ".join(entry.checked_by) or NOTHING),
            Cell(describe_packs(entry), links=tuple(entry.packs.items())),
            Cell(entry.isolation, entry.isolation),
            _count_cell(entry.tuning_frames),
            Cell((entry.source_sha256 or "built-in")[:12]),
        )
        for entry in suite.entries
    ]
    ranking = f"{_head(suite, lead)} (ranks)"
    title = f"{suite.suite}, ale-py {suite.emulator or 'unknown'}"
    columns = ("rank", "agent", ranking, *marks, "seeds", *heads, *checked, *said)
    texts = (3,) if marks else ()
    return TextTable(title, columns, tuple(rows), names=2, texts=texts)


def _describe_marks(entry: Entry) -> str:
    """What a reader should know before the rank; empty if nothing."""
    parts = ["disputed"] if entry.is_disputed else []
    if entry.same_rows_as:
        parts.append(f"same rows as {', '.join(entry.same_rows_as)}")
    if entry.joined_from:
        parts.append(f"runs from {', '.join(entry.joined_from)}")
    return "; ".join(parts)


def describe_packs(entry: Entry) -> str:
    """The seeds that can be downloaded."""
    return ", ".join(entry.packs) or "–"


def _describe_seeds(entry: Entry) -> str:
    text = describe_seeds(entry.seeds)
    if entry.missing_seeds:
        text = f"incomplete: {describe_seeds(entry.missing_seeds)} missing"
    if entry.errored_seeds:
        text += f", {len(entry.errored_seeds)} errored"
    return text


def _seeds_cell(entry: Entry) -> Cell:
    return Cell(_describe_seeds(entry), len(entry.seeds))


def _count_cell(count: int | None) -> Cell:
    return Cell("unknown" if count is None else f"{count:,}", count)


# --- the page of an agent -------------------------------------------------------


def _write_agent(
    path: Path,
    board: Leaderboard,
    agent: str,
    runs: Sequence[MeasuredRun],
    anchors: Anchors,
) -> None:
    sections = [
        _make_agent_section(suite, entry, _find_runs(suite, entry, runs), anchors)
        for suite in board.suites
        for entry in suite.entries
        if entry.agent == agent
    ]
    page = render_page("agent.html", agent=agent, sections=sections, assets="../")
    write_file(path, page)


def _find_runs(
    suite: SuiteBoard, entry: Entry, runs: Sequence[MeasuredRun]
) -> list[MeasuredRun]:
    """The runs of an entry, one per seed; packs are found by their content."""
    found: dict[int, MeasuredRun] = {}
    for run in runs:
        key = (run.agent.agent_id, run.agent.isolation, run.agent.tuning_frames)
        is_own = key == (entry.agent_id, entry.isolation, entry.tuning_frames)
        is_own &= run.conditions.suite == suite.suite and run.seed in entry.seeds
        if not is_own or run.seed is None:
            continue
        address = entry.packs.get(str(run.seed))
        if address is None and entry.is_disputed:
            continue  # a directory does not say which of the entries it belongs to
        if address is None or (
            run.path.is_file() and pack_address(run.path) == address
        ):
            found.setdefault(run.seed, run)
    return [found[seed] for seed in sorted(found)]


def _make_agent_section(
    suite: SuiteBoard, entry: Entry, runs: Sequence[MeasuredRun], anchors: Anchors
) -> AgentSection:
    names = order_metrics(suite.error, [entry.numbers])
    numbers = [
        (
            Cell(_head(suite, name) + (" (ranks)" if name == suite.lead else ""), name),
            estimate_cell(entry.numbers[name]),
        )
        for name in sorted(names, key=lambda name: name != suite.lead)
    ]
    return AgentSection(
        suite,
        [*_list_facts(suite, entry)],
        TextTable(
            "means over runs, with 95 % intervals", ("number", "value"), tuple(numbers)
        ),
        _table_runs(suite, entry, runs),
        _table_probes(runs, anchors),
        _list_settings(runs),
        describe_command(entry.agent, runs) if runs else "",
    )


def _list_facts(suite: SuiteBoard, entry: Entry) -> Iterator[tuple[str, str]]:
    yield "rank", NOTHING if entry.rank is None else str(entry.rank)
    yield "seeds", _describe_seeds(entry)
    yield "trust", entry.trust
    if entry.checked_by:
        yield "checked by", ", ".join(entry.checked_by)
    if marks := _describe_marks(entry):
        yield "marks", marks
    yield "says: isolation", entry.isolation
    yield f"says: tuning {suite.frame_noun}s", _count_cell(entry.tuning_frames).text
    yield "says: source", entry.source_sha256 or "built-in"


def _table_runs(
    suite: SuiteBoard, entry: Entry, runs: Sequence[MeasuredRun]
) -> TextTable:
    """One row per seed, with the pack to download."""
    rows = []
    for run in runs:
        address = entry.packs.get(str(run.seed), "")
        links = (("download", f"../{address}"),) if address else ()
        pack = Cell("download" if address else NOTHING, address, links=links)
        headline: Value = run.score.headline
        if isinstance(headline, float) and headline.is_integer():
            headline = int(headline)  # a sum of rewards, written like other counts
        rows.append((str(run.seed), headline, run.score.frames, pack))
    columns = ("seed", suite.headline.replace("_", " "), f"{suite.frame_noun}s")
    return TextTable.of("runs", (*columns, "pack"), rows, texts=(3,))


def _table_probes(runs: Sequence[MeasuredRun], anchors: Anchors) -> list[TextTable]:
    """What probes of the runs measured; nothing where there are none."""
    if not any(probes_of(run.path).is_dir() for run in runs):
        return []
    found = FoundRuns(tuple(runs), ())
    try:
        compared = compare(found, Request(anchors))
        (suite,) = add_memory(compared, found, anchors, open_probe).suites
    except DocumentError as error:  # of one entry; the others are shown
        return [TextTable.of("probes", ("problem",), [(str(error),)])]
    return list_memory_tables(suite, with_games=True)


def _list_settings(runs: Sequence[MeasuredRun]) -> list[tuple[str, str]]:
    """The config of the agent, as its runs say."""
    if not runs or (agent := runs[0].config.agent) is None:
        return []
    return [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in agent.config.items()
    ]
