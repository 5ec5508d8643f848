"""Logs of the harness that the EvalLog comes from, of all its generations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from generated_runs import describe_experiment
from longplay.errors import DocumentError
from longplay.eval_log import AgentInfo, EvalLog, Findings
from longplay.eval_log.assessments import apply_findings
from longplay.eval_log.export import ExportOptions, export_jsonl
from longplay.eval_log.log import save_records
from longplay.lab.atlas.matrix import read_matrix
from other_harness import (
    COMMIT,
    EXPERIMENT_ID,
    FINDINGS,
    JUDGED,
    RENAMED,
    rename,
    write_log,
)
from rows import read_rows

GENERATIONS = ("older", "judged", "newer")


@pytest.fixture(params=GENERATIONS)
def generation(request) -> str:
    return request.param


@pytest.fixture
def log_dir(tmp_path, generation) -> Path:
    rewards = {"click": 1.0, "type": "TimeoutError"}
    return write_log(tmp_path / "Clicker", generation, "Clicker", rewards)


# --- reading ------------------------------------------------------------------------


@pytest.mark.seed("001", "log-4")
def test_log_loads(log_dir):
    log = EvalLog.load(log_dir)
    experiment = log.experiment
    assert experiment.experiment_id == f"{EXPERIMENT_ID}_Clicker"
    assert (experiment.timestamp, experiment.framework_version) == (
        1_775_000_000.5,
        "0.5.2",
    )
    assert experiment.agent.llm_model == "small-1"
    assert experiment.agent.cube_standard_git_commit is None
    assert experiment.agent.git_remote_url == f"https://github.com/o/r/tree/{COMMIT}"
    assert experiment.benchmark_subset.n_tasks == 3
    assert experiment.investigator_llm_config.investigated_at == "noon"
    click, typed = log.episodes
    assert (click.task_id, click.reward, click.success) == ("click", 1.0, True)
    assert (typed.error_type, typed.success) == ("TimeoutError", False)
    assert (click.n_steps, click.n_agent_steps, click.n_env_steps) == (7, 3, 4)
    assert click.task_version_hash is not None
    usage = click.usage
    assert (usage.prompt_tokens, usage.completion_tokens) == (500, 200)
    assert (usage.cached_tokens, usage.cache_creation_tokens) == (50, 10)


def test_earlier_tries_are_not_read(log_dir):
    assert len(list(log_dir.glob("episodes/*/episode_record.json"))) == 3
    assert len(EvalLog.load(log_dir).episodes) == 2
    assert read_matrix([log_dir]).lines == 2


def test_empty_description_is_none(log_dir):
    log = EvalLog.load(log_dir)
    assert log.episodes[0].task_description is None
    log.experiment.agent.description = ""
    assert log.experiment.agent.description is None


def test_keys_of_the_newer_generation_are_kept(tmp_path):
    log_dir = write_log(tmp_path / "log", "newer", "Clicker", {"click": 1.0})
    log = EvalLog.load(log_dir)
    log.save(tmp_path / "copy")
    saved = json.loads((tmp_path / "copy" / "experiment_record.json").read_text())
    assert saved["is_official"] is None
    assert saved["agent"]["primary_dependencies"] == ["cube-harness"]
    assert saved["benchmark_subset"]["task_ids"] is None


def test_other_names_are_never_written(log_dir, tmp_path):
    EvalLog.load(log_dir).save(tmp_path / "copy")
    written = "".join(p.read_text() for p in (tmp_path / "copy").rglob("*.json"))
    for name, other in (RENAMED | JUDGED).items():
        if name != "investigation_metadata":  # a key of its own, kept as it is
            assert f'"{name}"' in written
            assert f'"{other}"' not in written


def test_wrong_value_is_refused_by_the_name_in_the_file(log_dir, generation):
    path = log_dir / "episodes" / "click_ep0" / "episode_record.json"
    key = "reward" if generation == "older" else "score"
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, key: "high"}))
    with pytest.raises(DocumentError, match=f"{key}: expected a number, found 'high'"):
        EvalLog.load(log_dir)


# --- the matrix ---------------------------------------------------------------------


@pytest.mark.parametrize("as_lines", [False, True])
def test_logs_of_all_generations_share_a_matrix(tmp_path, as_lines):
    dirs = [
        write_log(tmp_path / "A", "older", "Alpha", {"click": 1.0, "type": 0.0}),
        write_log(
            tmp_path / "B", "newer", "Beta", {"click": 0.0, "scroll": "KeyError"}
        ),
        write_log(tmp_path / "C", "judged", "Gamma", {"click": 0.5}),
    ]
    paths = dirs
    if as_lines:
        paths = [write_lines(d, tmp_path / f"{d.name}.jsonl") for d in dirs]
        paths += [d / "experiment_record.json" for d in dirs]
    matrix = read_matrix(paths)
    assert [agent.name for agent in matrix.agents] == ["Alpha", "Beta", "Gamma"]
    assert all(len(agent.agent_id) == 64 for agent in matrix.agents)
    assert [task.task_id for task in matrix.tasks] == ["click", "scroll", "type"]
    assert matrix.reward.tolist() == [1.0, 0.0, 0.0, 0.5]
    assert matrix.success.tolist() == [1.0, 0.0, 0.0, 1.0]
    shares = [(e.n_tasks, e.completed, e.errored) for e in matrix.experiments]
    assert shares == [(3, 2, 0), (3, 1, 1), (3, 1, 0)]
    assert [e.propensity for e in matrix.experiments] == [2 / 3, 1 / 3, 1 / 3]
    assert matrix.drift == {}


def write_lines(log_dir: Path, path: Path) -> Path:
    """The lines that the other harness itself submits: its own keys."""
    records = (log_dir / "episodes").glob("*_ep0/episode_record.json")
    path.write_text(
        "".join(json.dumps(json.loads(p.read_text())) + "\n" for p in records)
    )
    return path


def test_atlas_command_takes_them_all(invoke, tmp_path):
    rewards = {"older": (1.0, 0.0), "judged": (0.0, 0.0), "newer": (0.0, 1.0)}
    dirs = [
        write_log(tmp_path / name, name, name.title(), {"click": one, "type": other})
        for name, (one, other) in rewards.items()
    ]
    answer = invoke("atlas", *dirs)
    assert answer.exit_code == 0, answer.stderr
    for name in rewards:
        assert name.title() in answer.stdout


# --- findings -----------------------------------------------------------------------


def test_findings_of_each_generation_are_applied_and_kept(log_dir, tmp_path):
    for findings in FINDINGS.values():
        path = tmp_path / "findings.jsonl"
        line = {"trajectory_id": "type_ep0", "findings": findings}
        path.write_text(json.dumps(line) + "\n")
        assert apply_findings(log_dir, path).runs == ("type_ep0",)
    found = EvalLog.load(log_dir).episodes[1].findings
    dumped = found.model_dump()
    assert dumped.items() >= {**FINDINGS["judged"], **FINDINGS["newer"]}.items()


def test_findings_in_a_record_are_read(log_dir, generation):
    path = log_dir / "episodes" / "type_ep0" / "episode_record.json"
    record = json.loads(path.read_text())
    findings = rename(generation, {"findings": FINDINGS[generation]})
    path.write_text(json.dumps(record | findings))
    found = EvalLog.load(log_dir).episodes[1].findings
    assert isinstance(found, Findings)
    assert found.model_dump().items() >= FINDINGS[generation].items()


# --- exporting ----------------------------------------------------------------------


def test_saved_log_can_be_exported_again(invoke, experiment, tmp_path):
    save_records(experiment, describe_experiment(experiment))
    log = EvalLog.load(experiment)
    log.save(tmp_path / "copy")
    for level in ("run", "visit"):
        first, second = tmp_path / f"1-{level}.jsonl", tmp_path / f"2-{level}.jsonl"
        log.to_jsonl(first, level)
        answer = invoke(
            "export", tmp_path / "copy", "--jsonl", second, "--level", level
        )
        assert answer.exit_code == 0, answer.stderr
        assert first.read_bytes() == second.read_bytes()


def test_log_without_runs_has_no_files_of_every_eval_ever(invoke, log_dir, tmp_path):
    options = ("--organization", "A", "--relationship", "other")
    answer = invoke("export", log_dir, "--eee", tmp_path / "eee", *options)
    assert answer.exit_code == 2
    assert "--eee: expected an experiment of longplay" in answer.stderr
    assert not (tmp_path / "eee").exists()


def test_log_of_another_harness_is_exported(log_dir, tmp_path):
    path = tmp_path / "runs.jsonl"
    exported = export_jsonl(log_dir, path, ExportOptions(partial=True))
    assert (exported.lines, exported.errored) == (2, 1)
    assert exported.no_evidence == ("click_ep0", "type_ep0")
    assert [row["task_id"] for row in read_rows(path)] == ["click", "type"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (ExportOptions(), "3 planned runs, found 2; --partial exports these"),
        (
            ExportOptions(require="replayed"),
            "--require: expected runs of longplay, which can be verified",
        ),
    ],
)
def test_log_that_lacks_runs_is_refused(log_dir, tmp_path, options, message):
    with pytest.raises(DocumentError, match=message):
        export_jsonl(log_dir, tmp_path / "runs.jsonl", options)
    assert not (tmp_path / "runs.jsonl").exists()


class StrictReader(BaseModel):
    """Reads `_type` as the other harness does: imports the class, or refuses."""

    model_config = ConfigDict(extra="ignore")

    @model_validator(mode="before")
    @classmethod
    def _import_type(cls, given: Any) -> Any:
        if isinstance(given, dict) and "_type" in given:
            raise ValueError(f"no module {given['_type']}")
        return given

    @classmethod
    def read(cls, path: Path) -> Self:
        return cls.model_validate_json(path.read_text())


class StrictAgent(StrictReader):
    agent_id: str
    config: dict[str, Any]


class StrictExperiment(StrictReader):
    experiment_id: str
    agent: StrictAgent


class StrictUsage(StrictReader):
    total_tokens: int


class StrictEpisode(StrictReader):
    task_id: str
    reward: float
    usage: StrictUsage
    findings: StrictReader | None


def test_plain_log_is_read_by_a_loader_that_imports_types(invoke, experiment, tmp_path):
    save_records(experiment, describe_experiment(experiment))
    copy, lines = tmp_path / "copy", tmp_path / "runs.jsonl"
    answer = invoke("export", experiment, "--log", copy, "--jsonl", lines, "--plain")
    assert answer.exit_code == 0, answer.stderr
    read = StrictExperiment.read(copy / "experiment_record.json")
    assert "_type" in read.agent.config  # the agent's own
    records = sorted(copy.glob("episodes/*/episode_record.json"))
    assert len(records) == 3
    for path in records:
        StrictEpisode.read(path)
    for line in lines.read_text().splitlines():
        StrictEpisode.model_validate_json(line)
    assert EvalLog.load(copy).episodes == EvalLog.load(experiment).episodes
    with pytest.raises(ValueError, match="no module longplay"):
        StrictExperiment.read(experiment / "experiment_record.json")


# --- constructors with the defaults of the specification's classes ------------------


@pytest.mark.seed("001", "agent-10", "agent-11")
def test_optional_fields_may_be_left_out():
    info = AgentInfo(
        agent_id="0" * 64,
        config_type="A",
        config={},
        llm_model=None,
        framework_version="1",
        dependency_versions={},
        git_commit=None,
        git_remote_url=None,
        git_is_dirty=None,
    )
    assert (info.cube_standard_git_commit, info.description) == (None, None)
    assert Findings(difficulty="hard").feasible is None
