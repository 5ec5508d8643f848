"""The commands."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.text import Text

from longplay.cli import tables, trust_tables
from longplay.cli.progress import ProgressLine
from longplay.cli.score_tables import show_score
from longplay.cli.settings import (
    parse_agent_args,
    parse_seeds,
    parse_settings,
    read_settings,
)
from longplay.contract.files import write_document
from longplay.contract.rundir import RunDirectory, find_run, find_runs
from longplay.errors import (
    AgentLoadError,
    ConfigError,
    LongplayError,
    RunCancelled,
    RunFailed,
    RunPreempted,
    UnknownNameError,
)
from longplay.evallog.provenance import longplay_version
from longplay.plan import RunPlan, plan_run
from longplay.suites import SUITES, flatten_settings, get_suite

if TYPE_CHECKING:
    from longplay.harness.experiment import Experiment
    from longplay.harness.job import Outcome
    from longplay.harness.status import RunView
    from longplay.trust.pack_file import Manifest
    from longplay.trust.verification import Verification

app = typer.Typer(
    name="longplay",
    help="A continual-learning benchmark on Atari: run, validate, score.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

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
    float,
    typer.Option(
        # Heartbeats are 5 s apart.
        min=6,
        help="Seconds without a heartbeat that mean lost.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def _print_json(document: Any) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def _print_runs(documents: list[dict[str, Any]]) -> None:
    """One object for one run, a list for an experiment of several."""
    _print_json(documents[0] if len(documents) == 1 else documents)


def _print(*renderables: RenderableType) -> None:
    console = Console()
    for renderable in renderables:
        console.print(renderable)


def _error_to_json(error: LongplayError) -> dict[str, Any]:
    where = {"run_dir": str(error.run_dir)} if error.run_dir else {}
    return {"error": {"type": type(error).__name__, "message": str(error), **where}}


def _print_error(error: LongplayError, as_json: bool) -> None:
    if as_json:
        _print_json(_error_to_json(error))
        return
    message = Text.assemble(("error: ", "bold red"), str(error))
    if error.run_dir is not None:
        message.append(f"\nwhat was recorded: {error.run_dir}")
    Console(stderr=True).print(message, soft_wrap=True)


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Registers a command; its errors become a message and an exit code."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except LongplayError as error:
            _print_error(error, bool(kwargs.get("as_json")))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(RunCancelled.exit_code) from error

    return app.command(function.__name__.replace("_", "-"))(guarded)


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
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with --out DIR if it was begun, else begin it."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan, write nothing.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Json = False,
) -> None:
    """Send an agent through a suite; validate, score and show the run."""
    if seed is not None and seeds is not None:
        raise ConfigError("--seed and --seeds: give one of them")
    if resume and out is None:
        raise ConfigError("--resume: expected --out DIR, which says with what to go on")
    where = _Where.choose(ray, ray_address, retries, stall_timeout)
    catalogued = get_suite(suite)
    overrides = flatten_settings(catalogued, read_settings(config)) if config else {}
    overrides |= flatten_settings(catalogued, parse_settings(settings or []))
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
    if resume:
        experiment = experiment.take_up()
    if seeds is None and not where.is_ray and not experiment.is_begun:
        _run_one(experiment, quiet, as_json)
        return
    _run_many(experiment, where, quiet, as_json)


def _run_one(experiment: Experiment, quiet: bool, as_json: bool) -> None:
    from longplay.harness.experiment import run_one
    from longplay.harness.signals import defer_preemption

    try:
        with (
            defer_preemption(),
            ProgressLine(quiet=quiet) as progress,
            _stdout_kept_clean(),
        ):
            result = run_one(experiment, progress, os.cpu_count() or 1)
    except (RunFailed, RunCancelled, RunPreempted) as error:
        run_dir = experiment.run_dir(experiment.plans[0])
        error.run_dir = run_dir if run_dir.exists() else None
        raise
    if as_json:
        _print_json(
            {
                "experiment_dir": str(result.experiment_dir),
                "run_dir": str(result.run_dir),
                "score": result.score.model_dump(mode="json"),
                "validation": result.report.to_json(),
            }
        )
    else:
        _print(
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

    @classmethod
    def choose(
        cls,
        ray_workers: int | None,
        ray_address: str | None,
        retries: int,
        stall_timeout_s: float,
    ) -> _Where:
        if ray_workers is not None and ray_address is not None:
            raise ConfigError("--ray and --ray-address: give one of them")
        return cls(ray_workers, ray_address, retries, stall_timeout_s)

    @property
    def is_ray(self) -> bool:
        return self.ray_workers is not None or self.ray_address is not None


def _run_many(
    experiment: Experiment, where: _Where, quiet: bool, as_json: bool
) -> None:
    """Plays what is not complete, and shows the whole experiment."""
    from longplay.harness.signals import defer_preemption

    with (
        # A driver of Ray has no loop of its own to ask.
        contextlib.nullcontext() if where.is_ray else defer_preemption(),
        ProgressLine(quiet=quiet) as progress,
        _stdout_kept_clean(),
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
                progress,
                validation_workers=os.cpu_count() or 1,
                stall_timeout_s=where.stall_timeout_s,
            )
    views = [
        view
        for view in experiment.view(where.stall_timeout_s)
        if experiment.only in (None, view.plan.trajectory_id)
    ]
    _show_runs(experiment.directory, views, outcomes, as_json)


def _show_runs(
    directory: Path, views: list[RunView], outcomes: list[Outcome], as_json: bool
) -> None:
    """Shows where runs are and how they ended; exits 1 if one is not as it should."""
    is_valid = {outcome.seed: outcome.is_valid for outcome in outcomes}
    if as_json:
        document = tables.experiment_to_json(directory, views)
        refusals = {o.seed: o.error for o in outcomes if o.is_refused}
        taken_up = {o.seed: o.went_on for o in outcomes}
        for entry in document["runs"]:
            entry["valid"] = is_valid.get(entry["seed"])
            entry["refused"] = refusals.get(entry["seed"])
            entry["went_on"] = taken_up.get(entry["seed"])
        _print_json(document)
    else:
        _print(*tables.show_experiment(directory, views))
        _print(*tables.describe_leftovers(views, outcomes))
    is_fine = all(view.state == "COMPLETED" for view in views)
    if not is_fine or False in is_valid.values():
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
    from longplay.harness.experiment import Experiment

    where = _Where.choose(ray, ray_address, retries, stall_timeout)
    with _stdout_kept_clean():
        experiment = Experiment.open(directory, agent)
    _run_many(experiment, where, quiet, as_json)


@_command
def resume(
    directory: Directory,
    agent: Annotated[
        str | None,
        typer.Option(help="The agent again, if it is not one of longplay's own."),
    ] = None,
    stall_timeout: StallTimeout = 600.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    as_json: Json = False,
) -> None:
    """Go on with what was stopped, to the bytes it would have had."""
    from longplay.harness.experiment import Experiment, view_runs

    try:
        with _stdout_kept_clean():
            experiment = Experiment.open(directory, agent)
    except AgentLoadError:
        views = view_runs(directory, stall_timeout)
        if any(view.state != "COMPLETED" for view in views):
            raise
        _show_runs(directory, views, [], as_json)  # that takes no agent
        return
    experiment.must_go_on = True
    _run_many(experiment, _Where(None, None, 0, stall_timeout), quiet, as_json)


@_command
def status(
    directory: Directory,
    stall_timeout: StallTimeout = 600.0,
    as_json: Json = False,
) -> None:
    """Show where every run of an experiment is; live on a terminal."""
    from longplay.harness.experiment import view_runs

    views = view_runs(directory, stall_timeout)
    if as_json:
        _print_json([view.to_json() for view in views])
        return
    console = Console()
    if not console.is_terminal:
        console.print(tables.show_status(views))
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            views = view_runs(directory, stall_timeout)
            live.update(tables.show_status(views), refresh=True)
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

    own = (*evallog.find_begun_runs(directory), *directory.glob("*.json"))
    if any(_is_inside(jsonl, path) for path in own):
        raise ConfigError(f"--jsonl: {jsonl} belongs to the experiment; choose another")
    if description is not None:
        evallog.describe_agent(directory, description)
    lines = evallog.export_jsonl(directory, jsonl, level)  # type: ignore[arg-type]
    if as_json:
        _print_json({"jsonl": str(jsonl), "level": level, "records": lines})
    else:
        noun = "record" if lines == 1 else "records"
        _print(Text(f"{lines:,} {noun} -> {jsonl}"))


def _is_inside(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


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
        _print_json(tables.plan_to_json(plan))
    else:
        _print(*tables.show_plan(plan))


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
            _print(*tables.show_report(report))
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
    from longplay.scoring import scores
    from longplay.scoring.play import check_ended, read_play

    run_directory = RunDirectory(run_dir)
    own_config = run_directory.config
    if explain is not None and explain not in own_config.games:
        hint = f"(this run plays {', '.join(own_config.games)})"
        raise UnknownNameError("game", explain, own_config.games, hint)
    if output is not None and _is_inside(output, run_dir):
        raise ConfigError(f"--output: {output} is in the run directory; choose another")
    run_directory.config = scores.change_scoring(own_config, changes)
    play = read_play(run_directory, partial=partial)
    if not partial:
        check_ended(run_directory)
    result = scores.compute_score(play)
    is_own = run_directory.config.scoring_defaults == own_config.scoring_defaults
    if output is not None:
        write_document(output, result)
    elif is_own and result.complete:
        scores.write_score(run_dir, result)
    document = result.model_dump(mode="json")
    if explain is not None:
        document["explanation"] = tables.explanation_to_json(play, explain)
    if not as_json:
        _print(*show_score(result, play.config))
        if explain is not None:
            _print(*tables.show_explanation(play, explain))
    return document


@_command
def show(
    directory: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="An experiment, a run or a packed run."),
    ],
    as_json: Json = False,
) -> None:
    """Show a run or an experiment: scores beside the random agent's, provenance."""
    from longplay.trust.pack_file import SUFFIX

    if directory.suffix == SUFFIX and directory.is_file():
        _show_pack(directory, as_json)
        return
    from longplay.harness.experiment import is_experiment, view_runs

    if is_experiment(directory) and len(views := view_runs(directory)) > 1:
        if as_json:
            _print_json(tables.experiment_to_json(directory, views))
        else:
            _print(*tables.show_experiment(directory, views))
        return
    run_directory = RunDirectory(find_run(directory))
    hashes = run_directory.hash_judged() if run_directory.verification else {}
    if as_json:
        proof = trust_tables.proof_to_json(run_directory, hashes)
        _print_json({**tables.run_to_json(run_directory), **proof})
    else:
        _print(
            *tables.show_run(run_directory),
            *tables.show_details(run_directory),
            trust_tables.proof_line(run_directory, hashes),
        )


def _show_pack(path: Path, as_json: bool) -> None:
    """Shows the documents of a pack; nothing of it is played."""
    from longplay.trust.pack_file import PackFile

    with PackFile(path) as packed:
        run_directory = packed.read_documents()
    hashes = packed.manifest.sha256
    if as_json:
        proof = trust_tables.proof_to_json(run_directory, hashes)
        _print_json({**tables.run_to_json(run_directory), **proof})
        return
    _print(
        *tables.show_run(run_directory),
        *tables.show_details(run_directory),
        trust_tables.proof_line(run_directory, hashes),
        trust_tables.pack_line(path, packed.size_bytes, packed.manifest.run_bytes),
    )


# --- trust ----------------------------------------------------------------------


Workers = Annotated[
    int | None, typer.Option(min=1, help="Processes that play; all cores by default.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


@_command
def verify(
    directory: Directory,
    workers: Workers = None,
    visit: Annotated[
        list[int] | None,
        typer.Option(metavar="K", help="This visit only; nothing is kept of it."),
    ] = None,
    reexecute: Annotated[
        bool, typer.Option("--reexecute", help="Let the agent decide all of it again.")
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(help="With --reexecute: the agent, if not one of longplay's own."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Play a run again and compare every frame; keeps the verdict beside it."""
    if agent is not None and not reexecute:
        raise ConfigError("--agent: only with --reexecute")
    if visit and reexecute:
        raise ConfigError("--visit: not with --reexecute, an agent has one life")
    from longplay.trust.verification import write_verification

    how = _Judging(workers or os.cpu_count() or 1, visit or [], reexecute, agent, quiet)
    exit_code = 0
    documents: list[dict[str, Any]] = []
    for run_dir in (runs := find_runs(directory)):
        if len(runs) > 1 and not as_json:
            _print(Text(run_dir.name, "bold"))
        try:
            verdict = _judge(run_dir, how)
            documents.append(verdict.to_json())
            if not as_json:
                _print(*trust_tables.show_verification(verdict))
            if verdict.is_whole:
                write_verification(verdict)
            exit_code = max(exit_code, 0 if verdict.passed else 1)
        except LongplayError as error:  # the other runs can be judged all the same
            exit_code = max(exit_code, error.exit_code)
            documents.append({"run_dir": str(run_dir), **_error_to_json(error)})
            if not as_json:
                _print_error(error, as_json)
    if as_json:
        _print_runs(documents)
    if exit_code:
        raise typer.Exit(exit_code)


@dataclass(frozen=True)
class _Judging:
    """How runs are verified."""

    workers: int
    visits: list[int]
    reexecute: bool
    agent: str | None
    quiet: bool


def _judge(run_dir: Path, how: _Judging) -> Verification:
    from longplay.trust import verification

    with ProgressLine(quiet=how.quiet) as progress, _stdout_kept_clean():
        if how.reexecute:
            return verification.reexecute(
                run_dir, how.agent, workers=how.workers, observer=progress
            )
        return verification.verify_run(
            run_dir,
            workers=how.workers,
            visits=how.visits,
            observer=progress.show_replay,
        )


@_command
def pack(
    directory: Directory,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to make; RUN.longplay by default."),
    ] = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Verify a run and pack it into one small file."""
    from longplay.trust.pack import pack_run
    from longplay.trust.pack_file import SUFFIX

    target = output or Path(f"{find_run(directory).name}{SUFFIX}")
    with ProgressLine(quiet=quiet) as progress, _stdout_kept_clean():
        manifest = pack_run(
            directory,
            target,
            workers=workers or os.cpu_count() or 1,
            observer=progress.show_replay,
        )
    _print_packed(target, manifest, as_json)


def _print_packed(target: Path, manifest: Manifest, as_json: bool) -> None:
    size_bytes = target.stat().st_size
    if as_json:
        _print_json(
            {
                "file": str(target),
                "bytes": size_bytes,
                "run_bytes": manifest.run_bytes,
            }
        )
    else:
        _print(trust_tables.pack_line(target, size_bytes, manifest.run_bytes))


@_command
def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A packed run.")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Folder to make; named as the file is."),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Play a packed run again, which makes its run directory."""
    from longplay.trust.pack import unpack_run
    from longplay.trust.pack_file import SUFFIX

    target = output or Path(file.name.removesuffix(SUFFIX))
    with ProgressLine(quiet=quiet) as progress, _stdout_kept_clean():
        unpack_run(file, target, observer=progress.show_replay)
    if as_json:
        _print_json({"run_dir": str(target)})
    else:
        _print(Text(f"every row played again as it was: {target}"))


@_command
def doctor(as_json: Json = False) -> None:
    """Tell whether this machine's emulator is the one that suites' numbers mean."""
    from longplay.trust.doctor import diagnose

    with ProgressLine(quiet=as_json) as progress:
        diagnosis = diagnose(Path.cwd(), progress.show_words)
    if as_json:
        _print_json(diagnosis.to_json())
    else:
        _print(*trust_tables.show_diagnosis(diagnosis))
    if not diagnosis.is_healthy:
        raise typer.Exit(1)


# --- what there is --------------------------------------------------------------


@_command
def suites(as_json: Json = False) -> None:
    """List the suites, and what each costs."""
    plans = [plan_run(suite_id) for suite_id in SUITES]
    if as_json:
        _print_json([tables.suite_to_json(plan) for plan in plans])
    else:
        _print(tables.suites_table(plans))


@_command
def games(as_json: Json = False) -> None:
    """List the games that can be played, and those that are refused."""
    rows = tables.list_games()
    if as_json:
        _print_json(rows)
    else:
        _print(tables.games_table(rows))


@_command
def agents(as_json: Json = False) -> None:
    """List the agents that have a name."""
    rows = tables.list_named_agents()
    if as_json:
        _print_json(rows)
    else:
        _print(tables.agents_table(rows))


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
        _print_json([item.to_json() for item in checks])
    else:
        _print(tables.checklist_table(loaded.reference, checks))
    if not all(item.passed is not False for item in checks):
        raise typer.Exit(1)
