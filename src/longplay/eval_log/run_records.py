"""Run directory -> its records; which folders and files contain records.

<experiment>/experiment_record.json
<experiment>/episodes/<trajectory>/episode_record.json

Records are made from summaries alone; events are never read. A run has a record once it
has ended, well or with an error; queued, running, cancelled and stale ones have none,
and earlier tries in archive/ never count. Another harness keeps its earlier tries
beside the others, in folders named `<trajectory>.archived_…`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import ValidationError

from longplay.contract.files import (
    describe_invalid,
    read_bounded,
    read_document,
    render_line,
    write_chunks,
)
from longplay.contract.layout import read_experiment_config
from longplay.contract.rundir import RunDirectory
from longplay.contract.typed_record import drop_types
from longplay.errors import ConfigError, DocumentError, NotARunError
from longplay.eval_log.records import EpisodeRecord, ExperimentRecord
from longplay.eval_log.tasks import TaskConfig
from longplay.eval_log.trajectory import PlainTrajectory, Trajectory

Level = Literal["run", "visit"]

EXPERIMENT_FILE = "experiment_record.json"
EPISODE_FILE = "episode_record.json"

# In the names of folders with earlier tries of the harness that the EvalLog comes from.
_ARCHIVED = ".archived_"
# States of runs that have a record.
ENDED = ("COMPLETED", "FAILED")
# Fields of an episode record that are filled in by hand or by an investigator.
_ASSESSMENT = ("verifier", "findings")


def find_record_files(directory: Path) -> list[Path]:
    """The files of episode records in an experiment or a saved log, sorted."""
    paths = directory.glob(f"episodes/*/{EPISODE_FILE}")
    return sorted(path for path in paths if _ARCHIVED not in path.parent.name)


def is_saved_log(directory: Path) -> bool:
    """Whether a folder has records without their runs, of any harness."""
    has_runs = any(directory.glob("episodes/*/config.json"))
    has_experiment = (directory / EXPERIMENT_FILE).is_file()
    return has_experiment and not has_runs and bool(find_record_files(directory))


def iter_run_records(
    run_dirs: list[Path], experiment_id: str, level: str = "run"
) -> Iterator[EpisodeRecord]:
    """The records of the given runs of an experiment, one run in memory at a time."""
    for run_dir in run_dirs:
        with naming_run(run_dir):
            records = make_records(Trajectory(run_dir), experiment_id, level)
        yield from records


@contextlib.contextmanager
def naming_run(run_dir: Path) -> Iterator[None]:
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


def make_records(
    trajectory: Trajectory, experiment_id: str, level: str
) -> list[EpisodeRecord]:
    """The record of a run, or of its visits; nothing before the run has ended."""
    if trajectory.state not in ENDED:
        return []
    if trajectory.config.probe is not None:
        raise ConfigError(
            "config.json probe: a probe is not a result and is not exported; export "
            "the run that it is a probe of"
        )
    if trajectory.config.is_tuning:
        _check_tuning(trajectory)
    task_config = TaskConfig.from_config(trajectory.config)
    views: Iterable[Trajectory | PlainTrajectory] = [trajectory]
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


def check_level(level: str) -> str:
    """Returns the level, or refuses it."""
    if level not in get_args(Level):
        raise ConfigError(f"level: expected run or visit, found {level!r}")
    return level


def check_experiment_id(record: EpisodeRecord, experiment_id: str) -> None:
    """Refuses a record of another experiment."""
    if record.experiment_id != experiment_id:
        raise DocumentError(
            f"{EPISODE_FILE} experiment_id: expected {experiment_id}, as in "
            f"{EXPERIMENT_FILE}, found {record.experiment_id}"
        )


def experiment_of(directory: Path) -> Path:
    """The given experiment, or the experiment that a longplay run belongs to.

    Raises:
        NotARunError: Another tool's run, or one that lies outside its experiment.
    """
    if not (directory / "config.json").exists():
        return directory
    if not RunDirectory(directory).config.is_longplay:
        raise NotARunError(
            f"{directory}: expected a longplay run, found a run of another tool; "
            "`longplay export --agent-name --suite-name` exports it"
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


def write_lines(
    path: Path,
    records: Iterable[EpisodeRecord],
    completed_only: bool,
    plain: bool = False,
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
                yield render_line(drop_types(record) if plain else record)

    write_chunks(path, render())
    return lines, errored
