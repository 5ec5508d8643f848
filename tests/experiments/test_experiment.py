"""Experiments from Python: planned, created, run one by one, opened again, exported."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longplay
from generated_runs import iter_records
from longplay.errors import LongplayError, OutputError, RecordingError
from longplay.eval_log.log import EvalLog, describe_agent
from longplay.eval_log.records import Findings
from longplay.experiments.experiment import Experiment
from planning import plan_experiment
from playing import play_run

SUITE = "stream-smoke-v1"
SHORT = {"games": ["qbert"], "num_cycles": 1, "base_visit_frames": 40, "jitter_pct": 0}
FILES = ("events.jsonl", "episodes.jsonl", "segments.jsonl")


class Failing:
    """Raises at frame 7 of the seeds that are told to."""

    raising: frozenset[int] = frozenset()

    def __init__(self, num_actions: int, seed: int) -> None:
        self.raises = seed in self.raising

    def step(self, obs_rgb, reward, terminated, truncated, info) -> int:
        if self.raises and info["global_frame_idx"] == 7:
            raise ValueError("no more")
        return 0


class Talking:
    """Asks a language model on every decision, and keeps the bill."""

    def __init__(self, num_actions: int, seed: int) -> None:
        self.calls = 0

    def step(self, obs_rgb, reward, terminated, truncated, info) -> int:
        self.calls += info["is_decision_frame"]
        return 0

    def usage(self) -> dict[str, float]:
        tokens = {"prompt_tokens": 100 * self.calls, "completion_tokens": self.calls}
        return {**tokens, "total_cost_usd": 0.25, "n_llm_calls": self.calls}


def plan(out: Path, seeds=(0, 1), agent: Any = "random") -> Experiment:
    return plan_experiment(SUITE, agent, seeds=seeds, out=out, overrides=SHORT)


def play(out: Path, seeds=(0, 1), agent: Any = "random") -> Experiment:
    experiment = plan(out, seeds, agent)
    experiment.run_sequentially()
    return replace(experiment, may_exist=True)  # as when it is opened again


def begin(experiment: Experiment) -> Experiment:
    with experiment.drive():
        return replace(experiment, may_exist=True)


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def run_dirs(experiment: Experiment) -> list[Path]:
    return [experiment.run_dir(one) for one in experiment.plans]


def states(experiment: Experiment) -> list[str]:
    return [read(path / "status.json")["state"] for path in run_dirs(experiment)]


def fail_on(monkeypatch: pytest.MonkeyPatch, *seeds: int) -> None:
    from longplay.seeds import agent_seed

    raising = frozenset(agent_seed(seed) for seed in seeds)
    monkeypatch.setattr(Failing, "raising", raising)


# --- planning -------------------------------------------------------------------


def test_planning_writes_nothing(tmp_path):
    plan(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.seed("001", "purpose-3", "experiment-11", "experiment-12")
def test_experiment_record_is_written_once_and_shared(tmp_path):
    experiment = begin(plan(tmp_path / "out"))
    path = tmp_path / "out" / "experiment_record.json"
    before = read(path)
    experiment.run_sequentially()
    assert {**read(path), "timestamp": before["timestamp"]} == before
    assert list((tmp_path / "out").rglob("experiment_record.json")) == [path]
    shared = {"agent", "benchmark_name", "benchmark_subset", "framework_version"}
    assert shared <= before.keys()
    for run_dir in run_dirs(experiment):
        assert not shared & read(run_dir / "episode_record.json").keys()


@pytest.mark.seed("001", "disk-1", "disk-2", "log-7")
def test_files_of_the_specification_lie_in_their_places(tmp_path):
    experiment = play(tmp_path / "out")
    files = {path.name for path in (tmp_path / "out").glob("*.json")}
    assert files == {
        "experiment_config.json",
        "experiment_summary.json",
        "experiment_record.json",
    }
    for run_dir in run_dirs(experiment):
        assert run_dir.parent == tmp_path / "out" / "episodes"
        assert run_dir.name == read(run_dir / "episode_record.json")["trajectory_id"]
        for name in ("episode_config.json", "episode_record.json", "events.jsonl"):
            assert (run_dir / name).is_file()


def test_plan_is_written_down_before_anything_is_played(tmp_path):
    begin(plan(tmp_path / "out", seeds=(2, 5, 9)))
    config = read(tmp_path / "out/experiment_config.json")
    assert (config["seeds"], config["n_tasks"]) == ([2, 5, 9], 3)
    assert not list((tmp_path / "out").rglob("events.jsonl"))


def test_experiment_id_is_the_hash_of_name_and_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    begin(plan(Path("out")))
    config = read(tmp_path / "out/experiment_config.json")
    text = config["experiment_name"] + str(tmp_path / "out")
    expected = hashlib.sha256(text.encode()).hexdigest()[:16]
    assert config["experiment_id"] == expected


def test_existing_folder_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError, match="exists"):
        begin(plan(tmp_path / "out"))
    assert list((tmp_path / "out").iterdir()) == []


# --- running --------------------------------------------------------------------


def test_run_of_several_is_the_run_of_one(tmp_path):
    """Whether a seed is run alone or after another makes no difference."""
    experiment = play(tmp_path / "both", seeds=(0, 1))
    alone = play_run(SUITE, "random", seed=1, out=tmp_path / "1", overrides=SHORT)
    together = experiment.run_dir(experiment.plans[1])
    for name in FILES:
        assert (together / name).read_bytes() == (alone.run_dir / name).read_bytes()
    assert together.name == alone.run_dir.name


@pytest.mark.seed("001", "purpose-4")
def test_every_run_is_valid_scored_and_recorded(tmp_path):
    experiment = play(tmp_path / "out", seeds=(0, 1))
    for run_dir in run_dirs(experiment):
        assert longplay.validate_run(run_dir).is_valid
        score = read(run_dir / "score.json")["final_score"]
        assert read(run_dir / "episode_record.json")["reward"] == (score or 0.0)


@pytest.mark.seed("001", "disk-1")
def test_summary_tells_how_each_run_ended(tmp_path, monkeypatch):
    fail_on(monkeypatch, 1)
    experiment = play(tmp_path / "out", (0, 1, 2), Failing)
    assert states(experiment) == ["COMPLETED", "FAILED", "COMPLETED"]
    runs = read(tmp_path / "out/experiment_summary.json")["runs"]
    assert [run["state"] for run in runs] == states(experiment)
    assert "no more" in json.dumps(runs[1]["error"])


def test_running_again_plays_only_incomplete_runs(tmp_path, monkeypatch):
    fail_on(monkeypatch, 1)
    experiment = play(tmp_path / "out", (0, 1), Failing)
    whole, broken = run_dirs(experiment)
    before = {path: path.stat().st_mtime_ns for path in whole.iterdir()}
    fail_on(monkeypatch)
    experiment.run_sequentially()
    assert {path: path.stat().st_mtime_ns for path in whole.iterdir()} == before
    assert states(experiment) == ["COMPLETED", "COMPLETED"]
    assert read(broken / "status.json")["retries"] == 1
    assert len(list((tmp_path / "out/archive").glob("*/*"))) == 1


def test_experiment_is_opened_again(tmp_path):
    first = play(tmp_path / "out", (3, 4))
    again = Experiment.open(tmp_path / "out")
    assert again.plans == first.plans
    assert again.agent.entry == first.agent.entry
    assert again.name == first.name


def test_opening_imports_nothing_that_a_folder_names(tmp_path):
    touched = tmp_path / "touched"
    agent = tmp_path / "touching_agent.py"
    agent.write_text(
        f"from pathlib import Path\nPath({str(touched)!r}).touch()\n"
        "class Agent:\n"
        "    def __init__(self, num_actions, seed):\n        pass\n"
        "    def step(self, *percept):\n        return 0\n"
    )
    play(tmp_path / "out", agent=str(agent))
    touched.unlink()
    with pytest.raises(LongplayError, match="--agent"):
        Experiment.open(tmp_path / "out")
    assert not touched.exists()
    assert Experiment.open(tmp_path / "out", str(agent)).agent.spec == str(agent)


def test_second_driver_waits_outside(tmp_path):
    experiment = begin(plan(tmp_path / "out"))
    other = Experiment.open(tmp_path / "out")
    with experiment.drive(), pytest.raises(OutputError, match="another longplay"):
        other.run_sequentially()
    assert not (tmp_path / "out/episodes").exists()
    other.run_sequentially()
    assert states(other) == ["COMPLETED", "COMPLETED"]


# --- export ---------------------------------------------------------------------


@pytest.mark.seed("001", "experiment-12", "integration-3", "integration-4")
@pytest.mark.seed("cube", "export_eval_log_integration")
def test_eval_log_of_an_experiment(tmp_path):
    experiment = play(tmp_path / "out", (0, 1))
    log = experiment.export_eval_log()
    assert [record.seed for record in log.episodes] == [0, 1]
    assert EvalLog.load(tmp_path / "out") == log
    config = read(tmp_path / "out/experiment_config.json")
    assert log.experiment.experiment_id == config["experiment_id"]
    assert log.experiment.agent.agent_id == config["agent"]["agent_id"]
    assert log.experiment.benchmark_subset.n_tasks == 2


def test_usage_of_an_agent_that_calls_a_language_model(tmp_path):
    experiment = play(tmp_path / "out", (0,), Talking)
    (record,) = experiment.export_eval_log().episodes
    calls = 10  # 40 frames, a decision every four
    assert (record.usage.n_llm_calls, record.usage.total_cost_usd) == (calls, 0.25)
    assert record.usage.total_tokens == 101 * calls
    (visit_usage, *_) = [r.usage for r in iter_records(tmp_path / "out", "visit")]
    assert visit_usage.n_llm_calls == 0


class Boasting(Talking):
    """Says what no record can hold."""

    def usage(self) -> dict[str, float]:
        return {"prompt_tokens": 1.5}


def test_usage_that_no_record_can_hold_fails_the_run(tmp_path):
    (outcome,) = plan(tmp_path / "out", (0,), Boasting).run_sequentially()
    assert outcome.state == "FAILED"
    assert "usage(): prompt_tokens: expected an int" in outcome.error


def test_usage_in_numbers_of_numpy(tmp_path, monkeypatch):
    usage = {"prompt_tokens": np.int64(5), "total_cost_usd": np.float32(0.5)}
    monkeypatch.setattr(Talking, "usage", lambda self: usage)
    experiment = play(tmp_path / "out", (0,), Talking)
    (record,) = experiment.export_eval_log().episodes
    assert (record.usage.prompt_tokens, record.usage.total_cost_usd) == (5, 0.5)


@pytest.mark.seed("001", "findings-6")
def test_later_findings_are_kept(tmp_path):
    experiment = play(tmp_path / "out", (0, 1))
    log = experiment.export_eval_log()
    found = Findings(difficulty="hard", feasible=True, failure_root_cause=None)
    log.episodes[1] = log.episodes[1].model_copy(update={"findings": found})
    log.save(tmp_path / "out")
    experiment.run_sequentially()  # nothing to do, but the records are written again
    again = EvalLog.load(tmp_path / "out")
    assert [record.findings for record in again.episodes] == [None, found]
    exported = list(iter_records(tmp_path / "out"))
    assert [record.findings for record in exported] == [None, found]


def test_run_is_complete_only_with_its_score(tmp_path, monkeypatch):
    def fail(play: object) -> None:
        raise RecordingError("no room for the score")

    monkeypatch.setattr("longplay.runs.writer.compute_score", fail)
    (outcome,) = plan(tmp_path / "out", (0,)).run_sequentially()
    assert outcome.state == "FAILED"
    monkeypatch.undo()
    experiment = Experiment.open(tmp_path / "out")
    experiment.run_sequentially()
    assert states(experiment) == ["COMPLETED"]
    assert (run_dirs(experiment)[0] / "score.json").exists()


def test_damaged_run_does_not_cost_the_others_their_records(tmp_path):
    experiment = play(tmp_path / "out", (0, 1))
    first, second = run_dirs(experiment)
    for path in (first, second):
        (path / "episode_record.json").unlink()
    (first / "run_summary.json").write_text("{")
    with pytest.raises(LongplayError, match=re.escape(f"{first.name}/run_summary")):
        experiment.run_sequentially()
    assert (second / "episode_record.json").exists()


def test_one_run_of_several_is_played_again(tmp_path, monkeypatch):
    fail_on(monkeypatch, 0, 1)
    experiment = play(tmp_path / "out", (0, 1), Failing)
    fail_on(monkeypatch)
    only = Experiment.open(run_dirs(experiment)[1], Failing)
    only.run_sequentially()
    assert states(experiment) == ["FAILED", "COMPLETED"]
    assert len(read(tmp_path / "out/experiment_summary.json")["runs"]) == 2


@pytest.mark.seed("001", "integration-3")
def test_eval_log_can_be_saved_elsewhere(tmp_path):
    experiment = play(tmp_path / "out", (0, 1))
    log = experiment.export_eval_log(tmp_path / "elsewhere")
    assert EvalLog.load(tmp_path / "elsewhere") == log
    assert not list((tmp_path / "elsewhere").rglob("events.jsonl"))


@pytest.mark.seed("001", "agent-13")
def test_provenance_of_another_checkout(tmp_path):
    """A folder without git says so, and changes nothing else."""
    experiment = play(tmp_path / "out", (0,))
    describe_agent(tmp_path / "out", "moves at random")
    log = experiment.export_eval_log(tmp_path / "elsewhere", git_cwd=str(tmp_path))
    assert log.experiment.agent.git_commit is None
    assert log.experiment.agent.description == "moves at random"
    planned = read(tmp_path / "out/experiment_record.json")
    assert log.experiment.experiment_id == planned["experiment_id"]
    assert log.experiment.agent.agent_id == planned["agent"]["agent_id"]


@pytest.mark.seed("001", "subset-5")
def test_eval_log_shows_missing_runs(tmp_path):
    """Planned runs that never began have no record, but are counted."""
    experiment = begin(plan(tmp_path / "out", (0, 1, 2)))
    assert experiment.export_eval_log().episodes == []
    record = read(tmp_path / "out/experiment_record.json")
    assert record["benchmark_subset"]["n_tasks"] == 3


@pytest.mark.seed("001", "purpose-7", "episode-23")
def test_failed_run_has_one_record_then_another(tmp_path, monkeypatch):
    fail_on(monkeypatch, 1)
    experiment = play(tmp_path / "out", (0, 1), Failing)
    errors = [record.error_type for record in experiment.export_eval_log().episodes]
    assert errors == [None, "ValueError"]
    fail_on(monkeypatch)
    experiment.run_sequentially()
    errors = [record.error_type for record in experiment.export_eval_log().episodes]
    assert errors == [None, None]
