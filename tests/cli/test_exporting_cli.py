"""The matrix from the command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

from generated_records import make_line, write_lines
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
    assert "1 records with an error, in no mean" in words
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
