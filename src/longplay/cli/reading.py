"""Commands that read runs (validate, score, show) and list suites, games, agents."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longplay.cli import (
    catalogue_tables,
    comparing,
    experiment_tables,
    proof_tables,
    run_tables,
    settings_table,
)
from longplay.cli.guard import (
    AgentFilePatterns,
    Directory,
    DirectoryOrStudy,
    Json,
    check_output,
    print_json,
    print_runs,
    print_tables,
)
from longplay.cli.score_tables import show_score
from longplay.cli.settings import parse_agent_args
from longplay.cli.study_checks import Check, check_study
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
from longplay.plan import plan_run
from longplay.suites import get_suite, list_suites
from longplay.tracks.catalogue import track_of

if TYPE_CHECKING:
    from longplay.validation import Report


def validate(directory: DirectoryOrStudy, as_json: Json = False) -> None:
    """Check every row of a run against the contract."""
    if is_study(directory):
        check_study(directory, _check_run, as_json=as_json)
        return
    reports = [_validate(run_dir) for run_dir in find_runs(directory)]
    if as_json:
        print_runs([report.to_json() for report in reports])
    else:
        for report in reports:
            print_tables(*run_tables.show_report(report))
    if not all(report.is_valid for report in reports):
        raise typer.Exit(1)


def _validate(run_dir: Path) -> Report:
    from longplay.validation import validate_run

    return validate_run(run_dir, workers=os.cpu_count() or 1)


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

    With other settings the score is printed, and written to --output alone.
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
    run_directory = RunDirectory(find_run(directory))
    hashes = run_directory.hash_verified_files() if run_directory.verification else {}
    if as_json:
        proof = proof_tables.proof_to_json(run_directory, hashes)
        print_json({**run_tables.run_to_json(run_directory), **proof})
    else:
        print_tables(
            *run_tables.show_run(run_directory),
            *run_tables.show_details(run_directory),
            proof_tables.proof_line(run_directory, hashes),
        )


def _show_pack(path: Path, as_json: bool) -> None:
    """Shows the documents of a pack without playing it."""
    from longplay.verify.pack_file import PackFile

    with PackFile(path) as packed:
        run_directory = packed.read_documents()
    hashes = packed.manifest.sha256
    if as_json:
        proof = proof_tables.proof_to_json(run_directory, hashes)
        print_json({**run_tables.run_to_json(run_directory), **proof})
        return
    print_tables(
        *run_tables.show_run(run_directory),
        *run_tables.show_details(run_directory),
        proof_tables.proof_line(run_directory, hashes),
        proof_tables.pack_line(path, packed.size_bytes, packed.manifest.run_bytes),
    )


def suites(as_json: Json = False) -> None:
    """List the suites and their cost."""
    plans = [
        plan_run(name, reference_sha256=suite.references)
        for name, suite in list_suites().items()
    ]
    if as_json:
        print_json([catalogue_tables.suite_to_json(plan) for plan in plans])
    else:
        print_tables(catalogue_tables.suites_table(plans))


def settings(
    suite: Annotated[
        str,
        typer.Argument(metavar="SUITE", help="Id of a suite; see `longplay suites`."),
    ],
    as_json: Json = False,
) -> None:
    """List the settings of a suite, which --set and --config change."""
    found = get_suite(suite)
    rows = settings_table.list_settings(found)
    if as_json:
        print_json(rows)
    else:
        print_tables(settings_table.settings_table(found, rows))


def games(as_json: Json = False) -> None:
    """List the supported games, and why others are not supported."""
    rows = catalogue_tables.list_games()
    if as_json:
        print_json(rows)
    else:
        print_tables(catalogue_tables.games_table(rows))


def agents(as_json: Json = False) -> None:
    """List the built-in and installed agents."""
    rows = catalogue_tables.list_named_agents()
    if as_json:
        print_json(rows)
    else:
        print_tables(catalogue_tables.agents_table(rows))


def check_agent(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT", help="Name, file.py[:attr], module:attr or package.module."
        ),
    ],
    agent_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Argument passed to the agent."),
    ] = None,
    agent_files: AgentFilePatterns = None,
    as_json: Json = False,
) -> None:
    """Check an agent against the agent contract; needs no ROM."""
    from longplay.agents.source.loading import load_agent
    from longplay.runs.conformance import check_agent as check

    args = parse_agent_args(agent_arg or [])
    loaded = load_agent(agent, args, agent_files or ())
    checks = check(loaded)
    if as_json:
        print_json([item.to_json() for item in checks])
    else:
        print_tables(*catalogue_tables.checklist(loaded.spec, checks))
    if not all(item.passed is not False for item in checks):
        raise typer.Exit(1)
