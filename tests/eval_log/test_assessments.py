"""Findings of a person or an investigator -> records: checked, and all or nothing."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest

from generated_runs import SUITE, describe_experiment
from longplay.contract import files
from longplay.errors import DocumentError, NotARunError, RecordingError
from longplay.eval_log import EvalLog, Findings, InvestigatorLLMConfig, Verifier
from longplay.eval_log.assessments import apply_findings
from longplay.eval_log.export import export_jsonl
from longplay.eval_log.log import save_records
from rows import read_rows

RUNS = [f"{SUITE}_seed-{seed}" for seed in range(3)]
HARD = {"difficulty": "hard", "feasible": True, "failure_root_cause": "slow"}
INVESTIGATOR = {"model": "m", "prompt_version": "1", "investigated_at": None}


@pytest.fixture
def experiment(experiment: Path) -> Path:
    """The same, with its records."""
    save_records(experiment, describe_experiment(experiment))
    return experiment


def write(tmp_path: Path, *lines: Any) -> Path:
    path = tmp_path / "findings.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def snapshot(directory: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in sorted(directory.rglob("*")) if p.is_file()}


@pytest.mark.seed("001", "investigator-4", "findings-4", "verifier-3")
def test_findings_reach_the_records_and_their_export(experiment, tmp_path):
    path = write(
        tmp_path,
        {"investigator_llm_config": INVESTIGATOR},
        {"trajectory_id": RUNS[1], "findings": HARD},
        {"trajectory_id": RUNS[2], "verifier": {"ref": "https://example.org"}},
    )
    applied = apply_findings(experiment, path)
    assert applied.runs == (RUNS[1], RUNS[2])
    assert applied.has_investigator
    log = EvalLog.load(experiment)
    assert log.experiment.investigator_llm_config == InvestigatorLLMConfig(
        **INVESTIGATOR
    )
    assert [record.findings for record in log.episodes] == [
        None,
        Findings(**HARD),
        None,
    ]
    verifier = Verifier(ref="https://example.org", source=None)
    assert [record.verifier for record in log.episodes] == [None, None, verifier]
    export_jsonl(experiment, tmp_path / "runs.jsonl")
    lines = read_rows(tmp_path / "runs.jsonl")
    assert lines[1]["findings"]["failure_root_cause"] == "slow"
    assert lines[2]["verifier"]["ref"] == "https://example.org"


@pytest.mark.seed("001", "findings-6")
def test_findings_survive_a_new_export(experiment, tmp_path):
    apply_findings(
        experiment, write(tmp_path, {"trajectory_id": RUNS[0], "findings": HARD})
    )
    save_records(experiment, describe_experiment(experiment))
    assert EvalLog.load(experiment).episodes[0].findings == Findings(**HARD)


def test_keys_that_are_not_given_keep_their_value(experiment, tmp_path):
    for findings in ({"difficulty": "hard"}, {"feasible": False}):
        line = {"trajectory_id": RUNS[0], "findings": findings}
        apply_findings(experiment, write(tmp_path, line))
    found = EvalLog.load(experiment).episodes[0].findings
    assert found == Findings(difficulty="hard", feasible=False, failure_root_cause=None)
    apply_findings(
        experiment,
        write(tmp_path, {"trajectory_id": RUNS[0], "findings": {"difficulty": None}}),
    )
    assert EvalLog.load(experiment).episodes[0].findings.difficulty is None


def test_lines_may_repeat_their_investigator(experiment, tmp_path):
    lines = [
        {
            "trajectory_id": run,
            "findings": HARD,
            "investigator_llm_config": INVESTIGATOR,
        }
        for run in RUNS
    ]
    assert apply_findings(experiment, write(tmp_path, *lines)).runs == tuple(RUNS)


GOOD = {"trajectory_id": RUNS[0], "findings": HARD}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"trajectory_id": "nowhere", "findings": HARD}, "unknown trajectory_id 'nowh"),
        ({"findings": HARD}, "trajectory_id: expected a string, found none"),
        ({"trajectory_id": 3, "findings": HARD}, "trajectory_id: expected a string, f"),
        ({"trajectory_id": RUNS[1]}, "expected findings or verifier, found neither"),
        ({"trajectory_id": RUNS[1], "fidings": HARD}, "'fidings'; did you mean 'find"),
        ({**GOOD, "trajectory_id": RUNS[0]}, "one line per run, found stream-smoke-v1"),
        (
            {"trajectory_id": RUNS[1], "findings": {"feasible": "yes"}},
            "feasible: expected a bool, found 'yes'",
        ),
        (
            {"trajectory_id": RUNS[1], "verifier": {"reff": "x"}},
            "unknown key of Verifier 'reff'; did you mean 'ref'",
        ),
        ({"trajectory_id": RUNS[1], "findings": None}, "Findings: expected an object"),
        (
            {"trajectory_id": RUNS[1], "verifier": {"source": 3}},
            "source: expected a string, found 3",
        ),
        (
            {"investigator_llm_config": {"model": "m"}},
            "prompt_version: expected a value, found none",
        ),
        ([1, 2], r"expected an object, found \[1, 2\]"),
    ],
)
def test_one_bad_line_changes_nothing(experiment, tmp_path, line, message):
    before = snapshot(experiment)
    path = write(tmp_path, GOOD, line)
    with pytest.raises(DocumentError, match=rf"^findings\.jsonl:2 .*{message}"):
        apply_findings(experiment, path)
    assert snapshot(experiment) == before


def test_two_investigators_are_refused(experiment, tmp_path):
    other = {**INVESTIGATOR, "model": "other"}
    lines = [{"investigator_llm_config": one} for one in (INVESTIGATOR, other)]
    with pytest.raises(
        DocumentError, match=r":2 .*expected one for all runs, found tw"
    ):
        apply_findings(experiment, write(tmp_path, *lines))


def test_file_that_is_not_json_is_refused(experiment, tmp_path):
    path = tmp_path / "findings.jsonl"
    path.write_text(f'{json.dumps(GOOD)}\n\n{{"trajectory_id": NaN}}\n')
    with pytest.raises(DocumentError, match=r"findings\.jsonl:3 not JSON: NaN"):
        apply_findings(experiment, path)
    with pytest.raises(DocumentError, match=r"nothing\.jsonl: cannot be read"):
        apply_findings(experiment, tmp_path / "nothing.jsonl")


def test_folder_without_records_is_refused(tmp_path):
    with pytest.raises(NotARunError, match="expected an experiment directory"):
        apply_findings(tmp_path, write(tmp_path, GOOD))


@pytest.mark.parametrize("name", ["os_write", "os_fsync", "os_replace"])
@pytest.mark.parametrize("nth", [1, 2, 3])
def test_failed_write_changes_nothing(experiment, tmp_path, monkeypatch, name, nth):
    path = write(tmp_path, *({"trajectory_id": run, "findings": HARD} for run in RUNS))
    before = snapshot(experiment)
    real, calls = getattr(files, name), 0

    def fail(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == nth:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(*args)

    monkeypatch.setattr(files, name, fail)
    with pytest.raises(RecordingError, match=r"cannot write .*: No space left"):
        apply_findings(experiment, path)
    assert snapshot(experiment) == before
