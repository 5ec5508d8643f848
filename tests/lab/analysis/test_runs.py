"""Which runs are read, which are left out, and what they may be compared with."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from generated_runs import (
    edit,
    make_experiment,
    make_status,
    run_dir_of,
    write,
    write_plan,
)
from longplay.agents.source.loading import BUILT_IN_AGENTS
from longplay.contract.names import name_agent
from longplay.contract.rundir import RunDirectory
from longplay.errors import ConfigError, NotARunError, PackError
from longplay.lab.analysis.runs import AgentKey, RunReader
from longplay.lab.analysis.table import make_table, read_table
from written_runs import make_config, name_short_suite, write_run

READ = RunReader().read


def one_run(tmp_path: Path, name: str = "run", reward: float = 1.0, **config) -> Path:
    return write_run(tmp_path / name, make_config(**config), [reward] * 360)


def test_run_is_read_with_its_conditions(tmp_path):
    (run,) = READ([one_run(tmp_path, seed=5)]).runs
    assert run.seed == 5
    assert run.agent.name == "alpha"
    assert (run.agent.isolation, run.agent.tuning_frames) == ("none", None)
    assert run.conditions.emulator == "0.12.1"
    assert run.track.name == "streaming"
    assert run.measure().average.tolist() == [1.0, 1.0, 1.0]


def test_changed_suite_has_one_name_for_all_seeds(tmp_path):
    for seed in (0, 1):
        one_run(tmp_path, str(seed), seed=seed)
    runs = READ([tmp_path]).runs
    assert {run.config.suite for run in runs} == {name_short_suite()}
    assert {run.conditions.suite for run in runs} == {name_short_suite()}


@pytest.mark.parametrize(
    ("status", "kind", "reason"),
    [
        (make_status("FAILED", "ValueError"), "errored", "FAILED: it broke"),
        (make_status("STALE"), "errored", "STALE"),
        (make_status("RUNNING"), "unfinished", "RUNNING"),
        (make_status("CANCELLED"), "unfinished", "CANCELLED"),
    ],
)
def test_unfinished_runs_are_counted_and_do_not_count(tmp_path, status, kind, reason):
    run_dir = one_run(tmp_path)
    write(run_dir / "status.json", status)
    found = READ([run_dir])
    assert found.runs == ()
    (left,) = found.left_out
    assert (left.kind, left.reason, left.seed) == (kind, reason, 0)
    assert left.agent is not None
    assert left.agent.name == "alpha"


def test_run_without_score_is_left_out(tmp_path):
    run_dir = one_run(tmp_path)
    (run_dir / "score.json").unlink()
    (left,) = READ([run_dir]).left_out
    assert (left.kind, left.reason) == (
        "unfinished",
        "not scored; run `longplay score`",
    )


def test_partial_score_is_left_out(tmp_path):
    run_dir = one_run(tmp_path)
    edit(run_dir / "score.json", complete=False, frames=60)
    (left,) = READ([run_dir]).left_out
    assert left.reason == "its score covers a part of the run"


def test_tuning_run_is_left_out(tmp_path):
    run_dir = write_run(tmp_path / "run", make_config(), [1.0] * 90, stop_frame=90)
    (left,) = READ([run_dir]).left_out
    assert (left.kind, left.reason) == ("tuning", "stopped at frame 90 for tuning")


def test_broken_run_is_left_out_and_the_others_are_read(tmp_path):
    broken, _ = one_run(tmp_path, "a"), one_run(tmp_path, "b", seed=1)
    (broken / "config.json").write_text("{")
    write(broken / "episode_config.json", {"seed": 7})
    found = READ([tmp_path])
    assert [run.seed for run in found.runs] == [1]
    (left,) = found.left_out
    assert (left.kind, left.seed) == ("unreadable", 7)
    assert "config.json: not readable as JSON" in left.reason


def test_unreadable_run_of_an_experiment_counts_for_its_agent(tmp_path):
    experiment = make_experiment(tmp_path / "exp", [0, 1])
    broken = run_dir_of(experiment, 1)
    (broken / "run_summary.json").write_text("{")
    write(broken / "episode_config.json", {"seed": 1})
    found = READ([experiment])
    (left,) = found.left_out
    assert (left.kind, left.seed) == ("unreadable", 1)
    assert (left.suite, left.agent) == (
        found.runs[0].conditions.suite,
        found.runs[0].agent,
    )


def test_experiment_with_a_broken_plan_stops_nothing(tmp_path):
    broken = make_experiment(tmp_path / "broken", [0])
    (broken / "experiment_config.json").write_text("{")
    make_experiment(tmp_path / "whole", [1])
    found = READ([tmp_path])
    assert {run.seed for run in found.runs} == {0, 1}
    (left,) = found.left_out
    assert (left.kind, left.path) == ("unreadable", broken)
    assert "experiment_config.json: not readable as JSON" in left.reason


def _drop_a_visit(run_dir: Path) -> None:
    visits = json.loads((run_dir / "run_summary.json").read_bytes())["visits"]
    edit(run_dir / "run_summary.json", visits=visits[1:])


def _move_frames(run_dir: Path) -> None:
    visits = json.loads((run_dir / "run_summary.json").read_bytes())["visits"]
    visits[0]["frames"], visits[1]["frames"] = 0, 2 * visits[1]["frames"]
    edit(run_dir / "run_summary.json", visits=visits)


def _claim_a_huge_sum(run_dir: Path) -> None:
    visits = json.loads((run_dir / "run_summary.json").read_bytes())["visits"]
    visits[0]["reward_sum"] = 1e308
    edit(run_dir / "run_summary.json", visits=visits)


def _claim_a_huge_score(run_dir: Path) -> None:
    edit(run_dir / "score.json", final_score=-1e308)


def _renumber_a_visit(run_dir: Path) -> None:
    schedule = json.loads((run_dir / "config.json").read_bytes())["schedule"]
    schedule[5]["visit_idx"] = 6
    edit(run_dir / "config.json", schedule=schedule)


@pytest.mark.parametrize(
    ("forge", "reason"),
    [
        (_renumber_a_visit, r"schedule: expected the visits 0, 1, 2, … .*4, 6\]"),
        (_drop_a_visit, "expected the 6 visits of the schedule"),
        (_move_frames, "expected the 6 visits of the schedule"),
        (_claim_a_huge_sum, r"expected sums and scores up to 1e\+15, found 1e\+308"),
        (_claim_a_huge_score, r"expected sums and scores up to 1e\+15, found -1e\+308"),
    ],
)
def test_documents_that_cannot_be_true_are_left_out(tmp_path, forge, reason):
    forge(one_run(tmp_path, "false"))
    one_run(tmp_path, "true", seed=1)
    found = READ([tmp_path])
    assert [run.seed for run in found.runs] == [1]
    (left,) = found.left_out
    assert left.kind == "unreadable"
    assert re.search(reason, left.reason)


def test_cells_of_a_study_that_were_not_started_are_missing(tmp_path):
    make_experiment(tmp_path / "cells/one", [0])
    planned = {"suite": "stream-smoke-v1", "seeds": [0, 1]}
    entry = make_config().model_dump(mode="json")["agent"]
    cells = [
        {"folder": "cells/one", "agent": "one", **planned},
        {"folder": "cells/two", "agent": "two", **planned, "entry": entry},
        {"folder": "cells/three", "agent": "three", **planned},
    ]
    write(tmp_path / "study.json", {"cells": cells})
    found = READ([tmp_path])
    assert len(found.runs) == 1
    assert [(left.kind, left.seed, left.agent) for left in found.left_out] == [
        ("missing", seed, key)
        for key in (AgentKey("alpha", entry["agent_id"]), AgentKey("three", None))
        for seed in (0, 1)
    ]


def test_planned_runs_without_a_folder_are_missing(tmp_path):
    experiment = make_experiment(tmp_path / "exp", [0, 2])
    write_plan(experiment, [0, 1, 2, 3])
    write(run_dir_of(experiment, 2) / "status.json", make_status("FAILED", "Oops"))
    found = RunReader().read([experiment])
    assert [run.seed for run in found.runs] == [0]
    assert [(left.kind, left.seed) for left in found.left_out] == [
        ("errored", 2),
        ("missing", 1),
        ("missing", 3),
    ]
    assert found.left_out[1].reason == "seed 1 was planned but not started"


def test_same_run_twice_counts_once(tmp_path):
    for name in ("a", "b"):
        one_run(tmp_path, name)
    assert len(READ([tmp_path]).runs) == 1
    assert len(READ([tmp_path / "a", tmp_path]).runs) == 1


def test_two_results_for_one_seed_contradict_each_other(tmp_path):
    one_run(tmp_path, "a"), one_run(tmp_path, "b", reward=2.0)
    with pytest.raises(ConfigError, match=r"different runs of the same agent, suite"):
        READ([tmp_path])


def test_contradicting_runs_can_be_left_out(tmp_path):
    one_run(tmp_path, "a"), one_run(tmp_path, "b", reward=2.0)
    one_run(tmp_path, "c", seed=1)
    found = RunReader(leaves_out_conflicts=True).read([tmp_path])
    assert [run.seed for run in found.runs] == [1]
    assert [(left.kind, left.path.name) for left in found.left_out] == [
        ("contradicting", "a"),
        ("contradicting", "b"),
    ]


def test_isolation_and_tuning_make_another_agent(tmp_path):
    one_run(tmp_path, "a")
    sandboxed = one_run(tmp_path, "b", reward=2.0)
    edit(sandboxed / "config.json", agent_isolation={"level": "sandbox"})
    tuned = one_run(tmp_path, "c", reward=3.0)
    write(tuned / "episode_record.json", {"tuning_frames": 500})
    keys = [run.agent for run in READ([tmp_path]).runs]
    assert [(key.isolation, key.tuning_frames) for key in keys] == [
        ("none", None),
        ("sandbox", None),
        ("none", 500),
    ]
    assert len({key.agent_id for key in keys}) == 1


def test_emulator_and_roms_are_conditions(tmp_path):
    one_run(tmp_path, "a")
    other = one_run(tmp_path, "b", reward=2.0)
    edit(other / "config.json", versions={"longplay": "0.1.0", "ale_py": "0.13.0"})
    third = one_run(tmp_path, "c", reward=3.0)
    edit(third / "config.json", rom_sha256={"qbert": "0" * 64})
    assert len({run.conditions for run in READ([tmp_path]).runs}) == 3


def test_packs_are_opened_by_the_caller(tmp_path):
    run_dir = one_run(tmp_path)
    (run_dir / "events.jsonl").unlink()
    pack = tmp_path / "packs" / "one.longplay"
    pack.parent.mkdir()
    pack.write_bytes(b"")
    (left,) = READ([pack]).left_out
    assert left.reason == "packs cannot be read here"
    reader = RunReader(lambda _: RunDirectory(run_dir))
    (run,) = reader.read([pack]).runs
    assert (run.path, run.curves) == (pack, None)
    assert run.measure().average.tolist() == [1.0, 1.0, 1.0]
    assert np.isnan(run.measure().final).all()

    def refuse(_: Path) -> RunDirectory:
        raise PackError("damaged")

    (left,) = RunReader(open_pack=refuse).read([pack]).left_out
    assert (left.kind, left.reason) == ("unreadable", "damaged")


def test_progress_is_reported(tmp_path):
    one_run(tmp_path, "a"), one_run(tmp_path, "b", seed=1)
    told: list[tuple[int, int]] = []
    RunReader(on_scan=lambda *counts: told.append(counts)).read([tmp_path])
    assert told == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("config", "name"),
    [
        ({"_type": "longplay.agents.random.RandomAgent"}, "random"),
        ({"_type": "longplay.learners.dqn.Dqn"}, "dqn"),
        ({"_type": "my_agent.Agent", "file": "my_agent.py"}, "my_agent"),
        ({"_type": "package.module.Agent"}, "Agent"),
        ({}, "agent"),
    ],
)
def test_names_of_agents(config, name):
    assert name_agent(config) == name


def test_key_can_be_sorted():
    keys = [AgentKey("b", "1"), AgentKey("a", "2")]
    assert sorted(keys)[0].name == "a"


# --- tidy columns ---------------------------------------------------------------


def test_columns_are_tidy(tmp_path):
    for seed in (0, 1):
        rewards = np.arange(360.0)
        write_run(tmp_path / "runs" / str(seed), make_config(seed=seed), rewards)
    table = read_table(tmp_path / "runs")
    assert len(table) == 2 * 6 * 60
    assert table["run"].tolist() == [0] * 360 + [1] * 360
    assert table["frame"][:360].tolist() == list(range(360))
    assert table["rate"][:360].tolist() == list(range(360))
    assert set(table["visit"]) == {0, 1}
    schedule = make_config(seed=1).schedule
    assert table["game"][360 + 75] == schedule[1].game_id
    assert table["cycle"][360 + 200] == schedule[3].cycle_idx == 1
    assert table["visit"][360 + 200] == 1
    assert table.arrow().num_rows == 720
    assert table.arrow().column_names == list(table.columns)


def test_no_complete_run_gives_empty_columns(tmp_path):
    empty = make_table([])
    assert len(empty) == 0
    assert empty["rate"].dtype == np.float64
    assert empty.arrow().num_rows == 0
    with pytest.raises(NotARunError):
        read_table(tmp_path)


@pytest.mark.parametrize(("name", "place"), BUILT_IN_AGENTS.items())
def test_built_in_agents_have_the_name_that_commands_take(name, place):
    assert name_agent({"_type": place.replace(":", "."), "args": {}}) == name
