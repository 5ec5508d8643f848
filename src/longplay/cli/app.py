"""The commands."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from longplay.cli import tables
from longplay.cli.guard import guard, print_json, print_tables
from longplay.cli.progress import ProgressLine
from longplay.cli.reference import reference_app
from longplay.cli.settings import (
    parse_agent_args,
    parse_seeds,
    parse_settings,
    read_settings,
)
from longplay.contract.files import write_document
from longplay.contract.rundir import RunDirectory, find_runs
from longplay.errors import (
    ConfigError,
    RunCancelled,
    RunFailed,
    UnknownNameError,
)
from longplay.evallog.provenance import longplay_version
from longplay.plan import RunPlan, plan_run
from longplay.suites import SUITES, flatten_settings

if TYPE_CHECKING:
    from longplay.harness.experiment import Experiment

app = typer.Typer(
    name="longplay",
    help="A continual-learning benchmark on Atari: run, validate, score.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(reference_app, name="reference")

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="An experiment or a run directory.")
]
RayWorkers = Annotated[
    int | None, typer.Option(min=1, help="Runs at a time, on a Ray of its own.")
]
RayAddress = Annotated[str | None, typer.Option(help="A Ray cluster's address.")]
Retries = Annotated[
    int, typer.Option(min=0, help="How often a run whose worker is lost starts again.")
]
StallTimeout = Annotated[
    float, typer.Option(min=1, help="Seconds without a heartbeat that mean lost.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def _print_runs(documents: list[dict[str, Any]]) -> None:
    """One object for one run, a list for an experiment of several."""
    print_json(documents[0] if len(documents) == 1 else documents)


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Registers a command; its errors become a message and an exit code."""
    return app.command(function.__name__.replace("_", "-"))(guard(function))


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"longplay {longplay_version()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print it, exit."
        ),
    ] = False,
) -> None:
    """A continual-learning benchmark on Atari: run, validate, score."""


# --- run ------------------------------------------------------------------------


@_command
def run(
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="A suite's id.")],
    agent: Annotated[
        str | None,
        typer.Option(help="A name, file.py[:attr] or module:attr."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Run seed, 0 … 2147483647; 0 if not given.")
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="0-4,7", help="Several seeds, one run each.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Experiment directory to make.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=JSON", help="Change a setting."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Settings to change, .toml or .json.")
    ] = None,
    agent_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An argument for the agent."),
    ] = None,
    ray: RayWorkers = None,
    ray_address: RayAddress = None,
    retries: Retries = 1,
    stall_timeout: StallTimeout = 600.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, write nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Json = False,
) -> None:
    """Send an agent through a suite; validate, score and show the run."""
    if seed is not None and seeds is not None:
        raise ConfigError("--seed and --seeds: give one of them")
    overrides = flatten_settings(read_settings(config)) if config else {}
    overrides |= flatten_settings(parse_settings(settings or []))
    all_seeds = [seed or 0] if seeds is None else parse_seeds(seeds)
    plans = [plan_run(suite, one, overrides) for one in all_seeds]
    if dry_run:
        for plan in plans:
            _show_plan(plan, as_json)
        return
    if agent is None:
        raise ConfigError("--agent: expected a name, file.py[:attr] or module:attr")
    from longplay.harness.experiment import plan_experiment

    with _stdout_kept_clean():
        experiment = plan_experiment(
            suite,
            agent,
            seeds=all_seeds,
            out=out,
            overrides=overrides,
            agent_args=parse_agent_args(agent_arg or []),
        )
    where = _Where(ray, ray_address, retries, stall_timeout)
    if seeds is None and not where.is_ray:
        _run_one(experiment, quiet, as_json)
        return
    experiment.create()
    _run_many(experiment, where, quiet, as_json)


def _run_one(experiment: Experiment, quiet: bool, as_json: bool) -> None:
    from longplay.harness.experiment import run_one

    try:
        with ProgressLine(quiet=quiet) as progress, _stdout_kept_clean():
            result = run_one(experiment, progress, os.cpu_count() or 1)
    except (RunFailed, RunCancelled) as error:
        run_dir = experiment.run_dir(experiment.plans[0])
        error.run_dir = run_dir if run_dir.exists() else None
        raise
    if as_json:
        print_json(
            {
                "experiment_dir": str(result.experiment_dir),
                "run_dir": str(result.run_dir),
                "score": result.score.model_dump(mode="json"),
                "validation": result.report.to_json(),
            }
        )
    else:
        print_tables(
            *tables.show_run(RunDirectory(result.run_dir)),
            tables.report_line(result.report),
            Text(f" {result.experiment_dir}", "dim"),
        )
    if not result.report.is_valid:
        raise typer.Exit(1)


@dataclass(frozen=True)
class _Where:
    """Where the runs of an experiment are played."""

    ray_workers: int | None
    ray_address: str | None
    retries: int
    stall_timeout_s: float

    @property
    def is_ray(self) -> bool:
        return self.ray_workers is not None or self.ray_address is not None


def _run_many(
    experiment: Experiment, where: _Where, quiet: bool, as_json: bool
) -> None:
    """Plays what is not complete, and shows the whole experiment."""
    with (
        ProgressLine(quiet=quiet) as progress,
        _stdout_kept_clean(),
        experiment.lock(),
    ):
        if where.is_ray:
            outcomes = experiment.run_with_ray(
                where.ray_workers,
                address=where.ray_address,
                retries=where.retries,
                stall_timeout_s=where.stall_timeout_s,
                on_change=progress.show_runs,
            )
        else:
            outcomes = experiment.run_sequentially(
                progress, validation_workers=os.cpu_count() or 1
            )
    is_valid = {outcome.seed: outcome.is_valid for outcome in outcomes}
    if as_json:
        document = tables.experiment_to_json(experiment.directory, experiment.view())
        for entry in document["runs"]:
            entry["valid"] = is_valid.get(entry["seed"])
        print_json(document)
    else:
        print_tables(*tables.show_experiment(experiment.directory, experiment.view()))
    if not all(outcome.is_valid for outcome in outcomes):
        raise typer.Exit(1)


@_command
def retry(
    directory: Directory,
    agent: Annotated[
        str | None,
        typer.Option(help="The agent again, if it is not one of longplay's own."),
    ] = None,
    ray: RayWorkers = None,
    ray_address: RayAddress = None,
    retries: Retries = 1,
    stall_timeout: StallTimeout = 600.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Json = False,
) -> None:
    """Start the failed, stale, cancelled and unbegun runs of an experiment again."""
    from longplay.harness.experiment import RETRIED, Experiment

    with _stdout_kept_clean():
        experiment = Experiment.open(directory, agent)
    with experiment.lock():
        to_do = [view for view in experiment.view() if view.state in RETRIED]
    if not to_do and not as_json:
        print_tables(Text("nothing to do: every run is complete or under way", "green"))
        return
    where = _Where(ray, ray_address, retries, stall_timeout)
    _run_many(experiment, where, quiet, as_json)


@_command
def status(
    directory: Directory,
    stall_timeout: StallTimeout = 600.0,
    as_json: Json = False,
) -> None:
    """Show where every run of an experiment is; live on a terminal."""
    from longplay.harness.experiment import view_experiment

    views = view_experiment(directory, stall_timeout)
    if as_json:
        print_json([view.to_json() for view in views])
        return
    console = Console()
    if not console.is_terminal:
        console.print(tables.status_table(views))
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            views = view_experiment(directory, stall_timeout)
            live.update(tables.status_table(views), refresh=True)
            if not any(view.state in ("QUEUED", "RUNNING") for view in views):
                return
            time.sleep(1.0)


@_command
def export(
    directory: Directory,
    jsonl: Annotated[Path, typer.Option(help="File to write, one record a line.")],
    level: Annotated[str, typer.Option(help="run or visit.")] = "run",
    description: Annotated[
        str | None,
        typer.Option(help="The agent in words, kept in experiment_record.json."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write the EvalLog of an experiment to one JSONL file."""
    from longplay.evallog import export as evallog

    lines = evallog.export_jsonl(directory, jsonl, level)  # type: ignore[arg-type]
    if description is not None:
        evallog.describe_agent(directory, description)
    if as_json:
        print_json({"jsonl": str(jsonl), "level": level, "records": lines})
    else:
        noun = "record" if lines == 1 else "records"
        print_tables(Text(f"{lines:,} {noun} -> {jsonl}"))


@contextlib.contextmanager
def _stdout_kept_clean() -> Iterator[None]:
    """Sends what C code and subprocesses of an agent print to standard error.

    What Python prints is kept beside the run; this is for what goes around Python.
    """
    sys.stdout.flush()
    real_stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(real_stdout, 1)
        os.close(real_stdout)


def _show_plan(plan: RunPlan, as_json: bool) -> None:
    if as_json:
        print_json(tables.plan_to_json(plan))
    else:
        print_tables(*tables.show_plan(plan))


# --- reading --------------------------------------------------------------------


@_command
def validate(directory: Directory, as_json: Json = False) -> None:
    """Hold every row of a run against the contract."""
    from longplay.validation import validate_run

    workers = os.cpu_count() or 1
    reports = [
        validate_run(run_dir, workers=workers) for run_dir in find_runs(directory)
    ]
    if as_json:
        _print_runs([report.to_json() for report in reports])
    else:
        for report in reports:
            print_tables(*tables.show_report(report))
    if not all(report.is_valid for report in reports):
        raise typer.Exit(1)


@_command
def score(
    directory: Directory,
    partial: Annotated[
        bool, typer.Option("--partial", help="Count the complete visits only.")
    ] = False,
    window_frames: Annotated[int | None, typer.Option(help="Other window.")] = None,
    revisit_frames: Annotated[int | None, typer.Option(help="Other window.")] = None,
    bottom_k_frac: Annotated[float | None, typer.Option(help="Other share.")] = None,
    output: Annotated[
        Path | None, typer.Option(help="Write the score to this file.")
    ] = None,
    explain: Annotated[
        str | None,
        typer.Option(metavar="GAME", help="Show the sums behind a game's numbers."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Score a run; writes score.json if scored whole with the run's own windows."""
    changes = {
        "window_frames": window_frames,
        "revisit_frames": revisit_frames,
        "bottom_k_frac": bottom_k_frac,
    }
    runs = find_runs(directory)
    if output is not None and len(runs) > 1:
        raise ConfigError(f"--output: {directory} holds {len(runs)} runs, give one")
    documents = []
    for run_dir in runs:
        documents.append(
            _score_one(run_dir, partial, changes, output, explain, as_json)
        )
    if as_json:
        _print_runs(documents)


def _score_one(
    run_dir: Path,
    partial: bool,
    changes: dict[str, Any],
    output: Path | None,
    explain: str | None,
    as_json: bool,
) -> dict[str, Any]:
    from longplay.scoring import streaming

    run_directory = RunDirectory(run_dir)
    own_config = run_directory.config
    if explain is not None and explain not in own_config.games:
        hint = f"(this run plays {', '.join(own_config.games)})"
        raise UnknownNameError("game", explain, own_config.games, hint)
    if output is not None and output.resolve().parent == run_dir.resolve():
        raise ConfigError(f"--output: {output} is in the run directory; choose another")
    run_directory.config = streaming.change_scoring(own_config, changes)
    play = streaming.read_play(run_directory, partial=partial)
    result = streaming.compute_score(play)
    is_own = run_directory.config.scoring_defaults == own_config.scoring_defaults
    if output is not None:
        write_document(output, result)
    elif is_own and result.complete:
        streaming.write_score(run_dir, result)
    document = result.model_dump(mode="json")
    if explain is not None:
        document["explanation"] = tables.explanation_to_json(play, explain)
    if not as_json:
        print_tables(*tables.show_score(result, play.config))
        if explain is not None:
            print_tables(*tables.show_explanation(play, explain))
    return document


@_command
def show(directory: Directory, as_json: Json = False) -> None:
    """Show a run or an experiment: scores beside the random agent's, provenance."""
    paths = find_runs(directory)
    if len(paths) > 1:
        from longplay.harness.experiment import view_experiment

        views = view_experiment(directory)
        if as_json:
            print_json(tables.experiment_to_json(directory, views))
        else:
            print_tables(*tables.show_experiment(directory, views))
        return
    run_directory = RunDirectory(paths[0])
    if as_json:
        print_json(tables.run_to_json(run_directory))
    else:
        print_tables(
            *tables.show_run(run_directory), *tables.show_details(run_directory)
        )


# --- what there is --------------------------------------------------------------


@_command
def suites(as_json: Json = False) -> None:
    """List the suites, and what each costs."""
    plans = [plan_run(suite_id) for suite_id in SUITES]
    if as_json:
        print_json([tables.suite_to_json(plan) for plan in plans])
    else:
        print_tables(tables.suites_table(plans))


@_command
def games(as_json: Json = False) -> None:
    """List the games that can be played, and those that are refused."""
    rows = tables.list_games()
    if as_json:
        print_json(rows)
    else:
        print_tables(tables.games_table(rows))


@_command
def agents(as_json: Json = False) -> None:
    """List the agents that have a name."""
    rows = tables.list_named_agents()
    if as_json:
        print_json(rows)
    else:
        print_tables(tables.agents_table(rows))


@_command
def check_agent(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="As for `run`.")],
    agent_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="An argument for the agent."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Hold an agent against the agent contract, without any ROM."""
    from longplay.agents.base import load_agent
    from longplay.agents.conformance import check_agent as check

    loaded = load_agent(agent, parse_agent_args(agent_arg or []))
    checks = check(loaded)
    if as_json:
        print_json([item.to_json() for item in checks])
    else:
        print_tables(tables.checklist_table(loaded.reference, checks))
    if not all(item.passed is not False for item in checks):
        raise typer.Exit(1)
