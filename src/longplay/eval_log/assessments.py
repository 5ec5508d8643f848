"""Assessments of runs, made afterwards -> the records of an experiment.

A line of the file is about one run, or about all of them:

    {"trajectory_id": …, "findings": {…}, "verifier": {…}}
    {"investigator_llm_config": {…}}

Keys of `findings` and `verifier` that a line does not have keep their value. Findings
may have keys of the investigator's own, which are kept as they are. All lines
are checked before the first record is changed, and all records change or none. No
language model is called here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from longplay.contract.files import (
    describe_invalid,
    parse_json,
    read_bounded,
    read_document,
    render_document,
    shorten,
    write_files,
)
from longplay.contract.typed_record import Record
from longplay.errors import DocumentError, NotARunError, UnknownNameError
from longplay.eval_log.records import (
    EpisodeRecord,
    ExperimentRecord,
    Findings,
    InvestigatorLLMConfig,
    Verifier,
)
from longplay.eval_log.run_records import EXPERIMENT_FILE, find_record_files

_INVESTIGATOR = "investigator_llm_config"
_KEYS = ("trajectory_id", "findings", "verifier", _INVESTIGATOR)

_AnyRecord = TypeVar("_AnyRecord", bound=Record)


@dataclass(frozen=True)
class Applied:
    """What changed.

    Attributes:
        runs: Trajectory ids of the runs that were assessed.
        has_investigator: Whether the file names the investigator.
    """

    runs: tuple[str, ...]
    has_investigator: bool


def apply_findings(directory: str | Path, path: str | Path) -> Applied:
    """Merges the assessments of a file into the records of an experiment.

    Args:
        directory: An experiment directory with its records.
        path: JSONL; see the head of this module.

    Raises:
        NotARunError: The directory has no experiment record.
        DocumentError: A line is invalid or about an unknown run, or a record is
            invalid.
        RecordingError: A file cannot be written. Nothing is changed by any of these.
    """
    records = _Records.read(Path(directory))
    path = Path(path)
    for number, line in _read_lines(path):
        try:
            records.assess(number, line)
        except ValidationError as error:
            message = f"{path.name}:{number} {describe_invalid(error)}"
            raise DocumentError(message) from error
        except (DocumentError, UnknownNameError) as error:
            raise DocumentError(f"{path.name}:{number} {error}") from error
    write_files(records.render_changes())
    return Applied(tuple(records.lines), records.investigator is not None)


@dataclass
class _Records:
    """The records of an experiment, and what was said about them so far."""

    path: Path
    experiment: ExperimentRecord
    episodes: dict[str, tuple[Path, EpisodeRecord]]
    # Trajectory id -> the line about it.
    lines: dict[str, int] = field(default_factory=dict)
    investigator: InvestigatorLLMConfig | None = None

    @classmethod
    def read(cls, directory: Path) -> _Records:
        if not (directory / EXPERIMENT_FILE).is_file():
            raise NotARunError(
                f"{directory}: expected an experiment directory, with "
                f"{EXPERIMENT_FILE} in it"
            )
        episodes = {}
        for path in find_record_files(directory):
            record = read_document(path, EpisodeRecord)
            episodes[record.trajectory_id] = path, record
        experiment = read_document(directory / EXPERIMENT_FILE, ExperimentRecord)
        return cls(directory / EXPERIMENT_FILE, experiment, episodes)

    def assess(self, number: int, line: Mapping[str, Any]) -> None:
        """Applies one line."""
        unknown = [name for name in line if name not in _KEYS]
        if unknown:
            raise UnknownNameError("key", unknown[0], _KEYS)
        if _INVESTIGATOR in line:
            self._name_investigator(line[_INVESTIGATOR])
            if len(line) == 1:
                return
        run = self._find_run(line)
        if run in self.lines:
            raise DocumentError(
                f"trajectory_id: expected one line per run, found {run} in line "
                f"{self.lines[run]} too"
            )
        self.lines[run] = number
        _, record = self.episodes[run]
        if "findings" in line:
            record.findings = _merge(Findings, record.findings, line["findings"])
        if "verifier" in line:
            record.verifier = _merge(Verifier, record.verifier, line["verifier"])

    def _name_investigator(self, given: Any) -> None:
        config = _merge(InvestigatorLLMConfig, None, given)
        if self.investigator not in (None, config):
            raise DocumentError(
                f"{_INVESTIGATOR}: expected one for all runs, found two"
            )
        self.experiment.investigator_llm_config = self.investigator = config

    def _find_run(self, line: Mapping[str, Any]) -> str:
        run = line.get("trajectory_id")
        if not isinstance(run, str):
            found = shorten(run) if "trajectory_id" in line else "none"
            raise DocumentError(f"trajectory_id: expected a string, found {found}")
        if run not in self.episodes:
            raise UnknownNameError("trajectory_id", run, self.episodes)
        if not {"findings", "verifier"} & line.keys():
            raise DocumentError("expected findings or verifier, found neither")
        return run

    def render_changes(self) -> dict[Path, bytes]:
        """The files that change."""
        files = {}
        for run in self.lines:
            path, record = self.episodes[run]
            files[path] = render_document(record)
        if self.investigator is not None:
            files[self.path] = render_document(self.experiment)
        return files


def _merge(kind: type[_AnyRecord], old: Record | None, given: Any) -> _AnyRecord:
    """A record with the given keys, and the old values of all others."""
    if not isinstance(given, dict):
        raise DocumentError(
            f"{kind.__name__}: expected an object, found {shorten(given)}"
        )
    names = kind.model_fields.keys() - Record.model_fields.keys()
    unknown = given.keys() - names - {"_type", "schema_version"}
    if unknown and kind is not Findings:
        raise UnknownNameError(f"key of {kind.__name__}", min(unknown), names)
    values: dict[str, Any] = {} if old is None else old.model_dump(by_alias=True)
    return kind(**{**values, **given})


def _read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The number and content of every line that is not blank.

    Raises:
        DocumentError: A line is not a JSON object, or the file cannot be read.
    """
    try:
        lines = read_bounded(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path}: cannot be read: {error}") from error
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            line = parse_json(text)
        except (ValueError, RecursionError) as error:
            raise DocumentError(f"{path.name}:{number} not JSON: {error}") from error
        if not isinstance(line, dict):
            raise DocumentError(
                f"{path.name}:{number} expected an object, found {shorten(line)}"
            )
        yield number, line
