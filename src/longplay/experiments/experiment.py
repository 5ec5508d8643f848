"""Agent x suite x seeds -> an experiment directory with its EvalLog.

    runs/<UTC>_<suite>_<agent>_<8 hex>/        or exactly DIR with --out DIR
      experiment_config.json                   the plan, written before the first frame
      experiment_record.json                   the same for ATLAS, with agent and code
      experiment_summary.json                  how each run ended
      episodes/<suite>_seed-<n>/               a run directory, with episode_record.json
      archive/<suite>_seed-<n>/<try>/          earlier attempts of restarted runs

One seed is an experiment of one. A lock ensures that only one process works on an
experiment at a time. All of its state is on disk, so another process can continue after
one was killed. Runs on Ray are bit-identical to runs played here sequentially.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from longplay.agents.isolation.levels import NOT_ISOLATED, Isolation
from longplay.agents.isolation.remote import load_agent_at
from longplay.agents.source.config import AgentConfig
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.confidential import check_no_secrets
from longplay.contract.documents import IsolationLevel
from longplay.contract.files import (
    check_no_links,
    make_directory,
    read_document,
    write_document,
)
from longplay.contract.layout import (
    EXPERIMENT_CONFIG,
    RUN_REQUEST,
    ExperimentConfig,
    RunRequest,
    find_experiment,
    is_experiment,
    read_experiment_config,
    run_dir_of,
)
from longplay.contract.rundir import RunDirectory
from longplay.errors import ConfigError, LongplayError, OutputError
from longplay.eval_log.log import EvalLog
from longplay.eval_log.records import ExperimentRecord
from longplay.eval_log.run_records import EXPERIMENT_FILE
from longplay.eval_log.tasks import Benchmark, check_distinct
from longplay.experiments.conclusion import (
    lock_experiment,
    read_record,
    write_summary,
)
from longplay.experiments.differences import describe_differences
from longplay.experiments.job import (
    ONE_CPU,
    Job,
    Needs,
    RayPlace,
    RunResult,
    open_session,
    play_job,
)
from longplay.plan import (
    RunPlan,
    plan_again,
    plan_probe,
    plan_run,
)
from longplay.runs.checkpoint import remove_checkpoints
from longplay.runs.loop import Observer
from longplay.runs.options import DEFAULT_OPTIONS, RunOptions
from longplay.runs.progress import showing_progress
from longplay.runs.session import Session, ignore_progress, name_progress
from longplay.runs.status import STALL_TIMEOUT_S, RunView, archive_try, view_run
from longplay.suites import FIRST_TUNING_SEED, describe_seeds

if TYPE_CHECKING:
    from longplay.agents.protocol import StreamingAgent

# The parts of experiment_config.json that were asked for; the others follow from them.
_REQUESTED = ("config_given", "seeds", "agent", "tuning_frames")
# Seconds that one of several processes waits for another one's records.
_SHARED_WAIT_S = 60.0


def view_runs(
    directory: Path, stall_timeout_s: float = STALL_TIMEOUT_S
) -> list[RunView]:
    """The progress of every planned run, or of the one run of a run directory.

    The agent is not imported.
    """
    if (directory / RUN_REQUEST).is_file():
        request = read_document(directory / RUN_REQUEST, RunRequest)
        plan = plan_again(request.config_given, request.seed, request.suite)
        run = RunDirectory(directory)
        if run.has_config and run.config.probe is not None:
            games = tuple(dict.fromkeys(v.game_id for v in run.config.schedule))
            plan = plan_probe(plan, run.config.probe, games)
        return [view_run(plan, directory, stall_timeout_s)]
    started = {path.name for path in (directory / "episodes").glob("*")}
    views = []
    for plan in read_plans(directory):
        run_dir = run_dir_of(directory, plan.trajectory_id)
        if run_dir.name in started:
            views.append(view_run(plan, run_dir, stall_timeout_s))
        else:
            views.append(RunView(plan, run_dir, "QUEUED", None))
    return views


def read_plans(directory: Path) -> tuple[RunPlan, ...]:
    """The planned runs of an experiment."""
    config = read_experiment_config(directory)
    return plan_again(config.config_given, config.seeds[0]).repeat(config.seeds)


@dataclass(frozen=True)
class ExperimentResult:
    """The results of the runs that were just played."""

    directory: Path
    runs: tuple[RunResult, ...]

    def _repr_html_(self) -> str:
        """The results as a notebook shows them: a line per run."""
        from longplay.tables import TextTable, render_html

        rows = [
            (
                str(run.seed),
                run.state,
                {True: "valid", False: "not valid", None: None}[run.is_valid],
                None if run.score is None else run.score.headline,
            )
            for run in self.runs
        ]
        columns = ("seed", "state", "validation", "score")
        return render_html(TextTable.of(str(self.directory), columns, rows, 3))


@dataclass(frozen=True)
class Experiment:
    """One agent on one suite over one or more seeds, in one directory.

    `create` plans a new one; `open` and `resume` continue one that was started.

    Attributes:
        plans: The planned runs.
        agent: The agent of all runs.
        directory: The experiment directory.
        may_exist: Whether the directory may exist: with this experiment, or empty after
            a process that was killed at its start.
        may_restart: Whether a stopped run that cannot be resumed is archived and
            restarted; otherwise its error says why it cannot.
        selected: Trajectory id of the only run to play; None for all runs.
        needs: What each run needs of the machine that plays it.
        tuning_frames: Frames that were spent on tuning the agent; None if unknown.
        options: How the runs are played.
        plays_completed: Whether completed runs are archived and played again.
    """

    plans: tuple[RunPlan, ...]
    agent: LoadedAgent
    directory: Path
    may_exist: bool = False
    may_restart: bool = True
    selected: str | None = None
    needs: Needs = ONE_CPU
    tuning_frames: int | None = None
    options: RunOptions = DEFAULT_OPTIONS
    plays_completed: bool = False

    @classmethod
    def create(
        cls,
        plans: tuple[RunPlan, ...],
        agent: str | Callable[..., StreamingAgent],
        *,
        name: str | None = None,
        out: str | Path | None = None,
        agent_args: Mapping[str, Any] | None = None,
        agent_files: Sequence[str] = (),
        isolation: Isolation = NOT_ISOLATED,
    ) -> Experiment:
        """A new experiment; nothing is written, and the agent is imported, not built.

        Raises:
            AgentLoadError: The agent cannot be imported.
            ConfigError: Its arguments contain something like a password, or its name
                is empty.
        """
        if name == "":
            raise ConfigError("expected at least one character", option="name")
        loaded = load_agent_at(isolation, agent, agent_args, agent_files)
        loaded = loaded.with_name(name)
        check_no_secrets(loaded.entry.config, "agent config")
        directory = default_directory(plans[0], loaded) if out is None else Path(out)
        return cls(plans, loaded, directory)

    @classmethod
    def resume(cls, directory: Path, spec: str | None = None) -> Experiment:
        """As `open`; stopped runs are resumed, and never restarted."""
        return replace(cls.open(directory, spec), may_restart=False)

    @classmethod
    def open(
        cls,
        directory: Path,
        spec: str | None = None,
        isolation: Isolation | None = None,
    ) -> Experiment:
        """Opens an existing experiment.

        Args:
            directory: The experiment; or one of its run directories, to play only
                that run.
            spec: The agent, unless it is built in.
            isolation: Other limits than the recorded ones; the level is the same.

        Raises:
            AgentLoadError: The agent is missing, or differs from the recorded one.
            ConfigError: The isolation level differs from the recorded one.
        """
        experiment_dir = find_experiment(directory)
        config = read_experiment_config(experiment_dir)
        recorded = config.agent_isolation
        if isolation is None:
            isolation = Isolation.from_record(recorded)
        elif isolation.level != recorded.level:
            raise ConfigError(
                f"--isolate: {experiment_dir} was started with {recorded.level}, found "
                f"{isolation.level}; a run continues at the same isolation level"
            )
        agent_config = AgentConfig.from_entry(config.agent)
        agent = agent_config.load(spec, config.agent_files, isolation)
        agent = agent.with_name(config.agent.name)
        selected = None if experiment_dir == directory else directory.absolute().name
        return cls(
            read_plans(experiment_dir),
            agent,
            experiment_dir,
            may_exist=True,
            selected=selected,
            tuning_frames=config.tuning_frames,
        )

    @cached_property
    def benchmark(self) -> Benchmark:
        """The suite with the planned seeds."""
        return Benchmark.from_plans(self.plans)

    @property
    def name(self) -> str:
        """The name of the experiment in records."""
        return f"{self.plans[0].benchmark_name}_{self.agent.name}"

    def run_dir(self, plan: RunPlan) -> Path:
        """The directory of a run."""
        return run_dir_of(self.directory, plan.trajectory_id)

    def view(self, stall_timeout_s: float = STALL_TIMEOUT_S) -> list[RunView]:
        """The progress of every planned run."""
        return [
            view_run(plan, self.run_dir(plan), stall_timeout_s) for plan in self.plans
        ]

    def view_selected(self, stall_timeout_s: float = STALL_TIMEOUT_S) -> list[RunView]:
        """The progress of the runs that this experiment plays."""
        return [
            view
            for view in self.view(stall_timeout_s)
            if self.selected in (None, view.plan.trajectory_id)
        ]

    # --- running ------------------------------------------------------------------

    @contextlib.contextmanager
    def drive(
        self, prepare: Callable[[], None] = lambda: None
    ) -> Iterator[list[RunResult]]:
        """Creates or opens the experiment and locks it against other processes.

        At the end, also after an error, the summary and the records are written,
        unless no run could be resumed and nothing has changed.

        Args:
            prepare: Called for a new experiment, before its folder is created.

        Yields:
            A list for the results.

        Raises:
            OutputError: The folder exists, the disk is too small, or another process
                holds the lock.
        """
        record = None
        if not self._is_planned:
            self.check_output()
            prepare()
            # Before the folder exists, which might make the checkout dirty.
            record = self._make_record()
            make_directory(self.directory, exist_ok=self.may_exist)
        with self.lock():
            if record is not None:
                self.write_plan(record)
            with self._concluding(contextlib.nullcontext) as results:
                yield results

    @contextlib.contextmanager
    def drive_shared(self) -> Iterator[list[RunResult]]:
        """As `drive`, for one of several processes that play different runs.

        The lock is held only while the experiment is created and while its records are
        written. The processes must agree on which of them plays which run.

        Yields:
            A list for the results.
        """
        make_directory(self.directory, exist_ok=True)
        with self.lock(_SHARED_WAIT_S):
            if not is_experiment(self.directory):
                self.write_plan()
        with self._concluding(lambda: self.lock(_SHARED_WAIT_S)) as results:
            yield results

    @contextlib.contextmanager
    def _concluding(
        self, lock: Callable[[], contextlib.AbstractContextManager[None]]
    ) -> Iterator[list[RunResult]]:
        """Writes summary and records at the end, also after an error."""
        results: list[RunResult] = []
        try:
            yield results
        except BaseException:
            # The first error is the one to report.
            with contextlib.suppress(LongplayError), lock():
                self.conclude()
            raise
        if not results or not all(result.is_refused for result in results):
            with lock():
                self.conclude()

    @property
    def _is_planned(self) -> bool:
        """Whether the plan is already on disk."""
        return self.may_exist and is_experiment(self.directory)

    def write_plan(self, record: ExperimentRecord | None = None) -> None:
        """Writes the plan; the config comes last, since it marks an experiment.

        Args:
            record: Agent and code, if they were read before the folder was created.
        """
        record = record or self._make_record()
        # Written now: it names the code that runs, not the code that exports.
        write_document(self.directory / EXPERIMENT_FILE, record)
        config = self._describe(record.experiment_id)
        write_document(self.directory / EXPERIMENT_CONFIG, config)

    def _describe(self, experiment_id: str) -> ExperimentConfig:
        return ExperimentConfig(
            experiment_id=experiment_id,
            experiment_name=self.name,
            suite=self.plans[0].benchmark_name,
            seeds=tuple(plan.seed for plan in self.plans),
            n_tasks=len(self.plans),
            config_given=self.plans[0].given,
            agent=self.agent.entry,
            agent_files=self.agent.patterns,
            agent_isolation=self.agent.isolation.to_record(),
            tuning_frames=self.tuning_frames,
        )

    def open_or_create(self) -> Experiment:
        """This experiment, whether or not its folder exists already.

        The same command line then starts or resumes a run, which suits cluster jobs
        that are requeued.

        Raises:
            ConfigError: The folder has another experiment; names the first difference.
        """
        self.check_same()
        return replace(self, may_exist=True, may_restart=False)

    def check_same(self, parts: Sequence[str] = _REQUESTED) -> None:
        """Refuses to continue the experiment in the folder if it is another one.

        Raises:
            ConfigError: Names the first difference.
        """
        if not is_experiment(self.directory):
            return
        started = read_experiment_config(self.directory)
        requested = self._describe(started.experiment_id)
        was, wanted = (_requested(config, parts) for config in (started, requested))
        found = describe_differences(str(self.directory), was, wanted)
        if found:
            raise ConfigError(f"{found[0]}; choose another folder for --out")

    def check_output(self) -> None:
        """Refuses a folder that exists, and a disk too small for all runs."""
        may_exist = self.may_exist and self._is_empty()
        if not _is_utf8(self.directory):
            raise OutputError(
                f"{self.directory}: expected a path in UTF-8; choose another folder "
                "for --out"
            )
        if self.directory.is_symlink():
            raise OutputError(
                f"{self.directory} is a symbolic link; choose a new folder for --out"
            )
        if self.directory.exists() and not may_exist:
            raise OutputError(
                f"{self.directory} exists already; choose a new folder for --out"
            )
        parents = (self.directory.absolute(), *self.directory.absolute().parents)
        existing = next(parent for parent in parents if parent.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise OutputError(
                f"cannot create {self.directory}: {existing} is not a writable folder; "
                "choose another folder for --out"
            )
        needed_mb = sum(plan.expected_bytes for plan in self.plans) / 1e6
        free_mb = shutil.disk_usage(existing).free / 1e6
        if free_mb < needed_mb:
            raise OutputError(
                f"the run needs about {needed_mb:,.0f} MB of disk, {existing} has "
                f"{free_mb:,.0f} MB free; free some, or choose another folder for --out"
            )

    def check_start(self) -> None:
        """Refuses what playing would refuse before its first frame; writes nothing.

        Raises:
            OutputError: The folder exists, or the disk is too small.
            AgentLoadError: The agent cannot be built.
        """
        if not self._is_planned:
            self.check_output()
        self._open_first(ignore_progress).close()

    def _is_empty(self) -> bool:
        """Whether the folder has no plan yet; it may have a lock or temporary files."""
        if not self.directory.is_dir():
            return False
        names = {path.name for path in self.directory.iterdir()}
        return all(name.startswith(".") or name == EXPERIMENT_FILE for name in names)

    def lock(self, wait_s: float = 0.0) -> contextlib.AbstractContextManager[None]:
        """Keeps other processes out, as `lock_experiment`."""
        return lock_experiment(self.directory, wait_s)

    def run_sequentially(
        self,
        observer: Observer = ignore_progress,
        *,
        validation_workers: int = 1,
        stall_timeout_s: float = STALL_TIMEOUT_S,
    ) -> list[RunResult]:
        """Plays the incomplete runs one after the other in this process.

        The first run of a new experiment is prepared before anything is written: an
        agent that cannot be built leaves no folder behind.

        Args:
            observer: Called with the progress of the current run.
            validation_workers: Processes used for validation.
            stall_timeout_s: A run of another process without a heartbeat for this
                long counts as lost, and is played here.

        Raises:
            AgentLoadError: The agent cannot be built; nothing was written.
            RunCancelled: Ctrl-C; runs that have not started stay queued.
        """
        opened: list[Session] = []
        with self.drive(lambda: opened.append(self._open_first(observer))) as results:
            for job in self.start_jobs(stall_timeout_s):
                watch = self._watch_run(job.plan, observer)
                session = opened.pop() if opened else None
                results.append(
                    play_job(job, self.agent, watch, validation_workers, session)
                )
            return results

    def _open_first(self, observer: Observer) -> Session:
        plan = self.plans[0]
        watch = self._watch_run(plan, observer)
        run_dir = self.run_dir(plan).absolute()
        return open_session(plan, self.agent, run_dir, watch, self.options)

    def _watch_run(self, plan: RunPlan, observer: Observer) -> Observer:
        """Adds the seed to the progress if there are several runs."""
        name = f"seed {plan.seed}" if len(self.plans) > 1 else ""
        return name_progress(name, observer)

    def run_with_ray(
        self,
        place: RayPlace,
        on_change: Callable[[list[RunView]], None] = lambda views: None,
    ) -> list[RunResult]:
        """Plays the incomplete runs on Ray, one task per run.

        Args:
            place: Where Ray plays them.
            on_change: Called regularly with the progress of all runs.

        Raises:
            MissingExtraError: Ray is not installed; nothing was written.
            RunCancelled: Ctrl-C; the workers are stopped.
        """
        from longplay.experiments.ray_pool import RayPool

        stall_timeout_s = place.stall_timeout_s
        with contextlib.ExitStack() as stack:
            pool = stack.enter_context(RayPool(place))
            pool.check_needs([self.needs])
            results = stack.enter_context(self.drive())
            jobs = list(self.start_jobs(stall_timeout_s))
            pool.run(
                jobs,
                lambda job, result: results.append(result),
                lambda running: on_change(self.view(stall_timeout_s)),
            )
            order = [job.seed for job in jobs]
            results.sort(key=lambda result: order.index(result.seed))
            return results

    def start_jobs(self, stall_timeout_s: float = STALL_TIMEOUT_S) -> Iterator[Job]:
        """The jobs of the runs to play."""
        for view in self.view_selected(stall_timeout_s):
            is_again = self.plays_completed and view.state == "COMPLETED"
            if view.is_pending or is_again:
                check_no_links(view.run_dir, self.directory)
                if is_again:
                    archive_try(view.run_dir)
                yield Job.make(
                    view,
                    self.agent,
                    resume_only=not self.may_restart,
                    needs=self.needs,
                    options=self.options,
                )

    # --- records ------------------------------------------------------------------

    def _make_record(self, git_cwd: str | None = None) -> ExperimentRecord:
        return ExperimentRecord.from_experiment(
            self.name,
            self.directory,
            AgentConfig.from_entry(self.agent.entry),
            self.benchmark,
            git_cwd,
        )

    def export_eval_log(
        self, output_dir: Path | None = None, git_cwd: str | None = None
    ) -> EvalLog:
        """Writes and returns the EvalLog of the runs that have ended.

        Args:
            output_dir: Target folder; the experiment directory by default.
            git_cwd: Checkout to read the agent's provenance from; by default the
                one in which the experiment was started.
        """
        record = read_record(self.directory)
        if git_cwd is not None:
            agent = self._make_record(git_cwd).agent
            agent.description = record.agent.description
            record = record.model_copy(update={"agent": agent})
        log = EvalLog.from_directory(self.directory, record)
        log.save(output_dir or self.directory)
        return log

    def conclude(self) -> None:
        """Writes the summary of the runs, and their records."""
        views = self.view()
        for view in views:
            if view.state == "COMPLETED":  # its process may have been killed earlier
                remove_checkpoints(view.run_dir)
        write_summary(self.directory, views)


def _requested(config: ExperimentConfig, parts: Sequence[str]) -> dict[str, Any]:
    """Parts of the requested settings; everything else follows from them."""
    requested = config.model_dump(mode="json", include=set(parts))
    isolation = config.agent_isolation
    level = {"level": isolation.level, "allowed": list(isolation.allowed)}
    return {**requested, "agent_isolation": level}


def default_directory(plan: RunPlan, agent: LoadedAgent) -> Path:
    """runs/<UTC>_<suite>_<agent>_<8 hex>, in the working directory."""
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    agent_name = re.sub(r"[^A-Za-z0-9._-]+", "-", agent.name)
    name = f"{started}_{plan.benchmark_name}_{agent_name}_{secrets.token_hex(4)}"
    return Path("runs") / name


def plan_seeds(
    suite: str,
    seeds: Sequence[int],
    overrides: Mapping[str, Any] | None = None,
    stop_after: float | None = None,
) -> tuple[RunPlan, ...]:
    """Plans a run for each seed; tuning runs, if they stop after a fraction.

    Raises:
        ConfigError: No seeds, a repeated seed, or settings that `plan_run` refuses.
    """
    check_distinct(seeds)
    first = plan_run(suite, seeds[0], overrides, stop_after=stop_after)
    return first.repeat(seeds)


def run(
    suite: str,
    agent: str | Callable[..., StreamingAgent],
    *,
    seeds: Sequence[int] | None = None,
    name: str | None = None,
    out: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
    isolate: IsolationLevel | Isolation = "none",
    observer: Observer = ignore_progress,
    progress: bool | None = None,
) -> ExperimentResult:
    """Runs an agent on a suite, once per seed, and scores and validates the runs.

    Args:
        suite: Id of a suite (`longplay suites`).
        agent: A name, `file.py[:attr]`, `module:attr`, or a class or factory called
            as `agent(num_actions, seed, **agent_args)`.
        seeds: Run seeds; each determines the schedule, emulators and agent of its run.
            By default tuning seed 1000: official seeds are played when they are named.
        name: The agent's name in tables and figures; by default that of its file,
            class, or of a built-in agent.
        out: Experiment directory to create; by default a new one in `runs/`.
        overrides: Settings of the suite to override.
        agent_args: Arguments for the agent.
        agent_files: Patterns of further files of the agent that it does not import,
            such as weights; relative to its folder.
        isolate: `none`, `process` or `sandbox`; or an `Isolation` with its options.
            With `none` the agent runs in this process, and can end it.
        observer: Called with the progress a few times per second.
        progress: Whether to show a line of progress; by default on a terminal and in a
            notebook.

    Returns:
        The directory, and the directory, score and validation report of each run.

    Raises:
        OutputError: The folder exists, or the disk is too small.
        AgentLoadError: The agent cannot be built; nothing was written.
        RunCancelled: Ctrl-C.
        RunFailed: A run failed. The other seeds were played anyway, and everything
            recorded so far is readable.
    """
    experiment = Experiment.create(
        plan_seeds(suite, (FIRST_TUNING_SEED,) if seeds is None else seeds, overrides),
        agent,
        name=name,
        out=out,
        agent_args=agent_args,
        agent_files=agent_files,
        isolation=isolate if isinstance(isolate, Isolation) else Isolation(isolate),
    )
    played = [plan.seed for plan in experiment.plans]
    suite_name = experiment.plans[0].suite_name
    if note := describe_seeds(suite_name, played, are_given=seeds is not None):
        sys.stderr.write(f"longplay: {note}\n")
    with showing_progress(progress, observer) as watch:
        results = experiment.run_sequentially(watch)
    for result in results:
        if result.exception is not None:
            raise result.exception
    return ExperimentResult(experiment.directory, tuple(results))


def _is_utf8(path: Path) -> bool:
    """Whether a path can be written in documents, which are UTF-8."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return False
    return True
