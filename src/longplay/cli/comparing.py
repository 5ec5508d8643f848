"""Commands that compare: compare, plot, report, leaderboard."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from longplay.cli.toolkit import (
    Json,
    Quiet,
    Styles,
    check_output,
    print_json,
    print_tables,
)
from longplay.contract.files import write_document, write_file
from longplay.errors import ConfigError
from longplay.tables import count, indent

if TYPE_CHECKING:
    from longplay.lab.analysis.records import Comparison, SuiteComparison
    from longplay.lab.analysis.runs import FoundRuns, RunReader
    from longplay.lab.report.site.leaderboard import Leaderboard

Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH…", help="Runs, experiments, studies, packs, or folders of them."
    ),
]
Baselines = Annotated[
    bool, typer.Option("--baselines", help="Also show the shipped baselines.")
]
OnlySuite = Annotated[str | None, typer.Option("--suite", help="Only this suite.")]
Versus = Annotated[
    str | None,
    typer.Option(metavar="AGENT", help="Compare with this agent instead of the first."),
]


def compare(
    paths: Paths,
    baselines: Baselines = False,
    suite: OnlySuite = None,
    versus: Versus = None,
    games: Annotated[bool, typer.Option("--games", help="Show every game.")] = False,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Only these columns, e.g. runs,average,difference,improvement.",
        ),
    ] = None,
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
    """Compare agents: score differences with confidence intervals."""
    from longplay.lab.report.comparing import compare_runs
    from longplay.lab.report.memory_tables import memory_to_latex
    from longplay.lab.report.tables import (
        check_columns,
        comparison_to_csv,
        comparison_to_latex,
    )

    check_output("--csv", csv)
    check_output("--latex", latex)
    check_output("--output", output)
    found = read_runs(paths, quiet=quiet or as_json)
    comparison = compare_runs(
        found, baselines=baselines, suite=suite, versus=versus
    ).analysis
    chosen = [] if metrics is None else [name.strip() for name in metrics.split(",")]
    check_columns(comparison, chosen)
    if csv is not None:
        write_file(csv, comparison_to_csv(comparison).encode())
    if latex is not None:
        text = comparison_to_latex(comparison, with_games=games, chosen=chosen)
        text += memory_to_latex(comparison, with_games=games)
        write_file(latex, text.encode())
    if output is not None:
        write_document(output, comparison)
    if as_json:
        print_json(comparison.model_dump(mode="json"))
    else:
        _print_comparison(comparison, with_games=games, chosen=chosen)


def table(
    paths: Paths,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="*.csv, *.parquet.")
    ],
    windows: Annotated[
        bool, typer.Option("--windows", help="A row per sixtieth of a visit.")
    ] = False,
    probes: Annotated[
        bool, typer.Option("--probes", help="A row per branch of a probe.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Write the rewards of runs as a table, one row per visit."""
    from longplay.lab.analysis.table import make_table as tabulate
    from longplay.lab.probes.table import tabulate_probes
    from longplay.lab.report.site.verdicts import open_probe

    check_output("--output", output)
    if windows and probes:
        raise ConfigError("--windows: cannot be combined with --probes")
    found = read_runs(paths, quiet=quiet)
    if probes:
        made = tabulate_probes(found.runs, open_probe=open_probe)
    else:
        made = tabulate(found.runs, windows=windows)
    made.write(output)
    if not quiet:
        rows, runs = count(len(made), "row"), count(len(found.runs), "run")
        print_tables(Text(f"{output}: {rows} of {runs}"))


def plot(
    paths: Paths,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FIG", help="*.pdf, *.png, *.svg.")
    ],
    kind: Annotated[
        str,
        typer.Option(
            help="average, lifetime, curves, games, profile, retention, stream, "
            "improvement, predictions, memory, matrix."
        ),
    ] = "curves",
    baselines: Baselines = False,
    suite: OnlySuite = None,
    versus: Versus = None,
    agents: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Only these agents, by their labels."),
    ] = None,
    games: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…|N",
            help="Only these games, or the N in which agents differ most.",
        ),
    ] = None,
    bins: Annotated[
        int,
        typer.Option(metavar="N", help="Points of a curve in a visit; divides 60."),
    ] = 20,
    smooth: Annotated[
        int,
        typer.Option(
            min=0, metavar="N", help="Average a point with N points on either side."
        ),
    ] = 0,
    styles: Styles = None,
    columns: Annotated[
        int,
        typer.Option(min=1, max=2, help="Width in columns of a paper.", metavar="1|2"),
    ] = 1,
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the figure's data.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Draw one figure for a paper."""
    from longplay.lab.report.comparing import compare_runs

    check_output("--output", output)
    check_output("--csv", csv)
    found = read_runs(paths, quiet=quiet)
    comparison = compare_runs(found, baselines=baselines, suite=suite, versus=versus)
    figure = comparison.plot(
        kind,
        columns=2 if columns == 2 else 1,
        agents=None if agents is None else _split_names(agents),
        games=None if games is None else _parse_games(games),
        bins=bins,
        smooth=smooth,
        styles=styles,
    )
    figure.save(output)
    if csv is not None:
        figure.save_numbers(csv)


def _parse_games(text: str) -> list[str] | int:
    return int(text) if text.isdecimal() else _split_names(text)


def _split_names(text: str) -> list[str]:
    """Names between commas; a label may have others within parentheses."""
    parts = re.split(r",(?![^(]*\))", text)
    return [name for part in parts if (name := part.strip())]


def report(
    paths: Paths,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to create.")
    ],
    baselines: Baselines = False,
    suite: OnlySuite = None,
    versus: Versus = None,
    styles: Styles = None,
    quiet: Quiet = False,
) -> None:
    """Write an HTML report: figures, tables and all numbers, readable offline."""
    from longplay.lab.report.comparing import compare_runs

    check_output("--output", output)
    found = read_runs(paths, quiet=quiet)
    comparison = compare_runs(found, baselines=baselines, suite=suite, versus=versus)
    typer.echo(comparison.report(output, styles=styles))


def leaderboard(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="Folder of packs and experiments, at any depth."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="DIR", help="Folder to create.")
    ],
    verify: Annotated[
        bool,
        typer.Option(
            "--verify", help="Replay the runs this machine has not verified yet."
        ),
    ] = False,
    verdicts: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Verdicts of earlier replays, outside of FOLDER's Git work tree; "
            "this machine's by default.",
        ),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 1 if a run was refused.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Write a leaderboard, a static site, from a folder of packs and experiments."""
    from longplay.lab.report.site.board_pages import write_leaderboard
    from longplay.lab.report.site.leaderboard import judge_runs, make_leaderboard
    from longplay.lab.report.site.verdicts import (
        Judge,
        check_verdict_folder,
        verdicts_folder,
    )
    from longplay.scoring.anchors import shipped_anchors

    check_output("--output", output)
    kept = verdicts or verdicts_folder()
    if verify or verdicts is not None or kept.exists():
        check_verdict_folder(kept, folder)
    judge = Judge(kept, os.cpu_count() or 1)
    with _showing_progress(quiet=quiet or as_json) as show:
        reader = _make_reader(show)
        found = reader.read_all([folder])
        if verify:

            def show_replay(done: int, total: int) -> None:
                show(f"verified {done:,} of {total:,} runs")

            judged = judge_runs(found, judge.judge, show_replay)
        else:
            judged = judge_runs(found, judge.recall)
    anchors = shipped_anchors()
    board = make_leaderboard(found, anchors, judged, folder)
    write_leaderboard(output, board, found.runs, anchors)
    if as_json:
        print_json(board.model_dump(mode="json"))
    else:
        _print_refusals(board)
        typer.echo(output / "index.html")
    if strict and board.refused:
        raise typer.Exit(1)


def _print_refusals(board: Leaderboard) -> None:
    """One line per refused run, and their number."""
    for refusal in board.refused:
        reason = " ".join(refusal.reason.split())
        print_tables(Text(f"refused: {refusal.name}: {reason}", "yellow"))
    print_tables(Text(f"{count(len(board.refused), 'run')} refused"))


def read_runs(paths: list[Path], *, quiet: bool) -> FoundRuns:
    """Reads runs, showing progress.

    Raises:
        NotARunError: No run at the paths is complete.
    """
    from longplay.lab.report.comparing import require_runs

    with _showing_progress(quiet=quiet) as show:
        return require_runs(_make_reader(show).read(paths))


@contextmanager
def _showing_progress(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """A line of progress, on a terminal."""
    from rich.console import Console
    from rich.status import Status

    console = Console(stderr=True)
    with Status("reading runs", console=console) as status:
        if quiet or not console.is_terminal:
            status.stop()
        yield status.update


def _make_reader(show: Callable[[str], None]) -> RunReader:
    from longplay.lab.analysis.runs import RunReader
    from longplay.lab.report.site.verdicts import open_pack

    def show_scan(done: int, total: int) -> None:
        show(f"read {done:,} of {total:,} runs")

    return RunReader(open_pack, show_scan)


def print_games_of(directory: Path) -> None:
    """Prints normalised numbers and the games of an experiment, means over seeds."""
    from longplay.lab.analysis.runs import RunReader
    from longplay.lab.report.comparing import compare_runs
    from longplay.lab.report.tables import make_agents_table, make_games_table

    found = RunReader().read([directory])
    for suite in compare_runs(found).suites:
        agents = make_agents_table(suite)
        if len(agents.columns) > 3:  # more than agent, runs and headline
            print_tables(agents)
        games = make_games_table(suite)
        print_tables(games.choose((0, *range(2, len(games.columns)))))
        _print_memory(suite, with_games=False)


def print_memory_of(paths: list[Path]) -> None:
    """Prints the numbers of probes of some runs."""
    from longplay.lab.report.comparing import compare_runs

    for suite in compare_runs(read_runs(paths, quiet=True)).suites:
        _print_memory(suite, with_games=True)


def _print_memory(suite: SuiteComparison, *, with_games: bool) -> None:
    from longplay.lab.report.memory_tables import describe_memory, list_memory_tables

    print_tables(*list_memory_tables(suite, with_games=with_games))
    print_tables(*map(indent, describe_memory(suite)))


def _print_comparison(
    comparison: Comparison, *, with_games: bool, chosen: Sequence[str]
) -> None:
    from longplay.lab.report.tables import (
        describe_suite,
        make_agents_table,
        make_games_table,
    )

    for suite in comparison.suites:
        print_tables(make_agents_table(suite, chosen))
        if with_games:
            print_tables(make_games_table(suite))
        print_tables(*map(indent, describe_suite(suite)))
        _print_memory(suite, with_games=with_games)
    suites = {suite.suite for suite in comparison.suites}
    for left in comparison.left_out:
        is_counted = left.agent is not None and left.suite in suites
        if not is_counted or left.kind == "unreadable":
            print_tables(indent(f"left out: {left.path}: {left.reason}", "yellow"))
