"""Commands that play experiments: run, resume, retry."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from longplay.agents.output import print_to_terminal
from longplay.cli import catalogue, experiment_tables, run_tables
from longplay.cli.options import (
    IsolationOptions,
    RecordOptions,
    RunPlaceOptions,
    StallTimeout,
    refuse_debugging,
)
from longplay.cli.progress import ProgressLine
from longplay.cli.settings import (
    list_ignored,
    parse_agent_args,
    parse_seeds,
    parse_settings,
    read_settings,
)
from longplay.cli.supervision import announce_directory
from longplay.cli.toolkit import (
    AgentFilePatterns,
    Debug,
    Directory,
    Json,
    Quiet,
    check_output,
    print_error,
    print_json,
    print_tables,
    print_warning,
    stdout_dropped,
    stdout_kept_clean,
)
from longplay.contract.rundir import RunDirectory
from longplay.errors import (
    AgentLoadError,
    ConfigError,
    RunCancelled,
    RunPreempted,
)
from longplay.plan import RunPlan
from longplay.suites import (
    FIRST_TUNING_SEED,
    describe_seeds,
    flatten_settings,
    get_suite,
)

if TYPE_CHECKING:
    from longplay.experiments.experiment import Experiment
    from longplay.experiments.job import RunResult
    from longplay.runs.status import RunView

TheAgent = Annotated[
    str | None, typer.Option("--agent", help="The agent, unless it is built in.")
]

# A dry run prints this many plans in full.
_MOST_SHOWN_PLANS = 10


def run(
    suite: Annotated[
        str,
        typer.Argument(metavar="SUITE", help="Id of a suite; see `longplay suites`."),
    ],
    agent: Annotated[
        str | None,
        typer.Option(help="Name, file.py[:attr], module:attr or package.module."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The agent's name in tables and figures.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the run, 0 to 2147483647 (default: 1000)."),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(metavar="0-4,7", help="Several seeds, one run per seed."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Experiment directory to create.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=JSON", help="Override a setting of the suite."
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="File of overrides, .toml or .json.")
    ] = None,
    shuffle_games: Annotated[
        bool | None,
        typer.Option(
            "--shuffle-games/--no-shuffle-games",
            help="Draw the order of games of each cycle with the seed, or keep it.",
        ),
    ] = None,
    agent_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Argument passed to the agent."),
    ] = None,
    agent_files: AgentFilePatterns = None,
    *,
    isolating: IsolationOptions,
    place: RunPlaceOptions,
    recording: RecordOptions,
    stop_after: Annotated[
        float | None,
        typer.Option(
            metavar="FRACTION",
            help="Tuning run: play only this fraction of the stream.",
        ),
    ] = None,
    tuning_frames: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="FRAMES",
            help="Declare how many frames or timesteps were spent on tuning the agent.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Resume --out DIR if it exists, otherwise create it."
        ),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Check the agent, print the plan and write nothing."
        ),
    ] = False,
    debug: Debug = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run an agent on a suite, then validate, score and show the run."""
    if seed is not None and seeds is not None:
        raise ConfigError("--seed and --seeds: give only one of them")
    if resume and out is None:
        raise ConfigError(
            "--resume: expected --out DIR, the experiment to resume or to start"
        )
    check_output("--out", out)
    needs, options, isolation = place.make_needs(), recording.make(), isolating.make()
    refuse_debugging(debug, isolation)
    if debug and (place.is_ray or as_json):
        raise ConfigError("--debug: cannot be combined with --ray or --json")
    overrides = _read_overrides(suite, config, settings or [])
    if shuffle_games is not None:
        overrides["shuffle_games"] = shuffle_games
    from longplay.experiments.experiment import Experiment, plan_seeds

    all_seeds = [FIRST_TUNING_SEED if seed is None else seed]
    if seeds is not None:
        all_seeds = parse_seeds(seeds)
    plans = plan_seeds(suite, all_seeds, overrides, stop_after)
    are_given = seed is not None or seeds is not None
    note = describe_seeds(plans[0].suite_name, all_seeds, are_given=are_given)
    if stop_after is not None and are_given:
        note = None  # a tuning run is not a result
    if dry_run and agent is None:
        _show_plans(plans, as_json, note)
        return
    if agent is None:
        raise ConfigError(
            "--agent: expected a name, file.py[:attr], module:attr or package.module"
        )
    with print_to_terminal() if debug else stdout_kept_clean():
        experiment = Experiment.create(
            plans,
            agent,
            name=name,
            out=out,
            agent_args=parse_agent_args(agent_arg or []),
            agent_files=agent_files or (),
            isolation=isolation,
        )
    experiment = replace(
        experiment, tuning_frames=tuning_frames, options=options, needs=needs
    )
    if resume:
        experiment = experiment.open_or_create()
    if dry_run:
        with stdout_kept_clean():
            experiment.check_start()
        _show_plans(plans, as_json, note)
        return
    how = _How(place, debug, quiet, as_json, note)
    _play(experiment, how)


def _read_overrides(
    suite: str, config: Path | None, settings: Sequence[str]
) -> dict[str, Any]:
    """The settings of `--config`, and of `--set`, which count more."""
    catalogued = get_suite(suite)
    overrides = flatten_settings(catalogued, read_settings(config)) if config else {}
    if config and (ignored := list_ignored(config)):
        print_warning(
            f"--config: ignored {', '.join(ignored)}, which are not settings of a suite"
        )
    return overrides | flatten_settings(catalogued, parse_settings(settings))


def _show_plans(plans: Sequence[RunPlan], as_json: bool, note: str | None) -> None:
    for plan in plans if as_json else plans[:_MOST_SHOWN_PLANS]:
        if as_json:
            print_json(catalogue.plan_to_json(plan))
        else:
            print_tables(*catalogue.show_plan(plan))
    if not as_json and (more := len(plans) - _MOST_SHOWN_PLANS) > 0:
        print_tables(f"… and {more:,} more seeds; --json prints all of them")
    if not as_json and note is not None:
        print_tables(Text(note, "dim"))


@dataclass(frozen=True)
class _How:
    """How an experiment is played and shown."""

    place: RunPlaceOptions
    is_debugged: bool
    quiet: bool
    as_json: bool
    note: str | None = None


def _play(experiment: Experiment, how: _How) -> None:
    """Plays the runs that are not complete, and shows the results."""
    from longplay.runs.signals import defer_preemption

    announce_directory(experiment.directory)
    if not how.quiet and (warning := experiment.agent.isolation.warning):
        print_warning(warning)
    is_ray, nothing = how.place.is_ray, contextlib.nullcontext()
    try:
        with (
            # With Ray, runs play in workers: this process has no loop to stop.
            nothing if is_ray else defer_preemption(),
            # A live line would overwrite the prompt of a debugger.
            ProgressLine(quiet=how.quiet or how.is_debugged, note=how.note) as progress,
            nothing if how.is_debugged else stdout_kept_clean(),
            stdout_dropped() if is_ray else nothing,
        ):
            results = how.place.play(experiment, progress)
    except (RunCancelled, RunPreempted) as error:
        if experiment.directory.exists():
            error.run_dir = experiment.directory
            error.continue_with = how.place.describe_continuing(experiment)
        raise
    views = experiment.view_selected(how.place.stall_timeout)
    _show_results(experiment.directory, views, results, how.as_json)


def _show_results(
    directory: Path,
    views: Sequence[RunView],
    results: Sequence[RunResult],
    as_json: bool,
) -> None:
    """Shows how runs ended; exits 1 if one is not complete and valid."""
    if as_json:
        print_json(experiment_tables.results_to_json(directory, views, results))
    elif len(views) == 1 and views[0].state == "COMPLETED":
        print_tables(*run_tables.show_run(RunDirectory(views[0].run_dir)))
        print_tables(*(run_tables.report_line(r.report) for r in results if r.report))
        print_tables(*experiment_tables.describe_remaining(views, results))
        print_tables(Text(f" {directory}", "dim"))
    elif len(results) == len(views) == 1 and (error := results[0].exception):
        error.run_dir = None if results[0].is_refused else results[0].run_dir
        print_error(error, as_json=False)
    else:
        print_tables(*experiment_tables.show_experiment(directory, views))
        print_tables(*experiment_tables.describe_remaining(views, results))
    is_complete = all(view.state == "COMPLETED" for view in views)
    if not is_complete or any(result.is_valid is False for result in results):
        raise typer.Exit(1)


def retry(
    directory: Directory,
    agent: TheAgent = None,
    completed: Annotated[
        bool,
        typer.Option(
            "--completed", help="Archive completed runs and play them again, too."
        ),
    ] = False,
    *,
    isolating: IsolationOptions,
    place: RunPlaceOptions,
    debug: Debug = False,
    recording: RecordOptions,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Retry failed, stale, cancelled and queued runs, from a checkpoint if possible."""
    from longplay.experiments.experiment import Experiment

    needs = place.make_needs()
    isolation = isolating.make() if isolating.are_given else None
    with print_to_terminal() if debug else stdout_kept_clean():
        experiment = Experiment.open(directory, agent, isolation)
    refuse_debugging(debug, experiment.agent.isolation)
    experiment = replace(
        experiment, options=recording.make(), needs=needs, plays_completed=completed
    )
    _play(experiment, _How(place, debug, quiet, as_json))


def resume(
    directory: Directory,
    agent: TheAgent = None,
    stall_timeout: StallTimeout = 600.0,
    debug: Debug = False,
    *,
    recording: RecordOptions,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Resume stopped runs; the result is bit-identical to an uninterrupted run."""
    from longplay.experiments.experiment import Experiment, view_runs

    try:
        with print_to_terminal() if debug else stdout_kept_clean():
            experiment = Experiment.resume(directory, agent)
        refuse_debugging(debug, experiment.agent.isolation)
    except AgentLoadError:
        views = view_runs(directory, stall_timeout)
        if any(view.state != "COMPLETED" for view in views):
            raise
        _show_results(directory, views, [], as_json)  # nothing to play, no agent needed
        return
    experiment = replace(experiment, options=recording.make())
    place = RunPlaceOptions(retries=0, stall_timeout=stall_timeout)
    _play(experiment, _How(place, debug, quiet, as_json))
