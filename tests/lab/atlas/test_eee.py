"""Experiments of every track -> Every Eval Ever, checked with its own schemas.

The schemas in eee-0.3.0/ are those of the package every_eval_ever 0.3.0, under the
licence beside them.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft7Validator

import longplay
from generated_runs import (
    describe_experiment,
    iter_records,
    make_experiment,
    make_status,
    run_dir_of,
    write,
)
from longplay.errors import ConfigError, DocumentError, NotARunError
from longplay.eval_log.export import ExportOptions
from longplay.eval_log.log import save_records
from longplay.lab.atlas.eee import Submission, export_eee
from rows import read_rows

SCHEMAS = Path(__file__).parent / "eee-0.3.0"
MEAN = str(Path(__file__).parents[3] / "examples" / "prediction_mean.py")
LAB = Submission("A Lab", "first_party")
T_95 = 4.30265273  # two degrees of freedom

TRACKS = {
    "streaming": ("stream-smoke-v1", "random", {"base_visit_frames": 300}),
    "control": ("control-smoke-v1", "random", {"base_visit_frames": 200}),
    "prediction": ("prediction-smoke-v1", MEAN, {"base_visit_frames": 150}),
}


@pytest.fixture(scope="module", params=TRACKS)
def experiment(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A played experiment of three seeds."""
    suite, agent, overrides = TRACKS[request.param]
    out = tmp_path_factory.mktemp(request.param) / "experiment"
    longplay.run(suite, agent, seeds=[0, 1, 2], out=out, overrides=overrides)
    return out


def check(path: Path) -> Any:
    """Validates a file with its schema; returns its content."""
    is_rows = path.suffix == ".jsonl"
    name = "instance_level_eval" if is_rows else "eval"
    schema = json.loads((SCHEMAS / f"{name}.schema.json").read_text())
    validator = Draft7Validator(schema)
    documents = read_rows(path) if is_rows else [json.loads(path.read_text())]
    for document in documents:
        assert [error.message for error in validator.iter_errors(document)] == []
    return documents if is_rows else documents[0]


def scores_of(experiment: Path) -> list[Any]:
    paths = sorted(experiment.glob("episodes/*/score.json"))
    return [json.loads(path.read_text()) for path in paths]


# --- played experiments -------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.seed("001", "purpose-12")
def test_totals_are_those_of_the_scores(experiment, tmp_path):
    files = export_eee(experiment, tmp_path, LAB)
    aggregate = check(files.aggregate)
    suite = json.loads((experiment / "experiment_record.json").read_text())[
        "benchmark_name"
    ]
    scores = scores_of(experiment)
    expected = {
        name
        for score in scores
        for name, value in score.items()
        if isinstance(value, float) and name != "fps"
    }
    results = {
        result["evaluation_name"].removeprefix(f"longplay.{suite}."): result
        for result in aggregate["evaluation_results"]
    }
    assert results.keys() == expected | {"reward"}
    for name in expected:
        values = [score[name] for score in scores if score[name] is not None]
        details = results[name]["score_details"]
        assert details["score"] == pytest.approx(statistics.fmean(values), rel=1e-12)
        assert list(json.loads(details["details"]["per_seed"]).values()) == values
        assert details["uncertainty"]["num_samples"] == len(values)


@pytest.mark.few(1)
def test_uncertainty_is_over_seeds(experiment, tmp_path):
    files = export_eee(experiment, tmp_path, LAB)
    rewards = [record.reward for record in iter_records(experiment)]
    assert len(rewards) == 3
    (result,) = (
        result
        for result in check(files.aggregate)["evaluation_results"]
        if result["evaluation_name"].endswith(".reward")
    )
    uncertainty = result["score_details"]["uncertainty"]
    error = statistics.stdev(rewards) / math.sqrt(3)
    mean = statistics.fmean(rewards)
    assert result["score_details"]["score"] == pytest.approx(mean)
    assert uncertainty["standard_error"]["value"] == pytest.approx(error)
    assert uncertainty["standard_deviation"] == pytest.approx(statistics.stdev(rewards))
    interval = uncertainty["confidence_interval"]
    assert interval["lower"] == pytest.approx(mean - T_95 * error)
    assert interval["upper"] == pytest.approx(mean + T_95 * error)
    assert (interval["confidence_level"], interval["method"]) == (0.95, "t, over seeds")


@pytest.mark.seed("001", "purpose-12")
@pytest.mark.parametrize("level", ["run", "visit"])
def test_samples_are_the_records(experiment, tmp_path, level):
    submission = Submission("A Lab", "first_party", ExportOptions(level))
    files = export_eee(experiment, tmp_path, submission)
    aggregate, rows = check(files.aggregate), check(files.samples)
    records = list(iter_records(experiment, level))
    assert len(rows) == len(records) == files.rows
    for row, record in zip(rows, records, strict=True):
        assert row["sample_id"] == record.task_id
        assert row["evaluation"]["score"] == record.reward
        assert row["evaluation"]["is_correct"] is record.success
        assert row["performance"]["latency_ms"] == 1000 * record.wall_time_s
        assert row["metadata"]["agent_id"] == record.agent_id
        assert row["metadata"]["trajectory_id"] == record.trajectory_id
        assert row["metadata"]["task_version_hash"] == record.task_version_hash
        evidence = json.loads(row["metadata"]["evidence"])
        assert evidence["trust"]["level"] == "claimed"
        assert row["model_id"] == aggregate["model_info"]["id"]
        assert row["evaluation_id"] == aggregate["evaluation_id"]


def test_files_lie_where_the_datastore_expects_them(experiment, tmp_path):
    files = export_eee(experiment, tmp_path, LAB)
    aggregate = check(files.aggregate)
    developer, model = aggregate["model_info"]["id"].split("/")
    assert developer == "A-Lab"
    folder = tmp_path / "data" / "longplay" / developer / model
    assert {path.parent for path in (files.aggregate, files.samples)} == {folder}
    reference = aggregate["detailed_evaluation_results"]
    assert tmp_path / reference["file_path"] == files.samples
    assert files.samples.name == f"{files.aggregate.stem}_samples.jsonl"
    content = files.samples.read_bytes()
    assert reference["checksum"] == hashlib.sha256(content).hexdigest()
    assert reference["total_rows"] == content.count(b"\n") == 3
    assert aggregate["model_info"]["developer"] == "A Lab"


def test_results_name_the_command_without_a_path(experiment, tmp_path):
    aggregate = check(export_eee(experiment, tmp_path, LAB).aggregate)
    result = aggregate["evaluation_results"][0]
    command = result["generation_config"]["generation_args"]["execution_command"]
    assert command.startswith("longplay run ")
    assert command.endswith("--seeds 0-2")
    assert "base_visit_frames=" in command
    assert str(Path(MEAN).parent) not in json.dumps(aggregate)


def test_errors_are_better_when_lower(experiment, tmp_path):
    aggregate = check(export_eee(experiment, tmp_path, LAB).aggregate)
    lower = {
        result["evaluation_name"].rpartition(".")[2]
        for result in aggregate["evaluation_results"]
        if result["metric_config"]["lower_is_better"]
    }
    assert lower <= {
        "forgetting_index_mean",
        "forgetting_index_median",
        "mse",
        "nmse",
        "median_nmse",
        "return_mse",
        "value_mse",
        "value_nmse",
        "median_value_nmse",
    }
    if "prediction" in aggregate["evaluation_results"][0]["evaluation_name"]:
        assert {"mse", "nmse"} <= lower


def test_exporting_again_replaces_the_files(experiment, tmp_path):
    files = export_eee(experiment, tmp_path, LAB)
    before = files.aggregate.read_bytes(), files.samples.read_bytes()
    assert export_eee(experiment, tmp_path, LAB) == files
    assert (files.aggregate.read_bytes(), files.samples.read_bytes()) == before
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 2


# --- runs with an error -------------------------------------------------------------


@pytest.fixture
def generated(tmp_path: Path) -> Path:
    """Three runs; rewards are 0.25, 1.25 and 2.25, but the second crashed."""
    directory = make_experiment(tmp_path / "experiment", range(3))
    save_records(directory, describe_experiment(directory))
    write(run_dir_of(directory, 1) / "status.json", make_status("FAILED", "KeyError"))
    return directory


def find_result(aggregate: Any, name: str) -> Any:
    (result,) = (
        result
        for result in aggregate["evaluation_results"]
        if result["evaluation_name"].endswith(f".{name}")
    )
    return result


def test_run_with_an_error_is_a_sample_and_in_no_result(generated, tmp_path):
    files = export_eee(generated, tmp_path / "eee", LAB)
    rows = check(files.samples)
    assert [row["error"] for row in rows] == [None, "KeyError", None]
    assert ["evaluation_result_id" in row for row in rows] == [True, False, True]
    assert (files.rows, files.errored) == (3, 1)
    aggregate = check(files.aggregate)
    for name in ("final_score", "reward"):
        details = find_result(aggregate, name)["score_details"]
        assert details["score"] == 1.25
        assert details["details"]["errored_runs"] == "1"
        # Two seeds have a standard error and no interval.
        assert details["uncertainty"]["num_samples"] == 2
        assert "confidence_interval" not in details["uncertainty"]


def test_runs_with_an_error_can_be_left_out(generated, tmp_path):
    options = ExportOptions(completed_only=True)
    submission = Submission("A Lab", "other", options)
    files = export_eee(generated, tmp_path / "eee", submission)
    assert [row["error"] for row in check(files.samples)] == [None, None]
    assert (files.rows, files.errored) == (2, 1)
    aggregate = check(files.aggregate)
    assert aggregate["detailed_evaluation_results"]["total_rows"] == 2


@pytest.mark.parametrize("level", ["run", "visit"])
def test_run_that_failed_before_its_first_frame_is_counted(generated, tmp_path, level):
    run_dir = run_dir_of(generated, 1)
    for name in ("score.json", "run_summary.json", "config.json"):
        (run_dir / name).unlink()
    submission = Submission("A Lab", "other", ExportOptions(level))
    files = export_eee(generated, tmp_path / "eee", submission)
    details = find_result(check(files.aggregate), "final_score")["score_details"]
    assert details["details"]["errored_runs"] == "1"
    errors = [row["error"] for row in check(files.samples)]
    assert errors == ([None, "KeyError", None] if level == "run" else [None] * 12)


@pytest.mark.seed("001", "purpose-11")
def test_usage_of_a_language_model_is_kept(generated, tmp_path):
    path = run_dir_of(generated, 0) / "run_summary.json"
    usage = {"prompt_tokens": 5, "completion_tokens": 2, "cached_tokens": 1}
    write(path, {**json.loads(path.read_text()), "usage": usage})
    first, *others = check(export_eee(generated, tmp_path / "eee", LAB).samples)
    assert first["token_usage"] == {
        "input_tokens": 5,
        "output_tokens": 2,
        "total_tokens": 7,
        "input_tokens_cache_read": 1,
        "input_tokens_cache_write": 0,
    }
    assert [row["token_usage"] for row in others] == [None, None]


# --- bad input ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("organization", "relationship", "message"),
    [
        ("A Lab", "friend", "relationship: expected one of first_party, third_party"),
        ("", "other", "organization: expected a name, found ''"),
        ("../..", "other", "organization: expected a name, found '../..'"),
    ],
)
def test_bad_submissions_are_refused(organization, relationship, message):
    with pytest.raises(ConfigError, match=message):
        Submission(organization, relationship)


def test_experiment_without_an_ended_run_writes_nothing(generated, tmp_path):
    for seed in range(3):
        path = run_dir_of(generated, seed) / "status.json"
        write(path, make_status("QUEUED"))
    submission = Submission("A Lab", "other", ExportOptions(partial=True))
    with pytest.raises(NotARunError, match="expected a run that has ended, found none"):
        export_eee(generated, tmp_path / "eee", submission)
    assert not (tmp_path / "eee").exists()


def test_planned_run_that_is_missing_is_refused(generated, tmp_path):
    write(run_dir_of(generated, 2) / "status.json", make_status("QUEUED"))
    with pytest.raises(DocumentError, match="--partial exports the others"):
        export_eee(generated, tmp_path / "eee", LAB)
    assert [p for p in (tmp_path / "eee").rglob("*") if p.is_file()] == []
