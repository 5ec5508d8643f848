"""Agent x suite x seeds -> an experiment directory with its EvalLog.

    runs/<UTC>_<suite>_<agent>_<8 hex>/        or exactly DIR with --out DIR
      experiment_config.json                   what was planned, before the first frame
      experiment_record.json                   the same for ATLAS, with agent and code
      experiment_summary.json                  how each run ended
      episodes/<suite>_seed-<n>/               a run directory, with episode_record.json
      archive/<suite>_seed-<n>/<try>/          earlier tries that were started again

One seed is an experiment of one. One driver works on an experiment at a time: it holds
a lock. Everything it knows is on disk, so that another driver can continue where one
was killed. Running on Ray means the same as running the seeds here one by one, and
gives the same bytes.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout

from longplay.agents.config import AgentConfig
from longplay.agents.loading import LoadedAgent, load_agent
from longplay.contract.files import (
    make_directory,
    read_document,
    shorten,
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
from longplay.contract.versions import SCHEMA_VERSION
from longplay.errors import ConfigError, LongplayError, OutputError
from longplay.eval_log.export import EXPERIMENT_FILE, EvalLog, save_records
from longplay.eval_log.records import ExperimentRecord
from longplay.eval_log.tasks import Benchmark
from longplay.experiments.job import Job, RunResult, open_session, play_job
from longplay.plan import RunPlan, plan_again, plan_run
from longplay.runs.checkpoint import remove_checkpoints
from longplay.runs.loop import Observer, Progress
from longplay.runs.session import Session, ignore_progress
from longplay.runs.status import STALL_TIMEOUT_S, RunView, view_run

if TYPE_CHECKING:
    from longplay.agents.protocol import StreamingAgent


def view_runs(
    directory: Path, stall_timeout_s: float = STALL_TIMEOUT_S
) -> list[RunView]:
    """Where every planned run of an experiment is, or the one run of a run directory.

    Nothing of the agent is imported for that.
    """
    if (directory / RUN_REQUEST).is_file():
        request = read_document(directory / RUN_REQUEST, RunRequest)
        plan = plan_again(request.config_given, request.seed)
        return [view_run(plan, directory, stall_timeout_s)]
    return [
        view_run(plan, run_dir_of(directory, plan.trajectory_id), stall_timeout_s)
        for plan in _make_plans(read_experiment_config(directory))
    ]


def _make_plans(config: ExperimentConfig) -> tuple[RunPlan, ...]:
    return tuple(plan_again(config.config_given, seed) for seed in config.seeds)


class Mode(Enum):
    """What an experiment may do with its folder, and with runs that were stopped."""

    # The folder is new.
    CREATE = "create"
    # The folder may be left, empty, by a process that was killed at its very start.
    CREATE_OR_RESUME = "create or resume"
    # A run that was started continues, or says why it cannot; it never starts again.
    RESUME = "resume"
    # A run that cannot continue is archived and starts again.
    RETRY = "retry"


@dataclass(frozen=True)
class ExperimentResult:
    """How the runs of an experiment ended, those played just now."""

    directory: Path
    runs: tuple[RunResult, ...]


@dataclass
class Experiment:
    """One agent on one suite over one or more seeds, in one directory.

    Attributes:
        plans: The runs planned.
        agent: Plays all of them.
        directory: Where they are recorded.
        mode: What may be done with what is there.
        selected: Trajectory id of the one run to be played, if not all of them.
    """

    plans: tuple[RunPlan, ...]
    agent: LoadedAgent
    directory: Path
    mode: Mode = Mode.CREATE
    selected: str | None = None

    @classmethod
    def open(
        cls, directory: Path, reference: str | None = None, mode: Mode = Mode.RETRY
    ) -> Experiment:
        """Opens an experiment that was started.

        Args:
            directory: Where it is; or one of its run directories, and only that run
                is played.
            reference: The agent again, if it is not one of longplay's own.
            mode: Whether runs that were stopped only continue, or may start again.

        Raises:
            AgentLoadError: The agent is not given, or is another one.
        """
        experiment_dir = find_experiment(directory)
        config = read_experiment_config(experiment_dir)
        agent_config = AgentConfig.from_entry(config.agent)
        agent = agent_config.load(reference, config.agent_files)
        selected = None if experiment_dir == directory else directory.absolute().name
        return cls(_make_plans(config), agent, experiment_dir, mode, selected)

    @cached_property
    def benchmark(self) -> Benchmark:
        """The suite with the seeds planned."""
        return Benchmark.from_plans(self.plans)

    @property
    def name(self) -> str:
        """What the experiment is called in records."""
        return f"{self.plans[0].benchmark_name}_{self.agent.name}"

    def run_dir(self, plan: RunPlan) -> Path:
        """Where a run is recorded."""
        return run_dir_of(self.directory, plan.trajectory_id)

    def view(self, stall_timeout_s: float = STALL_TIMEOUT_S) -> list[RunView]:
        """Where every planned run is."""
        return [
            view_run(plan, self.run_dir(plan), stall_timeout_s) for plan in self.plans
        ]

    def view_selected(self, stall_timeout_s: float = STALL_TIMEOUT_S) -> list[RunView]:
        """Where the runs are that this experiment was opened to play."""
        return [
            view
            for view in self.view(stall_timeout_s)
            if self.selected in (None, view.plan.trajectory_id)
        ]

    # --- running ------------------------------------------------------------------

    @contextlib.contextmanager
    def drive(self) -> Iterator[list[RunResult]]:
        """Starts the experiment or continues it, and keeps other drivers out.

        However it ends, the results of its runs are written down; unless every run
        refused to be resumed, and nothing has changed.

        Yields:
            A list for the results.

        Raises:
            OutputError: The folder exists, the disk is too small, or another driver
                is at work.
        """
        results: list[RunResult] = []
        record = None
        if not self._is_planned:
            self.check_output()
            # Before the folder is there, which might make the checkout dirty.
            record = self._make_record()
            make_directory(self.directory, exist_ok=self.mode is Mode.CREATE_OR_RESUME)
        with self._lock():
            if record is not None:
                self._write_plan(record)
                is_new = self.mode is Mode.CREATE
                self.mode = Mode.RETRY if is_new else Mode.RESUME
            try:
                yield results
            except BaseException:
                # What went wrong first is what counts.
                with contextlib.suppress(LongplayError):
                    self._conclude()
                raise
            if not results or not all(result.is_refused for result in results):
                self._conclude()

    @property
    def _is_planned(self) -> bool:
        """Whether the plan is on disk already."""
        return self.mode is not Mode.CREATE and is_experiment(self.directory)

    def _write_plan(self, record: ExperimentRecord) -> None:
        """Writes what is planned; the config last, which makes it an experiment."""
        # Now, so that it names the code that runs and not the one that exports.
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
        )

    def open_or_create(self) -> Experiment:
        """This experiment, whether its folder has been started or not.

        The same command line then starts a run or continues it, as a cluster job that
        is queued again needs it.

        Raises:
            ConfigError: Another experiment was started there; names what differs first.
        """
        if not is_experiment(self.directory):
            return replace(self, mode=Mode.CREATE_OR_RESUME)
        started = read_experiment_config(self.directory)
        requested = self._describe(started.experiment_id)
        was, wanted = _flatten_settings(started), _flatten_settings(requested)
        for name in {**was, **wanted}:
            if was.get(name) != wanted.get(name):
                raise ConfigError(
                    f"{name}: {self.directory} was started with {_show(was, name)}, "
                    f"found {_show(wanted, name)}; give --out another folder"
                )
        return replace(self, mode=Mode.RESUME)

    def check_output(self) -> None:
        """Refuses a folder that exists, and a disk too small for all runs."""
        may_exist = self.mode is Mode.CREATE_OR_RESUME and self._is_empty()
        if self.directory.exists() and not may_exist:
            raise OutputError(
                f"{self.directory} exists already; give --out a folder that does not"
            )
        parents = (self.directory.absolute(), *self.directory.absolute().parents)
        existing = next(parent for parent in parents if parent.exists())
        if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
            raise OutputError(
                f"cannot make {self.directory}: {existing} is not a folder that can be "
                "written to; give --out another one"
            )
        needed_mb = sum(plan.expected_bytes for plan in self.plans) / 1e6
        free_mb = shutil.disk_usage(existing).free / 1e6
        if free_mb < needed_mb:
            raise OutputError(
                f"the run needs about {needed_mb:,.0f} MB of disk, {existing} has "
                f"{free_mb:,.0f} MB free; make room, or give --out a folder elsewhere"
            )

    def _is_empty(self) -> bool:
        """Whether nothing was planned there yet; a lock and scraps do not count."""
        if not self.directory.is_dir():
            return False
        names = {path.name for path in self.directory.iterdir()}
        return all(name.startswith(".") or name == EXPERIMENT_FILE for name in names)

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        lock = FileLock(self.directory / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise OutputError(
                f"{self.directory}: another longplay is at work on this experiment; "
                "wait for it, or stop it first"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def run_sequentially(
        self,
        observer: Observer = ignore_progress,
        *,
        validation_workers: int = 1,
        stall_timeout_s: float = STALL_TIMEOUT_S,
    ) -> list[RunResult]:
        """Plays the runs that are not complete, one after the other, here.

        The first run of a new experiment is prepared before anything is written: an
        agent that cannot be built leaves no folder behind.

        Args:
            observer: Called with the progress of the run under way.
            validation_workers: Processes that validate.
            stall_timeout_s: A run of another process without a heartbeat for so long
                counts as lost, and is played again.

        Raises:
            AgentLoadError: The agent cannot be built; nothing was written.
            RunCancelled: Ctrl-C; the runs not started stay planned.
        """
        session = None if self._is_planned else self._prepare_first(observer)
        with self.drive() as results:
            for job in self._start_jobs(stall_timeout_s):
                watch = self._watch_run(job.plan, observer)
                results.append(
                    play_job(job, self.agent, watch, validation_workers, session)
                )
                session = None
            return results

    def _prepare_first(self, observer: Observer) -> Session:
        self.check_output()
        plan = self.plans[0]
        watch = self._watch_run(plan, observer)
        return open_session(plan, self.agent, self.run_dir(plan).absolute(), watch)

    def _watch_run(self, plan: RunPlan, observer: Observer) -> Observer:
        """Tells the observer which run it sees, where there are several."""
        name = f"seed {plan.seed}" if len(self.plans) > 1 else ""

        def watch(progress: Progress) -> None:
            observer(replace(progress, run=name))

        return watch

    def run_with_ray(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        retries: int = 1,
        stall_timeout_s: float = STALL_TIMEOUT_S,
        on_change: Callable[[list[RunView]], None] = lambda views: None,
    ) -> list[RunResult]:
        """Plays the runs that are not complete as Ray tasks, one task a run.

        Args:
            workers: Runs at a time; starts a Ray on this machine with so many.
            address: Or the address of a running cluster.
            retries: How often a run whose worker was lost is started again.
            stall_timeout_s: A run without a heartbeat for so long counts as lost.
            on_change: Called every second with where all runs are.

        Raises:
            MissingExtraError: Ray is not installed; nothing was written.
            RunCancelled: Ctrl-C; the workers are stopped.
        """
        from longplay.experiments.ray_pool import RayPool

        with (
            RayPool(workers, address, retries, stall_timeout_s) as pool,
            self.drive() as results,
        ):
            jobs = list(self._start_jobs(stall_timeout_s))
            results += pool.run(jobs, lambda: on_change(self.view(stall_timeout_s)))
            return results

    def _start_jobs(self, stall_timeout_s: float) -> Iterator[Job]:
        """The runs to be played."""
        resume_only = self.mode is not Mode.RETRY
        for view in self.view_selected(stall_timeout_s):
            if view.is_pending:
                yield Job.make(view, self.agent, resume_only=resume_only)

    # --- records ------------------------------------------------------------------

    def _make_record(self, git_cwd: str | None = None) -> ExperimentRecord:
        return ExperimentRecord.from_experiment(
            self.name,
            self.directory,
            AgentConfig.from_entry(self.agent.entry),
            self.benchmark,
            git_cwd,
        )

    def _read_record(self) -> ExperimentRecord:
        """The record made when the experiment started, to be exported now."""
        record = read_document(self.directory / EXPERIMENT_FILE, ExperimentRecord)
        return record.model_copy(update={"timestamp": time.time()})

    def export_eval_log(
        self, output_dir: Path | None = None, git_cwd: str | None = None
    ) -> EvalLog:
        """Writes the EvalLog of the runs that have ended, and returns it.

        Args:
            output_dir: Where to; the experiment itself if not given.
            git_cwd: A checkout to take the agent's provenance from, if it is not the
                one the experiment was started in.
        """
        record = self._read_record()
        if git_cwd is not None:
            agent = self._make_record(git_cwd).agent
            record = record.model_copy(update={"agent": agent})
        log = EvalLog.from_directory(self.directory, record)
        log.save(output_dir or self.directory)
        return log

    def _conclude(self) -> None:
        """Writes how the runs ended, and their records."""
        views = self.view()
        for view in views:
            if view.state == "COMPLETED":  # its process may have been killed before
                remove_checkpoints(view.run_dir)
        record = self._read_record()
        write_document(
            self.directory / "experiment_summary.json",
            {
                "schema_version": SCHEMA_VERSION,
                "experiment_id": record.experiment_id,
                "experiment_name": self.name,
                "suite": self.plans[0].benchmark_name,
                "n_tasks": len(views),
                "runs": [view.to_json() for view in views],
            },
        )
        save_records(self.directory, record)


def _flatten_settings(config: ExperimentConfig) -> dict[str, object]:
    """What was requested, by dotted names; everything else follows from it."""
    requested = config.model_dump(
        mode="json", include={"config_given", "seeds", "agent"}
    )
    return dict(_iter_leaves(requested))


def _iter_leaves(mapping: Mapping[str, Any], prefix: str = "") -> Iterator[Any]:
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            yield from _iter_leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _show(settings: Mapping[str, object], name: str) -> str:
    """A setting as a message can show it."""
    return shorten(settings[name], 200) if name in settings else "none"


def default_directory(plan: RunPlan, agent: LoadedAgent) -> Path:
    """runs/<UTC>_<suite>_<agent>_<8 hex>, in the working directory."""
    started = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    agent_name = re.sub(r"[^A-Za-z0-9._-]+", "-", agent.name)
    name = f"{started}_{plan.benchmark_name}_{agent_name}_{secrets.token_hex(4)}"
    return Path("runs") / name


def plan_experiment(
    suite: str,
    agent: str | Callable[..., StreamingAgent],
    *,
    seeds: Sequence[int] = (0,),
    out: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
) -> Experiment:
    """Plans an experiment; nothing is written, and the agent is imported, not built."""
    return request_experiment(
        plan_seeds(suite, seeds, overrides),
        agent,
        out=out,
        agent_args=agent_args,
        agent_files=agent_files,
    )


def plan_seeds(
    suite: str,
    seeds: Sequence[int],
    overrides: Mapping[str, Any] | None = None,
    stop_after: float | None = None,
) -> tuple[RunPlan, ...]:
    """Plans a run for each seed; tuning runs, if they stop after a fraction.

    Raises:
        ConfigError: No seed, a seed twice, or what `plan_run` refuses.
    """
    plans = tuple(
        plan_run(suite, seed, overrides, stop_after=stop_after) for seed in seeds
    )
    Benchmark.from_plans(plans)  # each seed once
    return plans


def request_experiment(
    plans: tuple[RunPlan, ...],
    agent: str | Callable[..., StreamingAgent],
    *,
    out: str | Path | None = None,
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
) -> Experiment:
    """An experiment of runs that are planned already.

    Raises:
        AgentLoadError: The agent cannot be imported.
        ConfigError: Its arguments hold something like a password.
    """
    loaded = load_agent(agent, agent_args, agent_files)
    AgentConfig.from_entry(loaded.entry)  # refuses secrets
    directory = Path(out) if out is not None else default_directory(plans[0], loaded)
    return Experiment(plans, loaded, directory)


def run(
    suite: str,
    agent: str | Callable[..., StreamingAgent],
    *,
    seeds: Sequence[int] = (0,),
    out: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
    observer: Observer = ignore_progress,
) -> ExperimentResult:
    """Sends an agent through a suite, once per seed, and scores and validates the runs.

    Args:
        suite: Id of a suite (`longplay suites`).
        agent: A name, `file.py[:attr]`, `module:attr`, or a class or factory called
            as `agent(num_actions, seed, **agent_args)`.
        seeds: Run seeds: schedule, emulators and agent follow from each.
        out: Experiment directory to make; one under `runs/` if not given.
        overrides: Settings of the suite to change.
        agent_args: Arguments for the agent.
        agent_files: Patterns of files that belong to the agent beside those that it
            imports, such as weights; relative to its folder.
        observer: Called with the progress a few times per second.

    Returns:
        The folder, and of each run its folder, score and validation report.

    Raises:
        OutputError: The folder exists, or the disk is too small.
        AgentLoadError: The agent cannot be built; nothing was written.
        RunCancelled: Ctrl-C.
        RunFailed: A run ended early. The other seeds were played all the same, and
            everything recorded is readable.
    """
    experiment = plan_experiment(
        suite,
        agent,
        seeds=seeds,
        out=out,
        overrides=overrides,
        agent_args=agent_args,
        agent_files=agent_files,
    )
    results = experiment.run_sequentially(observer)
    for result in results:
        if result.exception is not None:
            raise result.exception
    return ExperimentResult(experiment.directory, tuple(results))
