"""Experiment directory -> JSONL at two levels: checked, whole, and at any size."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from generated_runs import (
    SUITE,
    describe_experiment,
    edit,
    iter_records,
    make_experiment,
    make_run,
    make_status,
    run_dir_of,
    write,
    write_plan,
)
from longplay.errors import ConfigError, DocumentError, NotARunError
from longplay.eval_log.export import ExportOptions, export_jsonl
from longplay.eval_log.log import EvalLog, save_records
from longplay.eval_log.records import EpisodeRecord
from rows import read_rows
from schemas import EVAL_LOG

# --- invariant 5: lines stand alone ---------------------------------------------------


@pytest.mark.seed("001", "log-6", "invariant-7")
@pytest.mark.parametrize(("level", "count"), [("run", 3), ("visit", 18)])
def test_lines_are_whole_records(experiment, tmp_path, level, count):
    path = tmp_path / "out.jsonl"
    assert export_jsonl(experiment, path, ExportOptions(level)).lines == count
    validator = Draft202012Validator(EVAL_LOG.make_schemas()["episode_record.json"])
    lines = read_rows(path)
    assert len(lines) == count
    for line in lines:
        assert list(validator.iter_errors(line)) == []
        assert set(line) == {
            "_type",
            *(EpisodeRecord.model_fields.keys() - {"type_"}),
        }


@pytest.mark.seed("001", "purpose-9", "purpose-11", "log-6")
@pytest.mark.parametrize("level", ["run", "visit"])
def test_lines_are_read_with_nothing_installed(experiment, tmp_path, level):
    path = run_dir_of(experiment, 0) / "run_summary.json"
    edit(path, usage={"total_cost_usd": 0.75})
    export_jsonl(experiment, tmp_path / "out.jsonl", ExportOptions(level))
    code = """
import json, sys
matrix, cost_usd = {}, 0.0
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line)
    matrix[record["agent_id"], record["task_id"]] = record["reward"]
    cost_usd += record["usage"]["total_cost_usd"]
assert "pydantic" not in sys.modules
print(len(matrix), sum(matrix.values()), cost_usd)
"""
    # -I -S: no installed package can be imported.
    command = [sys.executable, "-I", "-S", "-c", code, str(tmp_path / "out.jsonl")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rewards = [record.reward for record in iter_records(experiment, level)]
    cost_usd = 0.75 if level == "run" else 0.0  # usage is known of whole runs
    expected = len(rewards), sum(rewards), cost_usd
    assert done.stdout.split() == [str(number) for number in expected]


@pytest.mark.seed("001", "integration-2", "integration-5")
def test_export_needs_no_emulator_and_no_ray(experiment, tmp_path):
    code = """
import sys
sys.modules["ale_py"] = sys.modules["ray"] = None  # an import would raise
from longplay.eval_log.export import ExportOptions, export_jsonl
print(export_jsonl(sys.argv[1], sys.argv[2], ExportOptions("visit")).lines)
"""
    command = [sys.executable, "-c", code, str(experiment), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["18"]


# --- errors ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("level", "all_lines", "errored"), [("run", 3, 1), ("visit", 18, 1)]
)
def test_runs_with_an_error_are_counted_and_can_be_left_out(
    experiment, tmp_path, level, all_lines, errored
):
    write(run_dir_of(experiment, 1) / "status.json", make_status("FAILED", "KeyError"))
    exported = export_jsonl(experiment, tmp_path / "all.jsonl", ExportOptions(level))
    assert (exported.lines, exported.errored) == (all_lines, errored)
    options = ExportOptions(level, completed_only=True)
    exported = export_jsonl(experiment, tmp_path / "completed.jsonl", options)
    assert (exported.lines, exported.errored) == (all_lines - errored, errored)
    lines = read_rows(tmp_path / "completed.jsonl")
    assert len(lines) == all_lines - errored
    assert {line["error_type"] for line in lines} == {None}
    save_records(experiment, describe_experiment(experiment))
    log = EvalLog.load(experiment)
    log.to_jsonl(tmp_path / "log.jsonl", level, completed_only=True)
    assert read_rows(tmp_path / "log.jsonl") == lines


# --- bad input ------------------------------------------------------------------------


def test_unknown_level_is_refused(experiment, tmp_path):
    with pytest.raises(ConfigError, match="level: expected run or visit, found 'game'"):
        export_jsonl(experiment, tmp_path / "out.jsonl", ExportOptions("game"))


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


def test_export_that_fails_leaves_the_last_one(experiment, tmp_path):
    out = tmp_path / "out.jsonl"
    export_jsonl(experiment, out)
    before = out.read_bytes()
    (run_dir_of(experiment, 2) / "score.json").unlink()
    with pytest.raises(DocumentError):
        export_jsonl(experiment, out)
    assert out.read_bytes() == before


def test_folder_without_runs_is_refused(tmp_path):
    with pytest.raises(NotARunError, match=r"or an experiment directory \(episodes"):
        export_jsonl(tmp_path, tmp_path / "out.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_experiment_whose_runs_have_not_started_has_no_lines(tmp_path):
    experiment = make_experiment(tmp_path / "experiment", [])
    (experiment / "episodes").mkdir()
    assert (
        export_jsonl(
            experiment, tmp_path / "out.jsonl", ExportOptions(partial=True)
        ).lines
        == 0
    )
    assert (tmp_path / "out.jsonl").read_bytes() == b""


# --- many runs ------------------------------------------------------------------------


MEASURE = """
import sys, time
from longplay.eval_log.export import export_jsonl
started = time.process_time()
count = export_jsonl(sys.argv[1], sys.argv[2]).lines
elapsed = time.process_time() - started
status = open("/proc/self/status").read()
peak_kib = int(status.split("VmHWM:")[1].split()[0])
print(count, elapsed, peak_kib / 1024)
"""


needs_proc = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)


def measure(experiment: Path, out: Path) -> tuple[int, float, float]:
    """Lines, processor seconds and peak MiB of an export in a process of its own."""
    command = [sys.executable, "-c", MEASURE, str(experiment), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    count, elapsed_s, peak_mib = done.stdout.split()
    return int(count), float(elapsed_s), float(peak_mib)


@pytest.mark.exhaustive
@pytest.mark.seed("001", "gotcha-1")
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
