"""Groups of options that several commands take, and what they ask for.

`toolkit.guard` gives a command one parameter per group. A group also says which words
of a command line ask for the same, so that a stopped run can name its continuation.
"""

from __future__ import annotations

import math
import os
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from longplay.agents.isolation.levels import Isolation
from longplay.agents.source.loading import BUILT_IN_AGENTS
from longplay.contract.layout import KeepAgent
from longplay.errors import ConfigError
from longplay.runs.options import CHECKPOINT_S, RunOptions, Tracker

if TYPE_CHECKING:
    from longplay.cli.progress import ProgressLine
    from longplay.experiments.experiment import Experiment
    from longplay.experiments.job import Needs, RayPlace, RunResult

_GIGABYTE = 10**9
_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}

StallTimeout = Annotated[
    float,
    typer.Option(
        # Heartbeats are 5 s apart.
        min=6,
        metavar="SECONDS",
        help="Treat a run without a heartbeat for this long as dead.",
    ),
]


@dataclass(frozen=True)
class IsolationOptions:
    """How an agent is isolated."""

    isolate: Annotated[
        str | None,
        typer.Option(
            metavar="none|process|sandbox",
            help="Run the agent in its own process, or in a sandbox (default: none).",
        ),
    ] = None
    sandbox_allow: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH[:rw]", help="Let a sandboxed agent read (or write) this path."
        ),
    ] = None
    agent_env: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Pass this environment variable to an isolated agent."
        ),
    ] = None
    step_timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Time limit of a step of an isolated agent."
        ),
    ] = None
    agent_memory: Annotated[
        float | None,
        typer.Option(metavar="GB", help="Memory limit of an isolated agent."),
    ] = None

    @property
    def are_given(self) -> bool:
        """Whether one of them was given."""
        return any(value is not None for value in vars(self).values())

    def make(self, default: str = "none") -> Isolation:
        """The isolation that the options ask for.

        Args:
            default: The level without --isolate.

        Raises:
            ConfigError: They contradict each other, or this machine cannot do it.
        """
        memory_gb = self.agent_memory
        isolation = Isolation(
            self.isolate or default,  # type: ignore[arg-type] # refuses any other text
            tuple(self.sandbox_allow or ()),
            tuple(self.agent_env or ()),
            self.step_timeout,
            None if memory_gb is None else round(memory_gb * _GIGABYTE),
        )
        isolation.check_available()
        return isolation


def refuse_debugging(debug: bool, isolation: Isolation) -> None:
    """Refuses to debug an agent that runs in another process.

    Raises:
        ConfigError: It does.
    """
    if debug and isolation.level != "none":
        raise ConfigError(
            f"--debug: only with --isolate none, found {isolation.level}: the agent "
            "runs in another process"
        )


@dataclass(frozen=True)
class PlaceOptions:
    """Where runs are played: in this process, or on Ray."""

    ray: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Play N runs in parallel on a local Ray instance."
        ),
    ] = None
    ray_address: Annotated[
        str | None, typer.Option(help="Address of a Ray cluster.")
    ] = None
    retries: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="How often to restart a run whose worker died (Ray only).",
        ),
    ] = 1
    stall_timeout: StallTimeout = 600.0

    def __post_init__(self) -> None:
        if self.ray is not None and self.ray_address is not None:
            raise ConfigError("--ray and --ray-address: give only one of them")

    @property
    def is_ray(self) -> bool:
        """Whether they are played on Ray."""
        return self.ray is not None or self.ray_address is not None

    def make_ray(self) -> RayPlace:
        """Where Ray plays them."""
        from longplay.experiments.job import RayPlace

        address, timeout_s = self.ray_address, self.stall_timeout
        return RayPlace(self.ray, address, self.retries, timeout_s)

    def describe(self) -> list[str]:
        """The options that ask for the same place."""
        if self.ray is not None:
            return ["--ray", str(self.ray)]
        return ["--ray-address", self.ray_address] if self.ray_address else []


@dataclass(frozen=True)
class RunPlaceOptions(PlaceOptions):
    """Where the runs of an experiment are played, and what each of them needs."""

    cpus: Annotated[
        float | None,
        typer.Option(metavar="N", help="Processors of each run on Ray (default: 1)."),
    ] = None
    gpus: Annotated[
        float | None,
        typer.Option(metavar="N", help="GPUs of each run on Ray; may be a fraction."),
    ] = None
    memory_gb: Annotated[
        float | None, typer.Option(metavar="GB", help="Memory of each run on Ray.")
    ] = None

    def make_needs(self) -> Needs:
        """What each run needs.

        Raises:
            ConfigError: Needs without Ray, or that are not above 0.
        """
        from longplay.experiments.job import Needs

        for name in ("cpus", "gpus", "memory_gb"):
            amount, option = getattr(self, name), f"--{name.replace('_', '-')}"
            if amount is not None and not self.is_ray:
                raise ConfigError(
                    f"{option}: expected --ray or --ray-address as well; without Ray, "
                    "runs are played one after the other in this process"
                )
            if amount is not None and not 0 < amount < math.inf:
                raise ConfigError(
                    f"{option}: expected a number above 0, found {amount}"
                )
        return Needs(self.cpus or 1.0, self.gpus or 0.0, self.memory_gb)

    def play(self, experiment: Experiment, progress: ProgressLine) -> list[RunResult]:
        """Plays the runs that are not complete."""
        if self.is_ray:
            return experiment.run_with_ray(self.make_ray(), progress.show_runs)
        return experiment.run_sequentially(
            progress,
            validation_workers=os.cpu_count() or 1,
            stall_timeout_s=self.stall_timeout,
        )

    def describe_continuing(self, experiment: Experiment) -> str:
        """The command that continues an experiment."""
        words = ["longplay", "retry" if self.is_ray else "resume"]
        words.append(str(experiment.directory))
        if (spec := experiment.agent.spec) not in BUILT_IN_AGENTS:
            words += ["--agent", spec]
        words += [*self.describe(), *_describe_needs(experiment.needs)]
        return shlex.join([*words, *describe_run_options(experiment.options)])


def _describe_needs(needs: Needs) -> list[str]:
    """The options that ask for the same; none for the defaults."""
    from longplay.experiments.job import ONE_CPU

    return [
        part
        for name, amount in vars(needs).items()
        if amount != getattr(ONE_CPU, name)
        for part in (f"--{name.replace('_', '-')}", f"{amount:g}")
    ]


@dataclass(frozen=True)
class RecordOptions:
    """What a run keeps and reports beside its rows."""

    checkpoint_every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Time between checkpoints, as 300s (default: 60s)."
        ),
    ] = None
    keep_agent: Annotated[
        str | None,
        typer.Option(
            metavar="none|final|visits",
            help="Keep the agent's final state, or that after every visit "
            "(default: final, if below 100 MB).",
        ),
    ] = None
    keep_agent_bytes: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="BYTES",
            help="Limit of all kept states of a run (default: 10 GB for visits, "
            "else none).",
        ),
    ] = None
    track: Annotated[
        str | None,
        typer.Option(
            metavar="tensorboard|wandb", help="Log progress to TensorBoard or W&B."
        ),
    ] = None

    def make(self) -> RunOptions:
        """The options of a run.

        Raises:
            ConfigError: A value is not one of those it can have.
            MissingExtraError: The tracker is not installed.
        """
        _check_choice("--track", self.track, Tracker)
        if self.track is not None:
            from longplay.experiments.tracking import check_tracker

            check_tracker(self.track)  # type: ignore[arg-type] # it is one of them
        _check_choice("--keep-agent", self.keep_agent, KeepAgent)
        checkpoint_s = CHECKPOINT_S
        if self.checkpoint_every is not None:
            checkpoint_s = parse_seconds(self.checkpoint_every, "--checkpoint-every")
        return RunOptions(
            checkpoint_s,
            self.keep_agent,  # type: ignore[arg-type]
            self.keep_agent_bytes,
            self.track,  # type: ignore[arg-type]
        )


def _check_choice(option: str, value: str | None, known: Any) -> None:
    if value is not None and value not in get_args(known):
        *others, last = get_args(known)
        expected = f"{', '.join(others)} or {last}"
        raise ConfigError(f"{option}: expected {expected}, found {value!r}")


def describe_run_options(options: RunOptions) -> list[str]:
    """The options of a command line that ask for the same; none for the defaults."""
    words = []
    if options.checkpoint_s != CHECKPOINT_S:
        words += ["--checkpoint-every", f"{options.checkpoint_s:g}s"]
    if options.keep_agent is not None:
        words += ["--keep-agent", options.keep_agent]
    if options.kept_agent_bytes is not None:
        words += ["--keep-agent-bytes", str(options.kept_agent_bytes)]
    if options.tracker is not None:
        words += ["--track", options.tracker]
    return words


def parse_seconds(text: str, option: str) -> float:
    """Reads a time: `300s`, `5m`, `1h`; a bare number is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if seconds <= 0:
        raise ConfigError(
            f"{option}: expected a time as 300s, 5m or 1h, found {text!r}"
        )
    return seconds
