"""Agent x suite x seeds -> an experiment directory with its EvalLog.

    runs/<UTC>_<suite>_<agent>_<8 hex>/        or exactly DIR with --out DIR
      experiment_config.json                   what was planned, before the first frame
      experiment_record.json                   the same for ATLAS, with agent and code
      experiment_summary.json                  how each run ended
      episodes/<suite>_seed-<n>/               a run directory, with episode_record.json
      archive/<suite>_seed-<n>/<try>/          earlier tries that were started again

One driver works on an experiment at a time: it holds a lock. What it knows is on disk,
so that another one can go on where it was killed. Running on Ray means the same as
running here one by one, and gives the same bytes.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from filelock import FileLock, Timeout
from pydantic import Field

from longplay.agents.loading import LoadedAgent, load_agent
from longplay.contract.files import (
    make_directory,
    read_document,
    shorten,
    write_document,
)
from longplay.contract.records import AgentEntry, ConfigGiven, Document, Score
from longplay.contract.rundir import RunDirectory
from longplay.contract.version import SCHEMA_VERSION
from longplay.errors import ConfigError, LongplayError, NotARunError, OutputError
from longplay.evallog.export import EvalLog, run_dir_of, save_records
from longplay.evallog.records import ExperimentRecord
from longplay.harness.agent_config import AgentConfig
from longplay.harness.benchmark import Benchmark
from longplay.harness.episode import Episode, EpisodeConfig, ignore_progress
from longplay.harness.job import Job, Outcome, play_job
from longplay.harness.status import (
    STALL_TIMEOUT_S,
    RunView,
    view_run,
)
from longplay.plan import RunPlan, plan_again, plan_run
from longplay.runner import Observer, Progress
from longplay.trust.checkpoint import remove_checkpoints
from longplay.validation import Report, validate_run

if TYPE_CHECKING:
    from longplay.agents.protocol import StreamingAgent


class ExperimentConfig(Document):
    """experiment_config.json: the plan of an experiment."""

    schema_version: int = SCHEMA_VERSION
    experiment_id: str
    experiment_name: str
    suite: str = Field(description="Benchmark: the suite, perhaps overridden.")
    seeds: tuple[int, ...] = Field(min_length=1)
    n_tasks: int
    config_given: ConfigGiven
    agent: AgentEntry
    agent_files: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda given: not given,
        description="Patterns that `--agent-files` gave.",
    )

    def make_plans(self) -> list[RunPlan]:
        """The runs planned."""
        return [plan_again(self.config_given, seed) for seed in self.seeds]


def is_experiment(directory: Path) -> bool:
    """Whether a folder holds an experiment, begun or only planned."""
    return (directory / "experiment_config.json").is_file()


def find_experiment(directory: Path) -> Path:
    """The experiment that is given, or the one a run directory belongs to."""
    if is_experiment(directory):
        return directory
    above = directory.absolute().parent.parent
    return above if is_experiment(above) else directory


def _read_config(directory: Path) -> ExperimentConfig:
    if not is_experiment(directory):
        raise NotARunError(
            f"{directory}: expected an experiment directory, with "
            "experiment_config.json in it"
        )
    return read_document(directory / "experiment_config.json", ExperimentConfig)


def view_runs(
    directory: Path, stall_timeout_s: float = STALL_TIMEOUT_S
) -> list[RunView]:
    """Where every planned run of an experiment is, or the one run of a run directory.

    Nothing of the agent is imported for that.
    """
    if (directory / "episode_config.json").is_file():
        run_config = read_document(directory / "episode_config.json", EpisodeConfig)
        return [view_run(run_config.make_plan(), directory, stall_timeout_s)]
    return [
        view_run(plan, run_dir_of(directory, plan.trajectory_id), stall_timeout_s)
        for plan in _read_config(directory).make_plans()
    ]


@dataclass(frozen=True)
class RunResult:
    """What a finished run left behind."""

    experiment_dir: Path
    run_dir: Path
    score: Score
    report: Report


@dataclass
class Experiment:
    """One agent on one suite over one or more seeds, in one directory."""

    plans: tuple[RunPlan, ...]
    agent: LoadedAgent
    directory: Path
    # Whether the directory is there, with the plan in it.
    is_begun: bool = False
    # The one run to be played, if not all of them.
    only: str | None = None
    # Whether a run that was begun goes on or says why not, and never starts again.
    must_go_on: bool = False
    # Whether the folder may be there, empty, from a process killed at its very start.
    may_exist: bool = False

    @classmethod
    def open(cls, directory: Path, reference: str | None = None) -> Experiment:
        """Opens an experiment that was begun.

        Args:
            directory: Where it is; or one of its run directories, and only that run
                is played.
            reference: The agent again, if it is not one of longplay's own.

        Raises:
            AgentLoadError: The agent is not given, or is another one.
        """
        experiment_dir = find_experiment(directory)
        config = _read_config(experiment_dir)
        agent_config = AgentConfig.from_entry(config.agent)
        agent = agent_config.load(reference, config.agent_files)
        only = None if experiment_dir == directory else directory.absolute().name
        plans = tuple(config.make_plans())
        return cls(plans, agent, experiment_dir, is_begun=True, only=only)

    @property
    def benchmark(self) -> Benchmark:
        """The suite with the seeds planned."""
        given = self.plans[0].given
        seeds = [plan.seed for plan in self.plans]
        return Benchmark.from_suite(given.suite, seeds, given.overrides)

    @property
    def name(self) -> str:
        """What the experiment is called in records."""
        return f"{self.benchmark.benchmark_metadata.name}_{self.agent.name}"

    def run_dir(self, plan: RunPlan) -> Path:
        """Where a run is recorded."""
        return run_dir_of(self.directory, plan.trajectory_id)

    def view(self, stall_timeout_s: float = STALL_TIMEOUT_S) -> list[RunView]:
        """Where every planned run is."""
        return [
            view_run(plan, self.run_dir(plan), stall_timeout_s) for plan in self.plans
        ]

    # --- running ------------------------------------------------------------------

    @contextlib.contextmanager
    def drive(self) -> Iterator[list[Outcome]]:
        """Begins the experiment or takes it up again, and keeps other drivers out.

        However it ends, what became of the runs is written down; unless all that were
        to go on were refused, and nothing has changed.

        Yields:
            A list for the outcomes.

        Raises:
            OutputError: The folder exists, the disk is too small, or another driver
                is at work.
        """
        outcomes: list[Outcome] = []
        record = None
        if not self.is_begun:
            self.check_output()
            # Before the folder is there, which might make the checkout dirty.
            record = self._make_record()
            make_directory(self.directory, exist_ok=self.may_exist)
        with self._lock():
            if record is not None:
                self._write_plan(record)
                self.is_begun = True
            try:
                yield outcomes
            except BaseException:
                # What went wrong first is what counts.
                with contextlib.suppress(LongplayError):
                    self._conclude()
                raise
            if not outcomes or not all(outcome.is_refused for outcome in outcomes):
                self._conclude()

    def _write_plan(self, record: ExperimentRecord) -> None:
        """Writes what is planned; the config last, which makes it an experiment."""
        # Now, so that it names the code that runs and not the one that exports.
        write_document(self.directory / "experiment_record.json", record)
        config = self._describe(record.experiment_id)
        write_document(self.directory / "experiment_config.json", config)

    def _describe(self, experiment_id: str) -> ExperimentConfig:
        return ExperimentConfig(
            experiment_id=experiment_id,
            experiment_name=self.name,
            suite=self.benchmark.benchmark_metadata.name,
            seeds=tuple(plan.seed for plan in self.plans),
            n_tasks=len(self.plans),
            config_given=self.plans[0].given,
            agent=self.agent.entry,
            agent_files=self.agent.patterns,
        )

    def take_up(self) -> Experiment:
        """This experiment, begun in its folder already or not.

        The same command line then starts a run or goes on with it, as a cluster job
        that is queued again needs it.

        Raises:
            ConfigError: Another experiment was begun there; names what differs first.
        """
        if not is_experiment(self.directory):
            return replace(self, may_exist=True)
        begun = _read_config(self.directory)
        asked = self._describe(begun.experiment_id)
        was, wanted = _flatten_settings(begun), _flatten_settings(asked)
        for name in {**was, **wanted}:
            if was.get(name) != wanted.get(name):
                raise ConfigError(
                    f"{name}: {self.directory} was begun with {_show(was, name)}, "
                    f"asked for is {_show(wanted, name)}; give --out another folder"
                )
        return replace(self, is_begun=True, must_go_on=True)

    def check_output(self) -> None:
        """Refuses a folder that exists, and a disk too small for all runs."""
        if self.directory.exists() and not (self.may_exist and self._is_empty()):
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
        names = {path.name for path in self.directory.iterdir()}
        return all(
            name.startswith(".") or name == "experiment_record.json" for name in names
        )

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
    ) -> list[Outcome]:
        """Plays the runs that are not complete, one after the other, here.

        Args:
            observer: Called with the progress of the run under way.
            validation_workers: Processes that validate.
            stall_timeout_s: A run of somebody else's without a heartbeat for so long
                counts as lost, and is played again.

        Raises:
            RunCancelled: Ctrl-C; the runs not begun stay planned.
        """
        with self.drive() as outcomes:
            for job in self._start_jobs(stall_timeout_s):
                outcomes.append(self._play_here(job, observer, validation_workers))
            return outcomes

    def _play_here(
        self, job: Job, observer: Observer, validation_workers: int
    ) -> Outcome:
        def watch(progress: Progress) -> None:
            observer(replace(progress, run=f"seed {job.seed}"))

        return play_job(job, self.agent, watch, validation_workers)

    def run_with_ray(
        self,
        workers: int | None = None,
        *,
        address: str | None = None,
        retries: int = 1,
        stall_timeout_s: float = STALL_TIMEOUT_S,
        on_change: Callable[[list[RunView]], None] = lambda views: None,
    ) -> list[Outcome]:
        """Plays the runs that are not complete as Ray tasks, one task a run.

        Args:
            workers: Runs at a time; starts a Ray on this machine with so many.
            address: Or the address of a cluster that is there.
            retries: How often a run whose worker was lost is started again.
            stall_timeout_s: A run without a heartbeat for so long counts as lost.
            on_change: Called every second with where all runs are.

        Raises:
            MissingExtraError: Ray is not installed; nothing was written.
            RunCancelled: Ctrl-C; the workers are stopped.
        """
        from longplay.harness.ray_pool import RayPool

        with (
            RayPool(workers, address, retries, stall_timeout_s) as pool,
            self.drive() as outcomes,
        ):
            jobs = list(self._start_jobs(stall_timeout_s))
            outcomes += pool.run(jobs, lambda: on_change(self.view(stall_timeout_s)))
            return outcomes

    def _start_jobs(self, stall_timeout_s: float) -> Iterator[Job]:
        """The runs to be played."""
        for view in self.view(stall_timeout_s):
            if view.is_to_do and self.only in (None, view.plan.trajectory_id):
                yield Job.make(
                    view.plan,
                    self.agent,
                    view.run_dir,
                    view.retries,
                    must_go_on=self.must_go_on,
                )

    # --- records ------------------------------------------------------------------

    def _make_record(self) -> ExperimentRecord:
        return ExperimentRecord.from_experiment(
            self.name,
            self.directory,
            AgentConfig.from_entry(self.agent.entry),
            self.benchmark,
        )

    def _read_record(self) -> ExperimentRecord:
        """The record made when the experiment began, to be exported now."""
        path = self.directory / "experiment_record.json"
        record = read_document(path, ExperimentRecord)
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
            again = ExperimentRecord.from_experiment(
                record.experiment_name,
                self.directory,
                AgentConfig.from_entry(self.agent.entry),
                self.benchmark,
                git_cwd,
            )
            record = record.model_copy(update={"agent": again.agent})
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
                "suite": self.benchmark.benchmark_metadata.name,
                "n_tasks": len(views),
                "runs": [view.to_json() for view in views],
            },
        )
        save_records(self.directory, record)


def _flatten_settings(config: ExperimentConfig) -> dict[str, object]:
    """What was asked for, by dotted names; all else follows from it."""
    asked = config.model_dump(mode="json", include={"config_given", "seeds", "agent"})
    return dict(_iter_leaves(asked))


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
    name = f"{started}_{plan.suite_name}_{agent_name}_{secrets.token_hex(4)}"
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
    plans = tuple(plan_run(suite, seed, overrides) for seed in seeds)
    loaded = load_agent(agent, agent_args, agent_files)
    AgentConfig.from_entry(loaded.entry)  # refuses secrets
    directory = Path(out) if out is not None else default_directory(plans[0], loaded)
    return Experiment(plans, loaded, directory)


def run(
    suite: str,
    agent: str | Callable[..., StreamingAgent],
    *,
    seed: int = 0,
    out: str | Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    agent_args: Mapping[str, Any] | None = None,
    agent_files: Sequence[str] = (),
    observer: Observer = ignore_progress,
) -> RunResult:
    """Sends an agent through a suite, and scores and validates the run.

    Args:
        suite: Id of a suite (`longplay suites`).
        agent: A name, `file.py[:attr]`, `module:attr`, or a class or factory called
            as `agent(num_actions, seed, **agent_args)`.
        seed: Run seed: schedule, emulators and agent follow from it.
        out: Experiment directory to make; one under `runs/` if not given.
        overrides: Settings of the suite to change.
        agent_args: Arguments for the agent.
        agent_files: Patterns of files that belong to the agent beside those that it
            imports, such as weights; relative to its folder.
        observer: Called with the progress a few times per second.

    Returns:
        The folders, the score and the validation report.
    """
    experiment = plan_experiment(
        suite,
        agent,
        seeds=(seed,),
        out=out,
        overrides=overrides,
        agent_args=agent_args,
        agent_files=agent_files,
    )
    return run_one(experiment, observer)


def run_one(
    experiment: Experiment,
    observer: Observer = ignore_progress,
    validation_workers: int = 1,
) -> RunResult:
    """Runs an experiment of one seed; what goes wrong is raised.

    Raises:
        OutputError: The folder exists, or the disk is too small.
        AgentLoadError: The agent cannot be built; nothing was written.
        RunCancelled, RunFailed: The run ended early; its status says why.
    """
    (plan,) = experiment.plans
    run_dir = experiment.run_dir(plan)
    experiment.check_output()
    episode = Episode(plan, experiment.agent, run_dir, observer)
    with experiment.drive():
        episode.run()
    score = RunDirectory(run_dir).score
    assert score is not None  # `run` wrote it
    report = validate_run(run_dir, workers=validation_workers)
    return RunResult(experiment.directory, run_dir, score, report)
