"""Reads run directories: whole documents, and rows lazily as columns.

`read_run(DIR)` opens a run and reads each file on first use.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from longplay.contract.columns import make_frame, read_columns
from longplay.contract.config import RunConfig
from longplay.contract.curves import (
    CURVES_FILE,
    Curves,
    parse_curve_rows,
)
from longplay.contract.documents import (
    Document,
    ProbeRecord,
    ProofLevel,
    RunStatus,
    RunSummary,
    Score,
    VerificationRecord,
)
from longplay.contract.files import hash_file, read_bounded, read_document
from longplay.contract.names import name_agent
from longplay.contract.rows import EpisodeRow, EventRow, RequiredEventRow, SegmentRow
from longplay.contract.rules import sum_events
from longplay.errors import DocumentError, MissingExtraError, NotARunError

if TYPE_CHECKING:
    import pyarrow

_Document = TypeVar("_Document", bound=Document)

# What a replay reproduces, and every run of longplay has.
REPLAYED_FILES = ("events.jsonl", "episodes.jsonl", "segments.jsonl", "digests.jsonl")
# Runs of longplay before 0.2 have no curves.
ROW_FILES = (*REPLAYED_FILES, CURVES_FILE)
# The files that a verification covers.
VERIFIED_FILES = (
    "config.json",
    *ROW_FILES,
    "run_summary.json",
    "score.json",
    "probe.json",
)

PACK_SUFFIX = ".longplay"
STUDY_FILE = "study.json"
# The end of a message, where a run or an experiment was expected.
FOUND_STUDY = "found a study, with its experiments in cells/ and tuning/"

# Folder of a run directory with the states of its agent that were kept.
KEPT_AGENT = "agent"


def name_state(visit_idx: int | None) -> str:
    """Names the agent's state after a visit; None is the one after the last frame."""
    return "final" if visit_idx is None else f"visit-{visit_idx}"


def has_evidence(summary: RunSummary | None) -> bool:
    """Whether a run has the digests and hashes that a verification needs.

    Runs of other tools and of longplay 0.1 have none: they can only be claimed.
    """
    if summary is None or summary.rows is None:
        return False
    hashes = (summary.chain_head, summary.score_sha256)
    return None not in hashes and summary.rows.keys() >= set(REPLAYED_FILES)


def list_changed(record: VerificationRecord, sha256: Mapping[str, str]) -> list[str]:
    """The verified files that are not the ones a verification covers.

    Args:
        record: The verification.
        sha256: File -> its current SHA-256; may name other files too.
    """
    # A verification made before runs had curves does not list them; they follow from
    # the events, which it covers.
    covered = [n for n in VERIFIED_FILES if n != CURVES_FILE or n in record.sha256]
    return [n for n in covered if record.sha256.get(n) != sha256.get(n)]


class Rows:
    """The rows of one file, as columns on demand."""

    def __init__(self, path: Path, row_type: type[msgspec.Struct]) -> None:
        self._path = path
        self._row_type = row_type

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return self._row_type.__struct_encode_fields__

    def numpy(self, *names: str) -> dict[str, NDArray[Any]]:
        """Reads some columns, or all, as NumPy arrays.

        Raises:
            DocumentError: The file is missing, or a line is not a row.
        """
        parts = list(self._read(names))
        return {n: np.concatenate([part[n] for part in parts]) for n in parts[0]}

    def arrow(self, *names: str) -> pyarrow.RecordBatchReader:
        """Streams some columns, or all, as Arrow record batches.

        Raises:
            MissingExtraError: pyarrow is not installed.
            DocumentError: The file is missing, or a line is not a row.
        """
        try:
            import pyarrow
        except ImportError as error:
            raise MissingExtraError.of(
                "Arrow columns need pyarrow", "report"
            ) from error
        parts = self._read(names)
        batches = (pyarrow.RecordBatch.from_pydict(part) for part in parts)
        first = next(batches)
        everything = itertools.chain([first], batches)
        return pyarrow.RecordBatchReader.from_batches(first.schema, everything)

    def to_pandas(self, *names: str) -> Any:
        """Reads some columns, or all, as a `pandas.DataFrame`.

        Raises:
            MissingExtraError: pandas is not installed.
            DocumentError: The file is missing, or a line is not a row.
        """
        return make_frame("pandas", self.numpy(*names))

    def to_polars(self, *names: str) -> Any:
        """The same as a `polars.DataFrame`."""
        return make_frame("polars", self.numpy(*names))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """All columns for any library that reads Arrow: `polars.DataFrame(rows)`."""
        return self.arrow().__arrow_c_stream__(requested_schema)

    def _read(self, names: Sequence[str]) -> Iterator[dict[str, NDArray[Any]]]:
        names = names or self.columns
        unknown = [name for name in names if name not in self.columns]
        if unknown:
            raise KeyError(f"no column {unknown[0]!r}; expected one of {self.columns}")
        if not self._path.is_file():
            raise DocumentError(f"{self._path.name}: missing in {self._path.parent}")
        return read_columns(self._path, self._row_type, names)


class _TuningDeclaration(Document):
    """What is read here of episode_record.json."""

    tuning_frames: int | None = None


class RunDirectory:
    """One run, read lazily."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.episodes = Rows(path / "episodes.jsonl", EpisodeRow)
        self.segments = Rows(path / "segments.jsonl", SegmentRow)

    @cached_property
    def config(self) -> RunConfig:
        """config.json."""
        return read_document(self.path / "config.json", RunConfig)

    @property
    def has_config(self) -> bool:
        """Whether config.json exists: a run may fail before it is written."""
        return (self.path / "config.json").exists()

    @cached_property
    def events(self) -> Rows:
        """events.jsonl, with the columns of the run's contract version."""
        row_type: type[RequiredEventRow] = EventRow
        # The rows stay readable if config.json is broken.
        with contextlib.suppress(DocumentError):
            row_type = self.config.event_row
        return Rows(self.path / "events.jsonl", row_type)

    @cached_property
    def curves(self) -> Curves | None:
        """Sums over the windows of each visit; None without the rows for it.

        From curves.jsonl, else from events.jsonl.

        Raises:
            DocumentError: The file is damaged, or not the one that run_summary.json
                records.
        """
        schedule = self.config.played_schedule
        content = self._read_recorded(CURVES_FILE)
        if content is not None:
            return Curves.from_rows(parse_curve_rows(content), schedule)
        events = self.path / "events.jsonl"
        if not events.is_file():
            return None
        return Curves.from_rows(sum_events(events, self.config), schedule)

    def _read_recorded(self, name: str) -> bytes | None:
        """A small row file, if it is there, checked against its recorded hash."""
        path = self.path / name
        if not path.is_file():
            return None
        content = read_bounded(path)
        recorded = (self.summary.rows if self.summary else None) or {}
        found = hashlib.sha256(content).hexdigest()
        if name in recorded and recorded[name].sha256 != found:
            raise DocumentError(
                f"{name}: expected SHA-256 {recorded[name].sha256}, as in "
                f"run_summary.json, found {found}; see `longplay validate`"
            )
        return content

    @cached_property
    def summary(self) -> RunSummary | None:
        """run_summary.json, if longplay wrote one."""
        return self._read_own("run_summary.json", RunSummary)

    @cached_property
    def score(self) -> Score | None:
        """score.json, if there is one."""
        path = self.path / "score.json"
        if not path.exists():
            return None
        return read_document(path, self.config.score_type if self.has_config else Score)

    @cached_property
    def probe(self) -> ProbeRecord | None:
        """probe.json of a complete probe; None of any other run.

        Raises:
            DocumentError: It is damaged, or not the one that run_summary.json records.
        """
        path = self.path / "probe.json"
        if self.config.probe is None or not path.is_file():
            return None
        recorded = None if self.summary is None else self.summary.score_sha256
        if hashlib.sha256(read_bounded(path)).hexdigest() != recorded:
            raise DocumentError(
                f"{path}: expected the file that run_summary.json records, found "
                "another; see `longplay validate`"
            )
        return read_document(path, ProbeRecord)

    @cached_property
    def status(self) -> RunStatus | None:
        """status.json, if longplay wrote one."""
        return self._read_own("status.json", RunStatus)

    @cached_property
    def verification(self) -> VerificationRecord | None:
        """verification.json, if the run was verified."""
        return self._read_own("verification.json", VerificationRecord)

    @cached_property
    def tuning_frames(self) -> int | None:
        """Frames spent on tuning the agent, by episode_record.json; None if unknown."""
        record = self._read_own("episode_record.json", _TuningDeclaration)
        return None if record is None else record.tuning_frames

    def _repr_html_(self) -> str:
        """The run as a notebook shows it."""
        from longplay.tables import TextTable, render_html

        try:
            facts = self._list_facts()
        except DocumentError as error:
            facts = [("problem", str(error))]
        return render_html(TextTable.of(str(self.path), ("", ""), facts, texts=[1]))

    def _list_facts(self) -> list[tuple[str, str]]:
        config, status, score = self.config, self.status, self.score
        agent = None if config.agent is None else name_agent(config.agent.config)
        state = None if status is None else status.state
        value = None if score is None else score.headline
        name = "score" if score is None else score.HEADLINE.replace("_", " ")
        facts = {
            "suite": config.suite,
            "agent": agent,
            "seed": config.seed,
            "state": state,
            "frames": f"{config.total_frames:,}",
            name: None if value is None else f"{value:.5g}",
        }
        return [
            (name, "–" if fact is None else str(fact)) for name, fact in facts.items()
        ]

    def hash_verified_files(self, *, reads_rows: bool = True) -> dict[str, str]:
        """SHA-256 of the files that a verification covers, where they exist.

        A row file whose length is not the recorded one is left out: it has changed,
        and it may have any length.

        Args:
            reads_rows: False takes the recorded hashes of row files: fast, but blind to
                rows that changed without changing their length.
        """
        rows = (self.summary.rows if self.summary is not None else None) or {}
        sha256 = {}
        for path in (self.path / name for name in VERIFIED_FILES):
            if not path.is_file():
                continue
            recorded = rows.get(path.name)
            if path.name not in ROW_FILES:
                sha256[path.name] = hashlib.sha256(read_bounded(path)).hexdigest()
            elif recorded is None or recorded.bytes == path.stat().st_size:
                if recorded is None or reads_rows:
                    sha256[path.name] = hash_file(path)
                else:
                    sha256[path.name] = recorded.sha256
        return sha256

    def read_trust(
        self, sha256: Mapping[str, str] | None = None, *, reads_rows: bool = False
    ) -> ProofLevel:
        """The level of its verification, if that passed and covers the files.

        Args:
            sha256: File -> its SHA-256; by default from `hash_verified_files`.
            reads_rows: As there.
        """
        record = self.verification
        if record is None or not record.passed:
            return "claimed"
        if sha256 is None:
            sha256 = self.hash_verified_files(reads_rows=reads_rows)
        return "claimed" if list_changed(record, sha256) else record.level

    def _read_own(self, name: str, model: type[_Document]) -> _Document | None:
        """Reads a document that only longplay writes; None for other tools' runs."""
        path = self.path / name
        if not path.exists() or (self.has_config and not self.config.is_longplay):
            return None
        return read_document(path, model)


def find_runs(directory: Path) -> list[Path]:
    """The run directories of an experiment, or the one that is given.

    Raises:
        NotARunError: The folder is neither.
    """
    if is_run(directory):
        # Resolved, so that `.` and `..` have a name.
        return [directory if directory.name.strip(".") else directory.resolve()]
    episodes = directory / "episodes"
    runs = [path for path in episodes.glob("*/") if is_run(path)]
    if not runs:
        found = "no such folder" if not directory.exists() else "found neither"
        if is_study(directory):
            found = FOUND_STUDY
        raise NotARunError(
            f"{directory}: expected a run directory (config.json, events.jsonl, …) or "
            f"an experiment directory (episodes/<run>/); {found}"
        )
    return sorted(runs, key=lambda path: natural_key(path.name))


def is_study(directory: Path) -> bool:
    """Whether a folder holds a study, which is a folder of experiments."""
    return (directory / STUDY_FILE).is_file()


def is_pack(path: Path) -> bool:
    """Whether a path is a packed run, by its name."""
    return path.suffix == PACK_SUFFIX and path.is_file()


def is_run(path: Path) -> bool:
    """Whether a folder looks like a run directory, valid or not."""
    names = ("config.json", "status.json", "events.jsonl")
    return any((path / name).is_file() for name in names)


def natural_key(text: str) -> list[Any]:
    """Sorts numbers in names by value: `seed-2` before `seed-10`."""
    parts = re.split(r"([0-9]+)", text)
    return [int(part) if index % 2 else part for index, part in enumerate(parts)]


def find_run(directory: Path) -> Path:
    """The run directory that is given, or the only one of an experiment."""
    runs = find_runs(directory)
    if len(runs) > 1:
        raise NotARunError(
            f"{directory} holds {len(runs)} runs; give one of its episodes/ folders"
        )
    return runs[0]


def read_run(directory: str | Path) -> RunDirectory:
    """Opens a run directory, or the one run of an experiment directory."""
    return RunDirectory(find_run(Path(directory)))
