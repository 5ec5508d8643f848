"""Commands that play: run, resume, retry; and what is seen of that: status, export."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from longplay.cli import catalogue_tables, experiment_tables, run_tables
from longplay.cli.guard import (
    AgentFilePatterns,
    Directory,
    Json,
    is_inside,
    print_json,
    print_tables,
    stdout_kept_clean,
)
from longplay.cli.progress import ProgressLine
from longplay.cli.settings import (
    parse_agent_args,
    parse_seeds,
    parse_settings,
    read_settings,
)
from longplay.contract.rundir import RunDirectory
from longplay.errors import (
    AgentLoadError,
    ConfigError,
    RunCancelled,
    RunFailed,
    RunPreempted,
)
from longplay.plan import RunPlan, plan_run
from longplay.suites import flatten_settings, get_suite

if TYPE_CHECKING:
    from longplay.harness.experiment import Experiment
    from longplay.harness.job import Outcome
    from longplay.harness.status import RunView

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
    agent_files: AgentFilePatterns = None,
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

    with stdout_kept_clean():
        experiment = plan_experiment(
            suite,
            agent,
            seeds=all_seeds,
            out=out,
            overrides=overrides,
            agent_args=parse_agent_args(agent_arg or []),
            agent_files=agent_files or (),
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
            stdout_kept_clean(),
        ):
            result = run_one(experiment, progress, os.cpu_count() or 1)
    except (RunFailed, RunCancelled, RunPreempted) as error:
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
            *run_tables.show_run(RunDirectory(result.run_dir)),
            run_tables.report_line(result.report),
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
        stdout_kept_clean(),
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
        document = experiment_tables.experiment_to_json(directory, views)
        refusals = {o.seed: o.error for o in outcomes if o.is_refused}
        taken_up = {o.seed: o.went_on for o in outcomes}
        for entry in document["runs"]:
            entry["valid"] = is_valid.get(entry["seed"])
            entry["refused"] = refusals.get(entry["seed"])
            entry["went_on"] = taken_up.get(entry["seed"])
        print_json(document)
    else:
        print_tables(*experiment_tables.show_experiment(directory, views))
        print_tables(*experiment_tables.describe_leftovers(views, outcomes))
    is_fine = all(view.state == "COMPLETED" for view in views)
    if not is_fine or False in is_valid.values():
        raise typer.Exit(1)


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
    """Finish failed, lost, cancelled and unbegun runs, from a checkpoint or anew."""
    from longplay.harness.experiment import Experiment

    where = _Where.choose(ray, ray_address, retries, stall_timeout)
    with stdout_kept_clean():
        experiment = Experiment.open(directory, agent)
    _run_many(experiment, where, quiet, as_json)


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
        with stdout_kept_clean():
            experiment = Experiment.open(directory, agent)
    except AgentLoadError:
        views = view_runs(directory, stall_timeout)
        if any(view.state != "COMPLETED" for view in views):
            raise
        _show_runs(directory, views, [], as_json)  # that takes no agent
        return
    experiment.must_go_on = True
    _run_many(experiment, _Where(None, None, 0, stall_timeout), quiet, as_json)


def status(
    directory: Directory,
    stall_timeout: StallTimeout = 600.0,
    as_json: Json = False,
) -> None:
    """Show where every run of an experiment is; live on a terminal."""
    from longplay.harness.experiment import view_runs

    views = view_runs(directory, stall_timeout)
    if as_json:
        print_json([view.to_json() for view in views])
        return
    console = Console()
    if not console.is_terminal:
        console.print(experiment_tables.show_status(views))
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            views = view_runs(directory, stall_timeout)
            live.update(experiment_tables.show_status(views), refresh=True)
            if not any(view.state in ("QUEUED", "RUNNING") for view in views):
                return
            time.sleep(1.0)


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
    if any(is_inside(jsonl, path) for path in own):
        raise ConfigError(f"--jsonl: {jsonl} belongs to the experiment; choose another")
    if description is not None:
        evallog.describe_agent(directory, description)
    lines = evallog.export_jsonl(directory, jsonl, level)  # type: ignore[arg-type]
    if as_json:
        print_json({"jsonl": str(jsonl), "level": level, "records": lines})
    else:
        noun = "record" if lines == 1 else "records"
        print_tables(Text(f"{lines:,} {noun} -> {jsonl}"))


def _show_plan(plan: RunPlan, as_json: bool) -> None:
    if as_json:
        print_json(catalogue_tables.plan_to_json(plan))
    else:
        print_tables(*catalogue_tables.show_plan(plan))
