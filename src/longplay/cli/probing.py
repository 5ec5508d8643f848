"""The command probe: how well saved states of agents play the games of their runs."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from longplay.cli.comparing import print_memory_of
from longplay.cli.options import IsolationOptions, PlaceOptions
from longplay.cli.progress import ProgressLine
from longplay.cli.running import TheAgent
from longplay.cli.supervision import announce_directory
from longplay.cli.toolkit import (
    Json,
    Quiet,
    check_output,
    print_answer,
    print_json,
    print_note,
    print_tables,
    print_warning,
    stdout_dropped,
    stdout_kept_clean,
)
from longplay.contract.rundir import is_pack
from longplay.errors import RunCancelled, RunPreempted
from longplay.runs.progress import format_seconds
from longplay.tables import NOTHING, Column, TextTable

if TYPE_CHECKING:
    from longplay.experiments.probing import ProbedRun, ProbeResult, Probing
    from longplay.runs.status import RunView


@contextlib.contextmanager
def opened_run(path: Path | None) -> Iterator[Path | None]:
    """The run directory at a path; that of a pack exists until the context ends."""
    if path is None or not is_pack(path):
        yield path
        return
    from longplay.verify.pack import unpack_run

    with tempfile.TemporaryDirectory(prefix="longplay-") as folder:
        yield unpack_run(path, Path(folder) / "run")


def probe(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…", help="Runs, experiments, packs, or folders of them."
        ),
    ],
    games: Annotated[
        str,
        typer.Option(
            metavar="due|all",
            help="Games to probe after each visit: the one just played and the next "
            "one (due), or all.",
        ),
    ] = "due",
    branches: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="K", help="Branches of each game (default: 8; predictors 2)."
        ),
    ] = None,
    frames: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Frames or timesteps of a branch (default: 500 decisions).",
        ),
    ] = None,
    agent: TheAgent = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="DIR",
            help="Folder of the probes (default: probes/ of the experiment).",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and write nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
    *,
    isolating: IsolationOptions,
    place: PlaceOptions,
) -> None:
    """Measure what agents have learned, kept and forgotten, by playing copies."""
    from longplay.experiments.probing import ProbeRequest, Probing, find_probed_runs

    check_output("--output", output)
    isolation = isolating.make() if isolating.are_given else None
    request = ProbeRequest(
        games,  # type: ignore[arg-type] # refuses any other text
        branches,
        frames,
        agent,
        isolation,
        output,
    )
    runs = find_probed_runs(paths, request, print_warning)
    if dry_run:
        with stdout_kept_clean():
            for run in runs:
                run.load_agent()
        _show_plan(runs, as_json)
        return
    for run in runs:
        announce_directory(run.folder)
    with (
        ProgressLine(quiet=quiet) as progress,
        stdout_kept_clean(),
        stdout_dropped() if place.is_ray else contextlib.nullcontext(),
    ):
        probing = Probing(runs, progress, (lambda _: None) if quiet else print_note)
        results = _play(probing, place, progress, runs)
    _show_results(results, as_json)
    if not as_json and output is None:
        print_memory_of([result.run for result in results])
    if not all(result.is_valid for result in results):
        raise typer.Exit(1)


def _play(
    probing: Probing, place: PlaceOptions, progress: ProgressLine, runs: list[ProbedRun]
) -> list[ProbeResult]:
    from longplay.runs.signals import defer_preemption

    def show(views: list[RunView]) -> None:
        done = sum(view.state == "COMPLETED" for view in views)
        active = [f"{v.run_dir.name}" for v in views if v.state == "RUNNING"]
        progress.show_text(
            " · ".join([f"{done}/{len(views)} probes complete", *active])
        )

    try:
        if place.is_ray:
            return probing.play_on_ray(place.make_ray(), show)
        with defer_preemption():
            return probing.play()
    except (RunCancelled, RunPreempted) as error:
        error.run_dir = runs[0].folder
        error.continue_with = "the same command"
        raise


def _show_plan(runs: list[ProbedRun], as_json: bool) -> None:
    are_named = len({run.path.name for run in runs}) == len(runs)
    columns: list[Column[ProbedRun]] = [
        ("run", lambda run: run.path.name if are_named else str(run.path)),
        ("states", lambda run: len(run.cells)),
        ("branches", lambda run: run.branches),
        ("length", lambda run: run.size.frames),
        ("time", lambda run: _format_time(run.expected_s)),
    ]
    if any(run.making_s for run in runs):
        columns.append(("states again", lambda run: _format_time(run.making_s)))
    table = TextTable.of_items("", runs, *columns)
    print_answer(as_json, [*map(_plan_to_json, runs)], [table])


def _format_time(seconds: float | None) -> str:
    return format_seconds(seconds) if seconds else NOTHING


def _plan_to_json(run: ProbedRun) -> dict[str, Any]:
    return {
        "run": str(run.path),
        "directory": str(run.folder),
        "cells": {state: list(games) for state, games in run.cells.items()},
        "branches": run.size.branches,
        "frames": run.size.frames,
        "expected_s": run.expected_s,
        "making_states_s": run.making_s,
    }


def _show_results(results: list[ProbeResult], as_json: bool) -> None:
    """Shows how probes ended."""
    if as_json:
        print_json([_result_to_json(result) for result in results])
    else:
        for result in results:
            print_tables(*_describe_failures(result))
            print_tables(Text(f" {result.directory}", "dim"))


def _result_to_json(result: ProbeResult) -> dict[str, Any]:
    return {
        "run": str(result.run),
        "directory": str(result.directory),
        "probes": [
            {
                "state": played.run_dir.name,
                "ended": played.state,
                "valid": played.is_valid,
                "error": played.error,
                "resumed_from": played.resumed_from,
            }
            for played in result.probes
        ],
    }


def _describe_failures(result: ProbeResult) -> list[Text]:
    lines = []
    for played in result.probes:
        if played.error is not None:
            lines.append(f"{played.run_dir.name}: {played.error}")
        elif played.report is not None and not played.report.is_valid:
            finding = played.report.findings.shown[0]
            lines.append(f"{played.run_dir.name}: not valid: {finding}")
    return [Text(line, "red") for line in lines]
