"""Episode records of any number of experiments -> M[agent, task].

    row      := agent_id, else the agent of the line's experiment record, else the
                experiment itself
    column   := (task_id, task_version_hash)
    entry    := mean reward of the records without an error

Lines of one task are merged only if their `task_version_hash` agrees: a task id with
several hashes has a column for each, and is reported as drift. A run with an error is
counted and left out of the mean. A run that is given twice counts once.

DuckDB reads the lines and merges them, in a file that is removed afterwards: memory is
bounded by the number of entries, not of lines.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AliasChoices

from longplay.contract.files import read_document
from longplay.contract.names import name_agent
from longplay.errors import DocumentError, MissingExtraError, NotARunError
from longplay.eval_log.foreign import is_foreign
from longplay.eval_log.records import EpisodeRecord, ExperimentRecord
from longplay.eval_log.run_records import (
    EPISODE_FILE,
    EXPERIMENT_FILE,
    find_record_files,
)

if TYPE_CHECKING:
    import duckdb

Ints = NDArray[np.int32]
Reals = NDArray[np.float64]

_MEMORY = "2GB"
# Columns of a line that the matrix needs. Numbers and flags are read as JSON, because
# DuckDB would silently convert text to them.
_COLUMNS = {
    "experiment_id": "VARCHAR",
    "agent_id": "VARCHAR",
    "agent_name": "VARCHAR",
    "task_id": "VARCHAR",
    "task_version_hash": "VARCHAR",
    "reward": "JSON",
    "success": "JSON",
    "error_type": "VARCHAR",
    "trajectory_id": "VARCHAR",
    "timestamp": "DOUBLE",
}
_REQUIRED = ("experiment_id", "task_id", "trajectory_id")
# The names of these columns in newer logs of the harness that the EvalLog comes from.
_ALIASES = {
    name: str(aliases.choices[1])
    for name in _COLUMNS
    if (aliases := EpisodeRecord.model_fields[name].validation_alias)
    and isinstance(aliases, AliasChoices)
}


@dataclass(frozen=True)
class AgentRow:
    """A row of the matrix.

    Attributes:
        agent_id: Digest of the agent's config, or `experiment <id>`.
        name: The agent's name; its id where it has none.
        records: Its records, copies not counted.
        errored: How many of them have an error; means leave them out.
    """

    agent_id: str
    name: str
    records: int
    errored: int


@dataclass(frozen=True)
class TaskColumn:
    """A column of the matrix.

    Attributes:
        task_id: The id that all its records share.
        task_version_hash: The same; None where records have none.
        benchmark: A benchmark it belongs to; None without an experiment record.
    """

    task_id: str
    task_version_hash: str | None
    benchmark: str | None = None


@dataclass(frozen=True)
class ExperimentShare:
    """How much of an experiment was observed.

    Attributes:
        experiment_id: The experiment.
        agent: Position of its agent.
        benchmark: Name of its benchmark; None without an experiment record.
        n_tasks: Tasks that were planned; None likewise.
        completed: Tasks with a result.
        errored: Tasks that ended with an error.
    """

    experiment_id: str
    agent: int
    benchmark: str | None
    n_tasks: int | None
    completed: int
    errored: int

    @property
    def propensity(self) -> float | None:
        """The share of planned tasks that were observed."""
        if not self.n_tasks:
            return None
        return min(1.0, self.completed / self.n_tasks)


@dataclass(frozen=True)
class Matrix:
    """M[agent, task], its entries sorted by agent and task.

    Attributes:
        agents: Rows.
        tasks: Columns.
        agent: (entries,) row of each entry.
        task: (entries,) column of each entry.
        reward: (entries,) mean reward over records.
        success: (entries,) share of records with a reward above 0.
        experiments: What was planned, and what was observed.
        drift: Task id -> its hashes, where there are several.
        lines: Lines that were read.
        copies: Lines of runs that were given before.
        without_task: Lines without a task id; they are left out.
    """

    agents: tuple[AgentRow, ...]
    tasks: tuple[TaskColumn, ...]
    agent: Ints
    task: Ints
    reward: Reals
    success: Reals
    experiments: tuple[ExperimentShare, ...] = ()
    drift: dict[str, tuple[str | None, ...]] = field(default_factory=dict)
    lines: int = 0
    copies: int = 0
    without_task: int = 0

    @property
    def missing(self) -> int:
        """The number of entries without a completed record."""
        return len(self.agents) * len(self.tasks) - len(self.reward)

    @property
    def errored(self) -> int:
        """The number of records with an error."""
        return sum(agent.errored for agent in self.agents)


def read_matrix(paths: Iterable[str | Path]) -> Matrix:
    """Reads the matrix of some records.

    Args:
        paths: JSONL or Parquet files of episode records; experiment directories, or
            files `experiment_record.json`, which say how many tasks were planned.

    Raises:
        NotARunError: A path has no records.
        DocumentError: A line is not an episode record.
    """
    sources = _Sources.find(map(Path, paths))
    with _open_database() as connection:
        _read_experiments(connection, sources.experiments)
        _read_lines(connection, sources)
        _check_lines(connection)
        for statement in _MERGE:
            connection.execute(statement)
        return _fetch(connection)


@dataclass
class _Sources:
    """The files at some paths, by their format."""

    lines: list[Path] = field(default_factory=list)
    tables: list[Path] = field(default_factory=list)
    documents: list[Path] = field(default_factory=list)
    experiments: list[Path] = field(default_factory=list)

    @classmethod
    def find(cls, paths: Iterable[Path]) -> _Sources:
        sources = cls()
        for path in paths:
            if path.is_dir():
                sources._add_experiment(path)
            elif not path.is_file():
                raise NotARunError(f"{path}: no such file or folder")
            elif path.suffix == ".parquet":
                sources.tables.append(path)
            elif path.name == EXPERIMENT_FILE:
                sources.experiments.append(path)
            else:
                sources.lines.append(path)
        if not (sources.lines or sources.tables or sources.documents):
            raise NotARunError("expected files of episode records, found none")
        return sources

    def _add_experiment(self, directory: Path) -> None:
        documents = find_record_files(directory)
        if not documents and is_foreign(directory):
            raise NotARunError(
                f"{directory}: expected records, found a run of another tool; "
                "`longplay export --jsonl FILE --agent-name NAME --suite-name NAME` "
                "makes its record"
            )
        if not documents:
            raise NotARunError(
                f"{directory}: expected an experiment directory with records "
                f"(episodes/*/{EPISODE_FILE}), found none"
            )
        self.documents += documents
        if (directory / EXPERIMENT_FILE).is_file():
            self.experiments.append(directory / EXPERIMENT_FILE)


# --- DuckDB -------------------------------------------------------------------------


def import_duckdb() -> Any:
    """The module, which only the matrix needs.

    Raises:
        MissingExtraError: It is not installed.
    """
    try:
        import duckdb
    except ImportError as error:
        raise MissingExtraError.of("the matrix needs duckdb", "atlas") from error
    return duckdb


@contextmanager
def _open_database() -> Iterator[duckdb.DuckDBPyConnection]:
    """A database in a temporary file, where it may spill what exceeds its memory."""
    duckdb = import_duckdb()
    with tempfile.TemporaryDirectory(prefix="longplay-atlas-") as folder:
        config: dict[str, Any] = {
            "memory_limit": _MEMORY,
            "temp_directory": f"{folder}/spilled",
            "preserve_insertion_order": False,
        }
        try:
            with duckdb.connect(f"{folder}/lines.duckdb", config=config) as connection:
                yield connection
        except duckdb.Error as error:
            message = str(error).partition("\n")[0]
            raise DocumentError(f"records cannot be read: {message}") from error


def _read_experiments(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[Path]
) -> None:
    connection.execute(
        "CREATE TABLE experiments (experiment_id VARCHAR PRIMARY KEY, "
        "agent_id VARCHAR, agent_name VARCHAR, benchmark VARCHAR, n_tasks BIGINT)"
    )
    for path in paths:
        record = read_document(path, ExperimentRecord)
        values = [
            record.experiment_id,
            record.agent.agent_id,
            name_agent(record.agent.config | {"_type": record.agent.config_type}),
            record.benchmark_name,
            record.benchmark_subset.n_tasks,
        ]
        insert = "INSERT OR REPLACE INTO experiments VALUES (?, ?, ?, ?, ?)"
        connection.execute(insert, values)


def _read_lines(connection: duckdb.DuckDBPyConnection, sources: _Sources) -> None:
    types = _COLUMNS | {alias: _COLUMNS[name] for name, alias in _ALIASES.items()}
    columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
    connection.execute(f"CREATE TABLE given_lines ({columns}, filename VARCHAR)")
    chosen = ", ".join(f"coalesce({n}, {a}) AS {n}" for n, a in _ALIASES.items())
    connection.execute(
        f"CREATE VIEW lines AS SELECT * REPLACE ({chosen}) FROM given_lines"
    )
    names = ", ".join(f"'{name}': '{kind}'" for name, kind in types.items())
    for files, layout in (
        (sources.lines, "newline_delimited"),
        (sources.documents, "unstructured"),
    ):
        if files:
            connection.execute(
                "INSERT INTO given_lines BY NAME SELECT * FROM read_json(?, "
                f"format = '{layout}', columns = {{{names}}}, filename = true)",
                [[_escape_pattern(path) for path in files]],
            )
    if sources.tables:
        wanted = "|".join((*types, "filename"))
        connection.execute(
            f"INSERT INTO given_lines BY NAME SELECT COLUMNS('^({wanted})$') "
            "FROM read_parquet(?, filename = true, union_by_name = true)",
            [[_escape_pattern(path) for path in sources.tables]],
        )


def _escape_pattern(path: Path) -> str:
    """A path for DuckDB, which expands patterns: `lr[0.1]` is escaped."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in str(path))


def _check_lines(connection: duckdb.DuckDBPyConnection) -> None:
    """Refuses lines that are not episode records."""
    problems = {name: f"{name} IS NULL" for name in _REQUIRED}
    number = "('DOUBLE', 'BIGINT', 'UBIGINT', 'HUGEINT')"
    problems["reward"] = (
        f"coalesce(json_type(reward), '') NOT IN {number} "
        "OR NOT isfinite(CAST(reward AS DOUBLE))"
    )
    problems["success"] = "coalesce(json_type(success), '') <> 'BOOLEAN'"
    for name, condition in problems.items():
        bad = connection.execute(
            f"SELECT filename, trajectory_id, {name} FROM lines WHERE {condition} "
            "ORDER BY ALL LIMIT 1"
        ).fetchone()
        if bad is not None:
            filename, run, value = bad
            place = f" (trajectory_id {run})" if run is not None else ""
            raise DocumentError(
                f"{Path(filename).name}{place} {name}: expected an episode record, "
                f"found {value if value is not None else 'no value'}"
            )


# The agent of a line, in a join of lines and experiments.
_AGENT_ID = "coalesce(l.agent_id, e.agent_id, 'experiment ' || l.experiment_id)"

_MERGE = (
    f"""
    CREATE TABLE agents AS
    SELECT CAST(row_number() OVER (ORDER BY name, agent_id) - 1 AS INTEGER) AS agent, *
    FROM (
        SELECT {_AGENT_ID} AS agent_id,
            coalesce(min(l.agent_name), min(e.agent_name), {_AGENT_ID}) AS name
        FROM lines l LEFT JOIN experiments e USING (experiment_id)
        WHERE task_id <> ''
        GROUP BY {_AGENT_ID}
    )
    """,
    """
    CREATE TABLE tasks AS
    SELECT CAST(row_number() OVER (ORDER BY task_id, task_version_hash) - 1 AS INTEGER)
        AS task, *
    FROM (SELECT DISTINCT task_id, task_version_hash FROM lines WHERE task_id <> '')
    """,
    # Of several copies of a run, the last counts, as a retry replaces a record.
    f"""
    CREATE TABLE records AS
    SELECT experiment_id, agent, task, count(*) AS copies,
        arg_max(
            {{reward: reward, success: success, error_type: error_type}},
            (timestamp, error_type IS NULL, reward)
        ) AS outcome
    FROM (
        SELECT l.experiment_id, trajectory_id, a.agent, t.task,
            CAST(reward AS DOUBLE) AS reward, CAST(success AS BOOLEAN) AS success,
            error_type, coalesce(timestamp, 0.0) AS timestamp
        FROM lines l
        LEFT JOIN experiments e USING (experiment_id)
        JOIN agents a ON a.agent_id = {_AGENT_ID}
        JOIN tasks t ON t.task_id = l.task_id
            AND t.task_version_hash IS NOT DISTINCT FROM l.task_version_hash
    )
    GROUP BY experiment_id, trajectory_id, agent, task
    """,
    # A sum depends on its order, in the last digits.
    """
    CREATE TABLE entries AS
    SELECT agent, task, avg(outcome.reward ORDER BY outcome.reward) AS reward,
        avg(CAST(outcome.success AS INTEGER)) AS success
    FROM records WHERE outcome.error_type IS NULL
    GROUP BY agent, task
    """,
)


# --- the matrix in memory -----------------------------------------------------------


def _fetch(connection: duckdb.DuckDBPyConnection) -> Matrix:
    entries = connection.execute(
        "SELECT agent, task, reward, success FROM entries ORDER BY agent, task"
    ).fetchnumpy()
    lines, without_task = _one(
        connection, "SELECT count(*), count(*) FILTER (task_id = '') FROM lines"
    )
    (copies,) = _one(connection, "SELECT sum(copies - 1) FROM records")
    return Matrix(
        agents=tuple(AgentRow(*row) for row in _rows(connection, _AGENTS)),
        tasks=tuple(TaskColumn(*row) for row in _rows(connection, _TASKS)),
        agent=np.asarray(entries["agent"], np.int32),
        task=np.asarray(entries["task"], np.int32),
        reward=np.asarray(entries["reward"], np.float64),
        success=np.asarray(entries["success"], np.float64),
        experiments=tuple(
            ExperimentShare(*row) for row in _rows(connection, _EXPERIMENTS)
        ),
        drift={task_id: tuple(h) for task_id, h in _rows(connection, _DRIFT)},
        lines=lines,
        copies=int(copies or 0),
        without_task=without_task,
    )


_AGENTS = """
    SELECT agent_id, name, count(*), count(outcome.error_type)
    FROM agents JOIN records USING (agent)
    GROUP BY agent, agent_id, name ORDER BY agent
"""
_TASKS = """
    SELECT task_id, task_version_hash, min(benchmark)
    FROM tasks JOIN records USING (task) LEFT JOIN experiments USING (experiment_id)
    GROUP BY task, task_id, task_version_hash ORDER BY task
"""
_DRIFT = """
    SELECT task_id, list(task_version_hash ORDER BY task)
    FROM tasks GROUP BY task_id HAVING count(*) > 1 ORDER BY task_id
"""
# Visits of one run share their hash: a planned task is a hash, or an id without one.
_EXPERIMENTS = """
    SELECT experiment_id, min(agent), any_value(benchmark), any_value(n_tasks),
        count(*) FILTER (is_completed), count(*) FILTER (NOT is_completed)
    FROM (
        SELECT experiment_id, agent, planned, bool_and(is_completed) AS is_completed
        FROM (
            SELECT experiment_id, agent, task,
                coalesce(task_version_hash, task_id) AS planned,
                bool_or(outcome.error_type IS NULL) AS is_completed
            FROM records JOIN tasks USING (task) GROUP BY ALL
        )
        GROUP BY ALL
    )
    LEFT JOIN experiments USING (experiment_id)
    GROUP BY experiment_id ORDER BY min(agent), experiment_id
"""


def _rows(connection: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return connection.execute(query).fetchall()


def _one(connection: duckdb.DuckDBPyConnection, query: str) -> tuple[Any, ...]:
    (row,) = _rows(connection, query)
    return row
