"""Commands that compare: compare."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from longplay.cli.guard import Json, Quiet, print_json, print_tables
from longplay.cli.layout import add_row, make_table
from longplay.contract.files import write_document, write_file
from longplay.errors import ConfigError, NotARunError

if TYPE_CHECKING:
    from longplay.analysis.records import Comparison
    from longplay.analysis.runs import FoundRuns
    from longplay.contract.rundir import RunDirectory
    from longplay.report.tables import TextTable

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH…", help="Runs, experiments, studies, packs, or folders of them."
    ),
]
Against = Annotated[
    str | None,
    typer.Option(metavar="baselines", help="Show the shipped figures beside them."),
]
OnlySuite = Annotated[str | None, typer.Option("--suite", help="Only this suite.")]
Versus = Annotated[
    str | None,
    typer.Option(metavar="AGENT", help="Compare with this agent, not the first."),
]

_WIDTH = 80


def compare(
    paths: Paths,
    against: Against = None,
    suite: OnlySuite = None,
    versus: Versus = None,
    games: Annotated[bool, typer.Option("--games", help="Show every game.")] = False,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write all numbers as CSV.")
    ] = None,
    latex: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables as LaTeX.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write analysis.json."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Compare agents: by how much is one better, and how sure is that."""
    from longplay.analysis.anchors import shipped_anchors
    from longplay.analysis.comparison import Request
    from longplay.analysis.comparison import compare as compare_runs
    from longplay.report.tables import comparison_to_csv, comparison_to_latex

    if against not in (None, "baselines"):
        raise ConfigError(f"--against: expected baselines, found {against!r}")
    request = Request(shipped_anchors(), suite, versus, against is not None)
    comparison = compare_runs(read_runs(paths, quiet=quiet or as_json), request)
    if csv is not None:
        write_file(csv, comparison_to_csv(comparison).encode())
    if latex is not None:
        text = comparison_to_latex(comparison, with_games=games)
        write_file(latex, text.encode())
    if output is not None:
        write_document(output, comparison)
    if as_json:
        print_json(comparison.model_dump(mode="json"))
    else:
        _print_comparison(comparison, with_games=games)


def read_runs(paths: list[Path], *, quiet: bool) -> FoundRuns:
    """Reads runs with the cache of this machine, showing how far it is.

    Raises:
        NotARunError: No run at the paths is complete.
    """
    from rich.console import Console
    from rich.status import Status

    from longplay.analysis.curves import cache_folder
    from longplay.analysis.runs import RunReader

    console = Console(stderr=True)
    with Status("reading runs", console=console) as status:
        if quiet or not console.is_terminal:
            status.stop()

        def show(done: int, total: int) -> None:
            status.update(f"read {done:,} of {total:,} runs")

        reader = RunReader(cache_folder(), _open_pack, show)
        found = reader.read(paths)
    if not found.runs:
        reasons = "; ".join(f"{left.path}: {left.reason}" for left in found.left_out)
        raise NotARunError(
            f"expected at least one complete run, found none ({reasons})"
        )
    return found


def _open_pack(path: Path) -> RunDirectory:
    from longplay.verify.pack_file import PackFile

    with PackFile(path) as packed:
        return packed.read_documents()


def _print_comparison(comparison: Comparison, *, with_games: bool) -> None:
    from longplay.report.tables import (
        describe_suite,
        make_agents_table,
        make_games_table,
    )

    for suite in comparison.suites:
        tables = [make_agents_table(suite)]
        if with_games:
            tables.append(make_games_table(suite))
        for table in tables:
            _print_table(table)
        for line in describe_suite(suite):
            print_tables(Padding(Text(line, "dim"), (0, 0, 0, 1)))
    suites = {suite.suite for suite in comparison.suites}
    for left in comparison.left_out:
        if left.agent is None or left.suite not in suites:  # counted in no table
            line = f"left out: {left.path}: {left.reason}"
            print_tables(Padding(Text(line, "yellow"), (0, 0, 0, 1)))


def _print_table(table: TextTable) -> None:
    for number, block in enumerate(table.split(_WIDTH)):
        title = table.title if number == 0 else ""
        rich_table = make_table(title, *block.columns, left=range(table.names))
        for row in block.rows:
            add_row(rich_table, *(cell.text for cell in row))
        print_tables(rich_table)
