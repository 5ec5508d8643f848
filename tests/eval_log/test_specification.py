"""The EvalLog's classes are those of its specification, and so is their behaviour.

A script in the words of the specification runs; only its import differs. It uses every
class and method once, with a harness that knows nothing of longplay.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_origin

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel

import longplay
from longplay import eval_log
from longplay.contract.typed_record import Record
from longplay.lab.atlas.matrix import read_matrix
from schemas import EVAL_LOG

# --- classes ------------------------------------------------------------------------

# The classes of the specification, in its words.
CLASSES = """
class UsageSummary:
    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    cache_creation_tokens: int = 0
    total_cost_usd: float = 0.0
    n_llm_calls: int = 0

    def from_summary_stats(stats): ...

class AgentInfo:
    agent_id: str
    config_type: str
    config: dict
    llm_model: str | None
    framework_version: str
    dependency_versions: dict[str, str]
    git_commit: str | None
    git_remote_url: str | None
    git_is_dirty: bool | None
    cube_standard_git_commit: str | None
    cube_standard_git_is_dirty: bool | None
    description: str | None

    def from_agent_config(agent_config, git_cwd=None): ...

class BenchmarkSubset:
    name: str
    n_tasks: int
    filter: str | None

    def from_benchmark(benchmark): ...

class InvestigatorLLMConfig:
    model: str
    prompt_version: str
    investigated_at: str | None

class Findings:
    difficulty: str | None
    feasible: bool | None
    failure_root_cause: str | None

class Verifier:
    ref: str | None
    source: str | None

class ExperimentRecord:
    experiment_id: str
    experiment_name: str
    timestamp: float
    framework_version: str
    agent: AgentInfo
    benchmark_name: str
    benchmark_version: str | None
    benchmark_subset: BenchmarkSubset
    investigator_llm_config: InvestigatorLLMConfig | None = None

    def from_experiment(
        exp_name, output_dir, agent_config, benchmark, git_cwd=None
    ): ...

class EpisodeRecord:
    experiment_id: str
    task_id: str
    task_version_hash: str | None
    seed: int | None
    split: str | None
    task_description: str | None
    tool_names: list[str]
    success: bool
    reward: float
    error_type: str | None
    n_steps: int
    n_agent_steps: int
    n_env_steps: int
    wall_time_s: float | None
    usage: UsageSummary
    trajectory_id: str
    timestamp: float
    verifier: Verifier | None = None
    findings: Findings | None = None

    def from_trajectory(
        trajectory, experiment_id, task_metadata=None, task_config=None
    ): ...

class EvalLog:
    experiment: ExperimentRecord
    episodes: list[EpisodeRecord] = []

    def save(output_dir): ...
    def load(output_dir): ...
    def to_jsonl(path): ...
"""
# Fields that may be left out, although the specification gives them no default: the
# original harness leaves them out, too.
ALSO_OPTIONAL = {
    "AgentInfo": [
        "cube_standard_git_commit",
        "cube_standard_git_is_dirty",
        "description",
    ],
    "InvestigatorLLMConfig": ["investigated_at"],
    "Findings": ["difficulty", "feasible", "failure_root_cause"],
    "Verifier": ["ref", "source"],
}
ADDED = {"EpisodeRecord": {"agent_id", "agent_name", "tuning_frames", "evidence"}}
SPECIFIED = {node.name: node for node in ast.parse(CLASSES).body}


@pytest.mark.seed(
    "001",
    "purpose-2",
    "usage-1..7",
    "agent-1..12",
    "subset-1..3",
    "investigator-1..3",
    "investigator-5",
    "findings-1..3",
    "findings-5",
    "verifier-1",
    "verifier-2",
    "verifier-4",
    "experiment-1..9",
    "episode-1..19",
    "log-1",
    "log-2",
)
@pytest.mark.seed("cube", "episode_record_findings_optional")
@pytest.mark.parametrize("name", SPECIFIED)
def test_fields_have_the_types_and_defaults_of_the_specification(name):
    kind = getattr(eval_log, name)
    fields = [node for node in SPECIFIED[name].body if isinstance(node, ast.AnnAssign)]
    names = [field.target.id for field in fields]
    own = [n for n in kind.model_fields if n not in Record.model_fields]
    assert [n for n in own if n not in ADDED.get(name, ())] == names
    assert set(own) - set(names) == ADDED.get(name, set())
    assert all(not kind.model_fields[n].is_required() for n in set(own) - set(names))
    for field in fields:
        found = kind.model_fields[field.target.id]
        expected = eval(ast.unparse(field.annotation), vars(eval_log))
        assert expected in (found.annotation, get_origin(found.annotation))
        if field.value is not None:
            default = found.get_default(call_default_factory=True)
            assert default == ast.literal_eval(field.value)
        else:
            is_optional = field.target.id in ALSO_OPTIONAL.get(name, ())
            assert found.is_required() is not is_optional
            assert is_optional is False or found.default is None


@pytest.mark.seed(
    "001", "usage-8", "agent-13", "subset-4", "experiment-10", "episode-21", "log-3..5"
)
@pytest.mark.parametrize("name", SPECIFIED)
def test_methods_take_the_arguments_of_the_specification(name):
    for node in SPECIFIED[name].body:
        if isinstance(node, ast.FunctionDef):
            found = inspect.signature(getattr(getattr(eval_log, name), node.name))
            taken = [n for n in found.parameters if n != "self"]
            expected = [argument.arg for argument in node.args.args]
            assert taken[: len(expected)] == expected
            optional = {
                n
                for n in taken
                if found.parameters[n].default is not inspect.Parameter.empty
            }
            count = len(expected) - len(node.args.defaults)
            assert optional == set(taken[count:])


# --- a script -----------------------------------------------------------------------

SCRIPT = """
from cube_harness.eval_log import (
    AgentInfo,
    BenchmarkSubset,
    EpisodeRecord,
    EvalLog,
    ExperimentRecord,
    Findings,
    InvestigatorLLMConfig,
    UsageSummary,
    Verifier,
)

info = AgentInfo.from_agent_config(agent_config, git_cwd=None)
assert info.description is None
info.description = "Reads the page, then clicks."

subset = BenchmarkSubset.from_benchmark(benchmark)
assert subset.filter is None
subset.filter = "level=l1"

experiment = ExperimentRecord.from_experiment(
    exp_name="demo",
    output_dir=output_dir,
    agent_config=agent_config,
    benchmark=benchmark,
    git_cwd=None,
)
experiment.agent = info
experiment.benchmark_subset = subset
experiment.investigator_llm_config = InvestigatorLLMConfig(
    model="claude-opus-4-7", prompt_version="v3", investigated_at=None
)

eval_log = EvalLog(experiment=experiment)
for trajectory in trajectories:
    task_id = trajectory.metadata.get("task_id")
    record = EpisodeRecord.from_trajectory(
        trajectory,
        experiment_id=experiment.experiment_id,
        task_metadata=benchmark.task_metadata.get(task_id),
        task_config=task_configs.get(task_id),
    )
    eval_log.episodes.append(record)

usage = UsageSummary.from_summary_stats(trajectories[0].summary_stats)
assert eval_log.episodes[0].usage == usage
assert UsageSummary.from_summary_stats(None) == UsageSummary()

failed = eval_log.episodes[1]
failed.findings = Findings(
    difficulty="hard", feasible=True, failure_root_cause="The page never loaded."
)
failed.verifier = Verifier(ref="https://github.com/o/r/blob/c/v.py#L1", source=None)

eval_log.save(output_dir)
loaded = EvalLog.load(output_dir)
loaded.to_jsonl(output_dir / "submission" / "atlas.jsonl")
"""


class LLMConfig(BaseModel):
    model_name: str = "claude-opus-4-7"
    temperature: float = 0.0


class BrowserAgentConfig(BaseModel):
    llm_config: LLMConfig = LLMConfig()
    max_steps: int = 20


class ClickConfig(BaseModel):
    task_id: str
    seed: int = 42
    setup: str = "open the page"


def make_trajectory(task_id: str, reward: float, error: Any = None) -> SimpleNamespace:
    outputs = [
        SimpleNamespace(reward=0.0, done=False),
        SimpleNamespace(actions=["click"], error=error),
        SimpleNamespace(reward=reward, done=True),
    ]
    return SimpleNamespace(
        id=f"{task_id}_ep0",
        metadata={
            "task_id": task_id,
            "action_schemas": [
                {"type": "function", "function": {"name": "click"}},
                {"name": "scroll"},
            ],
        },
        steps=[SimpleNamespace(output=output) for output in outputs],
        start_time=100.0,
        end_time=110.0,
        reward_info={},
        summary_stats={
            "prompt_tokens": 500,
            "completion_tokens": 200,
            "cached_tokens": 50,
            "cache_creation_tokens": 10,
            "cost": 0.05,
            "total_llm_calls": 3,
        },
    )


@pytest.fixture
def names(tmp_path: Path) -> dict[str, Any]:
    """What the script finds: a harness's own objects."""
    timeout = SimpleNamespace(error_type="TimeoutError", exception_str="late")
    task = SimpleNamespace(split="test", abstract_description="Click a button.")
    return {
        "agent_config": BrowserAgentConfig(),
        "benchmark": SimpleNamespace(
            benchmark_metadata=SimpleNamespace(name="Web_[level=l1]", version="2"),
            task_metadata={"click": task, "type": task, "scroll": task},
        ),
        "task_configs": {"click": ClickConfig(task_id="click")},
        "trajectories": [
            make_trajectory("click", 1.0),
            make_trajectory("type", 0.0, timeout),
        ],
        "output_dir": tmp_path / "experiment",
    }


def run_script(names: dict[str, Any]) -> None:
    assert SCRIPT.count("cube_harness") == 1
    exec(SCRIPT.replace("cube_harness.eval_log", "longplay.eval_log"), names)


@pytest.mark.seed(
    "001",
    "purpose-1",
    "usage-8",
    "agent-19",
    "subset-8",
    "experiment-10",
    "episode-22",
    "log-1",
    "log-2",
    "disk-3",
    "disk-5",
    "gotcha-5",
)
@pytest.mark.seed(
    "cube",
    "episode_record_with_findings",
    "eval_log_episode_record_is_valid_json",
    "investigator_llm_config_roundtrip",
    "verifier_roundtrip",
)
def test_script_runs_with_only_its_import_changed(names):
    run_script(names)
    output_dir, loaded = names["output_dir"], names["loaded"]
    assert loaded == names["eval_log"]
    assert sorted(
        path.relative_to(output_dir).as_posix()
        for path in output_dir.rglob("*")
        if path.is_file()
    ) == [
        "episodes/click_ep0/episode_record.json",
        "episodes/type_ep0/episode_record.json",
        "experiment_record.json",
        "submission/atlas.jsonl",
    ]


@pytest.mark.seed("001", "purpose-5")
@pytest.mark.seed(
    "cube",
    "agent_info_llm_model_extracted",
    "benchmark_subset_from_benchmark",
    "experiment_record_fields",
    "episode_record_success",
    "episode_record_failure",
    "episode_record_wall_time",
    "episode_record_n_steps",
    "episode_record_with_task_metadata",
)
def test_records_of_the_script_say_what_the_specification_says(names):
    run_script(names)
    click, typed = names["loaded"].episodes
    config = names["task_configs"]["click"]
    text = config.model_dump_json(serialize_as_any=True)
    assert click.task_version_hash == hashlib.sha256(text.encode()).hexdigest()
    assert typed.task_version_hash is None
    assert (click.seed, typed.seed) == (42, None)
    assert (click.split, click.task_description) == ("test", "Click a button.")
    assert click.tool_names == typed.tool_names == ["click", "scroll"]
    assert (click.reward, click.success, click.error_type) == (1.0, True, None)
    assert (typed.reward, typed.success) == (0.0, False)
    assert typed.error_type == "TimeoutError"
    assert (click.n_steps, click.n_agent_steps, click.n_env_steps) == (3, 1, 2)
    assert (click.wall_time_s, click.timestamp) == (10.0, 100.0)
    assert click.usage.model_dump(exclude={"type_", "schema_version"}) == {
        "prompt_tokens": 500,
        "completion_tokens": 200,
        "total_tokens": 700,
        "cached_tokens": 50,
        "cache_creation_tokens": 10,
        "total_cost_usd": 0.05,
        "n_llm_calls": 3,
    }
    experiment = names["loaded"].experiment
    agent = experiment.agent
    plain = json.dumps(agent.config, sort_keys=True).encode()
    assert agent.agent_id == hashlib.sha256(plain).hexdigest()
    assert agent.llm_model == "claude-opus-4-7"
    assert agent.description == "Reads the page, then clicks."
    name = f"demo{names['output_dir']}".encode()
    assert experiment.experiment_id == hashlib.sha256(name).hexdigest()[:16]
    assert (experiment.benchmark_name, experiment.benchmark_version) == (
        "Web_[level=l1]",
        "2",
    )
    assert (
        experiment.benchmark_subset.n_tasks,
        experiment.benchmark_subset.filter,
    ) == (
        3,
        "level=l1",
    )


@pytest.mark.seed("cube", "eval_log_to_jsonl")
def test_lines_of_the_script_are_valid_and_fit_the_matrix(names):
    run_script(names)
    path = names["output_dir"] / "submission" / "atlas.jsonl"
    validator = Draft202012Validator(EVAL_LOG.make_schemas()["episode_record.json"])
    for line in path.read_text().splitlines():
        assert list(validator.iter_errors(json.loads(line))) == []
    record = names["output_dir"] / "experiment_record.json"
    matrix = read_matrix([path, record])
    assert [row.name for row in matrix.agents] == ["BrowserAgentConfig"]
    assert (matrix.reward.tolist(), matrix.errored) == ([1.0], 1)
    (share,) = matrix.experiments
    assert (share.n_tasks, share.completed, share.errored) == (3, 1, 1)


def test_record_of_another_experiment_is_not_saved(names):
    run_script(names)
    log = names["eval_log"]
    log.episodes.append(log.episodes[0].model_copy(update={"experiment_id": "other"}))
    with pytest.raises(longplay.DocumentError, match="experiment_id: expected"):
        log.save(names["output_dir"])


# --- the page -----------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "eval_log.md"


@pytest.mark.exhaustive
def test_script_of_the_page_runs(tmp_path, monkeypatch):
    """The whole life of a log, from playing to the matrix."""
    text = PAGE.read_text(encoding="utf-8")
    (script,) = re.findall(r"<!-- life -->\n```python\n(.*?)```", text, flags=re.S)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(script, names)
    assert names["log"].episodes[0].findings.difficulty == "easy"
    assert len(list((tmp_path / "eee").rglob("*.json"))) == 1
    assert (tmp_path / "lines" / "repeat-visits.jsonl").read_text().count("\n") == 18
    assert names["atlas"].labels == ("random", "repeat")
    assert (tmp_path / "atlas" / "agents.csv").is_file()
