"""Records of many experiments -> the matrix: what is merged, counted and refused."""

from __future__ import annotations

import json
import random
from dataclasses import fields
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from generated_records import make_line, write_experiment_record, write_lines
from generated_runs import AGENT_ID, SUITE, describe_experiment
from longplay.errors import DocumentError, NotARunError
from longplay.eval_log.export import ExportOptions, export_jsonl
from longplay.eval_log.log import save_records
from longplay.eval_log.records import AgentInfo
from longplay.lab.atlas.matrix import Matrix, read_matrix


def entries(matrix: Matrix) -> dict[tuple[str, str], float]:
    """(agent's name, task id) -> reward; columns of one task id must not clash."""
    found = {}
    rows = zip(matrix.agent, matrix.task, matrix.reward, strict=True)
    for agent, task, reward in rows:
        key = matrix.agents[agent].name, matrix.tasks[task].task_id
        assert key not in found
        found[key] = float(reward)
    return found


def read(tmp_path: Path, *lines: dict[str, Any]) -> Matrix:
    return read_matrix([write_lines(tmp_path / "lines.jsonl", lines)])


def is_same(one: Matrix, other: Matrix) -> bool:
    return all(
        np.array_equal(getattr(one, field.name), getattr(other, field.name))
        for field in fields(Matrix)
    )


LINES = [
    make_line("beta", "t2", 4.0),
    make_line("alpha", "t1", 1.0),
    make_line("alpha", "t2", -2.0),
    make_line("beta", "t1", 3.0),
]


@pytest.mark.seed("001", "purpose-10", "agent-14")
def test_lines_become_a_matrix(tmp_path):
    matrix = read(tmp_path, *LINES)
    assert entries(matrix) == {
        ("alpha", "t1"): 1.0,
        ("alpha", "t2"): -2.0,
        ("beta", "t1"): 3.0,
        ("beta", "t2"): 4.0,
    }
    assert matrix.agent.tolist() == [0, 0, 1, 1]
    assert matrix.success.tolist() == [1.0, 0.0, 1.0, 1.0]
    assert (matrix.lines, matrix.missing, matrix.errored) == (4, 0, 0)
    assert matrix.agents[0].agent_id == "alpha-id"


def test_order_and_number_of_files_do_not_matter(tmp_path):
    lines = [
        make_line("alpha", f"t{n % 7}", 0.1 * n, trajectory_id=str(n))
        for n in range(100)
    ]
    whole = read(tmp_path, *lines)
    random.Random(0).shuffle(lines)
    halves = [write_lines(tmp_path / f"{n}.jsonl", lines[n::2]) for n in range(2)]
    assert is_same(read_matrix(halves), whole)


def test_entry_is_the_mean_of_its_runs(tmp_path):
    runs = [make_line("alpha", "t", r, trajectory_id=str(r)) for r in (1.0, -3.0, 5.0)]
    matrix = read(tmp_path, *runs)
    assert entries(matrix) == {("alpha", "t"): 1.0}
    assert matrix.success.tolist() == [2 / 3]
    assert matrix.agents[0].records == 3


# --- errors -------------------------------------------------------------------------


def test_crash_does_not_win(tmp_path):
    """Reward 0.0 of a crash is above an honest -4."""
    crash = {"error_type": "ValueError", "trajectory_id": "crash"}
    matrix = read(
        tmp_path,
        make_line("honest", "t", -4.0),
        make_line("mixed", "t", -6.0),
        make_line("mixed", "t", 0.0, **crash),
        make_line("broken", "t", 0.0, **crash),
    )
    assert entries(matrix) == {("honest", "t"): -4.0, ("mixed", "t"): -6.0}
    counts = {row.name: (row.records, row.errored) for row in matrix.agents}
    assert counts == {"honest": (1, 0), "mixed": (2, 1), "broken": (1, 1)}
    assert (matrix.errored, matrix.missing) == (2, 1)


# --- versions of a task -------------------------------------------------------------


@pytest.mark.seed("001", "episode-26")
def test_versions_of_a_task_are_kept_apart(tmp_path):
    matrix = read(
        tmp_path,
        make_line("alpha", "t", 1.0),
        make_line("beta", "t", 2.0, task_version_hash="other"),
        make_line("beta", "u", 3.0),
        make_line("gamma", "t", 4.0, task_version_hash=None),
    )
    assert matrix.drift == {"t": ("hash-t", "other", None)}
    assert [task.task_id for task in matrix.tasks] == ["t", "t", "t", "u"]
    assert matrix.task.tolist() == [0, 1, 3, 2]


# --- copies -------------------------------------------------------------------------


def test_run_given_twice_counts_once(tmp_path):
    path = write_lines(tmp_path / "lines.jsonl", LINES)
    copy = write_lines(tmp_path / "copy.jsonl", LINES[:3])
    matrix = read_matrix([path, copy])
    assert entries(matrix) == entries(read_matrix([path]))
    assert (matrix.lines, matrix.copies) == (7, 3)
    assert [row.records for row in matrix.agents] == [2, 2]


def test_retry_replaces_the_record_of_the_crash(tmp_path):
    matrix = read(
        tmp_path,
        make_line("alpha", "t", -1.0, timestamp=2000.0),
        make_line("alpha", "t", 0.0, error_type="KeyError", timestamp=1000.0),
    )
    assert entries(matrix) == {("alpha", "t"): -1.0}
    assert (matrix.errored, matrix.copies) == (0, 1)


@pytest.mark.parametrize("rewards", [(-1.0, 0.0), (1.0, 0.0)])
def test_run_that_was_resumed_is_not_errored(tmp_path, rewards):
    """A resumed run keeps its start; what it earned does not decide."""
    completed, crashed = rewards
    matrix = read(
        tmp_path,
        make_line("alpha", "t", crashed, error_type="KeyError"),
        make_line("alpha", "t", completed),
    )
    assert entries(matrix) == {("alpha", "t"): completed}
    assert (matrix.errored, matrix.copies) == (0, 1)


# --- other harnesses ----------------------------------------------------------------


def test_line_without_an_agent_is_its_experiment_s(tmp_path):
    lines = [
        make_line("alpha", "t", 1.0, agent_id="absent", agent_name="absent"),
        make_line("beta", "t", 2.0, agent_id=None, agent_name=None),
    ]
    record = write_experiment_record(tmp_path / "a", "alpha", "quiz", 1)
    path = write_lines(tmp_path / "lines.jsonl", lines)
    expected = AgentInfo.from_agent_config({"_type": "elsewhere.alpha"}).agent_id
    matrix = read_matrix([path, record])
    assert [(row.name, row.agent_id) for row in matrix.agents] == [
        ("alpha", expected),
        ("experiment experiment-beta", "experiment experiment-beta"),
    ]


def test_line_without_a_task_is_counted_and_left_out(tmp_path):
    matrix = read(tmp_path, *LINES, make_line("gamma", "", 9.0))
    assert len(matrix.agents) == len(matrix.tasks) == 2
    assert (matrix.lines, matrix.without_task) == (5, 1)


def test_parquet_is_read_like_jsonl(tmp_path):
    path = write_lines(tmp_path / "lines.jsonl", LINES)
    table = tmp_path / "lines.parquet"
    duckdb.sql(f"SELECT * FROM read_json('{path}')").write_parquet(str(table))
    assert is_same(read_matrix([table]), read_matrix([path]))
    narrow = tmp_path / "narrow.parquet"
    duckdb.sql(
        f"SELECT * EXCLUDE (agent_name, error_type) FROM read_json('{path}')"
    ).write_parquet(str(narrow))
    assert read_matrix([narrow]).reward.tolist() == [1.0, -2.0, 3.0, 4.0]


# --- experiments --------------------------------------------------------------------


@pytest.fixture
def experiment(experiment: Path) -> Path:
    """The same, with its records; five runs were planned."""
    save_records(experiment, describe_experiment(experiment, 5))
    return experiment


def test_experiment_directory_is_read_like_its_export(experiment, tmp_path):
    export_jsonl(experiment, tmp_path / "runs.jsonl")
    record = experiment / "experiment_record.json"
    matrix = read_matrix([experiment])
    assert is_same(matrix, read_matrix([tmp_path / "runs.jsonl", record]))
    assert matrix.agents[0].agent_id == AGENT_ID
    assert matrix.reward.tolist() == [0.25, 1.25, 2.25]
    assert {task.benchmark for task in matrix.tasks} == {SUITE}


@pytest.mark.seed("001", "subset-2", "subset-5")
@pytest.mark.parametrize("level", ["run", "visit"])
def test_propensity_is_the_share_of_planned_tasks(experiment, tmp_path, level):
    """Five runs are planned, three are there; a visit is not a planned task."""
    export_jsonl(experiment, tmp_path / "lines.jsonl", ExportOptions(level))
    record = experiment / "experiment_record.json"
    (share,) = read_matrix([tmp_path / "lines.jsonl", record]).experiments
    assert (share.n_tasks, share.completed, share.errored) == (5, 3, 0)
    assert share.propensity == 0.6
    (share,) = read_matrix([tmp_path / "lines.jsonl"]).experiments
    assert (share.n_tasks, share.propensity, share.completed) == (None, None, 3)


def test_errored_tasks_are_not_observed(tmp_path):
    lines = [
        make_line("alpha", "t1", 1.0),
        make_line("alpha", "t2", 0.0, error_type="KeyError"),
        make_line("alpha", "t3", 0.0, error_type="KeyError", trajectory_id="first"),
        make_line("alpha", "t3", 2.0, trajectory_id="second"),
    ]
    record = write_experiment_record(tmp_path / "a", "alpha", "quiz", 4)
    path = write_lines(tmp_path / "lines.jsonl", lines)
    (share,) = read_matrix([path, record]).experiments
    assert (share.completed, share.errored, share.propensity) == (2, 1, 0.5)


@pytest.mark.parametrize(("n_tasks", "propensity"), [(0, None), (1, 1.0), (3, 2 / 3)])
def test_propensity_is_a_probability(tmp_path, n_tasks, propensity):
    """An unknown benchmark has 0 tasks; a plan may have grown since the record."""
    lines = [make_line("alpha", "t1", 1.0), make_line("alpha", "t2", 1.0)]
    record = write_experiment_record(tmp_path / "a", "alpha", "quiz", n_tasks)
    path = write_lines(tmp_path / "lines.jsonl", lines)
    (share,) = read_matrix([path, record, record]).experiments
    assert (share.n_tasks, share.propensity) == (n_tasks, propensity)


def test_run_is_observed_if_all_its_visits_are(tmp_path):
    """Visits of a run share the hash of its task; the second one crashed."""
    visits = [
        make_line("alpha", "pong", 1.0, task_version_hash="run"),
        make_line("alpha", "qbert", 0.0, task_version_hash="run", error_type="E"),
    ]
    record = write_experiment_record(tmp_path / "a", "alpha", "quiz", 1)
    path = write_lines(tmp_path / "lines.jsonl", visits)
    matrix = read_matrix([path, record])
    (share,) = matrix.experiments
    assert (share.completed, share.errored, share.propensity) == (0, 1, 0.0)
    assert entries(matrix) == {("alpha", "pong"): 1.0}


@pytest.mark.parametrize("name", ["timestamp", "error_type", "agent_name"])
def test_line_may_lack_what_the_matrix_can_do_without(tmp_path, name):
    twice = [make_line("alpha", "t", 1.0, **{name: "absent"})] * 2
    assert read(tmp_path, *twice).reward.tolist() == [1.0]


# --- bad input ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": "3"}, 'reward: expected an episode record, found "3"'),
        ({"reward": None}, "reward: expected an episode record, found no value"),
        ({"reward": True}, "reward: expected an episode record, found true"),
        ({"reward": float("nan")}, "reward: expected an episode record, found NaN"),
        ({"reward": float("inf")}, "reward: expected an episode record, found Inf"),
        ({"success": 1}, "success: expected an episode record, found 1"),
        ({"success": None}, "success: expected an episode record, found no value"),
        ({"task_id": None}, "task_id: expected an episode record, found no"),
        ({"experiment_id": None}, "experiment_id: expected an episode record"),
    ],
)
def test_line_that_is_not_a_record_is_refused(tmp_path, changes, message):
    with pytest.raises(DocumentError) as caught:
        read(tmp_path, *LINES, {**make_line("gamma", "t", 1.0), **changes})
    text = str(caught.value)
    assert text.startswith("lines.jsonl (trajectory_id run-t) ")
    assert message in text


def test_file_that_is_not_json_is_refused(tmp_path):
    path = write_lines(tmp_path / "lines.jsonl", LINES)
    path.write_text(path.read_text() + '{"task_id": "t", "rew')
    with pytest.raises(DocumentError, match=r"records cannot be read: .*lines\.jsonl"):
        read_matrix([path])


def test_path_without_records_is_refused(tmp_path):
    with pytest.raises(NotARunError, match="nowhere: no such file or folder"):
        read_matrix([tmp_path / "nowhere"])
    with pytest.raises(NotARunError, match="expected an experiment directory with rec"):
        read_matrix([tmp_path])
    record = write_experiment_record(tmp_path, "alpha", "quiz", 1)
    with pytest.raises(NotARunError, match="expected files of episode records"):
        read_matrix([record])


def test_damaged_experiment_record_is_refused(tmp_path):
    path = write_lines(tmp_path / "lines.jsonl", LINES)
    record = write_experiment_record(tmp_path, "alpha", "quiz", 1)
    record.write_text(json.dumps({"experiment_id": "x"}))
    with pytest.raises(DocumentError, match=r"experiment_record\.json .*: expected a"):
        read_matrix([path, record])


def test_names_of_files_are_not_patterns(tmp_path):
    folder = tmp_path / "lr[0.1] 'x'"
    folder.mkdir()
    write_lines(tmp_path / "lr0", LINES)
    path = write_lines(folder / "lines*.jsonl", LINES[:1])
    assert len(read_matrix([path]).reward) == 1
