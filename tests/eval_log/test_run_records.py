"""Run directory -> its record, or the records of its visits."""

from __future__ import annotations

import hashlib
import json
import shutil

import pytest

import longplay
from generated_runs import (
    AGENT_ID,
    EXPERIMENT_ID,
    GAME_ACTIONS,
    STARTED_S,
    SUITE,
    describe_experiment,
    edit,
    iter_records,
    make_experiment,
    make_score,
    make_status,
    run_dir_of,
    write,
)
from longplay.errors import DocumentError, NotARunError
from longplay.eval_log.log import save_records
from longplay.eval_log.records import UsageSummary
from longplay.eval_log.tasks import Benchmark
from longplay.plan import name_benchmark


@pytest.mark.seed("001", "episode-1..17")
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


@pytest.mark.seed("001", "episode-20")
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


@pytest.mark.seed("001", "usage-9", "integration-2")
def test_events_are_never_read(experiment):
    assert not list(experiment.rglob("*.jsonl"))
    for seed in range(3):
        (run_dir_of(experiment, seed) / "events.jsonl").write_text("not JSON at all")
    assert len(list(iter_records(experiment))) == 3
    assert len(list(iter_records(experiment, "visit"))) == 18


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


@pytest.mark.seed("001", "experiment-15")
def test_stored_experiment_id_survives_a_move(experiment, tmp_path):
    save_records(experiment, describe_experiment(experiment))
    moved = experiment.rename(tmp_path / "moved")
    assert {record.experiment_id for record in iter_records(moved)} == {EXPERIMENT_ID}


def test_findings_of_another_experiment_are_not_taken_over(experiment):
    save_records(experiment, describe_experiment(experiment))
    path = run_dir_of(experiment, 0) / "episode_record.json"
    findings = {"difficulty": "hard", "feasible": None, "failure_root_cause": None}
    edit(path, findings=findings)
    assert next(iter_records(experiment)).findings is not None
    assert [r.findings for r in iter_records(experiment, "visit")] == [None] * 18
    edit(path, findings=findings, experiment_id="other")
    assert next(iter_records(experiment)).findings is None


# --- visits ---------------------------------------------------------------------------


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


# --- bad input ------------------------------------------------------------------------


def test_visit_that_was_never_planned_is_refused(experiment):
    path = run_dir_of(experiment, 1) / "run_summary.json"
    visits = json.loads(path.read_text())["visits"]
    visits[3]["visit_idx"] = 99
    edit(path, visits=visits)
    with pytest.raises(DocumentError, match=r"seed-1/run_summary\.json visits: exp"):
        list(iter_records(experiment, "visit"))


def test_experiment_without_an_id_is_refused(experiment):
    (experiment / "experiment_config.json").unlink()
    with pytest.raises(NotARunError, match=r"with experiment_config\.json in it"):
        list(iter_records(experiment))


def test_run_outside_its_experiment_is_refused(experiment, tmp_path):
    alone = shutil.copytree(run_dir_of(experiment, 1), tmp_path / "a" / "b" / "alone")
    with pytest.raises(NotARunError, match="expected a run in its experiment"):
        list(iter_records(alone))
