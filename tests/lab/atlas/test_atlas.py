"""The atlas: responses, order, missing entries, and its files."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

from generated_records import make_line, write_experiment_record, write_lines
from longplay.errors import ConfigError, OutputError
from longplay.lab.atlas import atlas as atlas_module
from longplay.lab.atlas import latent
from longplay.lab.atlas.atlas import (
    beat_random,
    describe_atlas,
    list_agents,
    list_missing,
    list_tasks,
    make_atlas,
    summarise_atlas,
    write_atlas,
)
from longplay.lab.atlas.matrix import read_matrix


def read(tmp_path: Path, lines: list[dict[str, Any]], **options: Any) -> Any:
    matrix = read_matrix([write_lines(tmp_path / "lines.jsonl", lines)])
    return make_atlas(matrix, **options)


def make_lines(rewards: dict[str, list[float | None]]) -> list[dict[str, Any]]:
    """Agent -> its rewards on t0, t1, …; None for no record."""
    return [
        make_line(agent, f"t{n}", reward)
        for agent, values in rewards.items()
        for n, reward in enumerate(values)
        if reward is not None
    ]


# --- responses ----------------------------------------------------------------------


def test_beating_random_is_strictly_more_reward_on_the_same_task(tmp_path):
    atlas = read(
        tmp_path,
        make_lines({"alpha": [2.0, 1.0, 0.0, 5.0], "random": [1.0, 1.0, 1.0, None]}),
    )
    assert atlas.references == (1,)
    beats = beat_random(atlas.matrix, atlas.references)
    np.testing.assert_array_equal(beats, [1, 0, 0, np.nan, np.nan, np.nan, np.nan])
    assert atlas.response == "beats_random"
    ability, reference = atlas.rasch.ability
    assert ability < 0  # one of three
    assert np.isnan(reference)


def test_random_agent_may_have_another_name(tmp_path):
    lines = make_lines({"alpha": [2.0, 1.0], "uniform": [1.0, 3.0]})
    assert read(tmp_path, lines).response is None
    assert read(tmp_path, lines, random="uniform").response == "beats_random"
    assert read(tmp_path, lines, random="uniform-id").response == "beats_random"


def test_success_is_the_response_without_a_random_agent(tmp_path):
    atlas = read(tmp_path, make_lines({"alpha": [1.0, -1.0], "beta": [1.0, 1.0]}))
    assert atlas.response == "success"
    assert atlas.rasch.ability[0] < atlas.rasch.ability[1]
    assert atlas.rasch.difficulty[0] < atlas.rasch.difficulty[1]


def test_success_is_the_response_where_all_beat_random(tmp_path):
    atlas = read(tmp_path, make_lines({"alpha": [1.0, -1.0], "random": [-2.0, -2.0]}))
    assert atlas.response == "success"


def test_no_response_no_model(tmp_path):
    atlas = read(tmp_path, make_lines({"alpha": [1.0, 2.0], "beta": [3.0, 4.0]}))
    assert (atlas.response, atlas.rasch) == (None, None)
    assert atlas.order == (1, 0)
    rows = list(list_agents(atlas))
    assert [row["ability"] for row in rows] == [None, None]
    assert "no Rasch model" in " ".join(describe_atlas(atlas))


# --- order --------------------------------------------------------------------------


def test_agents_are_ordered_by_standardised_reward(tmp_path):
    """Scales differ between tasks: the middle agent has the greatest mean reward."""
    rewards = {
        "best": [3.0, 3.0, 990.0],
        "middle": [2.0, 2.0, 1000.0],
        "worst": [1.0, 1.0, 0.0],
    }
    atlas = read(tmp_path, make_lines(rewards))
    assert [atlas.labels[a] for a in atlas.order] == ["best", "middle", "worst"]


def test_agent_that_lacks_the_easy_tasks_is_not_worse(tmp_path):
    """z of the two strong agents on t3 is ±1, but they are equal elsewhere."""
    rewards = {
        "strong": [9.0, 9.0, 9.0, 1.0],
        "strong too": [9.0, 9.0, 9.0, 2.0],
        "weak": [1.0, 1.0, 1.0, None],
        "weak too": [1.0, 1.0, 1.0, None],
    }
    atlas = read(tmp_path, make_lines(rewards))
    assert [atlas.labels[a] for a in atlas.order[:2]] == ["strong too", "strong"]


def test_agents_without_a_number_are_last(tmp_path):
    lines = make_lines({"alpha": [-5.0], "beta": [-6.0]})
    lines.append(make_line("broken", "t0", 0.0, error_type="KeyError"))
    atlas = read(tmp_path, lines)
    rows = list(list_agents(atlas))
    assert [row["agent"] for row in rows] == ["alpha", "beta", "broken"]
    assert rows[2]["standardised_reward"] is None
    assert (rows[2]["errored"], rows[2]["tasks"]) == (1, 0)
    assert "errored records: 1, left out of all means" in list(describe_atlas(atlas))


def test_namesakes_are_told_apart(tmp_path):
    lines = make_lines({"alpha": [1.0], "beta": [2.0]})
    lines.append(
        make_line("alpha", "t0", 3.0, agent_id="fedcba9876", experiment_id="x")
    )
    labels = read(tmp_path, lines).labels
    assert set(labels) == {"alpha alpha-", "alpha fedcba", "beta"}


# --- missing entries ----------------------------------------------------------------


def test_missing_entries_have_their_propensity(tmp_path):
    lines = [
        make_line("alpha", "t1", 1.0),
        make_line("alpha", "t2", 1.0),
        make_line("beta", "t1", 2.0),
        make_line("gamma", "t1", 3.0),
        make_line("delta", "other", 4.0),
    ]
    paths = [write_lines(tmp_path / "lines.jsonl", lines)]
    for agent, benchmark, n_tasks in (
        ("alpha", "quiz", 2),
        ("beta", "quiz", 4),
        ("delta", "puzzle", 1),
    ):
        record = write_experiment_record(tmp_path / agent, agent, benchmark, n_tasks)
        paths.append(record)
    atlas = make_atlas(read_matrix(paths))
    found = {
        (row["agent"], row["task_id"]): row["propensity"] for row in list_missing(atlas)
    }
    assert found == {
        ("alpha", "other"): 0.0,  # never ran the puzzle
        ("beta", "other"): 0.0,
        ("beta", "t2"): 0.25,
        ("delta", "t1"): 0.0,
        ("delta", "t2"): 0.0,
        ("gamma", "other"): None,  # no experiment record
        ("gamma", "t2"): None,
    }
    assert atlas.matrix.missing == len(found)


def test_propensity_is_that_of_the_fullest_experiment(tmp_path):
    lines = [
        make_line("alpha", "t1", 1.0),
        make_line("alpha", "t1", 1.0, experiment_id="experiment-again"),
        make_line("alpha", "t2", 1.0, experiment_id="experiment-again"),
        make_line("beta", "t3", 2.0),
    ]
    paths = [write_lines(tmp_path / "lines.jsonl", lines)]
    for agent in ("again", "alpha", "beta"):
        paths.append(write_experiment_record(tmp_path / agent, agent, "quiz", 4))
    found = {
        (row["agent"], row["task_id"]): row["propensity"]
        for row in list_missing(make_atlas(read_matrix(paths)))
    }
    assert found == {
        ("alpha", "t3"): 0.5,
        ("beta", "t1"): 0.25,
        ("beta", "t2"): 0.25,
    }


# --- notes --------------------------------------------------------------------------


def test_notes_say_what_was_left_out_or_kept_apart(tmp_path):
    line = make_line("alpha", "t0", 2.0)
    other = make_line("alpha", "t0", 2.0, task_version_hash="other", trajectory_id="x")
    nameless = make_line("alpha", "", 2.0)
    notes = list(describe_atlas(read(tmp_path, [line, line, other, nameless])))
    assert notes == [
        "drift: task ids with several versions, which are kept apart: 1 (t0, …)",
        "lines that are copies of a run given before: 1",
        "lines without a task id, left out: 1",
        "experiments without their experiment_record.json, of unknown propensity: 1",
        "no Rasch model: success is the same in all entries",
        "no standardised rewards: no task has two different rewards",
    ]


def test_model_that_did_not_converge_is_noted(tmp_path, monkeypatch):
    monkeypatch.setattr(latent, "_MOST_ROUNDS", 1)
    atlas = read(tmp_path, make_lines({"alpha": [1.0, -1.0], "beta": [1.0, 1.0]}))
    assert "the Rasch model did not converge" in list(describe_atlas(atlas))


# --- files --------------------------------------------------------------------------

REWARDS = {
    "alpha": [2.0, 1.0, 0.0],
    "beta": [-4.0, 3.0, 2.0],
    "random": [1.0, 1.0, 1.0],
}


def read_csv(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_files_of_an_atlas(tmp_path):
    atlas = read(tmp_path, make_lines(REWARDS))
    write_atlas(tmp_path / "out", atlas)
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "agents.csv",
        "atlas.json",
        "drift.csv",
        "entries.parquet",
        "experiments.csv",
        "missing.csv",
        "tasks.csv",
    }
    agents = read_csv(tmp_path / "out" / "agents.csv")
    assert [row["agent"] for row in agents] == [
        atlas.labels[position] for position in atlas.order
    ]
    beta = next(row for row in agents if row["agent"] == "beta")
    assert float(beta["ability"]) == atlas.rasch.ability[1]
    assert float(beta["ability_se"]) == atlas.rasch.ability_se[1]
    tasks = read_csv(tmp_path / "out" / "tasks.csv")
    difficulties = [float(row["difficulty"]) for row in tasks]
    assert difficulties == sorted(difficulties, reverse=True)
    assert float(tasks[0]["mean_reward"]) in (-1 / 3, 5 / 3, 1.0)
    summary = json.loads((tmp_path / "out" / "atlas.json").read_text())
    assert summary == json.loads(json.dumps(summarise_atlas(atlas)))
    assert (summary["agents"], summary["tasks"], summary["entries"]) == (3, 3, 9)


def test_too_many_missing_entries_are_not_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(atlas_module, "_MOST_MISSING", 0)
    atlas = read(tmp_path, make_lines({"alpha": [2.0, 1.0], "beta": [1.0, None]}))
    write_atlas(tmp_path / "out", atlas)
    assert not (tmp_path / "out" / "missing.csv").exists()
    assert (tmp_path / "out" / "experiments.csv").is_file()


@pytest.mark.parametrize("name", ["drift.csv", "missing.csv"])
def test_table_without_rows_has_its_head(tmp_path, name):
    whole = make_lines({"alpha": [2.0, 1.0], "beta": [1.0, 3.0]})
    other = make_line("beta", "t0", 1.0, task_version_hash="other", trajectory_id="x")
    write_atlas(tmp_path / "without", read(tmp_path, whole))
    write_atlas(tmp_path / "with", read(tmp_path, [*whole, other]))
    head, *rows = (tmp_path / "with" / name).read_text().splitlines()
    assert rows
    assert (tmp_path / "without" / name).read_text() == f"{head}\n"


def test_entries_are_the_matrix(tmp_path):
    write_atlas(tmp_path / "out", read(tmp_path, make_lines(REWARDS)))
    rows = duckdb.sql(
        f"SELECT agent, agent_id, task_id, task_version_hash, reward, success, z, "
        f"beats_random FROM '{tmp_path}/out/entries.parquet'"
    ).fetchall()
    assert len(rows) == 9
    assert rows[0][:6] == ("alpha", "alpha-id", "t0", "hash-t0", 2.0, 1.0)
    # 2, -4 and 1 have mean -1/3 and deviation sqrt(62) / 3.
    assert rows[0][6] == pytest.approx(7 / np.sqrt(62))
    assert [row[7] for row in rows] == [1, 0, 0, 0, 1, 1, None, None, None]


def test_same_lines_give_the_same_bytes(tmp_path):
    lines = make_lines(REWARDS)
    write_atlas(tmp_path / "one", read(tmp_path, lines))
    write_atlas(tmp_path / "two", read(tmp_path, lines[::-1]))
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes()


def test_folder_with_files_is_refused(tmp_path):
    atlas = read(tmp_path, make_lines(REWARDS))
    with pytest.raises(OutputError, match="exists already; choose a new folder"):
        write_atlas(tmp_path, atlas)


def test_rank_must_be_positive(tmp_path):
    with pytest.raises(ConfigError, match="rank: expected at least 1, found 0"):
        read(tmp_path, make_lines(REWARDS), rank=0)


def test_tasks_without_a_result_have_empty_cells(tmp_path):
    lines = make_lines(REWARDS)
    lines.append(make_line("beta", "t9", 0.0, error_type="KeyError"))
    rows = {row["task_id"]: row for row in list_tasks(read(tmp_path, lines))}
    assert rows["t9"]["agents"] == 0
    assert rows["t9"]["mean_reward"] is None
    assert rows["t9"]["difficulty"] is None
