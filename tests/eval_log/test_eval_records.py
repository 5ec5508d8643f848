"""The EvalLog's records: their fields, hashes, kinds, and what they are made from."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ValidationError

from longplay.contract.files import read_document, render_line, write_document
from longplay.errors import DocumentError, UnknownNameError
from longplay.eval_log import records
from longplay.eval_log.records import (
    AgentInfo,
    BenchmarkSubset,
    EpisodeRecord,
    ExperimentRecord,
    Findings,
    InvestigatorLLMConfig,
    UsageSummary,
    Verifier,
    make_experiment_id,
)
from schemas import EVAL_LOG

MARKS = ("type_", "schema_version")


# --- a harness that is not longplay's ----------------------------------------------


class Chatter:
    """A scripted agent that answers questions, and counts what a model would cost."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self, question: str) -> str:
        self.calls += 1
        return question.upper()

    def usage(self) -> dict[str, Any]:
        return {
            "prompt_tokens": 100 * self.calls,
            "completion_tokens": 7 * self.calls,
            "total_cost_usd": 0.5 * self.calls,
            "n_llm_calls": self.calls,
        }


class ChatterConfig(BaseModel):
    llm_config: dict[str, Any] = {"model_name": "small-1", "temperature": 0.5}


class QuizConfig(BaseModel):
    task_id: str = "quiz/1"
    questions: list[str] = ["a", "b"]


class SeededQuizConfig(QuizConfig):
    seed: int


class Room(BaseModel):
    """A part of a config whose class is a base class of the value's."""


class LoudRoom(Room):
    decibel: int


class PlaceConfig(BaseModel):
    room: Room


def play_quiz(agent: Chatter, config: QuizConfig) -> SimpleNamespace:
    answers = [agent.answer(question) for question in config.questions]
    return SimpleNamespace(
        id="quiz:1/try",
        metadata={
            "task_id": config.task_id,
            "action_schemas": [{"name": "say"}, {"name": "pass"}],
        },
        steps=answers,
        summary_stats={"n_agent_steps": len(answers), **agent.usage()},
        reward_info={"reward": 1},
        start_time=1000.0,
        end_time=1002.5,
    )


def make_episode(**changes: Any) -> EpisodeRecord:
    record = EpisodeRecord.from_trajectory(
        play_quiz(Chatter(), QuizConfig()), "cafe", task_config=QuizConfig()
    )
    return record.model_copy(update=changes)


def make_benchmark(n_tasks: int = 3) -> SimpleNamespace:
    return SimpleNamespace(
        benchmark_metadata=SimpleNamespace(name="Quiz_[level=l1]", version="7"),
        task_metadata={f"quiz/{n}": None for n in range(n_tasks)},
    )


def make_experiment(tmp_path: Any) -> ExperimentRecord:
    return ExperimentRecord.from_experiment(
        "quiz", tmp_path, ChatterConfig(), make_benchmark(), git_cwd=str(tmp_path)
    )


@pytest.mark.seed("001", "episode-21")
def test_trajectory_that_is_not_atari_becomes_a_record():
    metadata = SimpleNamespace(abstract_description="two questions", split="val")
    record = EpisodeRecord.from_trajectory(
        play_quiz(Chatter(), QuizConfig()), "cafe", metadata, QuizConfig()
    )
    assert record.task_id == "quiz/1"
    assert record.trajectory_id == "quiz:1/try"
    assert (record.split, record.task_description) == ("val", "two questions")
    assert record.tool_names == ["say", "pass"]
    assert (record.reward, record.success, record.error_type) == (1.0, True, None)
    assert (record.n_steps, record.n_agent_steps, record.n_env_steps) == (2, 2, 0)
    assert (record.timestamp, record.wall_time_s) == (1000.0, 2.5)
    assert record.usage == UsageSummary(
        prompt_tokens=200,
        completion_tokens=14,
        total_tokens=214,
        total_cost_usd=1.0,
        n_llm_calls=2,
    )


@pytest.mark.seed("001", "episode-30")
@pytest.mark.seed(
    "cube",
    "extract_error_type_from_agent_output",
    "extract_error_type_returns_first_error",
)
def test_first_error_of_the_steps_names_the_error():
    trajectory = play_quiz(Chatter(), QuizConfig())
    trajectory.steps = [
        SimpleNamespace(output=SimpleNamespace(error=None)),
        SimpleNamespace(output=SimpleNamespace(error=TimeoutError("late"))),
        SimpleNamespace(
            output=SimpleNamespace(error=SimpleNamespace(error_type="KeyError"))
        ),
    ]
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert record.error_type == "TimeoutError"
    trajectory.steps.reverse()
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert record.error_type == "KeyError"
    trajectory.summary_stats = {"error_type": "ValueError"}
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert record.error_type == "ValueError"


@pytest.mark.seed("001", "episode-28", "integration-6", "gotcha-2")
@pytest.mark.seed(
    "cube",
    "extract_tool_names_empty_list",
    "episode_record_tool_names_empty_without_metadata",
)
def test_old_trajectory_without_action_schemas_has_no_tools():
    trajectory = play_quiz(Chatter(), QuizConfig())
    del trajectory.metadata["action_schemas"]
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert record.tool_names == []
    assert record.task_version_hash is None


@pytest.mark.seed("001", "episode-27")
@pytest.mark.seed(
    "cube",
    "extract_tool_names_litellm_format",
    "extract_tool_names_flat_format",
    "extract_tool_names_mixed_formats",
    "extract_tool_names_skips_tools_without_name",
    "episode_record_tool_names_from_metadata",
)
def test_tools_have_two_forms():
    trajectory = play_quiz(Chatter(), QuizConfig())
    trajectory.metadata["action_schemas"] = [
        {"type": "function", "function": {"name": "say", "description": "…"}},
        {"name": "pass"},
        {"type": "function", "function": {"description": "nameless"}},
        {"description": "nameless, too"},
        {"type": "function", "function": {"name": "ask"}},
        {"name": "wave", "function": {"description": "named outside"}},
    ]
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert record.tool_names == ["say", "pass", "ask", "wave"]


@pytest.mark.seed("cube", "episode_record_with_task_config")
def test_seed_of_the_task_config_counts():
    trajectory = play_quiz(Chatter(), QuizConfig())
    trajectory.metadata["seed"] = 3
    for seed in (42, 0):
        config = SeededQuizConfig(seed=seed)
        record = EpisodeRecord.from_trajectory(trajectory, "cafe", task_config=config)
        assert record.seed == seed
    assert EpisodeRecord.from_trajectory(trajectory, "cafe").seed == 3


@pytest.mark.parametrize(
    ("metadata", "task_metadata", "task_config", "task_id"),
    [
        ({"task_id": "a"}, SimpleNamespace(task_id="b"), QuizConfig(), "a"),
        ({}, SimpleNamespace(task_id="b"), QuizConfig(), "quiz/1"),
        ({}, SimpleNamespace(id="b"), None, "b"),
        ({}, None, None, ""),
        (None, None, None, ""),
    ],
)
def test_task_without_an_id_is_no_error(metadata, task_metadata, task_config, task_id):
    trajectory = play_quiz(Chatter(), QuizConfig())
    trajectory.metadata = metadata
    record = EpisodeRecord.from_trajectory(
        trajectory, "cafe", task_metadata, task_config
    )
    assert record.task_id == task_id


def make_steps() -> list[SimpleNamespace]:
    """Two environment steps around three of an agent; the last reward is 0.5."""
    outputs = [
        SimpleNamespace(reward=0.0, done=False),
        *(SimpleNamespace(actions=[], error=None) for _ in range(3)),
        SimpleNamespace(reward=0.5, done=True),
    ]
    return [SimpleNamespace(output=output) for output in outputs]


def test_steps_are_counted_where_statistics_lack_them():
    trajectory = play_quiz(Chatter(), QuizConfig())
    trajectory.steps, trajectory.summary_stats = make_steps(), None
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert (record.n_steps, record.n_agent_steps, record.n_env_steps) == (5, 3, 2)
    trajectory.n_agent_steps, trajectory.n_env_steps = 7, 8
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert (record.n_steps, record.n_agent_steps, record.n_env_steps) == (5, 7, 8)
    trajectory.summary_stats = {"n_steps": 9, "n_agent_steps": 0, "n_env_steps": 4}
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert (record.n_steps, record.n_agent_steps, record.n_env_steps) == (9, 0, 4)


@pytest.mark.parametrize(
    ("start", "end", "timestamp", "wall_time_s"),
    [(100.0, 110.0, 100.0, 10.0), (100.0, None, 100.0, None), (None, None, 0.0, None)],
)
def test_time_that_is_unknown_is_not_made_up(start, end, timestamp, wall_time_s):
    trajectory = play_quiz(Chatter(), QuizConfig())
    trajectory.start_time, trajectory.end_time = start, end
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert (record.timestamp, record.wall_time_s) == (timestamp, wall_time_s)


@pytest.mark.seed("001", "integration-7")
def test_task_without_metadata_has_no_split_and_no_description():
    record = make_episode()
    assert (record.split, record.task_description) == (None, None)
    assert (record.verifier, record.findings, record.evidence) == (None, None, None)


@pytest.mark.parametrize(
    ("reward_info", "reward"),
    [
        ({"reward": 0.0}, 0.0),
        ({"reward": 2}, 2.0),
        ({"reward": -4.0}, -4.0),
        ({}, 0.5),
        (None, 0.5),
    ],
)
def test_last_environment_reward_counts_without_another(reward_info, reward):
    trajectory = play_quiz(Chatter(), QuizConfig())
    trajectory.steps, trajectory.reward_info = make_steps(), reward_info
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert (record.reward, record.success) == (reward, reward > 0)


@pytest.mark.seed("001", "episode-20", "episode-31")
@pytest.mark.seed("cube", "extract_error_type_clean_trajectory")
def test_zero_reward_without_error_is_a_failure_and_no_crash():
    trajectory = play_quiz(Chatter(), QuizConfig())
    trajectory.reward_info = {}
    record = EpisodeRecord.from_trajectory(trajectory, "cafe")
    assert (record.reward, record.success, record.error_type) == (0.0, False, None)


@pytest.mark.seed("001", "usage-1..7", "usage-9")
@pytest.mark.seed(
    "cube",
    "usage_summary_from_stats",
    "usage_summary_from_none",
    "usage_summary_total_tokens_is_sum",
)
@pytest.mark.parametrize(
    ("stats", "expected"),
    [
        (None, {}),
        ({}, {}),
        ({"n_steps": 5, "wall_time_s": 2.0}, {}),
        ({"prompt_tokens": None}, {}),
        (
            {"prompt_tokens": 3, "completion_tokens": 4},
            {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
        ),
        (
            {"prompt_tokens": 3, "total_tokens": 9},
            {"prompt_tokens": 3, "total_tokens": 9},
        ),
        ({"total_cost_usd": 2}, {"total_cost_usd": 2.0}),
        ({"cost": 0.05}, {"total_cost_usd": 0.05}),
        ({"total_llm_calls": 3}, {"n_llm_calls": 3}),
        ({"cost": 1.0, "total_cost_usd": 2.0}, {"total_cost_usd": 2.0}),
        ({"cost": 1.0, "total_cost_usd": None}, {"total_cost_usd": 1.0}),
    ],
)
def test_usage_comes_from_the_statistics(stats, expected):
    assert UsageSummary.from_summary_stats(stats) == UsageSummary(**expected)


@pytest.mark.parametrize("bad", [-1, 1.5, "3", True, float("nan")])
def test_usage_must_be_a_count(bad):
    with pytest.raises(ValidationError):
        UsageSummary.from_summary_stats({"prompt_tokens": bad})


# --- fields -------------------------------------------------------------------------


def test_kind_comes_first_and_version_second(tmp_path):
    for record in (make_episode(), make_experiment(tmp_path)):
        document = json.loads(record.model_dump_json())
        assert list(document)[:2] == ["_type", "schema_version"]
        name = type(record).__name__
        assert document["_type"] == f"longplay.eval_log.{name}"
        assert document["schema_version"] == 1
    assert document["agent"]["_type"] == "longplay.eval_log.AgentInfo"


def test_records_can_be_changed(tmp_path):
    record, experiment = make_episode(), make_experiment(tmp_path)
    record.findings = Findings(
        difficulty="hard", feasible=True, failure_root_cause=None
    )
    record.findings.failure_root_cause = "did not read the question"
    record.reward = 3.0
    experiment.agent.description = "answers in capitals"
    experiment.benchmark_subset.filter = "level=l1"
    document = json.loads(render_line(record))
    assert document["findings"]["failure_root_cause"] == "did not read the question"
    assert document["reward"] == 3.0
    document = json.loads(render_line(experiment))
    assert document["agent"]["description"] == "answers in capitals"
    assert document["benchmark_subset"]["filter"] == "level=l1"


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("reward", "high"),
        ("reward", float("nan")),
        ("n_steps", -1),
        ("success", 1),
        ("findings", {"difficulty": 3, "feasible": None, "failure_root_cause": None}),
        ("experiment_id", ""),
        ("schema_version", 2),
        ("type_", "longplay.eval_log.Findings"),
    ],
)
def test_bad_value_is_refused_on_assignment(name, bad):
    record = make_episode()
    before = record.model_copy()
    with pytest.raises(ValidationError):
        setattr(record, name, bad)
    assert record == before


def test_misspelt_field_is_refused_on_assignment():
    with pytest.raises(UnknownNameError, match=r"'fidings'; did you mean 'findings'"):
        make_episode().fidings = None
    record = EpisodeRecord(**make_episode().model_dump(), extra_key=1)
    record.extra_key = 2
    assert json.loads(render_line(record))["extra_key"] == 2


# --- invariant 1: agent_id ----------------------------------------------------------


@pytest.mark.seed("001", "agent-1", "agent-15", "agent-16", "invariant-1")
@pytest.mark.seed("cube", "agent_info_agent_id_is_stable")
def test_agent_id_is_the_hash_of_the_sorted_config(monkeypatch):
    text = '{"llm_config": {"model_name": "small-1", "temperature": 0.5}}'
    expected = hashlib.sha256(text.encode()).hexdigest()
    assert AgentInfo.from_agent_config(ChatterConfig()).agent_id == expected
    swapped = {"llm_config": {"temperature": 0.5, "model_name": "small-1"}}
    assert AgentInfo.from_agent_config(swapped).agent_id == expected
    monkeypatch.setattr(records, "longplay_version", lambda: "99")
    monkeypatch.setattr(records, "read_package_versions", dict)
    info = AgentInfo.from_agent_config(ChatterConfig())
    assert (info.agent_id, info.framework_version) == (expected, "99")
    other = ChatterConfig(llm_config={"model_name": "small-2"})
    assert AgentInfo.from_agent_config(other).agent_id != expected


@pytest.mark.seed("001", "agent-3")
def test_agent_id_sees_the_fields_of_subclasses():
    info = AgentInfo.from_agent_config(PlaceConfig(room=LoudRoom(decibel=90)))
    assert info.config == {"room": {"decibel": 90}}
    text = '{"room": {"decibel": 90}}'
    assert info.agent_id == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.seed("001", "agent-4")
@pytest.mark.seed(
    "cube",
    "extract_llm_model_top_level_model_name",
    "extract_llm_model_top_level_model",
    "extract_llm_model_nested_llm_config",
    "extract_llm_model_nested_llm",
    "extract_llm_model_returns_none_when_absent",
    "extract_llm_model_ignores_non_string_values",
)
@pytest.mark.parametrize(
    ("config", "model"),
    [
        ({"llm_config": {"model_name": "m"}}, "m"),
        ({"args": {"llm": {"model": "m", "top_p": 1}}}, "m"),
        ({"args": {"llm_model": "m"}}, "m"),
        ({"model": "m"}, "m"),
        ({"model_name": "m", "llm": {"model": "other"}}, "m"),
        ({"model_name": 42, "llm": {"model": "m"}}, "m"),
        ({"llm": {"inner": {"model": "m"}}}, "m"),
        ({"args": {"model": "resnet"}}, None),
        ({"args": {"llm_model": 3}}, None),
        ({}, None),
    ],
)
def test_llm_model_is_found_where_one_is_named(config, model):
    assert AgentInfo.from_agent_config(config).llm_model == model


@pytest.mark.seed("001", "agent-17", "agent-20", "gotcha-4")
@pytest.mark.seed("cube", "agent_info_has_no_tools_field")
def test_agent_info_has_no_tools_and_no_description(tmp_path):
    info = AgentInfo.from_agent_config({"_type": "a.B", "args": {}}, str(tmp_path))
    assert info.config_type == "a.B"
    assert info.config == {"_type": "a.B", "args": {}}
    assert AgentInfo.from_agent_config(ChatterConfig()).config_type == (
        f"{ChatterConfig.__module__}.ChatterConfig"
    )
    assert info.description is None
    assert not {"tools", "tool_names"} & AgentInfo.model_fields.keys()


@pytest.mark.seed("001", "agent-5")
@pytest.mark.seed("cube", "agent_info_from_agent_config_basic")
def test_agent_info_names_the_versions_it_ran_with(tmp_path):
    info = AgentInfo.from_agent_config({"_type": "a.B"}, str(tmp_path))
    assert info.framework_version == importlib.metadata.version("longplay")
    pydantic = importlib.metadata.version("pydantic")
    assert info.dependency_versions["pydantic"] == pydantic
    assert (info.git_commit, info.git_remote_url, info.git_is_dirty) == (None,) * 3
    assert info.cube_standard_git_commit is None
    assert info.cube_standard_git_is_dirty is None


# --- invariant 2: experiment_id -----------------------------------------------------


@pytest.mark.seed("001", "experiment-14", "invariant-3", "invariant-4")
@pytest.mark.seed("cube", "experiment_record_experiment_id_is_stable")
def test_experiment_id_is_the_hash_of_name_and_folder(tmp_path):
    expected = hashlib.sha256(f"quiz{tmp_path}".encode()).hexdigest()[:16]
    first, second = make_experiment(tmp_path), make_experiment(tmp_path)
    assert first.experiment_id == second.experiment_id == expected
    assert make_experiment_id("quiz", tmp_path / "other") != expected
    assert make_experiment_id("puzzle", tmp_path) != expected


@pytest.mark.seed("001", "experiment-15")
def test_experiment_id_takes_the_folder_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert make_experiment_id("q", "out") == make_experiment_id("q", tmp_path / "out")


@pytest.mark.seed("001", "subset-7")
def test_experiment_names_its_benchmark_verbatim(tmp_path):
    record = make_experiment(tmp_path)
    assert record.benchmark_name == "Quiz_[level=l1]"
    assert record.benchmark_version == "7"
    assert record.benchmark_subset == BenchmarkSubset(
        name="Quiz_[level=l1]", n_tasks=3, filter=None
    )
    assert record.investigator_llm_config is None


def test_version_of_a_benchmark_may_be_a_number(tmp_path):
    benchmark = make_benchmark()
    benchmark.benchmark_metadata.version = 7
    record = ExperimentRecord.from_experiment("quiz", tmp_path, {}, benchmark)
    assert record.benchmark_version == "7"


def test_experiment_is_described_at_the_time_of_the_call(tmp_path, monkeypatch):
    monkeypatch.setattr(records.time, "time", lambda: 1234.5)
    record = make_experiment(tmp_path)
    assert (record.experiment_name, record.timestamp) == ("quiz", 1234.5)
    assert record.framework_version == record.agent.framework_version
    expected = AgentInfo.from_agent_config(ChatterConfig(), str(tmp_path))
    assert record.agent == expected


@pytest.mark.seed("001", "subset-4")
@pytest.mark.seed("cube", "benchmark_subset_unknown_benchmark")
@pytest.mark.parametrize(
    "benchmark",
    [
        None,
        object(),
        SimpleNamespace(name="other"),
        SimpleNamespace(benchmark_metadata=None, task_metadata=None),
    ],
)
def test_unknown_benchmark_is_called_unknown(tmp_path, benchmark):
    expected = BenchmarkSubset(name="unknown", n_tasks=0, filter=None)
    assert BenchmarkSubset.from_benchmark(benchmark) == expected
    record = ExperimentRecord.from_experiment("quiz", tmp_path, {}, benchmark)
    assert (record.benchmark_name, record.benchmark_version) == ("unknown", None)
    assert record.benchmark_subset == expected


# --- invariant 3: task_version_hash -------------------------------------------------


@pytest.mark.seed("001", "episode-24")
@pytest.mark.seed("cube", "episode_record_with_task_config")
def test_task_version_hash_is_the_hash_of_the_whole_config():
    text = '{"task_id":"quiz/1","questions":["a","b"]}'
    assert make_episode().task_version_hash == hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.seed("001", "episode-25")
def test_task_version_hash_sees_more_than_the_id():
    trajectory = play_quiz(Chatter(), QuizConfig())
    one, other = (
        EpisodeRecord.from_trajectory(trajectory, "cafe", task_config=config)
        for config in (QuizConfig(), QuizConfig(questions=["a", "c"]))
    )
    assert one.task_id == other.task_id
    assert one.task_version_hash != other.task_version_hash


def test_task_version_hash_sees_the_fields_of_subclasses():
    config = PlaceConfig(room=LoudRoom(decibel=90))
    trajectory = play_quiz(Chatter(), QuizConfig())
    record = EpisodeRecord.from_trajectory(trajectory, "cafe", task_config=config)
    text = '{"room":{"decibel":90}}'
    assert record.task_version_hash == hashlib.sha256(text.encode()).hexdigest()


# --- reading ------------------------------------------------------------------------


@pytest.mark.seed("cube", "experiment_record_roundtrip")
def test_document_comes_back_as_it_was(tmp_path):
    for record in (make_episode(), make_experiment(tmp_path)):
        write_document(tmp_path / "record.json", record)
        assert read_document(tmp_path / "record.json", type(record)) == record


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"_type": "longplay.eval_log.Findings"}, "_type: expected longplay.eval_lo"),
        ({"schema_version": 2}, "schema_version: expected at most 1, found 2; a newer"),
        ({"schema_version": 0}, "schema_version: expected at least 1, found 0"),
        ({"reward": "high"}, "reward: expected a number, found 'high'"),
        ({"success": 1}, "success: expected a bool, found 1"),
        ({"n_steps": -1}, "n_steps: expected at least 0, found -1"),
        ({"trajectory_id": ""}, "trajectory_id: expected a string that is not empty"),
        (
            {"usage": {"_type": "longplay.eval_log.Verifier"}},
            "usage._type: expected longplay.eval_log.U",
        ),
        ({"tool_names": [1]}, "tool_names.0: expected a string, found 1"),
    ],
)
def test_damaged_record_is_refused_by_field(tmp_path, changes, message):
    path = tmp_path / "episode_record.json"
    path.write_text(json.dumps({**json.loads(render_line(make_episode())), **changes}))
    with pytest.raises(DocumentError) as caught:
        read_document(path, EpisodeRecord)
    assert str(caught.value).startswith(f"episode_record.json {message}")


REQUIRED = """experiment_id task_id task_version_hash seed split task_description
    tool_names success reward error_type n_steps n_agent_steps n_env_steps wall_time_s
    usage trajectory_id timestamp""".split()


@pytest.mark.parametrize("name", REQUIRED)
def test_missing_key_is_refused_by_name(tmp_path, name):
    document = json.loads(render_line(make_episode()))
    del document[name]
    (tmp_path / "episode_record.json").write_text(json.dumps(document))
    with pytest.raises(DocumentError, match=f"{name}: expected a value, found none"):
        read_document(tmp_path / "episode_record.json", EpisodeRecord)


@pytest.mark.parametrize("name", [None, "cube_harness.eval_log.EpisodeRecord", "os"])
def test_fields_decide_what_a_record_is(tmp_path, name):
    document = json.loads(render_line(make_episode()))
    for part in (document, document["usage"]):
        del part["_type"]
        if name is not None:
            part["_type"] = name
    (tmp_path / "episode_record.json").write_text(json.dumps(document))
    record = read_document(tmp_path / "episode_record.json", EpisodeRecord)
    assert record == make_episode()
    assert json.loads(render_line(record))["_type"] == "longplay.eval_log.EpisodeRecord"


def test_name_of_a_module_in_a_file_is_never_imported(tmp_path):
    (tmp_path / "harmful.py").write_text("raise SystemExit('imported')")
    document = json.loads(render_line(make_episode()))
    document["_type"] = document["usage"]["_type"] = "harmful.EpisodeRecord"
    (tmp_path / "episode_record.json").write_text(json.dumps(document))
    code = """
import sys
from pathlib import Path
from longplay.contract.files import read_document
from longplay.eval_log import EpisodeRecord
sys.path.insert(0, ".")
print(read_document(Path("episode_record.json"), EpisodeRecord).task_id)
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "quiz/1"


def test_numbers_are_finite():
    with pytest.raises(ValidationError, match="finite"):
        EpisodeRecord(**{**make_episode().model_dump(), "reward": float("inf")})


# --- schemas ------------------------------------------------------------------------


def check(name: str, document: Any) -> list[str]:
    validator = Draft202012Validator(EVAL_LOG.make_schemas()[name])
    return [error.message for error in validator.iter_errors(document)]


@pytest.mark.seed("cube", "eval_log_experiment_record_is_valid_json")
def test_records_are_valid_by_their_schemas(tmp_path):
    full = make_episode(
        verifier=Verifier(ref="https://example.org", source=None),
        findings=Findings(difficulty="hard", feasible=True, failure_root_cause=None),
    )
    for episode in (make_episode(), full):
        assert check("episode_record.json", json.loads(render_line(episode))) == []
    experiment = make_experiment(tmp_path).model_copy(
        update={
            "investigator_llm_config": InvestigatorLLMConfig(
                model="m", prompt_version="1", investigated_at=None
            )
        }
    )
    assert check("experiment_record.json", json.loads(render_line(experiment))) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"_type": "longplay.eval_log.Findings"},
        {"schema_version": 2},
        {"reward": "high"},
        {"usage": {"prompt_tokens": -1}},
        {"n_steps": -1},
    ],
)
def test_schemas_refuse_what_the_reader_refuses(changes):
    document = {**json.loads(render_line(make_episode())), **changes}
    assert check("episode_record.json", document)


def test_the_name_of_another_kind_is_refused():
    text = json.dumps({"_type": "longplay.eval_log.Findings", "ref": None})
    with pytest.raises(ValidationError, match=r"expected longplay\.eval_log\.Verifier"):
        records.Verifier.model_validate_json(text)
