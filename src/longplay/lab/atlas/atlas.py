"""M[agent, task] -> abilities of agents, difficulties of tasks, missing entries.

    atlas.json         counts, models, errors of prediction, notes
    agents.csv         abilities; tasks.csv: difficulties
    entries.parquet    the matrix, one row per entry
    experiments.csv    planned and observed tasks; missing.csv: entries without a result
    drift.csv          task ids with several versions

Agents are ordered by their standardised reward: rewards have mean 0 and deviation 1
within each task, and an additive model corrects for the tasks that an agent lacks. The
Rasch model is fitted to `beats_random` where records of the random agent are among the
lines, else to `success`. Same lines, same bytes.
"""

from __future__ import annotations

import math
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.contract.files import (
    make_directory,
    write_chunks,
    write_document,
    write_file,
)
from longplay.errors import ConfigError, OutputError
from longplay.lab.atlas.latent import (
    Factors,
    HeldOut,
    Rasch,
    Scale,
    fit_factors,
    fit_rasch,
    measure_held_out,
)
from longplay.lab.atlas.matrix import Matrix, import_duckdb
from longplay.tables import write_csv

Reals = NDArray[np.float64]

RANDOM_AGENT = "random"
RANK = 2
_MOST_MISSING = 1_000_000
# Of tables without rows where nothing drifted or is missing.
_HEADS = {
    "drift.csv": ("task_id", "task_version_hash"),
    "missing.csv": ("agent", "task_id", "task_version_hash", "propensity"),
}
_CHUNK_BYTES = 2**20


@dataclass(frozen=True)
class Atlas:
    """A matrix and the models fitted to it.

    Attributes:
        matrix: The matrix.
        references: Rows of the random agent.
        response: What Rasch was fitted to: beats_random or success; None if neither
            varies.
        rasch: The model; None without a response.
        z: (entries,) rewards standardised within their task; NaN where all are equal.
        offset: (agents,) standardised reward, corrected for missing entries.
        factors: The low-rank model of z; None if no task has different rewards.
        held_out: Its errors on entries that were not fitted; None if there are few.
    """

    matrix: Matrix
    references: tuple[int, ...]
    response: str | None
    rasch: Rasch | None
    z: Reals
    offset: Reals
    factors: Factors | None
    held_out: HeldOut | None

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The names of the agents; of namesakes, with six digits of their id."""
        counts = Counter(agent.name for agent in self.matrix.agents)
        return tuple(
            agent.name
            if counts[agent.name] == 1
            else f"{agent.name} {agent.agent_id[:6]}"
            for agent in self.matrix.agents
        )

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Rows of the agents, the best first, those without a number last."""
        offsets = np.where(np.isnan(self.offset), -np.inf, self.offset)
        positions = range(len(self.labels))
        return tuple(sorted(positions, key=lambda a: (-offsets[a], self.labels[a])))


def make_atlas(matrix: Matrix, random: str = RANDOM_AGENT, rank: int = RANK) -> Atlas:
    """Fits all models.

    Args:
        matrix: The matrix.
        random: Name or id of the agent that `beats_random` refers to.
        rank: Number of factors.
    """
    if rank < 1:
        raise ConfigError(f"rank: expected at least 1, found {rank}")
    shape = len(matrix.agents), len(matrix.tasks)
    references = tuple(
        row for row, a in enumerate(matrix.agents) if random in (a.name, a.agent_id)
    )
    response, rasch = _fit_response(matrix, references, shape)
    z = Scale.of(matrix.task, matrix.reward, shape[1]).standardise(
        matrix.task, matrix.reward
    )
    known = np.isfinite(z)
    agent, task = matrix.agent[known], matrix.task[known]
    offset = np.full(shape[0], np.nan)
    factors = held_out = None
    if known.any():
        additive = fit_factors(agent, task, z[known], shape, rank=0).agent[:, 0]
        offset = np.where(np.bincount(agent, minlength=shape[0]) > 0, additive, np.nan)
        factors = fit_factors(agent, task, z[known], shape, rank)
        held_out = measure_held_out(
            matrix.agent, matrix.task, matrix.reward, shape, rank
        )
    return Atlas(matrix, references, response, rasch, z, offset, factors, held_out)


def _fit_response(
    matrix: Matrix, references: tuple[int, ...], shape: tuple[int, int]
) -> tuple[str | None, Rasch | None]:
    """Fits Rasch to the first response that varies."""
    responses = {"beats_random": beat_random(matrix, references)}
    responses["success"] = matrix.success
    for name, response in responses.items():
        known = np.isfinite(response)
        if known.any() and np.ptp(response[known]) > 0:
            agent, task = matrix.agent[known], matrix.task[known]
            return name, fit_rasch(agent, task, response[known], shape)
    return None, None


def beat_random(matrix: Matrix, references: Iterable[int]) -> Reals:
    """1 where an agent's reward is above the random agent's, else 0.

    NaN for the random agent itself, and on tasks that it has no result of.
    """
    is_reference = np.isin(matrix.agent, list(references))
    tasks = len(matrix.tasks)
    task = matrix.task[is_reference]
    count = np.bincount(task, minlength=tasks)
    with np.errstate(invalid="ignore"):
        baseline = np.bincount(task, matrix.reward[is_reference], tasks) / count
    level = baseline[matrix.task]
    beats = np.where(matrix.reward > level, 1.0, 0.0)
    return np.where(is_reference | np.isnan(level), np.nan, beats)


# --- tables -------------------------------------------------------------------------


def list_agents(atlas: Atlas) -> Iterator[dict[str, Any]]:
    """Rows of agents.csv, in the order of the agents."""
    matrix, rasch, factors = atlas.matrix, atlas.rasch, atlas.factors
    entries = np.bincount(matrix.agent, minlength=len(matrix.agents))
    for a in atlas.order:
        row = matrix.agents[a]
        yield {
            "agent": atlas.labels[a],
            "agent_id": row.agent_id,
            "records": row.records,
            "errored": row.errored,
            "tasks": int(entries[a]),
            "standardised_reward": _number(atlas.offset[a]),
            "ability": rasch and _number(rasch.ability[a]),
            "ability_se": rasch and _number(rasch.ability_se[a]),
            **_name_factors(factors.agent[a] if factors else None),
        }


def list_tasks(atlas: Atlas) -> Iterator[dict[str, Any]]:
    """Rows of tasks.csv, the most difficult first."""
    matrix, rasch, factors = atlas.matrix, atlas.rasch, atlas.factors
    tasks = len(matrix.tasks)
    agents = np.bincount(matrix.task, minlength=tasks)
    rewards = np.bincount(matrix.task, matrix.reward, tasks)
    scale = Scale.of(matrix.task, matrix.reward, tasks)
    order = np.arange(tasks)
    if rasch is not None:
        order = np.argsort(-rasch.difficulty, kind="stable")  # NaN is last
    for t in order.tolist():
        column = matrix.tasks[t]
        yield {
            "task_id": column.task_id,
            "task_version_hash": column.task_version_hash,
            "benchmark": column.benchmark,
            "agents": int(agents[t]),
            "mean_reward": _number(rewards[t] / agents[t] if agents[t] else math.nan),
            "deviation": _number(scale.deviation[t]),
            "difficulty": rasch and _number(rasch.difficulty[t]),
            "difficulty_se": rasch and _number(rasch.difficulty_se[t]),
            **_name_factors(factors.task[t] if factors else None),
        }


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _name_factors(values: Reals | None) -> dict[str, float]:
    if values is None:
        return {}
    return {f"factor_{k}": float(x) for k, x in enumerate(values[1:], start=1)}


def list_experiments(atlas: Atlas) -> Iterator[dict[str, Any]]:
    """Rows of experiments.csv."""
    for share in atlas.matrix.experiments:
        yield {
            "experiment_id": share.experiment_id,
            "agent": atlas.labels[share.agent],
            "benchmark": share.benchmark,
            "n_tasks": share.n_tasks,
            "completed": share.completed,
            "errored": share.errored,
            "propensity": share.propensity,
        }


def list_drift(atlas: Atlas) -> Iterator[dict[str, Any]]:
    """Rows of drift.csv."""
    for task_id, hashes in atlas.matrix.drift.items():
        for version in hashes:
            yield {"task_id": task_id, "task_version_hash": version}


def list_missing(atlas: Atlas) -> Iterator[dict[str, Any]]:
    """Rows of missing.csv: the entries without a result, and their propensity.

    The propensity is the share of a benchmark's planned tasks that the agent has
    results of: 0 if the agent never ran the task's benchmark, None if no experiment
    record says what was planned.
    """
    matrix = atlas.matrix
    shares: dict[tuple[int, str | None], float] = {}
    has_unknown = set()
    for share in matrix.experiments:
        if share.propensity is None:
            has_unknown.add(share.agent)
        else:
            key = share.agent, share.benchmark
            shares[key] = max(shares.get(key, 0.0), share.propensity)
    is_there = np.zeros((len(matrix.agents), len(matrix.tasks)), np.bool_)
    is_there[matrix.agent, matrix.task] = True
    for a, t in np.argwhere(~is_there).tolist():
        column = matrix.tasks[t]
        unknown = column.benchmark is None or a in has_unknown
        yield {
            "agent": atlas.labels[a],
            "task_id": column.task_id,
            "task_version_hash": column.task_version_hash,
            "propensity": shares.get((a, column.benchmark), None if unknown else 0.0),
        }


def summarise_atlas(atlas: Atlas) -> dict[str, Any]:
    """The content of atlas.json."""
    matrix, held_out = atlas.matrix, atlas.held_out
    return {
        "lines": matrix.lines,
        "agents": len(matrix.agents),
        "tasks": len(matrix.tasks),
        "entries": len(matrix.reward),
        "missing": matrix.missing,
        "errored": matrix.errored,
        "copies": matrix.copies,
        "lines_without_task": matrix.without_task,
        "tasks_with_drift": len(matrix.drift),
        "random_agents": [atlas.labels[a] for a in atlas.references],
        "rasch": atlas.rasch
        and {"response": atlas.response, "converged": atlas.rasch.converged},
        "low_rank": atlas.factors
        and {
            "rank": atlas.factors.agent.shape[1] - 1,
            "held_out_entries": held_out and held_out.entries,
            "held_out_rmse": held_out and held_out.model,
            "baseline_rmse": held_out and held_out.baseline,
        },
        "notes": list(describe_atlas(atlas)),
    }


def describe_atlas(atlas: Atlas) -> Iterator[str]:
    """What to know about the matrix."""
    matrix = atlas.matrix
    if matrix.errored:
        yield f"errored records: {matrix.errored:,}, left out of all means"
    if matrix.drift:
        first = next(iter(matrix.drift))
        yield (
            f"drift: task ids with several versions, which are kept apart: "
            f"{len(matrix.drift):,} ({first}, …)"
        )
    if matrix.copies:
        yield f"lines that are copies of a run given before: {matrix.copies:,}"
    if matrix.without_task:
        yield f"lines without a task id, left out: {matrix.without_task:,}"
    unknown = sum(share.n_tasks is None for share in matrix.experiments)
    if unknown:
        yield (
            f"experiments without their experiment_record.json, of unknown propensity: "
            f"{unknown:,}"
        )
    if atlas.rasch is None:
        yield "no Rasch model: success is the same in all entries"
    elif not atlas.rasch.converged:
        yield "the Rasch model did not converge"
    if atlas.factors is None:
        yield "no standardised rewards: no task has two different rewards"
    elif atlas.held_out is None:
        yield "no held-out error: too few entries"


# --- files --------------------------------------------------------------------------


def write_atlas(directory: Path, atlas: Atlas) -> None:
    """Writes the tables; see the head of this module.

    Raises:
        OutputError: The folder exists and is not empty.
    """
    if directory.exists() and any(directory.iterdir()):
        raise OutputError(f"{directory} exists already; choose a new folder for -o")
    make_directory(directory, exist_ok=True)
    tables = {
        "agents.csv": list_agents(atlas),
        "tasks.csv": list_tasks(atlas),
        "experiments.csv": list_experiments(atlas),
        "drift.csv": list_drift(atlas),
    }
    if atlas.matrix.missing <= _MOST_MISSING:
        tables["missing.csv"] = list_missing(atlas)
    for name, rows in tables.items():
        write_file(directory / name, _render_csv(rows, _HEADS.get(name, ())))
    _write_entries(directory / "entries.parquet", atlas)
    write_document(directory / "atlas.json", summarise_atlas(atlas))


def _render_csv(rows: Iterable[dict[str, Any]], columns: Sequence[str]) -> bytes:
    """A CSV file; None is an empty cell. `columns` are the head if there is no row."""
    found = list(rows)
    heads = list(found[0]) if found else columns
    return write_csv(heads, ([*row.values()] for row in found)).encode()


def _write_entries(path: Path, atlas: Atlas) -> None:
    """Writes the matrix as Parquet, one row per entry, sorted by agent and task."""
    duckdb = import_duckdb()
    matrix = atlas.matrix
    tables: dict[str, dict[str, NDArray[Any]]] = {
        "entries": {
            "row": matrix.agent,
            "col": matrix.task,
            "reward": matrix.reward,
            "success": matrix.success,
            "z": atlas.z,
            "beats_random": beat_random(matrix, atlas.references),
        },
        "agents": {
            "row": np.arange(len(matrix.agents), dtype=np.int32),
            "agent_id": _texts(agent.agent_id for agent in matrix.agents),
            "agent": _texts(atlas.labels),
        },
        "tasks": {
            "col": np.arange(len(matrix.tasks), dtype=np.int32),
            "task_id": _texts(task.task_id for task in matrix.tasks),
            "task_version_hash": _texts(t.task_version_hash for t in matrix.tasks),
        },
    }
    with tempfile.TemporaryDirectory(prefix="longplay-atlas-") as folder:
        written = Path(folder) / path.name
        with duckdb.connect() as connection:
            for name, table in tables.items():
                connection.register(name, table)
            connection.sql(
                "SELECT agent_id, agent, task_id, task_version_hash, reward, success, "
                "z, beats_random FROM entries JOIN agents USING (row) "
                "JOIN tasks USING (col) ORDER BY row, col"
            ).write_parquet(str(written))
        with written.open("rb") as file:
            write_chunks(path, iter(lambda: file.read(_CHUNK_BYTES), b""))


def _texts(values: Iterable[str | None]) -> NDArray[Any]:
    return np.array(list(values), dtype=object)
