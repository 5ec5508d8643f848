"""All records of one experiment: made, saved, loaded, written as lines.

<elsewhere>/episodes/<trajectory>/visit_records.jsonl

A log that is saved elsewhere takes the records of its visits with it, since the run
directories that they are made from stay behind.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

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
from longplay.contract.layout import find_started_runs, run_dir_of
from longplay.contract.rundir import is_run, natural_key
from longplay.contract.typed_record import Record, drop_types
from longplay.errors import ConfigError, DocumentError
from longplay.eval_log.records import EpisodeRecord, ExperimentRecord
from longplay.eval_log.run_records import (
    EPISODE_FILE,
    EXPERIMENT_FILE,
    Level,
    check_experiment_id,
    check_level,
    experiment_of,
    find_record_files,
    iter_run_records,
    naming_run,
    write_lines,
)

VISITS_FILE = "visit_records.jsonl"


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
                check_experiment_id(record, parts["experiment"].experiment_id)
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
        records = iter_run_records(
            find_started_runs(directory), experiment.experiment_id
        )
        log = cls(experiment=experiment, episodes=list(records))
        log._directory = directory
        return log

    def save(self, output_dir: str | Path, *, plain: bool = False) -> None:
        """Writes experiment_record.json, and one record into each run's folder.

        Args:
            output_dir: The experiment, or another folder; it is made if needed.
            plain: Whether to leave out `_type`, which other harnesses try to import.
        """
        output_dir = Path(output_dir)
        make_directory(output_dir, exist_ok=True)
        _write_if_changed(output_dir / EXPERIMENT_FILE, self.experiment, plain)
        for record in self.episodes:
            # The list may have grown since it was validated.
            check_experiment_id(record, self.experiment.experiment_id)
            run_dir = run_dir_of(output_dir, record.trajectory_id)
            make_directory(run_dir, exist_ok=True)
            _write_if_changed(run_dir / EPISODE_FILE, record, plain)
            self._save_visits(record, run_dir)
        self._directory = self._directory or output_dir

    def _save_visits(self, record: EpisodeRecord, run_dir: Path) -> None:
        """Writes the visits of a run where its directory is not."""
        # Runs of other harnesses have no visits, and their records no agent_id.
        if self._directory is None or is_run(run_dir) or record.agent_id is None:
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
        paths = find_record_files(output_dir)
        episodes = [_read_record(path, experiment) for path in paths]
        try:
            log = cls(experiment=experiment, episodes=episodes)
        except ValidationError as error:
            raise DocumentError(f"{output_dir}: {describe_invalid(error)}") from error
        log._directory = output_dir
        return log

    def to_jsonl(
        self,
        path: str | Path,
        level: Level = "run",
        *,
        completed_only: bool = False,
        plain: bool = False,
    ) -> None:
        """Writes one self-contained line per run or per visit.

        Args:
            path: File to write; its folder is made if needed.
            level: One line per run, or one per visit.
            completed_only: Whether to leave out runs that ended with an error.
            plain: Whether to leave out `_type`, which other harnesses try to import.

        Raises:
            ConfigError: Visits of a log that has no directory.
            DocumentError: A run of it has neither its directory nor its visits there.
        """
        make_directory(Path(path).parent, exist_ok=True)
        write_lines(Path(path), self.iter_records(level), completed_only, plain)

    def iter_records(self, level: Level = "run") -> Iterator[EpisodeRecord]:
        """The records of runs or visits; raises as `to_jsonl` does."""
        if check_level(level) == "visit":
            return self._iter_visits()
        return iter(self.episodes)

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
            return iter_run_records([run_dir], self.experiment.experiment_id, "visit")
        return _read_saved_visits(run_dir / VISITS_FILE, self.experiment)


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
            for record in iter_run_records([run_dir], experiment.experiment_id):
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
        description: Free prose; empty removes the description.
    """
    path = experiment_of(directory) / EXPERIMENT_FILE
    record = read_document(path, ExperimentRecord)
    record.agent.description = description
    write_document(path, record)


def _read_record(path: Path, experiment: ExperimentRecord) -> EpisodeRecord:
    with naming_run(path.parent):
        record = read_document(path, EpisodeRecord)
        check_experiment_id(record, experiment.experiment_id)
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
            check_experiment_id(record, experiment.experiment_id)
            yield record


def _write_if_changed(path: Path, record: Record, plain: bool = False) -> None:
    """Writes a record unless the file already has the same content."""
    data = render_document(drop_types(record) if plain else record)
    if not path.exists() or read_bounded(path) != data:
        write_file(path, data)
