"""The end of an experiment: its summary and its records.

    experiment_summary.json                  how each run ended
    episodes/<run>/episode_record.json       the records, with experiment_record.json

No agent is imported, so that a process can do this for another one that was ended by
its agent.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from filelock import FileLock, Timeout

from longplay.contract.documents import SCHEMA_VERSION
from longplay.contract.files import read_document, write_document
from longplay.contract.layout import read_experiment_config
from longplay.errors import OutputError
from longplay.eval_log.log import save_records
from longplay.eval_log.records import ExperimentRecord
from longplay.eval_log.run_records import EXPERIMENT_FILE
from longplay.runs.status import RunView


@contextlib.contextmanager
def lock_experiment(directory: Path, wait_s: float = 0.0) -> Iterator[None]:
    """Keeps other processes out of an experiment.

    Raises:
        OutputError: Another process holds the lock for longer than `wait_s`.
    """
    busy = (
        f"{directory}: another longplay process runs this experiment; "
        "wait for it, or stop it first"
    )
    with hold_lock(directory / ".lock", busy, wait_s):
        yield


@contextlib.contextmanager
def hold_lock(path: Path, busy: str, wait_s: float = 0.0) -> Iterator[None]:
    """Holds a lock file.

    Raises:
        OutputError: `busy`, if another process holds it for longer than `wait_s`; or
            it cannot be locked.
    """
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise OutputError(
            f"{path} is a symbolic link, or not a file; remove it, and try again"
        )
    lock = FileLock(path)
    try:
        lock.acquire(timeout=wait_s)
    except Timeout as error:
        raise OutputError(busy) from error
    except (OSError, NotImplementedError) as error:
        raise OutputError(
            f"{path} cannot be locked: {error}; use a file system with locks"
        ) from error
    try:
        yield
    finally:
        lock.release()


def read_record(directory: Path) -> ExperimentRecord:
    """The record from the start of an experiment, with the current time."""
    record = read_document(directory / EXPERIMENT_FILE, ExperimentRecord)
    return record.model_copy(update={"timestamp": time.time()})


def write_summary(directory: Path, views: Sequence[RunView]) -> None:
    """Writes the summary of the runs of an experiment, and their records.

    The caller holds the lock.
    """
    record = read_record(directory)
    config = read_experiment_config(directory)
    write_document(
        directory / "experiment_summary.json",
        {
            "schema_version": SCHEMA_VERSION,
            "experiment_id": record.experiment_id,
            "experiment_name": config.experiment_name,
            "suite": config.suite,
            "n_tasks": len(views),
            "runs": [view.to_json() for view in views],
        },
    )
    save_records(directory, record)
