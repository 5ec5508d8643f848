"""Experiment directory -> records beside the runs, and JSONL at two levels."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

import longplay
from generated_runs import (
    AGENT_CONFIG,
    AGENT_ID,
    EXPERIMENT_ID,
    GAME_ACTIONS,
    STARTED_S,
    SUITE,
    edit,
    make_experiment,
    make_run,
    make_score,
    make_status,
    run_dir_of,
    write,
    write_plan,
)
from longplay.contract.names import folder_name
from longplay.errors import ConfigError, DocumentError, NotARunError
from longplay.eval_log.export import ExportOptions, export_jsonl, export_records
from longplay.eval_log.log import EvalLog, save_records
from longplay.eval_log.records import EpisodeRecord, ExperimentRecord, UsageSummary
from longplay.eval_log.run_records import iter_records
from longplay.eval_log.schema import EVAL_LOG
from longplay.eval_log.tasks import Benchmark
from longplay.plan import name_benchmark
from rows import read_rows


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    return make_experiment(tmp_path / "experiment", range(3))


def describe(directory: Path, n_seeds: int = 3) -> ExperimentRecord:
    record = ExperimentRecord.from_experiment(
        "generated",
        directory,
        AGENT_CONFIG,
        Benchmark.from_suite(SUITE, range(n_seeds)),
        git_cwd=str(directory.parent),
    )
    return record.model_copy(update={"experiment_id": EXPERIMENT_ID})


# --- a run becomes a record ---------------------------------------------------------


def test_record_of_a_run(experiment):
    record = list(iter_records(experiment))[2]
    assert record.experiment_id == EXPERIMENT_ID
    assert (record.agent_id, record.agent_name) == (AGENT_ID, "random")
    assert record.task_id == "stream-smoke-v1/seed-2"
    assert record.trajectory_id == "stream-smoke-v1_seed-2"
    assert (record.seed, record.split) == (2, "test")
    assert "centipede, ms_pacman, qbert" in record.task_description
    assert record.tool_names == ["NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN"]
    assert (record.reward, record.success, record.error_type) == (2.25, True, None)
    assert (record.wall_time_s, record.timestamp) == (3.0, STARTED_S)
    assert record.usage == UsageSummary()
    summary = json.loads((run_dir_of(experiment, 2) / "run_summary.json").read_text())
    assert record.n_steps == summary["frames"]
    assert record.n_agent_steps == summary["decision_frames"]
    assert record.n_env_steps == summary["emulator_frames"]


def test_task_is_the_planned_one(experiment):
    benchmark = Benchmark.from_suite(SUITE, range(3))
    for record in iter_records(experiment):
        planned = benchmark.task_metadata[record.task_id]
        assert record.task_description == planned.abstract_description
        text = benchmark.task_configs[record.task_id].model_dump_json()
        assert record.task_version_hash == hashlib.sha256(text.encode()).hexdigest()


def test_seeds_come_in_order_of_number(tmp_path):
    experiment = make_experiment(tmp_path / "experiment", [10, 2, 0])
    assert [record.seed for record in iter_records(experiment)] == [0, 2, 10]


def test_null_score_is_reward_zero(experiment):
    write(run_dir_of(experiment, 1) / "score.json", make_score(None))
    record = list(iter_records(experiment))[1]
    assert (record.reward, record.success, record.error_type) == (0.0, False, None)


def test_usage_of_the_agent_reaches_the_record(experiment):
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_cost_usd": 0.25}
    edit(run_dir_of(experiment, 0) / "run_summary.json", usage=usage)
    records = list(iter_records(experiment))
    assert records[0].usage == UsageSummary(**usage, total_tokens=7)
    assert records[1].usage == UsageSummary()


def test_failed_run_has_a_record_with_its_error(experiment):
    run_dir = run_dir_of(experiment, 1)
    write(run_dir / "status.json", make_status("FAILED", "AgentError"))
    (run_dir / "score.json").unlink()
    record = list(iter_records(experiment))[1]
    assert (record.error_type, record.reward, record.success) == (
        "AgentError",
        0.0,
        False,
    )
    assert record.n_steps > 0
    assert record.wall_time_s == 3.0


def test_failed_run_keeps_no_score_of_an_earlier_life(experiment):
    write(
        run_dir_of(experiment, 1) / "status.json", make_status("FAILED", "AgentError")
    )
    assert list(iter_records(experiment))[1].reward == 0.0


def test_run_that_was_killed_is_counted_as_far_as_its_status_tells(experiment):
    run_dir = run_dir_of(experiment, 1)
    write(run_dir / "status.json", make_status("FAILED", "WorkerDied"))
    for name in ("score.json", "run_summary.json"):
        (run_dir / name).unlink()
    record = list(iter_records(experiment))[1]
    assert (record.n_steps, record.tool_names, record.wall_time_s) == (77, [], None)
    assert record.timestamp == STARTED_S


def test_run_that_failed_before_its_config_is_described_by_its_request(experiment):
    run_dir = run_dir_of(experiment, 1)
    write(run_dir / "status.json", make_status("FAILED", "AgentLoadError"))
    for name in ("score.json", "run_summary.json", "config.json"):
        (run_dir / name).unlink()
    (intact,) = iter_records(make_experiment(experiment.parent / "other", [1]))
    record = list(iter_records(experiment))[1]
    assert record.error_type == "AgentLoadError"
    assert record.task_version_hash == intact.task_version_hash
    assert (record.task_id, record.agent_id) == (intact.task_id, AGENT_ID)


@pytest.mark.parametrize("state", ["QUEUED", "RUNNING", "CANCELLED", "STALE"])
def test_run_that_has_not_ended_has_no_record(experiment, state):
    write(run_dir_of(experiment, 1) / "status.json", make_status(state))
    assert [record.seed for record in iter_records(experiment)] == [0, 2]


def test_archived_tries_are_never_counted(experiment):
    archived = experiment / "archive" / f"{SUITE}_seed-1" / "0"
    archived.parent.mkdir(parents=True)
    shutil.copytree(run_dir_of(experiment, 1), archived)
    write(archived / "status.json", make_status("FAILED", "AgentError"))
    save_records(experiment, describe(experiment))
    assert [record.error_type for record in iter_records(experiment)] == [None] * 3
    assert len(EvalLog.load(experiment).episodes) == 3
    assert export_jsonl(experiment, experiment.parent / "out.jsonl", "visit") == 18


def test_events_are_never_read(experiment):
    assert not list(experiment.rglob("*.jsonl"))
    for seed in range(3):
        (run_dir_of(experiment, seed) / "events.jsonl").write_text("not JSON at all")
    assert len(list(iter_records(experiment))) == 3
    assert len(list(iter_records(experiment, "visit"))) == 18


def test_export_needs_no_emulator_and_no_ray(experiment, tmp_path):
    code = """
import sys
sys.modules["ale_py"] = sys.modules["ray"] = None  # an import would raise
from longplay.eval_log.export import export_jsonl
print(export_jsonl(sys.argv[1], sys.argv[2], "visit"))
"""
    command = [sys.executable, "-c", code, str(experiment), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["18"]


def test_run_directory_may_be_given(experiment):
    (record,) = iter_records(run_dir_of(experiment, 1))
    assert (record.seed, record.experiment_id) == (1, EXPERIMENT_ID)


def test_played_run_becomes_a_record(finished_run):
    (record,) = iter_records(finished_run.parent.parent)
    run = longplay.read_run(finished_run)
    assert record.reward == run.score.final_score
    assert record.n_steps == run.config.total_frames
    assert record.agent_id == run.config.agent.agent_id
    assert record.task_id == f"{name_benchmark(run.config)}/seed-0"
    assert record.trajectory_id == finished_run.name


# --- visits -------------------------------------------------------------------------


def test_record_of_a_visit(experiment):
    records = list(iter_records(experiment, "visit"))[6:12]
    config = longplay.read_run(run_dir_of(experiment, 1)).config
    for visit, record in zip(config.schedule, records, strict=True):
        k, game = visit.visit_idx, visit.game_id
        assert record.task_id == f"{SUITE}/{game}/cycle-{visit.cycle_idx}/seed-1"
        assert record.trajectory_id == f"{SUITE}_seed-1/visit-{k}"
        assert record.reward == 10.0 + k
        assert sorted(record.tool_names) == sorted(GAME_ACTIONS[game])
        assert record.n_steps == record.n_env_steps == visit.visit_frames
        assert record.n_agent_steps == visit.visit_frames // 4
        assert (record.wall_time_s, record.timestamp) == (0.5, STARTED_S)
        assert record.task_description.startswith(f"{game} for ")
        assert (record.agent_id, record.experiment_id) == (AGENT_ID, EXPERIMENT_ID)
        assert record.error_type is None
    (run,) = iter_records(run_dir_of(experiment, 1))
    assert {record.task_version_hash for record in records} == {run.task_version_hash}


def test_visits_add_up_to_the_events(finished_run):
    records = list(iter_records(finished_run, "visit"))
    rewards = longplay.read_run(finished_run).events.numpy("reward")["reward"]
    assert rewards.sum() > 0
    assert sum(record.reward for record in records) == rewards.sum()
    assert sum(record.n_steps for record in records) == len(rewards)


def test_error_belongs_to_the_visit_it_ended(experiment):
    run_dir = run_dir_of(experiment, 0)
    write(run_dir / "status.json", make_status("FAILED", "AgentError"))
    records = list(iter_records(run_dir, "visit"))
    assert [r.error_type for r in records] == [None] * 5 + ["AgentError"]


def test_usage_is_not_counted_once_per_visit(experiment):
    edit(run_dir_of(experiment, 0) / "run_summary.json", usage={"prompt_tokens": 5})
    records = iter_records(run_dir_of(experiment, 0), "visit")
    assert [record.usage for record in records] == [UsageSummary()] * 6


# --- save and load ------------------------------------------------------------------


def test_log_comes_back_as_it_was(experiment):
    log = EvalLog.from_directory(experiment, describe(experiment))
    log.save(experiment)
    assert EvalLog.load(experiment) == log
    assert len(log.episodes) == 3
    for seed in range(3):
        assert (run_dir_of(experiment, seed) / "episode_record.json").is_file()


def test_log_may_be_saved_elsewhere(experiment, tmp_path):
    log = EvalLog.from_directory(experiment, describe(experiment))
    log.save(str(tmp_path / "else" / "where"))
    assert EvalLog.load(tmp_path / "else" / "where") == log


def test_logs_that_differ_are_not_equal(experiment):
    log = EvalLog.from_directory(experiment, describe(experiment))
    assert log != EvalLog(experiment=log.experiment, episodes=log.episodes[1:])
    assert log != "a log"


def test_records_are_saved_without_holding_them(experiment):
    assert save_records(experiment, describe(experiment)) == 3
    expected = EvalLog.from_directory(experiment, describe(experiment))
    assert EvalLog.load(experiment).episodes == expected.episodes


def test_saving_again_replaces_records(experiment):
    save_records(experiment, describe(experiment))
    write(run_dir_of(experiment, 0) / "score.json", make_score(9.0))
    save_records(experiment, describe(experiment))
    assert [r.reward for r in EvalLog.load(experiment).episodes] == [9.0, 1.25, 2.25]


def test_record_that_is_the_same_is_not_written_again(experiment):
    save_records(experiment, describe(experiment))
    paths = sorted(experiment.rglob("episode_record.json"))
    before = [path.stat().st_ino for path in paths]
    write(run_dir_of(experiment, 0) / "score.json", make_score(9.0))
    save_records(experiment, describe(experiment))
    after = [path.stat().st_ino for path in paths]
    assert [a == b for a, b in zip(after, before, strict=True)] == [False, True, True]


def test_findings_of_another_experiment_are_not_taken_over(experiment):
    save_records(experiment, describe(experiment))
    path = run_dir_of(experiment, 0) / "episode_record.json"
    findings = {"difficulty": "hard", "feasible": None, "failure_root_cause": None}
    edit(path, findings=findings)
    assert next(iter_records(experiment)).findings is not None
    assert [r.findings for r in iter_records(experiment, "visit")] == [None] * 18
    edit(path, findings=findings, experiment_id="other")
    assert next(iter_records(experiment)).findings is None


def test_stored_experiment_id_survives_a_move(experiment, tmp_path):
    save_records(experiment, describe(experiment))
    moved = experiment.rename(tmp_path / "moved")
    assert {record.experiment_id for record in iter_records(moved)} == {EXPERIMENT_ID}


# --- invariant 4: one experiment_id -------------------------------------------------


def test_all_records_share_the_experiment_s_id(experiment):
    save_records(experiment, describe(experiment))
    log = EvalLog.load(experiment)
    assert {record.experiment_id for record in log.episodes} == {
        log.experiment.experiment_id
    }


def test_record_of_another_experiment_is_refused(experiment):
    save_records(experiment, describe(experiment))
    edit(run_dir_of(experiment, 1) / "episode_record.json", experiment_id="other")
    with pytest.raises(
        DocumentError, match=rf"^{SUITE}_seed-1/episode_record\.json exp"
    ):
        EvalLog.load(experiment)
    log = EvalLog.from_directory(experiment, describe(experiment))
    stranger = log.episodes[0].model_copy(update={"experiment_id": "other"})
    with pytest.raises(DocumentError, match="experiment_id: expected 0123"):
        EvalLog(experiment=log.experiment, episodes=[stranger])


def test_two_records_of_one_run_are_refused(experiment):
    log = EvalLog.from_directory(experiment, describe(experiment))
    with pytest.raises(ValueError, match="found two of stream-smoke-v1_seed-0"):
        EvalLog(experiment=log.experiment, episodes=log.episodes[:1] * 2)


# --- invariant 5: lines stand alone -------------------------------------------------


@pytest.mark.parametrize(("level", "count"), [("run", 3), ("visit", 18)])
def test_lines_are_whole_records(experiment, tmp_path, level, count):
    path = tmp_path / "out.jsonl"
    assert export_jsonl(experiment, path, level) == count
    validator = Draft202012Validator(EVAL_LOG.make_schemas()["episode_record.json"])
    lines = read_rows(path)
    assert len(lines) == count
    for line in lines:
        assert list(validator.iter_errors(line)) == []
        assert set(line) == {
            "_type",
            *(EpisodeRecord.model_fields.keys() - {"type_"}),
        }


@pytest.mark.parametrize("level", ["run", "visit"])
def test_lines_are_read_with_nothing_installed(experiment, tmp_path, level):
    export_jsonl(experiment, tmp_path / "out.jsonl", level)
    code = """
import json, sys
matrix = {}
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line)
    matrix[record["agent_id"], record["task_id"]] = record["reward"]
assert "pydantic" not in sys.modules
print(len(matrix), sum(matrix.values()))
"""
    # -I -S: no installed package can be imported.
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "out.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rewards = [record.reward for record in iter_records(experiment, level)]
    assert done.stdout.split() == [str(len(rewards)), str(sum(rewards))]


@pytest.mark.parametrize("level", ["run", "visit"])
def test_log_and_stream_write_the_same_bytes(experiment, tmp_path, level):
    save_records(experiment, describe(experiment))
    export_jsonl(str(experiment), str(tmp_path / "stream.jsonl"), level)
    EvalLog.load(experiment).to_jsonl(tmp_path / "log.jsonl", level)
    stream, log = (tmp_path / f"{name}.jsonl" for name in ("stream", "log"))
    assert stream.read_bytes() == log.read_bytes()
    assert stream.read_bytes().count(b"\n") in (3, 18)


def test_visits_of_a_log_without_folder_are_refused(experiment, tmp_path):
    log = EvalLog.from_directory(experiment, describe(experiment))
    alone = EvalLog(experiment=log.experiment, episodes=log.episodes)
    alone.to_jsonl(tmp_path / "runs.jsonl")
    with pytest.raises(ConfigError, match="visits are read from the experiment dir"):
        alone.to_jsonl(tmp_path / "visits.jsonl", level="visit")
    alone.save(experiment)
    alone.to_jsonl(tmp_path / "visits.jsonl", level="visit")
    assert len(read_rows(tmp_path / "visits.jsonl")) == 18


def test_unknown_level_is_refused(experiment, tmp_path):
    with pytest.raises(ConfigError, match="level: expected run or visit, found 'game'"):
        export_jsonl(experiment, tmp_path / "out.jsonl", "game")


def test_log_saved_elsewhere_still_has_its_visits(experiment, tmp_path):
    log = EvalLog.from_directory(experiment, describe(experiment))
    log.to_jsonl(tmp_path / "visits.jsonl", level="visit")
    expected = (tmp_path / "visits.jsonl").read_bytes()
    assert expected.count(b"\n") == 18
    log.save(tmp_path / "elsewhere")
    shutil.rmtree(experiment)
    EvalLog.load(tmp_path / "elsewhere").save(tmp_path / "third")
    shutil.rmtree(tmp_path / "elsewhere")
    again = EvalLog.load(tmp_path / "third")
    again.to_jsonl(tmp_path / "again.jsonl", level="visit")
    assert (tmp_path / "again.jsonl").read_bytes() == expected


def test_visits_are_not_saved_beside_their_run(experiment):
    EvalLog.from_directory(experiment, describe(experiment)).save(experiment)
    assert list(experiment.rglob("visit_records.jsonl")) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, r"/visit_records\.jsonl: missing in .*: export the experiment again"),
        ("{}\n", r"/visit_records\.jsonl:1 experiment_id: expected a value, found no"),
        ("nonsense\n", r"/visit_records\.jsonl:1 "),
    ],
)
def test_damaged_visits_are_refused_by_name(experiment, tmp_path, text, message):
    EvalLog.from_directory(experiment, describe(experiment)).save(tmp_path / "else")
    path = run_dir_of(tmp_path / "else", 1) / "visit_records.jsonl"
    if text is None:
        path.unlink()
    else:
        path.write_text(text)
    log = EvalLog.load(tmp_path / "else")
    with pytest.raises(DocumentError, match=rf"^{SUITE}_seed-1{message}"):
        log.to_jsonl(tmp_path / "visits.jsonl", level="visit")
    assert not (tmp_path / "visits.jsonl").exists()


def test_saved_visits_of_another_experiment_are_refused(experiment, tmp_path):
    EvalLog.from_directory(experiment, describe(experiment)).save(tmp_path / "else")
    path = run_dir_of(tmp_path / "else", 1) / "visit_records.jsonl"
    path.write_text(path.read_text().replace(EXPERIMENT_ID, "fedcba9876543210"))
    with pytest.raises(DocumentError, match="experiment_id: expected 0123456789abcdef"):
        EvalLog.load(tmp_path / "else").to_jsonl(tmp_path / "visits.jsonl", "visit")


def test_folder_of_the_lines_is_made(experiment, tmp_path):
    log = EvalLog.from_directory(experiment, describe(experiment))
    log.to_jsonl(tmp_path / "new" / "folder" / "runs.jsonl")
    assert len(read_rows(tmp_path / "new" / "folder" / "runs.jsonl")) == 3


# --- errors -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "all_lines", "errored"), [("run", 3, 1), ("visit", 18, 1)]
)
def test_runs_with_an_error_are_counted_and_can_be_left_out(
    experiment, tmp_path, level, all_lines, errored
):
    write(run_dir_of(experiment, 1) / "status.json", make_status("FAILED", "KeyError"))
    exported = export_records(experiment, tmp_path / "all.jsonl", ExportOptions(level))
    assert (exported.lines, exported.errored) == (all_lines, errored)
    options = ExportOptions(level, completed_only=True)
    exported = export_records(experiment, tmp_path / "completed.jsonl", options)
    assert (exported.lines, exported.errored) == (all_lines - errored, errored)
    lines = read_rows(tmp_path / "completed.jsonl")
    assert len(lines) == all_lines - errored
    assert {line["error_type"] for line in lines} == {None}
    save_records(experiment, describe(experiment))
    log = EvalLog.load(experiment)
    log.to_jsonl(tmp_path / "log.jsonl", level, completed_only=True)
    assert read_rows(tmp_path / "log.jsonl") == lines


# --- records that others wrote ------------------------------------------------------


def rename_types(document: Any, namespace: str | None) -> Any:
    """The same document, its `_type`s another harness's, or missing."""
    if not isinstance(document, dict):
        return document
    renamed = {
        key: value if key == "config" else rename_types(value, namespace)
        for key, value in document.items()
    }
    name = renamed.pop("_type", None)
    if namespace is not None and name is not None:
        renamed["_type"] = f"{namespace}.{name.rpartition('.')[2]}"
    return renamed


@pytest.mark.parametrize("namespace", [None, "cube_harness.eval_log"])
def test_log_of_another_harness_is_read(experiment, namespace):
    save_records(experiment, describe(experiment))
    expected = EvalLog.load(experiment)
    for path in experiment.rglob("e*_record.json"):
        document = rename_types(json.loads(path.read_text()), namespace)
        document.pop("schema_version")
        for name in ("agent_id", "agent_name"):
            document.pop(name, None)
        path.write_text(json.dumps(document))
    log = EvalLog.load(experiment)
    assert log.experiment == expected.experiment
    assert [r.reward for r in log.episodes] == [r.reward for r in expected.episodes]
    assert {record.agent_id for record in log.episodes} == {None}


# --- assignment ---------------------------------------------------------------------


def test_parts_of_a_log_can_be_replaced(experiment):
    log = EvalLog.from_directory(experiment, describe(experiment))
    log.episodes = log.episodes[::-1]
    assert [record.seed for record in log.episodes] == [0, 1, 2]
    log.experiment = log.experiment.model_copy(update={"experiment_name": "renamed"})
    assert log.experiment.experiment_name == "renamed"


def test_parts_of_another_experiment_are_refused(experiment):
    log = EvalLog.from_directory(experiment, describe(experiment))
    before = log.model_copy(deep=True)
    stranger = log.episodes[0].model_copy(update={"experiment_id": "other"})
    with pytest.raises(DocumentError, match="experiment_id: expected 0123"):
        log.episodes = [stranger]
    with pytest.raises(DocumentError, match="experiment_id: expected other"):
        log.experiment = log.experiment.model_copy(update={"experiment_id": "other"})
    with pytest.raises(ValueError, match="found two of stream-smoke-v1_seed-0"):
        log.episodes = log.episodes[:1] * 2
    assert log == before


# --- bad input ----------------------------------------------------------------------

FAULTS = [
    ("score.json", None, r"score\.json: missing in .*; `longplay score .*` writes it"),
    ("run_summary.json", None, r"run_summary\.json: missing in"),
    ("config.json", None, r"config\.json: missing in"),
    ("score.json", "{", r"score\.json: not readable as JSON"),
    ("config.json", '{"seed": NaN}', r"config\.json: not readable as JSON: NaN"),
    ("status.json", "[]", r"status\.json document: expected an object, found"),
    ("score.json", {"final_score": "1"}, r"score\.json final_score: expected a number"),
    ("run_summary.json", {"frames": 1.5}, r"run_summary\.json frames: "),
    ("run_summary.json", {"usage": 3}, r"run_summary\.json usage: expected an obj"),
    (
        "run_summary.json",
        {"usage": {"n_llm_calls": "x"}},
        r"run_summary\.json usage: n_llm_calls: expected an int, found",
    ),
    (
        "run_summary.json",
        {"started_utc": "noon"},
        r"run_summary\.json started_utc: expected text like .*, found 'noon'",
    ),
    ("run_summary.json", {"schema_version": 2}, r"run_summary\.json schema_version"),
    ("config.json", {"suite": None}, r"config\.json: expected suite, seed and config"),
    ("config.json", {"config_given": None}, r"config\.json: expected suite, seed and"),
    ("config.json", {"config_effective": None}, r"config\.json config_effective: exp"),
]


@pytest.mark.parametrize(("name", "fault", "message"), FAULTS)
def test_damaged_run_stops_the_export_and_is_named(
    experiment, tmp_path, name, fault, message
):
    path = run_dir_of(experiment, 1) / name
    if fault is None:
        path.unlink()
    elif isinstance(fault, str):
        path.write_text(fault)
    else:
        edit(path, **fault)
    out = tmp_path / "out.jsonl"
    with pytest.raises(DocumentError, match=rf"^{SUITE}_seed-1/{message}"):
        export_jsonl(experiment, out)
    assert [p.name for p in tmp_path.iterdir()] == ["experiment"]


def test_visit_that_was_never_planned_is_refused(experiment):
    path = run_dir_of(experiment, 1) / "run_summary.json"
    visits = json.loads(path.read_text())["visits"]
    visits[3]["visit_idx"] = 99
    edit(path, visits=visits)
    with pytest.raises(DocumentError, match=r"seed-1/run_summary\.json visits: exp"):
        list(iter_records(experiment, "visit"))


def test_export_that_fails_leaves_the_last_one(experiment, tmp_path):
    out = tmp_path / "out.jsonl"
    export_jsonl(experiment, out)
    before = out.read_bytes()
    (run_dir_of(experiment, 2) / "score.json").unlink()
    with pytest.raises(DocumentError):
        export_jsonl(experiment, out)
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("experiment_record.json", None, r"experiment_record\.json: missing in"),
        ("experiment_record.json", '{"_type', r"experiment_record\.json: not readable"),
        (
            f"episodes/{SUITE}_seed-1/episode_record.json",
            '{"_type',
            rf"{SUITE}_seed-1/episode_record\.json: not readable as JSON",
        ),
        (
            f"episodes/{SUITE}_seed-1/episode_record.json",
            '{"schema_version": 2}',
            rf"{SUITE}_seed-1/episode_record\.json schema_version: expected at most 1",
        ),
    ],
)
def test_damaged_log_is_refused_by_name(experiment, path, text, message):
    save_records(experiment, describe(experiment))
    if text is None:
        (experiment / path).unlink()
    else:
        (experiment / path).write_text(text)
    with pytest.raises(DocumentError, match=f"^{message}"):
        EvalLog.load(experiment)


def test_run_without_a_record_is_not_in_the_log(experiment):
    save_records(experiment, describe(experiment))
    (run_dir_of(experiment, 1) / "episode_record.json").unlink()
    assert [record.seed for record in EvalLog.load(experiment).episodes] == [0, 2]


def test_experiment_without_an_id_is_refused(experiment):
    (experiment / "experiment_config.json").unlink()
    with pytest.raises(NotARunError, match=r"with experiment_config\.json in it"):
        list(iter_records(experiment))


def test_run_outside_its_experiment_is_refused(experiment, tmp_path):
    alone = shutil.copytree(run_dir_of(experiment, 1), tmp_path / "a" / "b" / "alone")
    with pytest.raises(NotARunError, match="expected a run in its experiment"):
        list(iter_records(alone))


def test_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(NotARunError, match=r"or an experiment directory \(episodes"):
        export_jsonl(tmp_path, tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_experiment_whose_runs_have_not_started_has_no_lines(tmp_path):
    experiment = make_experiment(tmp_path / "experiment", [])
    (experiment / "episodes").mkdir()
    assert export_jsonl(experiment, tmp_path / "out.jsonl", partial=True) == 0
    assert (tmp_path / "out.jsonl").read_bytes() == b""


# --- trajectory ids -----------------------------------------------------------------

HOSTILE = [
    "../../outside",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "C:\\windows",
    "a:b",
    ".hidden",
    "trailing.",
    "trailing ",
    "NUL",
    "nul.txt",
    "com1",
    "a\0b",
    "a\nb",
    "~",
    "~root",
    "-rf",
    "x" * 300,
    "ünï",
    "quiz:1/try",
]


def stays_inside(name: str) -> bool:
    return (
        0 < len(name.encode()) <= 120
        and name.isascii()
        and name.isprintable()
        and not set(name) & set('/\\:*?"<>| ')
        and name[0] not in ".-~"
        and name[-1] not in ". "
        and name.partition(".")[0].upper() not in {"CON", "PRN", "AUX", "NUL", "COM1"}
    )


@pytest.mark.parametrize("trajectory_id", [name for name in HOSTILE if name])
def test_hostile_id_stays_in_the_experiment(experiment, tmp_path, trajectory_id):
    log = EvalLog.from_directory(experiment, describe(experiment))
    record = log.episodes[0].model_copy(update={"trajectory_id": trajectory_id})
    log = EvalLog(experiment=log.experiment, episodes=[record])
    target = tmp_path / "deep" / "down" / "target"
    log.save(target)
    files = [path for path in (tmp_path / "deep").rglob("*") if path.is_file()]
    assert len(files) == 2
    assert {path.parent.parent.name for path in files} == {"down", "episodes"}
    assert EvalLog.load(target) == log


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_name_is_made_safe(text):
    assert stays_inside(folder_name(text))
    assert folder_name(text) != text


@given(st.text(max_size=200))
def test_any_text_is_a_safe_folder_name(text):
    assert stays_inside(folder_name(text))


@given(st.lists(st.text(alphabet="ab/.:~-", max_size=6), unique=True))
def test_different_texts_have_different_folders(texts):
    texts += [folder_name(text) for text in texts if folder_name(text) not in texts]
    assert len({folder_name(text) for text in texts}) == len(texts)


@pytest.mark.parametrize("name", [f"{SUITE}_seed-0", f"{SUITE}+1a2b3c4d_seed-12"])
def test_ids_of_longplay_are_folder_names(name):
    assert folder_name(name) == name


# --- many runs ----------------------------------------------------------------------

MEASURE = """
import sys, time
from longplay.eval_log.export import export_jsonl
started = time.perf_counter()
count = export_jsonl(sys.argv[1], sys.argv[2])
elapsed = time.perf_counter() - started
status = open("/proc/self/status").read()
peak_kib = int(status.split("VmHWM:")[1].split()[0])
print(count, elapsed, peak_kib / 1024)
"""
needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)


def measure(experiment: Path, out: Path) -> tuple[int, float, float]:
    """Lines, seconds and peak MiB of an export in a process of its own."""
    command = [sys.executable, "-c", MEASURE, str(experiment), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, elapsed_s, peak_mib = done.stdout.split()
    return int(count), float(elapsed_s), float(peak_mib)


@needs_proc
def test_thousand_runs_are_exported_at_once(tmp_path):
    experiment = make_experiment(tmp_path / "experiment", range(1000))
    count, elapsed_s, peak_mib = measure(experiment, tmp_path / "out.jsonl")
    assert count == 1000
    assert elapsed_s < 10
    assert peak_mib < 200


@needs_proc
@pytest.mark.exhaustive
def test_ten_thousand_runs_take_ten_times_as_long_as_a_thousand(tmp_path):
    experiment = make_experiment(tmp_path / "experiment", range(1000))
    figures = []
    for start, end in ((1000, 1000), (1000, 3000), (3000, 10_000)):
        write_plan(experiment, range(end))
        for seed in range(start, end):
            make_run(run_dir_of(experiment, seed), seed)
        figures.append(measure(experiment, tmp_path / "out.jsonl"))
    counts, times_s, peaks_mib = zip(*figures, strict=True)
    assert counts == (1000, 3000, 10_000)
    assert times_s[2] < 30
    assert max(peaks_mib) < 200
    assert max(peaks_mib) - min(peaks_mib) < 30
    per_run_s = [time_s / count for time_s, count in zip(times_s, counts, strict=True)]
    assert max(per_run_s) < 1.7 * min(per_run_s)
