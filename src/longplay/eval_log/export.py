"""Experiment directory -> EvalLog: a record per run, and JSONL for submission.

<experiment>/experiment_record.json
<experiment>/episodes/<trajectory>/episode_record.json
<elsewhere>/episodes/<trajectory>/visit_records.jsonl

Records are made from summaries alone; events are never read. `export_jsonl` and
`save_records` hold one run at a time. A run has a record once it has ended, well or
with an error; queued, running, cancelled and stale ones have none, and earlier tries in
archive/ never count. A log that is saved elsewhere takes the records of its visits
with it, since the run directories that they are made from stay behind.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import (
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from longplay.contract.files import (
    describe_invalid,
    iter_rows,
    make_directory,
    open_regular,
    read_bounded,
    read_document,
    render_document,
    render_line,
    write_chunks,
    write_document,
    write_file,
)
from longplay.contract.layout import (
    EXPERIMENT_CONFIG,
    ExperimentConfig,
    find_started_runs,
    is_experiment,
    read_experiment_config,
    run_dir_of,
)
from longplay.contract.records import ProofLevel
from longplay.contract.rundir import RunDirectory, has_evidence, is_run, natural_key
from longplay.contract.typed_record import Record
from longplay.errors import ConfigError, DocumentError, NotARunError
from longplay.eval_log.agreement import check_agreement
from longplay.eval_log.evidence import check_trust
from longplay.eval_log.records import EpisodeRecord, ExperimentRecord
from longplay.eval_log.tasks import TaskConfig
from longplay.eval_log.trajectory import Trajectory, VisitTrajectory

Level = Literal["run", "visit"]

EXPERIMENT_FILE = "experiment_record.json"
EPISODE_FILE = "episode_record.json"
VISITS_FILE = "visit_records.jsonl"

# States of runs that have a record.
ENDED = ("COMPLETED", "FAILED")
# Fields of an episode record that are filled in by hand or by an investigator.
_ASSESSMENT = ("verifier", "findings")


class EvalLog(Record):
    """The records of one experiment, in the order of their trajectory ids."""

    experiment: ExperimentRecord = Field(description="Shared by all runs.")
    episodes: list[EpisodeRecord] = Field(
        default_factory=list, description="The result of each run."
    )

    # The experiment directory; visits are read from there.
    _directory: Path | None = PrivateAttr(default=None)

    @field_validator("episodes")
    @classmethod
    def _sort(cls, episodes: list[EpisodeRecord]) -> list[EpisodeRecord]:
        ordered = sorted(episodes, key=lambda record: natural_key(record.trajectory_id))
        for one, next_one in itertools.pairwise(ordered):
            if one.trajectory_id == next_one.trajectory_id:
                raise PydanticCustomError(
                    "one_record",
                    "expected one record per run, found two of {run}",
                    {"run": one.trajectory_id},
                )
        return ordered

    @field_validator("experiment", "episodes")
    @classmethod
    def _check_ids(cls, value: Any, info: ValidationInfo) -> Any:
        """Checks that every record has the experiment's id; on assignment too."""
        parts: dict[Any, Any] = {**info.data, info.field_name: value}
        if "experiment" in parts:
            for record in parts.get("episodes", ()):
                _check_experiment_id(record, parts["experiment"].experiment_id)
        return value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EvalLog):
            return NotImplemented
        return (self.experiment, self.episodes) == (other.experiment, other.episodes)

    __hash__ = None  # type: ignore[assignment]

    @classmethod
    def from_directory(
        cls, directory: str | Path, experiment: ExperimentRecord
    ) -> Self:
        """Makes the records of all ended runs from their summaries."""
        directory = Path(directory)
        records = _iter_records(find_started_runs(directory), experiment.experiment_id)
        log = cls(experiment=experiment, episodes=list(records))
        log._directory = directory
        return log

    def save(self, output_dir: str | Path) -> None:
        """Writes experiment_record.json, and one record into each run's folder."""
        output_dir = Path(output_dir)
        make_directory(output_dir, exist_ok=True)
        _write_if_changed(output_dir / EXPERIMENT_FILE, self.experiment)
        for record in self.episodes:
            # The list may have grown since it was validated.
            _check_experiment_id(record, self.experiment.experiment_id)
            run_dir = run_dir_of(output_dir, record.trajectory_id)
            make_directory(run_dir, exist_ok=True)
            _write_if_changed(run_dir / EPISODE_FILE, record)
            self._save_visits(record, run_dir)
        self._directory = self._directory or output_dir

    def _save_visits(self, record: EpisodeRecord, run_dir: Path) -> None:
        """Writes the visits of a run where its directory is not."""
        if self._directory is None or is_run(run_dir):
            return
        source = run_dir_of(self._directory, record.trajectory_id)
        if is_run(source) or (source / VISITS_FILE).is_file():
            lines = map(render_line, self._read_visits(source))
            write_chunks(run_dir / VISITS_FILE, lines)

    @classmethod
    def load(cls, output_dir: str | Path) -> Self:
        """Reads what `save` wrote.

        Raises:
            DocumentError: A record is missing, damaged, of a newer version, or of
                another experiment.
        """
        output_dir = Path(output_dir)
        experiment = read_document(output_dir / EXPERIMENT_FILE, ExperimentRecord)
        paths = (output_dir / "episodes").glob(f"*/{EPISODE_FILE}")
        episodes = [_read_record(path, experiment) for path in sorted(paths)]
        try:
            log = cls(experiment=experiment, episodes=episodes)
        except ValidationError as error:
            raise DocumentError(f"{output_dir}: {describe_invalid(error)}") from error
        log._directory = output_dir
        return log

    def to_jsonl(
        self, path: str | Path, level: Level = "run", *, completed_only: bool = False
    ) -> None:
        """Writes one self-contained line per run or per visit.

        Args:
            path: File to write; its folder is made if needed.
            level: One line per run, or one per visit.
            completed_only: Whether to leave out runs that ended with an error.

        Raises:
            ConfigError: Visits of a log that has no directory.
            DocumentError: A run of it has neither its directory nor its visits there.
        """
        records: Iterator[EpisodeRecord] = iter(self.episodes)
        if _check_level(level) == "visit":
            records = self._iter_visits()
        make_directory(Path(path).parent, exist_ok=True)
        _write_lines(Path(path), records, completed_only)

    def _iter_visits(self) -> Iterator[EpisodeRecord]:
        if self._directory is None:
            raise ConfigError(
                "visits are read from the experiment directory; save the log to it, or "
                "load it from there, first"
            )
        for record in self.episodes:
            yield from self._read_visits(
                run_dir_of(self._directory, record.trajectory_id)
            )

    def _read_visits(self, run_dir: Path) -> Iterator[EpisodeRecord]:
        """The visits of a run, from its directory or as they were saved."""
        if is_run(run_dir):
            return _iter_records([run_dir], self.experiment.experiment_id, "visit")
        return _read_saved_visits(run_dir / VISITS_FILE, self.experiment)


@dataclass(frozen=True)
class ExportOptions:
    """What to export.

    Attributes:
        level: One line per run, or one per visit.
        partial: Whether planned runs that have not ended may be missing.
        require: The level that the verification of every run must have reached.
        completed_only: Whether to leave out runs that ended with an error.
    """

    level: Level = "run"
    partial: bool = False
    require: ProofLevel | None = None
    completed_only: bool = False


@dataclass(frozen=True)
class Exported:
    """What was exported.

    Attributes:
        lines: Number of lines.
        errored: Runs or visits that ended with an error: among the lines, or left out.
        no_evidence: Ids of runs that have no digests or hashes and can only be
            claimed.
    """

    lines: int
    errored: int
    no_evidence: tuple[str, ...]


def ignore_note(trajectory_id: str) -> None:
    """The default observer of an export: does nothing."""


def export_jsonl(
    directory: str | Path,
    path: str | Path,
    level: Level = "run",
    *,
    partial: bool = False,
    require: ProofLevel | None = None,
    completed_only: bool = False,
    on_no_evidence: Callable[[str], None] = ignore_note,
) -> int:
    """Writes the records of an experiment or run directory to one JSONL file.

    Documents that contradict each other, the plan, or the lengths of the row files are
    refused before anything is written.

    Args:
        directory: Contains the runs; their records need not exist yet.
        path: File to write; it appears whole or not at all.
        level: One line per run, or one per visit.
        partial: Whether planned runs that have not ended may be missing.
        require: The level that the verification of every run must have reached.
        completed_only: Whether to leave out runs that ended with an error.
        on_no_evidence: Called with the id of each run that has no digests or hashes
            and can only be claimed.

    Returns:
        The number of lines.

    Raises:
        DocumentError: A run that has ended lacks its score, a file is damaged or
            contradicts another, a planned run is missing, or a run was not verified
            as required.
    """
    options = ExportOptions(level, partial, require, completed_only)
    exported = export_records(directory, path, options)
    for trajectory_id in exported.no_evidence:
        on_no_evidence(trajectory_id)
    return exported.lines


def export_records(
    directory: str | Path, path: str | Path, options: ExportOptions
) -> Exported:
    """As `export_jsonl`, and says what the lines are."""
    checked = CheckedRuns(Path(directory), options)
    lines, errored = _write_lines(
        Path(path), checked.iter_records(), options.completed_only
    )
    return Exported(lines, errored, tuple(checked.no_evidence))


def _write_lines(
    path: Path, records: Iterable[EpisodeRecord], completed_only: bool
) -> tuple[int, int]:
    """Writes records; returns the number of lines, and of records with an error."""
    lines = errored = 0

    def render() -> Iterator[bytes]:
        nonlocal lines, errored
        for record in records:
            has_error = record.error_type is not None
            errored += has_error
            if not (has_error and completed_only):
                lines += 1
                yield render_line(record)

    write_chunks(path, render())
    return lines, errored


class CheckedRuns:
    """The runs of an experiment, each checked before its records are made.

    Attributes:
        no_evidence: Ids of the runs so far that have no digests or hashes.
    """

    def __init__(self, directory: Path, options: ExportOptions) -> None:
        _check_level(options.level)
        self.no_evidence: list[str] = []
        self._options = options
        self._run_dirs = find_started_runs(directory)
        self._experiment = experiment_of(directory)
        self._experiment_id = read_experiment_id(self._experiment)
        self._plan: ExperimentConfig | None = None
        self._planned: frozenset[int] = frozenset()
        if is_experiment(self._experiment):
            self._plan = read_experiment_config(self._experiment)
            self._planned = frozenset(self._plan.seeds)
            if self._experiment_id != self._plan.experiment_id:
                raise DocumentError(
                    f"{EXPERIMENT_FILE} experiment_id: expected "
                    f"{self._plan.experiment_id} from {EXPERIMENT_CONFIG}, found "
                    f"{self._experiment_id}"
                )
        self._expects_all = not options.partial and directory == self._experiment
        self._names_by_seed: dict[int | None, str] = {}

    def iter_records(self) -> Iterator[EpisodeRecord]:
        """The records, one run in memory at a time."""
        for run_dir in self._run_dirs:
            with _naming_run(run_dir):
                trajectory = Trajectory(run_dir)
                if trajectory.state not in ENDED:
                    continue
                self._check(trajectory)
                level = self._options.level
                records = _make_records(trajectory, self._experiment_id, level)
            yield from records
        if self._expects_all and self._plan is not None:
            self._check_complete(self._plan)

    def _check(self, trajectory: Trajectory) -> None:
        self._check_seed(trajectory.config.seed, trajectory.run.path.name)
        check_agreement(trajectory.run, self._plan)
        if not has_evidence(trajectory.run.summary):
            self.no_evidence.append(trajectory.id)
        if self._options.require is not None:
            check_trust(trajectory.run, self._options.require)

    def _check_seed(self, seed: int | None, name: str) -> None:
        if self._plan is not None and seed not in self._planned:
            raise DocumentError(
                f"config.json seed: expected a seed that {EXPERIMENT_CONFIG} plans, "
                f"found {seed}"
            )
        if seed in self._names_by_seed:
            raise DocumentError(
                f"config.json seed: expected one run of each seed, found {seed} in "
                f"{self._names_by_seed[seed]} too"
            )
        self._names_by_seed[seed] = name

    def _check_complete(self, plan: ExperimentConfig) -> None:
        missing = [seed for seed in plan.seeds if seed not in self._names_by_seed]
        if missing:
            raise DocumentError(
                f"{EXPERIMENT_CONFIG} seeds: expected a run of every planned seed that "
                f"has ended, found none of seed {missing[0]} ({len(missing):,} of "
                f"{len(plan.seeds):,} are missing); --partial exports the others"
            )


def save_records(directory: Path, experiment: ExperimentRecord) -> int:
    """Writes the experiment record, and one record per ended run.

    Returns:
        The number of runs.

    Raises:
        DocumentError: A run is damaged; the records of the others are written anyway.
    """
    _write_if_changed(directory / EXPERIMENT_FILE, experiment)
    count, first_error = 0, None
    for run_dir in find_started_runs(directory):
        try:
            for record in _iter_records([run_dir], experiment.experiment_id):
                _write_if_changed(run_dir / EPISODE_FILE, record)
                count += 1
        except DocumentError as error:
            first_error = first_error or error
    if first_error is not None:
        raise first_error
    return count


def describe_agent(directory: Path, description: str) -> None:
    """Adds a description to experiment_record.json, for ATLAS's cold start.

    Args:
        directory: An experiment, or one of its runs.
        description: Free prose.
    """
    path = experiment_of(directory) / EXPERIMENT_FILE
    record = read_document(path, ExperimentRecord)
    agent = record.agent.model_copy(update={"description": description})
    write_document(path, record.model_copy(update={"agent": agent}))


def iter_records(directory: Path, level: Level = "run") -> Iterator[EpisodeRecord]:
    """Yields the records of an experiment or run directory one by one."""
    _check_level(level)
    run_dirs = find_started_runs(directory)
    return _iter_records(run_dirs, read_experiment_id(experiment_of(directory)), level)


def experiment_of(directory: Path) -> Path:
    """The given experiment, or the experiment that a longplay run belongs to.

    Raises:
        NotARunError: Another tool's run, or one that lies outside its experiment.
    """
    if not (directory / "config.json").exists():
        return directory
    if not RunDirectory(directory).config.is_longplay:
        raise NotARunError(
            f"{directory}: expected a longplay run, found a run of another tool: it "
            "has no agent, suite and seed to make a record from"
        )
    experiment = directory.absolute().parent.parent
    names = (EXPERIMENT_FILE, "experiment_config.json")
    if not any((experiment / name).exists() for name in names):
        raise NotARunError(
            f"{directory}: expected a run in its experiment (EXPERIMENT/episodes/RUN), "
            "found a run outside of one; export it from its original folder"
        )
    return experiment


def read_experiment_id(directory: Path) -> str:
    """The id that the experiment got when it was planned."""
    record = directory / EXPERIMENT_FILE
    if record.exists():
        return read_document(record, ExperimentRecord).experiment_id
    return read_experiment_config(directory).experiment_id


def _check_level(level: str) -> str:
    if level not in get_args(Level):
        raise ConfigError(f"level: expected run or visit, found {level!r}")
    return level


def _check_experiment_id(record: EpisodeRecord, experiment_id: str) -> None:
    if record.experiment_id != experiment_id:
        raise DocumentError(
            f"{EPISODE_FILE} experiment_id: expected {experiment_id}, as in "
            f"{EXPERIMENT_FILE}, found {record.experiment_id}"
        )


def _read_record(path: Path, experiment: ExperimentRecord) -> EpisodeRecord:
    with _naming_run(path.parent):
        record = read_document(path, EpisodeRecord)
        _check_experiment_id(record, experiment.experiment_id)
        return record


def _read_saved_visits(
    path: Path, experiment: ExperimentRecord
) -> Iterator[EpisodeRecord]:
    """The records that `EvalLog.save` wrote where the run directory was not.

    Raises:
        DocumentError: The file is missing, or a line of it is invalid.
    """
    place = f"{path.parent.name}/{path.name}"
    try:
        file = open_regular(path)
    except FileNotFoundError as error:
        raise DocumentError(
            f"{place}: missing in {path.parent.parent}; a record alone does not say "
            "what its visits were: export the experiment again"
        ) from error
    with file:
        for number, line in enumerate(iter_rows(file, place), start=1):
            try:
                record = EpisodeRecord.model_validate_json(line)
            except ValidationError as error:
                message = describe_invalid(error)
                raise DocumentError(f"{place}:{number} {message}") from error
            _check_experiment_id(record, experiment.experiment_id)
            yield record


def _write_if_changed(path: Path, record: Record) -> None:
    """Writes a record unless the file already has the same content."""
    data = render_document(record)
    if not path.exists() or read_bounded(path) != data:
        write_file(path, data)


def _iter_records(
    run_dirs: list[Path], experiment_id: str, level: str = "run"
) -> Iterator[EpisodeRecord]:
    for run_dir in run_dirs:
        with _naming_run(run_dir):
            records = _make_records(Trajectory(run_dir), experiment_id, level)
        yield from records


@contextlib.contextmanager
def _naming_run(run_dir: Path) -> Iterator[None]:
    """Adds the run to the messages of errors."""
    try:
        yield
    except ValidationError as error:
        # Everything else was checked on reading.
        raise DocumentError(
            f"{run_dir.name}/run_summary.json usage: {describe_invalid(error)}"
        ) from error
    except (ConfigError, DocumentError) as error:
        raise DocumentError(f"{run_dir.name}/{error}") from error


def _make_records(
    trajectory: Trajectory, experiment_id: str, level: str
) -> list[EpisodeRecord]:
    """The record of a run, or of its visits; nothing before the run has ended."""
    if trajectory.state not in ENDED:
        return []
    if trajectory.config.is_tuning:
        _check_tuning(trajectory)
    task_config = TaskConfig.from_config(trajectory.config)
    views: Iterable[Trajectory | VisitTrajectory] = [trajectory]
    if level == "visit":
        views = trajectory.visits()
    records = [
        EpisodeRecord.from_trajectory(
            view, experiment_id, view.task_metadata, task_config
        )
        for view in views
    ]
    path = trajectory.run.path / EPISODE_FILE
    assessment = _read_assessment(path, experiment_id)
    if level == "run" and assessment:
        return [record.model_copy(update=assessment) for record in records]
    return records


def _check_tuning(trajectory: Trajectory) -> None:
    """Refuses tuning runs on official seeds: part of a stream is not a result."""
    if trajectory.task_metadata.split == "test":
        raise ConfigError(
            "config.json stop_frame: a tuning run on an official seed is not a result "
            "and is not exported; tune on seeds 1000 and above"
        )


def _read_assessment(path: Path, experiment_id: str) -> dict[str, Any]:
    """Assessments added to a run's record later: they survive a new export."""
    if not path.exists():
        return {}
    text = read_bounded(path)
    if all(f'"{name}": null'.encode() in text for name in _ASSESSMENT):
        return {}
    record = read_document(path, EpisodeRecord)
    if record.experiment_id != experiment_id:
        return {}
    return {name: getattr(record, name) for name in _ASSESSMENT}
