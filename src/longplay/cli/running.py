"""Commands that play experiments: run, resume, retry."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from longplay.agents.output import print_to_terminal
from longplay.agents.source.loading import BUILT_IN_AGENTS
from longplay.cli import catalogue_tables, experiment_tables, run_tables
from longplay.cli.guard import (
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
from longplay.cli.isolation import (
    AgentEnv,
    AgentMemory,
    Isolate,
    SandboxAllow,
    StepTimeout,
    make_isolation,
    refuse_debugging,
)
from longplay.cli.progress import ProgressLine
from longplay.cli.settings import (
    describe_run_options,
    list_ignored,
    make_run_options,
    parse_agent_args,
    parse_seeds,
    parse_settings,
    read_settings,
)
from longplay.cli.supervision import announce_directory
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
    from longplay.experiments.job import Needs, RunResult
    from longplay.runs.status import RunView

RayWorkers = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Play N runs in parallel on a local Ray instance."
    ),
]
RayAddress = Annotated[str | None, typer.Option(help="Address of a Ray cluster.")]
Retries = Annotated[
    int,
    typer.Option(
        min=0,
        metavar="N",
        help="How often to restart a run whose worker died (Ray only).",
    ),
]
Cpus = Annotated[
    float | None,
    typer.Option(metavar="N", help="Processors of each run on Ray (default: 1)."),
]
Gpus = Annotated[
    float | None,
    typer.Option(metavar="N", help="GPUs of each run on Ray; may be a fraction."),
]
MemoryGb = Annotated[
    float | None, typer.Option(metavar="N", help="Memory of each run on Ray, in GiB.")
]
CheckpointEvery = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Time between checkpoints, as 300s (default: 60s)."
    ),
]
KeepAgent = Annotated[
    str | None,
    typer.Option(
        metavar="none|final|visits",
        help="Keep the agent's final state, or that after every visit "
        "(default: final, if below 100 MB).",
    ),
]
KeepAgentBytes = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="BYTES",
        help="Keep no more than this (default: 10 GB for visits, else no limit).",
    ),
]
Track = Annotated[
    str | None,
    typer.Option(
        metavar="tensorboard|wandb", help="Log progress to TensorBoard or W&B."
    ),
]
StallTimeout = Annotated[
    float,
    typer.Option(
        # Heartbeats are 5 s apart.
        min=6,
        metavar="SECONDS",
        help="Treat a run without a heartbeat for this long as dead.",
    ),
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
    isolate: Isolate = None,
    sandbox_allow: SandboxAllow = None,
    agent_env: AgentEnv = None,
    step_timeout: StepTimeout = None,
    agent_memory: AgentMemory = None,
    ray: RayWorkers = None,
    ray_address: RayAddress = None,
    retries: Retries = 1,
    cpus: Cpus = None,
    gpus: Gpus = None,
    memory_gb: MemoryGb = None,
    stall_timeout: StallTimeout = 600.0,
    checkpoint_every: CheckpointEvery = None,
    keep_agent: KeepAgent = None,
    keep_agent_bytes: KeepAgentBytes = None,
    track: Track = None,
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
            help="Declare how many frames were spent on tuning the agent.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Resume --out DIR if it exists, otherwise create it."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and write nothing.")
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
    where = Where.choose(ray, ray_address, retries, stall_timeout)
    needs = _make_needs(where, cpus, gpus, memory_gb)
    limits = (sandbox_allow, agent_env, step_timeout, agent_memory)
    isolation = make_isolation(isolate, *limits)
    refuse_debugging(debug, isolation)
    if debug and (where.is_ray or as_json):
        raise ConfigError("--debug: expected no --ray and no --json")
    options = make_run_options(checkpoint_every, keep_agent, keep_agent_bytes, track)
    catalogued = get_suite(suite)
    overrides = flatten_settings(catalogued, read_settings(config)) if config else {}
    if config and (ignored := list_ignored(config)):
        print_warning(
            f"--config: ignored {', '.join(ignored)}, which are not settings of a suite"
        )
    overrides |= flatten_settings(catalogued, parse_settings(settings or []))
    if shuffle_games is not None:
        overrides["shuffle_games"] = shuffle_games
    from longplay.experiments.experiment import plan_seeds, request_experiment

    all_seeds = [FIRST_TUNING_SEED if seed is None else seed]
    if seeds is not None:
        all_seeds = parse_seeds(seeds)
    plans = plan_seeds(suite, all_seeds, overrides, stop_after)
    if dry_run:
        for plan in plans if as_json else plans[:_MOST_SHOWN_PLANS]:
            _show_plan(plan, as_json)
        if not as_json and (more := len(plans) - _MOST_SHOWN_PLANS) > 0:
            print_tables(f"… and {more:,} more seeds; --json prints all of them")
        return
    if agent is None:
        raise ConfigError(
            "--agent: expected a name, file.py[:attr], module:attr or package.module"
        )
    with print_to_terminal() if debug else stdout_kept_clean():
        experiment = request_experiment(
            plans,
            agent,
            out=out,
            agent_args=parse_agent_args(agent_arg or []),
            agent_files=agent_files or (),
            isolation=isolation,
        )
    experiment.tuning_frames = tuning_frames
    if resume:
        experiment = experiment.open_or_create()
    experiment.options, experiment.needs = options, needs
    are_given = seed is not None or seeds is not None
    note = describe_seeds(plans[0].suite_name, all_seeds, are_given=are_given)
    if stop_after is not None and are_given:
        note = None  # a tuning run is not a result
    _play(experiment, replace(where, is_debugged=debug), quiet, as_json, note)


@dataclass(frozen=True)
class Where:
    """Where the runs of an experiment are played."""

    ray_workers: int | None
    ray_address: str | None
    retries: int
    stall_timeout_s: float
    is_debugged: bool = False

    @classmethod
    def choose(
        cls,
        ray_workers: int | None,
        ray_address: str | None,
        retries: int,
        stall_timeout_s: float,
    ) -> Where:
        """Refuses two places at a time."""
        if ray_workers is not None and ray_address is not None:
            raise ConfigError("--ray and --ray-address: give only one of them")
        return cls(ray_workers, ray_address, retries, stall_timeout_s)

    @property
    def is_ray(self) -> bool:
        """Whether they are played on Ray."""
        return self.ray_workers is not None or self.ray_address is not None

    @property
    def options(self) -> list[str]:
        """The options that ask for the same place."""
        if self.ray_workers is not None:
            return ["--ray", str(self.ray_workers)]
        return ["--ray-address", self.ray_address] if self.ray_address else []

    def describe_continuing(self, experiment: Experiment) -> str:
        """The command that continues an experiment."""
        command = ["longplay", "retry" if self.is_ray else "resume"]
        spec = experiment.agent.spec
        agent = [] if spec in BUILT_IN_AGENTS else ["--agent", spec]
        place = [*self.options, *_describe_needs(experiment.needs)]
        how = describe_run_options(experiment.options)
        return shlex.join([*command, str(experiment.directory), *agent, *place, *how])

    def play(self, experiment: Experiment, progress: ProgressLine) -> list[RunResult]:
        """Plays the runs that are not complete."""
        if self.is_ray:
            return experiment.run_with_ray(
                self.ray_workers,
                address=self.ray_address,
                retries=self.retries,
                stall_timeout_s=self.stall_timeout_s,
                on_change=progress.show_runs,
            )
        return experiment.run_sequentially(
            progress,
            validation_workers=os.cpu_count() or 1,
            stall_timeout_s=self.stall_timeout_s,
        )


def _make_needs(
    where: Where, cpus: float | None, gpus: float | None, memory_gb: float | None
) -> Needs:
    """Reads `--cpus`, `--gpus` and `--memory-gb`."""
    from longplay.experiments.job import Needs

    given = {"--cpus": cpus, "--gpus": gpus, "--memory-gb": memory_gb}
    for option, amount in given.items():
        if amount is not None and not where.is_ray:
            raise ConfigError(
                f"{option}: expected --ray or --ray-address as well; without Ray, runs "
                "are played one after the other in this process"
            )
        if amount is not None and not 0 < amount < math.inf:
            raise ConfigError(f"{option}: expected a number above 0, found {amount}")
    return Needs(cpus or 1.0, gpus or 0.0, memory_gb)


def _describe_needs(needs: Needs) -> list[str]:
    """The options that ask for the same; none for the defaults."""
    from longplay.experiments.job import ONE_CPU

    return [
        part
        for name, amount in vars(needs).items()
        if amount != getattr(ONE_CPU, name)
        for part in (f"--{name.replace('_', '-')}", f"{amount:g}")
    ]


def _play(
    experiment: Experiment,
    where: Where,
    quiet: bool,
    as_json: bool,
    note: str | None = None,
) -> None:
    """Plays the runs that are not complete, and shows the results."""
    from longplay.runs.signals import defer_preemption

    announce_directory(experiment.directory)
    if not quiet and (warning := experiment.agent.isolation.warning):
        print_warning(warning)

    try:
        with (
            # With Ray, runs play in workers: this process has no loop to stop.
            contextlib.nullcontext() if where.is_ray else defer_preemption(),
            # A live line would overwrite the prompt of a debugger.
            ProgressLine(quiet=quiet or where.is_debugged, note=note) as progress,
            contextlib.nullcontext() if where.is_debugged else stdout_kept_clean(),
            stdout_dropped() if where.is_ray else contextlib.nullcontext(),
        ):
            results = where.play(experiment, progress)
    except (RunCancelled, RunPreempted) as error:
        if experiment.directory.exists():
            error.run_dir = experiment.directory
            error.continue_with = where.describe_continuing(experiment)
        raise
    views = experiment.view_selected(where.stall_timeout_s)
    _show_results(experiment.directory, views, results, as_json)


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
    agent: Annotated[
        str | None,
        typer.Option(help="The agent, unless it is built in."),
    ] = None,
    completed: Annotated[
        bool,
        typer.Option(
            "--completed", help="Archive completed runs and play them again, too."
        ),
    ] = False,
    isolate: Isolate = None,
    sandbox_allow: SandboxAllow = None,
    agent_env: AgentEnv = None,
    step_timeout: StepTimeout = None,
    agent_memory: AgentMemory = None,
    ray: RayWorkers = None,
    ray_address: RayAddress = None,
    retries: Retries = 1,
    cpus: Cpus = None,
    gpus: Gpus = None,
    memory_gb: MemoryGb = None,
    stall_timeout: StallTimeout = 600.0,
    debug: Debug = False,
    checkpoint_every: CheckpointEvery = None,
    keep_agent: KeepAgent = None,
    keep_agent_bytes: KeepAgentBytes = None,
    track: Track = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Retry failed, stale, cancelled and queued runs, from a checkpoint if possible."""
    from longplay.experiments.experiment import Experiment, Mode

    where = Where.choose(ray, ray_address, retries, stall_timeout)
    needs = _make_needs(where, cpus, gpus, memory_gb)
    limits = (sandbox_allow, agent_env, step_timeout, agent_memory)
    is_given = isolate is not None or any(limit is not None for limit in limits)
    isolation = make_isolation(isolate, *limits) if is_given else None
    with print_to_terminal() if debug else stdout_kept_clean():
        experiment = Experiment.open(directory, agent, Mode.RETRY, isolation)
    refuse_debugging(debug, experiment.agent.isolation)
    experiment.options = make_run_options(
        checkpoint_every, keep_agent, keep_agent_bytes, track
    )
    experiment.needs = needs
    experiment.plays_completed = completed
    _play(experiment, replace(where, is_debugged=debug), quiet, as_json)


def resume(
    directory: Directory,
    agent: Annotated[
        str | None,
        typer.Option(help="The agent, unless it is built in."),
    ] = None,
    stall_timeout: StallTimeout = 600.0,
    debug: Debug = False,
    checkpoint_every: CheckpointEvery = None,
    keep_agent: KeepAgent = None,
    keep_agent_bytes: KeepAgentBytes = None,
    track: Track = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Resume stopped runs; the result is bit-identical to an uninterrupted run."""
    from longplay.experiments.experiment import Experiment, Mode, view_runs

    try:
        with print_to_terminal() if debug else stdout_kept_clean():
            experiment = Experiment.open(directory, agent, Mode.RESUME)
        refuse_debugging(debug, experiment.agent.isolation)
    except AgentLoadError:
        views = view_runs(directory, stall_timeout)
        if any(view.state != "COMPLETED" for view in views):
            raise
        _show_results(directory, views, [], as_json)  # nothing to play, no agent needed
        return
    experiment.options = make_run_options(
        checkpoint_every, keep_agent, keep_agent_bytes, track
    )
    where = Where(None, None, 0, stall_timeout, is_debugged=debug)
    _play(experiment, where, quiet, as_json)


def _show_plan(plan: RunPlan, as_json: bool) -> None:
    if as_json:
        print_json(catalogue_tables.plan_to_json(plan))
    else:
        print_tables(*catalogue_tables.show_plan(plan))
