"""Runs and packs -> probes of their agents, planned and played here or on Ray.

    <experiment>/probes/<run>/fresh/         a probe: a run directory with probe.json
    <experiment>/probes/<run>/visit-<i>/
    <experiment>/probes/<run>/agent/         states that were made again from the log

The same request continues what was stopped. Where a run has not kept the states of its
agent, the agent is played again, checked row by row, and saved after every visit; that
takes as long as the run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from longplay.agents.isolation.levels import Isolation
from longplay.agents.source.loading import LoadedAgent
from longplay.agents.source.saved import load_recorded
from longplay.contract.documents import AgentIsolation, IsolationLevel
from longplay.contract.files import make_directory, write_document
from longplay.contract.layout import find_run_groups, probes_of
from longplay.contract.rundir import KEPT_AGENT, RunDirectory, is_pack, is_run
from longplay.errors import ConfigError, IncompleteRunError, NotARunError, RunFailed
from longplay.experiments.conclusion import lock_experiment
from longplay.experiments.job import RayPlace, RunResult, play_job
from longplay.experiments.probe_job import ProbeJob
from longplay.plan import plan_again
from longplay.probes import (
    FRESH,
    Choice,
    Origin,
    ProbeSize,
    choose_cells,
    name_origin,
    read_origin,
)
from longplay.runs.checkpoint import remove_checkpoints
from longplay.runs.loop import Observer
from longplay.runs.probe_states import (
    MADE_STATES,
    MadeStates,
    locate_state,
    read_made_states,
)
from longplay.runs.progress import showing_progress
from longplay.runs.session import ignore_progress, name_progress
from longplay.runs.status import RunView, view_run
from longplay.verify.pack import unpack_run
from longplay.verify.pack_file import PackFile
from longplay.verify.reexecution import make_states

# Seconds until a new emulator has started a game; measured.
_START_S = 0.09

# Called with a line for the user.
Teller = Callable[[str], None]


def _ignore(text: str) -> None:
    """The default teller: does nothing."""


@dataclass(frozen=True)
class ProbeRequest:
    """How agents are probed.

    Attributes:
        choice: Which games each state is asked for.
        branches: Branches of each game; None for the default of the track.
        frames: Frames of a branch; None for the default of the track.
        agent: The agent, unless it is built in.
        isolation: How the agent is isolated; None for as in its run.
        out: Folder of the probes; None for `probes/` of the experiment, or beside a
            run or pack alone.
    """

    choice: Choice = "due"
    branches: int | None = None
    frames: int | None = None
    agent: str | None = None
    isolation: Isolation | None = None
    out: Path | None = None

    def __post_init__(self) -> None:
        if self.choice not in ("due", "all"):
            raise ConfigError(f"games: expected due or all, found {self.choice!r}")
        for name in ("branches", "frames"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name}: expected at least 1, found {value}")


class ProbedRun:
    """A run or a pack whose agent is probed.

    Attributes:
        path: The run directory or the pack.
        run: Its documents; the rows too, if it is a run directory.
        folder: Where its probes are.
        cells: State -> the games that it is asked for.
        size: Branches and frames.
    """

    def __init__(self, path: Path, run: RunDirectory, request: ProbeRequest) -> None:
        self.path = path
        self.run = run
        self._request = request
        self.of = name_origin(run)
        home = probes_of(path)
        self.folder = home if request.out is None else request.out / home.name
        config = run.config
        self.cells = choose_cells(config.played_schedule, config.games, request.choice)
        assert config.config_given is not None  # `name_origin` requires it
        plan = plan_again(config.config_given, self.of.seed, self.of.suite)
        default = ProbeSize.default(plan)
        self.size = ProbeSize(
            default.branches if request.branches is None else request.branches,
            default.frames if request.frames is None else request.frames,
        )

    @property
    def name(self) -> str:
        """Its name in progress lines."""
        return self.folder.name

    @property
    def branches(self) -> int:
        """Branches of all probes."""
        return self.size.branches * sum(map(len, self.cells.values()))

    @property
    def expected_s(self) -> float | None:
        """Estimated seconds of all branches; None if the run's speed is not known."""
        fps = None if self.run.summary is None else self.run.summary.fps
        if not fps:
            return None
        return self.branches * (self.size.frames / fps + _START_S)

    @property
    def making_s(self) -> float:
        """Estimated seconds of making states again; 0 if that is not needed."""
        if not self._missing or read_made_states(self.folder, self.of) is not None:
            return 0.0
        return 0.0 if self.run.summary is None else self.run.summary.wall_time_s

    @cached_property
    def _kept(self) -> dict[str, str]:
        """State -> hash, of the states that the run has kept."""
        if self._is_pack or self.run.summary is None:
            return {}
        recorded = self.run.summary.agent_states or {}
        folder = self.path / KEPT_AGENT
        return {s: e.sha256 for s, e in recorded.items() if (folder / s).is_dir()}

    @property
    def _missing(self) -> bool:
        return bool(self.cells.keys() - self._kept.keys() - {FRESH})

    @property
    def _is_pack(self) -> bool:
        return is_pack(self.path)

    def load_agent(self) -> LoadedAgent:
        """The agent of the run.

        Raises:
            AgentLoadError: It is not built in and not given, or is another agent.
        """
        config, isolation = self.run.config, self._request.isolation
        if isolation is None:
            recorded = config.agent_isolation or AgentIsolation()
            isolation = Isolation.from_record(recorded)
            isolation.check_available()
        return load_recorded(config, self._request.agent, isolation)

    def read_origin(
        self, agent: LoadedAgent, observer: Observer, tell: Teller
    ) -> Origin:
        """What the probes start from; states that are missing are made again.

        Raises:
            CannotVerifyError: The agent does not give the rows of its run again.
            LongplayError: The run or the pack cannot be read.
        """
        made = read_made_states(self.folder, self.of)
        if not self._is_pack:
            origin = read_origin(self.run)
            origin = dataclasses.replace(origin, state_sha256=self._kept)
            if self._missing and made is None:
                self._make_states(self.path, origin, agent, observer, tell)
            return origin
        if made is not None:
            return Origin(self.run.config, self.of, dict(made.pending), {})
        tell(f"{self.path}: replaying the pack")
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".unpacked-") as place:
            run_dir = unpack_run(self.path, Path(place) / self.name)
            origin = dataclasses.replace(
                read_origin(RunDirectory(run_dir)), state_sha256={}
            )
            self._make_states(run_dir, origin, agent, observer, tell)
        return origin

    def _make_states(
        self,
        run_dir: Path,
        origin: Origin,
        agent: LoadedAgent,
        observer: Observer,
        tell: Teller,
    ) -> None:
        summary = self.run.summary
        wall_time_s = 0.0 if summary is None else summary.wall_time_s
        tell(
            f"{self.path}: the run has not kept all states of its agent; it is played "
            f"again to make them, which takes about {wall_time_s:,.0f} s"
        )
        watch = name_progress(f"{self.name} again", observer)
        states = make_states(run_dir, origin.config, agent, self.folder, watch)
        record = MadeStates(of=self.of, pending=origin.pending, states=states)
        write_document(self.folder / MADE_STATES, record)

    def make_jobs(self, agent: LoadedAgent, origin: Origin) -> Iterator[ProbeJob]:
        """The probes that are not complete.

        Raises:
            ConfigError: The folder has other probes.
            DocumentError: A state is missing.
        """
        for state, games in self.cells.items():
            plan = origin.plan_probe(state, games, self.size)
            assert plan.probe is not None
            place = locate_state(self.folder, plan.probe, self.path)
            run_dir = self.folder / state
            job = ProbeJob.plan_for(plan, agent, run_dir, place, origin)
            if difference := job.describe_other():
                raise ConfigError(
                    f"{run_dir} has another probe: {difference}; choose another folder "
                    "with -o"
                )
            if view_run(plan, run_dir).state == "COMPLETED":
                remove_checkpoints(run_dir)  # its process may have been killed earlier
            else:
                yield job


@dataclass(frozen=True)
class ProbeResult:
    """The probes of one run's agent.

    Attributes:
        run: The run directory or pack.
        directory: The folder of its probes, one per state.
        probes: How the probes that were just played ended.
    """

    run: Path
    directory: Path
    probes: tuple[RunResult, ...]

    @property
    def is_valid(self) -> bool:
        """Whether all of them are complete and valid."""
        return all(result.is_valid is True for result in self.probes)


def find_probed_runs(
    paths: Sequence[Path], request: ProbeRequest, tell: Teller = _ignore
) -> list[ProbedRun]:
    """The complete runs and packs at or below some paths.

    Args:
        paths: Runs, experiments, packs, or folders of them.
        request: How agents are probed.
        tell: Called with a line about each run that is left out.

    Raises:
        ConfigError: A path is a probe.
        IncompleteRunError: A path is a run that has not ended.
        NotARunError: There is no complete run.
    """
    found = []
    for path in paths:
        is_named = is_pack(path) or is_run(path)
        for group in find_run_groups(path):
            for place in (*group.runs, *group.packs):
                try:
                    found.append(ProbedRun(place, _read_documents(place), request))
                except (ConfigError, IncompleteRunError) as error:
                    if is_named:
                        raise
                    tell(f"left out: {error}")
    if not found:
        raise NotARunError(f"expected a complete run in {', '.join(map(str, paths))}")
    return found


def _read_documents(path: Path) -> RunDirectory:
    if not is_pack(path):
        return RunDirectory(path)
    with PackFile(path) as packed:
        return packed.read_documents()


class Probing:
    """Plays the probes of some runs.

    Args:
        runs: From `find_probed_runs`.
        observer: Called with the progress.
        tell: Called with lines for the user.
    """

    def __init__(
        self,
        runs: Sequence[ProbedRun],
        observer: Observer = ignore_progress,
        tell: Teller = _ignore,
    ) -> None:
        self._runs = runs
        self._observer = observer
        self._tell = tell
        self._agents: dict[Path, LoadedAgent] = {}

    def play(self) -> list[ProbeResult]:
        """Plays the probes one after the other in this process.

        Raises:
            RunCancelled: Ctrl-C.
            LongplayError: A run, its agent or a state cannot be used.
        """
        results: dict[Path, RunResult] = {}
        with self._prepared() as jobs:
            for number, job in enumerate(jobs, start=1):
                name = f"{job.run_dir.parent.name} {job.run_dir.name}"
                label = f"{number}/{len(jobs)} {name}"
                watch = name_progress(label, self._observer)
                agent = self._agents[job.run_dir]
                results[job.run_dir] = play_job(job, agent, watch)
        return self._collect(results)

    def play_on_ray(
        self,
        place: RayPlace,
        on_change: Callable[[list[RunView]], None] = lambda views: None,
    ) -> list[ProbeResult]:
        """Plays the probes on Ray, one task per state.

        States that a run has not kept are made in this process before that.

        Args:
            place: Where Ray plays them.
            on_change: Called regularly with the progress of all probes.

        Raises:
            MissingExtraError: Ray is not installed; nothing was written.
            RunCancelled: Ctrl-C; the workers are stopped.
        """
        from longplay.experiments.ray_pool import RayPool

        results: dict[Path, RunResult] = {}
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(RayPool(place))
            jobs = stack.enter_context(self._prepared())

            def collect(job: object, result: RunResult) -> None:
                results[result.run_dir] = result

            def show(running: object) -> None:
                on_change([view_run(job.plan, job.run_dir) for job in jobs])

            pool.run(jobs, collect, show)
        return self._collect(results)

    @contextlib.contextmanager
    def _prepared(self) -> Iterator[list[ProbeJob]]:
        """The probes to play; their folders are locked meanwhile."""
        with contextlib.ExitStack() as stack:
            jobs: list[ProbeJob] = []
            for run in self._runs:
                agent = run.load_agent()
                make_directory(run.folder, exist_ok=True)
                stack.enter_context(lock_experiment(run.folder))
                origin = run.read_origin(agent, self._observer, self._tell)
                own = list(run.make_jobs(agent, origin))
                self._agents |= dict.fromkeys((job.run_dir for job in own), agent)
                jobs += own
            yield jobs

    def _collect(self, results: dict[Path, RunResult]) -> list[ProbeResult]:
        folders = [run.folder.absolute() for run in self._runs]
        return [
            ProbeResult(
                run.path,
                run.folder,
                tuple(r for place, r in results.items() if place.parent == folder),
            )
            for run, folder in zip(self._runs, folders, strict=True)
        ]


def probe(
    *paths: str | Path,
    games: Choice = "due",
    branches: int | None = None,
    frames: int | None = None,
    agent: str | None = None,
    isolate: IsolationLevel | Isolation | None = None,
    out: str | Path | None = None,
    observer: Observer = ignore_progress,
    progress: bool | None = None,
) -> tuple[ProbeResult, ...]:
    """Measures how well saved states of agents play the games of their runs.

    Args:
        paths: Runs, experiments, packs, or folders of them.
        games: `due`: after each visit the game just played and the next one, and all
            games at the start and at the end; `all`: every game after every visit.
        branches: Branches of each game; by default 8, of predictors 2.
        frames: Frames of a branch; by default 500 decisions.
        agent: The agent, unless it is built in.
        isolate: How the agent is isolated; by default as in its run.
        out: Folder of the probes; by default `probes/` of the experiment, or beside a
            run or pack alone.
        observer: Called with the progress a few times per second.
        progress: Whether to show a line of progress; by default on a terminal and in a
            notebook.

    Returns:
        For each run, its probes. Probes that were complete are not played again.

    Raises:
        RunCancelled: Ctrl-C; the same call continues.
        RunFailed: A probe failed. The others were played anyway.
        LongplayError: A run, its agent or one of its states cannot be probed.
    """
    isolation = Isolation(isolate) if isinstance(isolate, str) else isolate
    folder = None if out is None else Path(out)
    request = ProbeRequest(games, branches, frames, agent, isolation, folder)
    runs = find_probed_runs([Path(path) for path in paths], request)
    with showing_progress(progress, observer) as watch:
        results = Probing(runs, watch).play()
    for result in results:
        for played in result.probes:
            if played.state != "COMPLETED":
                raise RunFailed(f"{played.run_dir}: {played.error}")
    return tuple(results)
