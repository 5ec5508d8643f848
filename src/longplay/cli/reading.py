"""Commands that read runs: validate, score, show, status."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.live import Live

from longplay.cli import comparing, experiment_tables, run_tables, study_tables
from longplay.cli.options import StallTimeout
from longplay.cli.probing import opened_run
from longplay.cli.score_tables import show_score
from longplay.cli.study_tables import Check, check_study
from longplay.cli.toolkit import (
    Directory,
    DirectoryOrStudy,
    Json,
    ProbedRun,
    SafeConsole,
    check_output,
    print_json,
    print_runs,
    print_tables,
)
from longplay.contract.files import write_document
from longplay.contract.layout import is_experiment
from longplay.contract.rundir import (
    RunDirectory,
    find_run,
    find_runs,
    is_pack,
    is_study,
)
from longplay.errors import ConfigError, UnknownNameError
from longplay.tracks.catalogue import track_of

if TYPE_CHECKING:
    from longplay.lab.studies.directory import StudyDirectory
    from longplay.runs.status import RunView
    from longplay.validation import Report


def validate(
    directory: DirectoryOrStudy, of: ProbedRun = None, as_json: Json = False
) -> None:
    """Check every row of a run against the contract."""
    if is_study(directory):
        check_study(directory, _check_run, as_json=as_json)
        return
    with opened_run(of) as origin:
        reports = [_validate(run_dir, origin) for run_dir in find_runs(directory)]
    if as_json:
        print_runs([report.to_json() for report in reports])
    else:
        for report in reports:
            print_tables(*run_tables.show_report(report))
    if not all(report.is_valid for report in reports):
        raise typer.Exit(1)


def _validate(run_dir: Path, origin: Path | None = None) -> Report:
    from longplay.validation import validate_run

    return validate_run(run_dir, workers=os.cpu_count() or 1, origin=origin)


def _check_run(run_dir: Path) -> Check:
    report = _validate(run_dir)
    return Check(
        "valid" if report.is_valid else "not valid",
        report.frames,
        report.to_json(),
        run_tables.show_report(report),
        0 if report.is_valid else 1,
    )


def score(
    directory: Directory,
    partial: Annotated[
        bool, typer.Option("--partial", help="Score the complete visits only.")
    ] = False,
    window_frames: Annotated[
        int | None, typer.Option(help="Override the scoring window.")
    ] = None,
    revisit_frames: Annotated[
        int | None, typer.Option(help="Override the revisit window.")
    ] = None,
    bottom_k_frac: Annotated[
        float | None,
        typer.Option(
            "--bottom-k-frac", "--bottom-k", help="Override the bottom-k fraction."
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="MEAN,BOTTOM", help="Override the weights of the final score."
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the score to this file instead.")
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(metavar="GAME", help="Show how a game's numbers are computed."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a run; writes score.json for a complete run with its own settings.

    With other settings the score is printed, and written only to --output.
    """
    given = {
        "window_frames": window_frames,
        "revisit_frames": revisit_frames,
        "bottom_k_frac": bottom_k_frac,
        "final_score_weights": _parse_weights(weights),
    }
    changes = {name: value for name, value in given.items() if value is not None}
    runs = find_runs(directory)
    if output is not None and len(runs) > 1:
        raise ConfigError(
            f"--output: {directory} holds {len(runs)} runs; name one of them"
        )
    documents = []
    for run_dir in runs:
        documents.append(
            _score_one(run_dir, partial, changes, output, explain, as_json)
        )
    if as_json:
        print_runs(documents)


def _parse_weights(text: str | None) -> list[float] | None:
    """Reads `--weights 0.7,0.3`."""
    if text is None:
        return None
    try:
        mean, bottom = (float(part) for part in text.split(","))
    except ValueError as error:
        raise ConfigError(
            f"--weights: expected two numbers as in 0.7,0.3, found {text!r}"
        ) from error
    return [mean, bottom]


def _score_one(
    run_dir: Path,
    partial: bool,
    changes: dict[str, Any],
    output: Path | None,
    explain: str | None,
    as_json: bool,
) -> dict[str, Any]:
    from longplay.scoring.play import check_ended, read_play
    from longplay.tracks import scores

    run_directory = RunDirectory(run_dir)
    own_config = run_directory.config
    if explain is not None and explain not in own_config.games:
        hint = f"(this run plays {', '.join(own_config.games)})"
        raise UnknownNameError("game", explain, own_config.games, hint)
    check_output("--output", output)
    run_directory.config = scores.change_scoring(own_config, changes)
    play = read_play(run_directory, partial=partial)
    if not partial:
        check_ended(run_directory)
    result = scores.compute_score(play)
    if output is not None:
        write_document(output, result)
    elif not changes and result.complete:
        scores.write_score(run_dir, result)
    document = result.model_dump(mode="json")
    if not as_json:
        print_tables(*show_score(result, play.config))
    if explain is not None:
        explanation = track_of(play.config).explain_game(play, explain)
        document["explanation"] = explanation.rows
        if not as_json:
            print_tables(*run_tables.show_explanation(explain, explanation))
    return document


def show(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="An experiment, a run or a packed run."),
    ],
    as_json: Json = False,
) -> None:
    """Show a run or an experiment: scores against random, and provenance."""
    if is_pack(directory):
        _show_pack(directory, as_json)
        return
    from longplay.experiments.experiment import view_runs

    if is_experiment(directory) and len(views := view_runs(directory)) > 1:
        if as_json:
            print_json(experiment_tables.experiment_to_json(directory, views))
        else:
            print_tables(*experiment_tables.show_experiment(directory, views))
            comparing.print_games_of(directory)
        return
    run = RunDirectory(find_run(directory))
    _show_one(run, run.hash_verified_files() if run.verification else {}, as_json)


def _show_pack(path: Path, as_json: bool) -> None:
    """Shows the documents of a pack without playing it."""
    from longplay.verify.pack_file import PackFile

    with PackFile(path) as packed:
        run = packed.read_documents()
    manifest = packed.manifest
    _show_one(run, manifest.sha256, as_json)
    if not as_json:
        print_tables(run_tables.pack_line(path, packed.size_bytes, manifest.run_bytes))


def _show_one(run: RunDirectory, hashes: Mapping[str, str], as_json: bool) -> None:
    """Shows a run, and its trust level by the hashes of its files."""
    if as_json:
        trust = run_tables.trust_to_json(run, hashes)
        print_json({**run_tables.run_to_json(run), **trust})
        return
    print_tables(
        *run_tables.show_run(run),
        *run_tables.show_details(run),
        run_tables.trust_line(run, hashes),
    )


def status(
    directory: DirectoryOrStudy,
    stall_timeout: StallTimeout = 600.0,
    as_json: Json = False,
) -> None:
    """Show the progress of an experiment or a study; live on a terminal."""
    from longplay.experiments.experiment import view_runs
    from longplay.lab.studies.directory import read_study

    if is_study(directory):
        show_study_status(read_study(directory, stall_timeout), as_json=as_json)
        return
    if as_json:
        print_json([view.to_json() for view in view_runs(directory, stall_timeout)])
        return

    def read() -> tuple[RenderableType, list[RunView]]:
        views = view_runs(directory, stall_timeout)
        return experiment_tables.show_status(views), views

    _show_live(read)


def show_study_status(study: StudyDirectory, *, as_json: bool) -> None:
    """Shows the progress of every cell of a study; live on a terminal."""
    if as_json:
        print_json(study_tables.status_to_json(study, study_tables.view_cells(study)))
        return

    def read() -> tuple[RenderableType, list[RunView]]:
        cells = study_tables.view_cells(study)
        views = [view for found in cells.values() for view in found]
        return study_tables.show_status(study, cells), views

    _show_live(read)


def _show_live(read: Callable[[], tuple[RenderableType, list[RunView]]]) -> None:
    """Shows a table of runs; on a terminal until no run is left to play."""
    console = SafeConsole()
    if not console.is_terminal:
        console.print(read()[0])
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            started_s = time.process_time()
            table, views = read()
            live.update(table, refresh=True)
            if not any(view.state in ("QUEUED", "RUNNING") for view in views):
                return
            # Many runs are read less often.
            time.sleep(max(1.0, 10 * (time.process_time() - started_s)))
