"""Generated records -> how long `longplay atlas` takes, and whether it finds the truth.

    python benchmarks/bench_atlas.py --agents 5000 --tasks 20000 --observed 0.1

Agents with planted abilities meet tasks with planted difficulties; a tenth of the
entries is observed. Prints minutes, peak memory and the rank correlation of planted and
fitted abilities. Ten million records are 6 GB on disk.
"""

from __future__ import annotations

import argparse
import csv
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class Planted:
    """The size of a generated matrix."""

    agents: int
    tasks: int
    observed: float


# Uniform and standard normal numbers, the same for the same arguments.
_MACROS = """
    CREATE MACRO uniform(a, b, c) AS
        ((hash(hash(a, b, c)) >> 11) + 0.5) / 9007199254740992.0;
    CREATE MACRO normal(a, b) AS
        sqrt(-2 * ln(uniform(a, b, 1))) * cos(2 * pi() * uniform(a, b, 2));
    CREATE MACRO ability(agent) AS normal(agent, 'ability');
"""
# A reward has logistic noise, so its sign follows a Rasch model but for the skills,
# which the low-rank model is to find.
_RECORDS = """
    WITH entries AS (
        SELECT a.i AS agent, t.i AS task,
            ability(a.i) - normal(t.i, 'difficulty')
            + 0.8 * normal(a.i, 'skill') * normal(t.i, 'demand')
            + ln(1 / uniform(a.i, t.i, 'noise') - 1) AS reward
        FROM range({agents}) a(i), range({tasks}) t(i)
        WHERE uniform(a.i, t.i, 'observed') < {observed}
    )
    SELECT 'longplay.eval_log.EpisodeRecord' AS _type, 1 AS schema_version,
        left(sha256('experiment ' || agent), 16) AS experiment_id,
        sha256('agent ' || agent) AS agent_id, 'agent-' || agent AS agent_name,
        'task-' || task AS task_id, sha256('task ' || task) AS task_version_hash,
        0 AS seed, 'test' AS split, NULL AS task_description, [] AS tool_names,
        reward > 0 AS success, reward, NULL AS error_type,
        100 AS n_steps, 100 AS n_agent_steps, 100 AS n_env_steps, 1.0 AS wall_time_s,
        {{'total_tokens': 0}} AS usage, 'task-' || task AS trajectory_id,
        1767225600.0 AS timestamp, NULL AS verifier, NULL AS findings
    FROM entries
"""


def generate_records(path: Path, planted: Planted) -> None:
    """Writes one line per observed entry."""
    with duckdb.connect() as connection:
        connection.execute(_MACROS)
        query = _RECORDS.format(**vars(planted))
        connection.execute(f"COPY ({query}) TO '{path}' (FORMAT json)")


def plant_abilities(planted: Planted) -> Reals:
    """The true ability of every agent, in the order of their numbers."""
    with duckdb.connect() as connection:
        connection.execute(_MACROS)
        query = f"SELECT ability(i) AS x FROM range({planted.agents}) a(i) ORDER BY i"
        return np.asarray(connection.execute(query).fetchnumpy()["x"])


def correlate_ranks(one: Reals, other: Reals) -> float:
    """Spearman's rank correlation of numbers without ties."""
    ranks = [np.argsort(np.argsort(values)) for values in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def read_abilities(path: Path, agents: int) -> Reals:
    """The fitted ability of every agent, in the same order."""
    abilities = np.full(agents, np.nan)
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            abilities[int(row["agent"].removeprefix("agent-"))] = float(row["ability"])
    return abilities


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agents", type=int, default=5000)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--observed", type=float, default=0.1)
    parser.add_argument("--folder", type=Path, help="for the 6 GB of records")
    options = parser.parse_args()
    planted = Planted(options.agents, options.tasks, options.observed)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        generate_records(folder / "records.jsonl", planted)
        size_gb = (folder / "records.jsonl").stat().st_size / 1e9
        command = ["atlas", str(folder / "records.jsonl"), "-o", str(folder / "atlas")]
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "longplay", *command], check=True)
        minutes = (time.perf_counter() - started) / 60
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        fitted = read_abilities(folder / "atlas" / "agents.csv", planted.agents)
        print(f"{size_gb:.1f} GB of records")
        processor = (usage.ru_utime + usage.ru_stime) / 60
        print(f"{minutes:.1f} minutes; {processor:.1f} of processor time")
        print(f"peak memory {usage.ru_maxrss / 1024:.0f} MiB")
        correlation = correlate_ranks(plant_abilities(planted), fitted)
        print(f"rank correlation of abilities {correlation:.4f}")


if __name__ == "__main__":
    main()
