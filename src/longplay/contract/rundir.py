"""Reads run directories: whole documents, and rows lazily as columns.

`read_run(DIR)` opens a run and reads each file on first use. Rows are scanned by
DuckDB, which is fast and lenient: use it to query a valid run, and `contract.columns`
to check whether a run is valid.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from numpy.typing import NDArray

from longplay.contract.files import (
    hash_file,
    open_regular,
    read_bounded,
    read_document,
)
from longplay.contract.records import (
    Document,
    PredictionRow,
    RunConfig,
    RunStatus,
    RunSummary,
    Score,
    TimestepRow,
    VerificationRecord,
)
from longplay.errors import DocumentError, MissingExtraError, NotARunError

if TYPE_CHECKING:
    import pyarrow

_Document = TypeVar("_Document", bound=Document)

ROW_FILES = ("events.jsonl", "episodes.jsonl", "segments.jsonl", "digests.jsonl")
# The files that a verification covers.
VERIFIED_FILES = ("config.json", *ROW_FILES, "run_summary.json", "score.json")

PACK_SUFFIX = ".longplay"
STUDY_FILE = "study.json"
# The end of a message, where a run or an experiment was expected.
FOUND_STUDY = "found a study, with its experiments in cells/ and tuning/"

# Folder of a run directory with the state of its agent after the last frame.
KEPT_AGENT = "agent"


def has_evidence(summary: RunSummary | None) -> bool:
    """Whether a run has the digests and hashes that a verification needs.

    Runs of other tools and of longplay 0.1 have none: they can only be claimed.
    """
    if summary is None or summary.rows is None:
        return False
    hashes = (summary.chain_head, summary.score_sha256)
    return None not in hashes and summary.rows.keys() == set(ROW_FILES)


def list_changed(record: VerificationRecord, sha256: Mapping[str, str]) -> list[str]:
    """The verified files that are not the ones a verification covers.

    Args:
        record: The verification.
        sha256: File -> its current SHA-256; may name other files too.
    """
    return [n for n in VERIFIED_FILES if record.sha256.get(n) != sha256.get(n)]


_EVENT_TYPES = {
    "global_frame_idx": "BIGINT",
    "game_id": "VARCHAR",
    "visit_idx": "BIGINT",
    "cycle_idx": "BIGINT",
    "visit_frame_idx": "BIGINT",
    "episode_id": "BIGINT",
    "segment_id": "BIGINT",
    "is_decision_frame": "BOOLEAN",
    "decided_action_idx": "BIGINT",
    "applied_action_idx": "BIGINT",
    "reward": "DOUBLE",
    "terminated": "BOOLEAN",
    "truncated": "BOOLEAN",
    "lives": "BIGINT",
}
_TIMESTEP_TYPES = {"game_reward": "DOUBLE", "emulator_frames": "BIGINT"}
_PREDICTION_TYPES = {"prediction": "DOUBLE", "target": "DOUBLE"}
# Another tool may have written it, in any format.
_HIDDEN_TYPES = {"wallclock_time": "VARCHAR"}
_SPAN_TYPES = {
    "game_id": "VARCHAR",
    "start_global_frame_idx": "BIGINT",
    "end_global_frame_idx": "BIGINT",
    "length": "BIGINT",
    "return": "DOUBLE",
    "ended_by": "VARCHAR",
}


class Rows:
    """The rows of one file, as columns on demand."""

    def __init__(self, path: Path, types: Mapping[str, str]) -> None:
        self._path = path
        self._types = types

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(self._types)

    @property
    def is_torn(self) -> bool:
        """Whether the last line is incomplete."""
        if not self._path.is_file() or self._path.stat().st_size == 0:
            return False
        with open_regular(self._path) as file:
            file.seek(-1, os.SEEK_END)
            return file.read() != b"\n"

    def _sql(self, expressions: str, needs: tuple[str, ...], allow_torn: bool) -> str:
        """The SQL for expressions over the columns they need, in file order."""
        if not self._path.is_file():
            raise DocumentError(f"{self._path.name}: missing in {self._path.parent}")
        if not is_readable_path(self._path):
            raise DocumentError(
                f"{self._path}: expected a path in UTF-8, which DuckDB needs; move the "
                "run to another folder"
            )
        known = {**self._types, **_HIDDEN_TYPES}
        types = ", ".join(f"'{name}': '{known[name]}'" for name in needs)
        return (
            f"SELECT {expressions} FROM read_json({_quote_path(self._path)}, "
            f"format='newline_delimited', columns={{{types}}}, "
            f"ignore_errors={str(allow_torn).lower()})"
        )

    def _select(self, names: tuple[str, ...]) -> str:
        names = names or self.columns
        unknown = [name for name in names if name not in self._types]
        if unknown:
            raise KeyError(f"no column {unknown[0]!r}; expected one of {self.columns}")
        return self._sql(", ".join(f'"{name}"' for name in names), names, False)

    def numpy(self, *names: str) -> dict[str, NDArray[Any]]:
        """Reads some columns, or all, as NumPy arrays."""
        columns: dict[str, NDArray[Any]] = self._run(
            self._select(names), lambda result: result.fetchnumpy()
        )
        return columns

    def arrow(self, *names: str) -> pyarrow.RecordBatchReader:
        """Streams some columns, or all, as Arrow record batches."""
        try:
            import pyarrow
        except ImportError as error:
            raise MissingExtraError(
                "Arrow columns need pyarrow: pip install '.[arrow]'"
            ) from error
        import duckdb

        relation = duckdb.connect().sql(self._select(names))
        return pyarrow.RecordBatchReader.from_stream(relation)

    def aggregate(self, expressions: str, *, needs: tuple[str, ...]) -> tuple[Any, ...]:
        """Runs SQL aggregates over the columns they need; returns their one row.

        In a file whose last line is torn, an invalid line counts as a row of nulls.

        Raises:
            DocumentError: The file is missing, or another line is invalid.
        """
        sql = self._sql(expressions, needs, self.is_torn)
        (row,) = self._run(sql, lambda result: result.fetchall())
        return tuple(row)

    def group(
        self, keys: str, expressions: str, *, needs: tuple[str, ...]
    ) -> list[tuple[Any, ...]]:
        """Runs SQL aggregates for every value of the keys, in the order of the keys.

        One pass, with memory for the groups only. Torn lines are as in `aggregate`.

        Raises:
            DocumentError: The file is missing, or another line is invalid.
        """
        select = self._sql(f"{keys}, {expressions}", needs, self.is_torn)
        sql = f"{select} GROUP BY {keys} ORDER BY {keys} NULLS LAST"
        rows: list[tuple[Any, ...]] = self._run(sql, lambda result: result.fetchall())
        return rows

    def _run(self, sql: str, fetch: Callable[[Any], Any]) -> Any:
        import duckdb

        try:
            with duckdb.connect() as connection:
                return fetch(connection.execute(sql))
        except duckdb.Error as error:
            first_line = str(error).splitlines()[0]
            raise DocumentError(
                f"{self._path.name}: {first_line}; run `longplay validate` for details"
            ) from error


# Tells whether rows, in any order, are the frames 0, 1, 2, … once each.
FRAMES_FINGERPRINT = """
    [count(global_frame_idx), sum(global_frame_idx),
    bit_xor(hash(global_frame_idx)) FILTER (WHERE global_frame_idx IS NOT NULL)]
"""


def fingerprint_frames(count: int) -> list[Any]:
    """The value of `FRAMES_FINGERPRINT` for the frames 0 … count - 1."""
    import duckdb

    with duckdb.connect() as connection:
        (row,) = connection.execute(
            f"SELECT {FRAMES_FINGERPRINT} FROM range({count}) frames(global_frame_idx)"
        ).fetchall()
    return list(row[0])


def is_readable_path(path: Path) -> bool:
    """Whether DuckDB can open a path: it takes UTF-8 only."""
    try:
        str(path.absolute()).encode()
    except UnicodeEncodeError:
        return False
    return True


def escape_pattern(path: Path) -> str:
    """A path for DuckDB, which expands patterns: `lr[0.1]` is escaped."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))


def _quote_path(path: Path) -> str:
    """A path as an SQL string."""
    return "'" + escape_pattern(path).replace("'", "''") + "'"


class _TuningDeclaration(Document):
    """What is read here of episode_record.json."""

    tuning_frames: int | None = None


class RunDirectory:
    """One run, read lazily."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.episodes = Rows(
            path / "episodes.jsonl", {"episode_id": "BIGINT", **_SPAN_TYPES}
        )
        self.segments = Rows(
            path / "segments.jsonl", {"segment_id": "BIGINT", **_SPAN_TYPES}
        )

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
        types = _EVENT_TYPES
        # The rows stay readable if config.json is broken.
        with contextlib.suppress(DocumentError):
            if issubclass(self.config.event_row, TimestepRow):
                types = {**types, **_TIMESTEP_TYPES}
            if issubclass(self.config.event_row, PredictionRow):
                types = {**types, **_PREDICTION_TYPES}
        return Rows(self.path / "events.jsonl", types)

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

    def hash_verified_files(self) -> dict[str, str]:
        """SHA-256 of the files that a verification covers, where they exist.

        A row file whose length is not the recorded one is left out: it has changed,
        and it may have any length.
        """
        rows = (self.summary.rows if self.summary is not None else None) or {}
        sha256 = {}
        for path in (self.path / name for name in VERIFIED_FILES):
            if path.is_file():
                recorded = rows.get(path.name)
                if path.name not in ROW_FILES:
                    sha256[path.name] = hashlib.sha256(read_bounded(path)).hexdigest()
                elif recorded is None or recorded.bytes == path.stat().st_size:
                    sha256[path.name] = hash_file(path)
        return sha256

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
