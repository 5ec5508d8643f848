"""Exported records from the command line: export, atlas, findings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from generated_records import make_line, write_lines
from generated_runs import make_experiment, make_status, run_dir_of, write
from longplay.eval_log import EvalLog
from rows import read_rows

REWARDS = {"alpha": (2.0, -1.0, 3.0), "beta": (-4.0, 1.0, 1.0), "random": (0.0,) * 3}


@pytest.fixture
def lines(tmp_path):
    records = [
        make_line(agent, f"t{n}", reward)
        for agent, rewards in REWARDS.items()
        for n, reward in enumerate(rewards)
    ]
    crash = make_line("beta", "t0", 0.0, error_type="KeyError", trajectory_id="crash")
    return write_lines(tmp_path / "lines.jsonl", [*records, crash])


def test_atlas_for_people(invoke, lines, tmp_path):
    answer = invoke("atlas", lines, "-o", tmp_path / "atlas")
    assert answer.exit_code == 0
    words = " ".join(answer.stdout.split())
    assert words.startswith("3 agents × 3 tasks agent tasks errored standardised rew")
    assert "beta 3 1 " in words
    assert "Rasch model of beats_random" in words
    assert "errored records: 1, left out of all means" in words
    assert (tmp_path / "atlas" / "atlas.pdf").read_bytes().startswith(b"%PDF")


def test_atlas_for_machines(invoke, lines):
    summary = invoke("atlas", lines, "--json", "--rank", "1").json
    assert (summary["lines"], summary["errored"], summary["entries"]) == (10, 1, 9)
    assert summary["rasch"] == {"response": "beats_random", "converged": True}
    assert summary["low_rank"]["rank"] == 1


def test_atlas_without_a_model_says_why_there_is_no_figure(invoke, tmp_path):
    path = write_lines(tmp_path / "lines.jsonl", [make_line("alpha", "t", 1.0)])
    answer = invoke("atlas", path, "-o", tmp_path / "atlas")
    assert answer.exit_code == 0
    assert answer.stdout.startswith("1 agent × 1 task\n")
    assert "no figure: atlas: nothing to draw" in " ".join(answer.stdout.split())
    assert not (tmp_path / "atlas" / "atlas.pdf").exists()


def test_tables_need_no_optional_package(lines, tmp_path):
    code = """
import sys
for name in ("matplotlib", "plotly", "jinja2", "pyarrow", "ale_py", "torch", "ray"):
    sys.modules[name] = None  # an import would raise
from longplay.cli.app import app
app(["atlas", sys.argv[1], "-o", sys.argv[2]])
"""
    command = [sys.executable, "-c", code, str(lines), str(tmp_path / "atlas")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "no figure: figures need matplotlib" in " ".join(done.stdout.split())
    assert (tmp_path / "atlas" / "agents.csv").read_text().count("\n") == 4
    assert not (tmp_path / "atlas" / "atlas.pdf").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl: no such file or folder"),
        (["."], "expected an experiment directory with records"),
    ],
)
def test_bad_paths_are_named(invoke, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    answer = invoke("atlas", *arguments)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())


# --- findings -----------------------------------------------------------------------


def test_findings_are_applied(invoke, finished_run, copy_of, tmp_path):
    experiment = copy_of(finished_run.parent.parent)
    line = {"trajectory_id": finished_run.name, "findings": {"difficulty": "hard"}}
    path = write_lines(tmp_path / "findings.jsonl", [line])
    answer = invoke("findings", "apply", experiment, path)
    assert (answer.exit_code, answer.stdout) == (0, "1 record changed\n")
    (record,) = EvalLog.load(experiment).episodes
    assert record.findings.difficulty == "hard"
    answer = invoke("findings", "apply", experiment, path, "--json")
    assert answer.json == {"runs": [finished_run.name], "investigator": False}
    lines = tmp_path / "lines.jsonl"
    assert invoke("export", experiment, "--jsonl", lines).exit_code == 0
    (exported,) = read_rows(lines)
    assert exported["findings"]["difficulty"] == "hard"


def test_findings_about_an_unknown_run_are_refused(invoke, finished_run, tmp_path):
    line = {"trajectory_id": "nowhere", "findings": {"difficulty": "hard"}}
    path = write_lines(tmp_path / "findings.jsonl", [line])
    answer = invoke("findings", "apply", finished_run.parent.parent, path)
    assert answer.exit_code == 1
    assert "findings.jsonl:1 unknown trajectory_id 'nowhere'" in answer.stderr


# --- export -------------------------------------------------------------------------


def test_export_to_every_eval_ever(invoke, finished_run, tmp_path):
    experiment = finished_run.parent.parent
    who = ("--organization", "A Lab", "--relationship", "third_party")
    answer = invoke("export", experiment, "--eee", tmp_path, *who, "--json")
    files = answer.json["eee"]
    assert (files["rows"], files["errored"]) == (1, 0)
    aggregate = json.loads(Path(files["aggregate"]).read_text())
    assert aggregate["model_info"]["id"] == "A-Lab/random"
    source = aggregate["source_metadata"]
    assert source["evaluator_relationship"] == "third_party"
    answer = invoke("export", experiment, "--eee", tmp_path, *who)
    words = " ".join(answer.stdout.split())
    assert words.startswith("1 sample -> ")
    assert "results -> " in words


@pytest.fixture
def crashed(tmp_path):
    """Three runs, of which one ended with an error."""
    experiment = make_experiment(tmp_path / "experiment", range(3))
    write(run_dir_of(experiment, 1) / "status.json", make_status("FAILED", "KeyError"))
    return experiment


def test_export_says_how_many_lines_have_an_error(invoke, crashed, tmp_path):
    lines = tmp_path / "lines.jsonl"
    answer = invoke("export", crashed, "--jsonl", lines)
    words = " ".join(answer.stdout.split())
    assert words.startswith("3 records -> ")
    assert "1 with an error, among them; see error_type" in words
    answer = invoke("export", crashed, "--jsonl", lines, "--completed-only")
    words = " ".join(answer.stdout.split())
    assert words.startswith("2 records -> ")
    assert "1 with an error, left out" in words
    assert [line["error_type"] for line in read_rows(lines)] == [None, None]
    summary = invoke("export", crashed, "--jsonl", lines, "--json").json
    assert (summary["records"], summary["errored"]) == (3, 1)


WHO = ("--organization", "A Lab", "--relationship", "other")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "expected --jsonl FILE, --log DIR or --eee DIR, found none"),
        (("--eee", "x"), "--eee: expected --organization and --relationship as well"),
        (("--eee", "x", *WHO[:2]), "expected --organization and --relationship as w"),
        (("--jsonl", "x", *WHO), "--organization and --relationship: only with --eee"),
        (("--eee", "x", *WHO[:3], "friend"), "relationship: expected one of first_pa"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    invoke, crashed, tmp_path, monkeypatch, options, message
):
    monkeypatch.chdir(tmp_path)
    answer = invoke("export", crashed, *options)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
    assert not (tmp_path / "x").exists()
