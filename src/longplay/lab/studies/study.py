"""A study: many agents on many suites, tuned, played and continued.

All of its state is on disk: the plan in study.json, everything else in the experiment
directories of its cells. Which arguments were chosen, and which runs are missing, is
derived from there each time.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from longplay.contract.files import make_directory, read_document, write_document
from longplay.contract.layout import is_experiment
from longplay.contract.rundir import STUDY_FILE, is_study
from longplay.errors import (
    AgentLoadError,
    ConfigError,
    IncompleteRunError,
    LongplayError,
    OutputError,
)
from longplay.experiments.conclusion import hold_lock
from longplay.experiments.experiment import Experiment
from longplay.experiments.job import Job, RayPlace, RunResult, play_job
from longplay.lab.studies.directory import StudyDirectory, default_study_directory
from longplay.lab.studies.file import read_study_file
from longplay.lab.studies.plan import Cell, StudyAgents, StudyPlan, plan_study
from longplay.runs.loop import Observer
from longplay.runs.options import DEFAULT_OPTIONS, RunOptions
from longplay.runs.progress import showing_progress
from longplay.runs.session import ignore_progress, name_progress
from longplay.runs.status import STALL_TIMEOUT_S, RunView

# Seconds to wait for other shards that check the same lock.
_CHECK_S = 5.0

# --- playing ------------------------------------------------------------------------


@dataclass(frozen=True)
class Shard:
    """One of several processes that share the runs of a study.

    Attributes:
        index: From 0.
        count: Number of processes.
    """

    index: int = 0
    count: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Reads `I/N`, with I from 1 to N."""
        match = re.fullmatch(r"(\d+)/(\d+)", text)
        index, count = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= index <= count:
            raise ConfigError(f"--shard: expected I/N as in 1/4, found {text!r}")
        return cls(index - 1, count)

    @property
    def is_whole(self) -> bool:
        """Whether it is the only one."""
        return self.count == 1

    def plays(self, number: int) -> bool:
        """Whether the run of this number in the plan is one of its own."""
        return number % self.count == self.index


WHOLE = Shard()


@dataclass
class StudyResult:
    """What `Study.run` did.

    Attributes:
        directory: The study directory.
        results: Cell and result of each run that was played.
        waiting: Cells whose arguments cannot be chosen yet.
        problems: Why arguments of other cells cannot be chosen at all.
        unfinished: Runs of this process that are not complete, and still needed.
        left: The number of such runs of other processes.
    """

    directory: Path
    results: list[tuple[Cell, RunResult]] = field(default_factory=list)
    waiting: list[Cell] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unfinished: list[RunView] = field(default_factory=list)
    left: int = 0

    @property
    def is_failed(self) -> bool:
        """Whether a run failed or is not valid, or no arguments can be chosen."""
        is_bad = any(
            run.error is not None or run.is_valid is False for _, run in self.results
        )
        return is_bad or bool(self.problems)


Play = Callable[["OpenCells"], None]


class Study(StudyDirectory):
    """A study that can be played: its agents are imported."""

    def __init__(
        self,
        path: Path,
        plan: StudyPlan,
        agents: StudyAgents,
        stall_timeout_s: float = STALL_TIMEOUT_S,
        options: RunOptions = DEFAULT_OPTIONS,
    ) -> None:
        super().__init__(path, plan, stall_timeout_s)
        self.agents = agents
        self.options = options

    @classmethod
    def from_file(
        cls,
        path: Path,
        out: Path | None = None,
        stall_timeout_s: float = STALL_TIMEOUT_S,
        options: RunOptions = DEFAULT_OPTIONS,
    ) -> Study:
        """Plans the study of a file; imports its agents and writes nothing.

        Raises:
            ConfigError: The file is not valid, or the study in its directory was
                started with another one.
        """
        file, sha256 = read_study_file(path)
        agents = StudyAgents.load(file, path.parent)
        plan = plan_study(file, sha256, agents)
        directory = out or default_study_directory(file)
        if is_study(directory):
            started = read_document(directory / STUDY_FILE, StudyPlan)
            started.check_same(plan)
            plan = started
        return cls(directory, plan, agents, stall_timeout_s, options)

    def check_start(self) -> None:
        """Refuses an agent that cannot be built; writes nothing.

        Each agent is built once, with its first arguments. A study that was started
        is not checked: it continues, whatever fails.

        Raises:
            AgentLoadError: An agent cannot be built, as with an unknown argument.
            OutputError: The disk is too small.
        """
        if is_study(self.path):
            return
        first: dict[str, Cell] = {}
        for cell in self.plan.all_cells:
            if not cell.candidates:
                first.setdefault(cell.agent, cell)
        for name, cell in first.items():
            experiment = self.open_experiment(cell)
            try:
                if experiment is not None:
                    experiment.check_start()
            except AgentLoadError as error:
                raise AgentLoadError(f"{name}: {error}") from error

    def run(self, play: Play, shard: Shard = WHOLE) -> StudyResult:
        """Plays what is missing: tuning, then the results.

        A failed run is tried once per call. Tuning of a cell that was started is not
        repeated.

        Args:
            play: Plays the jobs of cells; `play_here` or that of `play_on_ray`.
            shard: Which runs are this process's own.

        Raises:
            OutputError: Another process works on the study.
            RunCancelled, RunPreempted: It was asked to stop.
        """
        with self._lock(shard):
            with _hold(self.path / ".plan", _CHECK_S):
                if not is_study(self.path):
                    write_document(self.path / STUDY_FILE, self.plan)
            with OpenCells(self, shard) as cells:
                while cells.find_next():
                    play(cells)
                cells.count_unfinished()
                return cells.result

    @contextlib.contextmanager
    def _lock(self, shard: Shard) -> Iterator[None]:
        """Keeps out other processes, but for other shards of the same number."""
        make_directory(self.path, exist_ok=True)
        _check_new(self.path)
        # Its own lock comes first: of two processes that start at the same time, at
        # least one then sees the other.
        with _hold(self.path / f".shard-{shard.index + 1}-of-{shard.count}"):
            for path in sorted(self.path.glob(".shard-*")):
                if not path.name.endswith(f"-of-{shard.count}"):
                    with _hold(path, _CHECK_S):
                        pass  # free, so no process plays other parts of the study
            yield

    def open_experiment(self, cell: Cell) -> Experiment | None:
        """The experiment of a cell; None if its agent cannot be chosen yet."""
        source: Cell | None = cell
        if cell.candidates:
            source = self.find_choice(cell)
        if source is None:
            return None
        experiment = Experiment(
            self.plans_of(cell),
            self.agents.get(cell.agent, source.args),
            self.directory_of(cell),
            may_exist=True,
            needs=self.agents.by_name[cell.agent][0].needs,
            tuning_frames=self.count_tuning_frames(cell),
            options=self.options,
        )
        experiment.check_same()
        return experiment


def _check_new(directory: Path) -> None:
    is_empty = all(path.name.startswith(".") for path in directory.iterdir())
    # Asked last: another shard may have written it meanwhile.
    if not is_empty and not is_study(directory):
        raise OutputError(
            f"{directory} exists already and holds no study; choose another folder "
            "with --out"
        )


def _hold(path: Path, wait_s: float = 0.0) -> contextlib.AbstractContextManager[None]:
    busy = (
        f"{path.parent}: another longplay process works on this study "
        f"({path.name.removeprefix('.')}); wait for it, or stop it first"
    )
    return hold_lock(path, busy, wait_s)


class OpenCells:
    """The cells in progress: opened with their first job, concluded after their last.

    So that a study of thousands of cells keeps few of them open.
    """

    def __init__(self, study: Study, shard: Shard) -> None:
        self.study = study
        self.result = StudyResult(study.path)
        self._shard = shard
        self._tried: set[Path] = set()
        self._next: list[tuple[Cell, Experiment]] = []
        self._open: dict[Path, _OpenCell] = {}
        self._numbers: dict[str, int] = {}
        number = 0
        for cell in study.plan.all_cells:
            self._numbers[cell.folder] = number
            number += len(cell.seeds)

    def __enter__(self) -> OpenCells:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Concludes the cells that are still open, after an error."""
        for opened in self._open.values():
            # The error that ended the study is the one to report.
            with contextlib.suppress(LongplayError):
                opened.stack.__exit__(kind, error, trace)

    def find_next(self) -> bool:
        """Finds the cells that can be played now; returns whether there are any.

        Those with failed runs only come last: an agent may end this process again.
        """
        self.result.waiting.clear()
        self.result.problems.clear()
        self._next = []
        for cell in sorted(self._unfinished(), key=self._has_failed):
            try:
                experiment = self.study.open_experiment(cell)
            except IncompleteRunError as error:
                self.result.problems.append(f"{cell.agent} on {cell.suite}: {error}")
                continue
            if experiment is None:
                self.result.waiting.append(cell)
            else:
                self._next.append((cell, experiment))
        return bool(self._next)

    def _unfinished(self) -> Iterator[Cell]:
        """The cells with runs to play that were not tried yet."""
        for cell in self._needed():
            if any(self._is_due(cell, view) for view in self.study.view(cell)):
                yield cell

    def _needed(self) -> Iterator[Cell]:
        """The results, and the tuning cells of choices that were not made yet.

        The choice of a cell that was started stands.
        """
        decided = {
            folder
            for cell in self.study.plan.cells
            if cell.candidates and is_experiment(self.study.directory_of(cell))
            for folder in cell.candidates
        }
        for cell in self.study.plan.all_cells:
            if cell.folder not in decided:
                yield cell

    def _has_failed(self, cell: Cell) -> bool:
        """Whether all runs of a cell that are to be played have failed before."""
        due = (view for view in self.study.view(cell) if self._is_due(cell, view))
        return all(view.state == "FAILED" for view in due)

    def _is_due(self, cell: Cell, view: RunView) -> bool:
        return (
            view.is_pending
            and self._is_own(cell, view)
            and view.run_dir.absolute() not in self._tried
        )

    def _is_own(self, cell: Cell, view: RunView) -> bool:
        number = self._numbers[cell.folder] + cell.seeds.index(view.plan.seed)
        return self._shard.plays(number)

    def count_unfinished(self) -> None:
        """Finds the runs that are needed and not complete, and whose they are."""
        self.result.unfinished.clear()
        self.result.left = 0
        for cell in self._needed():
            for view in self.study.view(cell):
                if view.state == "COMPLETED":
                    continue
                if self._is_own(cell, view):
                    self.result.unfinished.append(view)
                else:
                    self.result.left += 1

    # --- jobs ---------------------------------------------------------------------

    def jobs(self) -> Iterator[Job]:
        """The jobs of the cells that were found, one after the other."""
        for cell, experiment in self._next:
            stack = contextlib.ExitStack()
            shares = not self._shard.is_whole
            drive = experiment.drive_shared if shares else experiment.drive
            results = stack.enter_context(drive())
            own = {
                view.run_dir.absolute(): view.state == "FAILED"
                for view in self.study.view(cell)
                if self._is_due(cell, view)
            }
            jobs = [
                job
                for job in experiment.start_jobs(self.study.stall_timeout_s)
                if job.run_dir in own
            ]
            jobs.sort(key=lambda job: own[job.run_dir])
            if not jobs:
                stack.close()
                continue
            opened = _OpenCell(cell, experiment, stack, results, len(jobs))
            self._open[experiment.directory.absolute()] = opened
            self._tried |= own.keys()
            yield from jobs

    def cell_of(self, job: Job) -> Cell:
        """The cell of a job in progress."""
        return self._open[_experiment_dir(job)].cell

    def agent_of(self, job: Job) -> Any:
        """The imported agent of a job in progress."""
        return self._open[_experiment_dir(job)].experiment.agent

    def finish(self, job: Job, result: RunResult) -> None:
        """Takes the result of a job; concludes its cell after the last one."""
        opened = self._open[_experiment_dir(job)]
        opened.results.append(result)
        self.result.results.append((opened.cell, result))
        opened.jobs_left -= 1
        if opened.jobs_left == 0:
            del self._open[_experiment_dir(job)]
            opened.stack.close()

    def name_job(self, job: Job) -> str:
        """`dqn control-v1 seed 0`."""
        cell = self.cell_of(job)
        part = "tuning " if cell.is_tuning else ""
        return f"{part}{cell.agent} {cell.suite} seed {job.seed}"


@dataclass
class _OpenCell:
    cell: Cell
    experiment: Experiment
    stack: contextlib.ExitStack
    results: list[RunResult]
    jobs_left: int


def _experiment_dir(job: Job) -> Path:
    return job.run_dir.parent.parent


def play_here(
    observer: Observer = ignore_progress, *, validation_workers: int = 1
) -> Play:
    """Plays jobs one after the other in this process."""

    def play(cells: OpenCells) -> None:
        for job in cells.jobs():
            watch = name_progress(cells.name_job(job), observer)
            result = play_job(job, cells.agent_of(job), watch, validation_workers)
            cells.finish(job, result)

    return play


@contextlib.contextmanager
def play_on_ray(
    study: Study,
    place: RayPlace,
    on_poll: Callable[[OpenCells, Sequence[Job]], None] = lambda cells, jobs: None,
) -> Iterator[Play]:
    """Plays jobs on Ray, those of many cells at a time.

    Raises:
        MissingExtraError: Ray is not installed.
        ConfigError: It cannot be reached, or has no node that is large enough.
    """
    from longplay.experiments.ray_pool import RayPool

    with RayPool(place) as pool:
        pool.check_needs(study.agents.needs)

        def play(cells: OpenCells) -> None:
            pool.run(cells.jobs(), cells.finish, lambda jobs: on_poll(cells, jobs))

        yield play


def study(
    file: str | Path,
    *,
    out: str | Path | None = None,
    observer: Observer = ignore_progress,
    progress: bool | None = None,
) -> StudyResult:
    """Plays a study, or the rest of it: many agents on many suites, with tuning.

    Args:
        file: The study, *.toml.
        out: Study directory; by default `runs/NAME`.
        observer: Called with the progress a few times per second.
        progress: Whether to show a line of progress; by default on a terminal and in a
            notebook.

    Raises:
        ConfigError: The file is not valid, or the study in its directory was started
            with another one.
        AgentLoadError: An agent cannot be built; nothing was played.
        RunCancelled: Ctrl-C; the same call continues.
        RunFailed: A run failed. The others were played anyway.
        IncompleteRunError: Tuning could not choose arguments.
    """
    planned = Study.from_file(Path(file), None if out is None else Path(out))
    planned.check_start()
    with showing_progress(progress, observer) as watch:
        result = planned.run(play_here(watch))
    for _, run in result.results:
        if run.exception is not None:
            raise run.exception
    if result.problems:
        raise IncompleteRunError("; ".join(result.problems))
    return result
