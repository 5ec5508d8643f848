"""`longplay study` on the smallest suites."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from longplay.lab.studies.study import Study, play_here
from longplay.runs.recorder import utc_now
from small_study import AGENT, STUDY

STUDY_STATUS = ("study", "status")
WRONG_ARGUMENT = """
name = "wrong"
seeds = [1000]
[[agents]]
ref = "random"
[[agents]]
ref = "linear-sarsa"
name = "slow"
args = { alpha = 0.1 }
[[suites]]
id = "control-smoke-v1"
"""
OFFICIAL_SEEDS = """
name = "official"
seeds = [0, 1, 2000]
[[agents]]
ref = "random"
[[suites]]
id = "control-smoke-v1"
[[suites]]
id = "stream-smoke-v1"
[[suites]]
id = "control-smoke-v1"
set = { sticky = 0.0 }
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "lab").mkdir()
    (tmp_path / "lab/button.py").write_text(AGENT)
    (tmp_path / "lab/study.toml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    return Path("lab/study.toml")


def test_dry_run_prints_the_plan_and_writes_nothing(file, invoke):
    answer = invoke("study", "run", file, "--dry-run", "--ray", 2, "--json")
    total = answer.json["total"]
    # Two tuning runs of 20 timesteps, two results of 40.
    assert (total["cells"], total["runs"], total["frames"]) == (4, 4, 120)
    assert total["expected_hours"] == total["expected_seconds"] / 2 / 3600
    assert total["expected_bytes"] == 120 * 275 + 4 * 65536
    text = invoke("study", "run", file, "--dry-run").stdout
    assert "chosen by tuning" in text
    assert "1 worker" in text
    assert not Path("runs").exists()


@pytest.mark.parametrize("options", [("--dry-run",), ()])
def test_an_unknown_argument_is_refused_before_anything_is_played(
    tmp_path, monkeypatch, invoke, options
):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(WRONG_ARGUMENT)
    answer = invoke("study", "run", "study.toml", *options)
    assert answer.exit_code == 2
    assert "slow: agent linear-sarsa: init has no parameter 'alpha'" in answer.stderr
    assert not Path("runs").exists()


def test_official_seeds_are_named_once_for_all_suites(tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    Path("study.toml").write_text(OFFICIAL_SEEDS)
    text = invoke("study", "run", "study.toml", "--dry-run").stdout
    line = "0, 1 are official seeds of control-smoke-v1, stream-smoke-v1: the score is"
    assert line in text.replace("\n", " ")


def test_a_study_from_start_to_end(file, invoke):
    answer = invoke("study", "run", file, "--quiet")
    assert answer.exit_code == 0, answer.stderr + answer.stdout
    assert "chosen" in answer.stdout
    status = invoke("study", "status", "runs/small", "--json").json
    assert status["states"] == {"COMPLETED": 4}
    assert [len(cell["runs"]) for cell in status["cells"]] == [1, 1, 1, 1]
    assert "4/4 runs complete" in invoke("study", "status", file).stdout
    shown = invoke("study", "show", file, "--json").json
    points = shown["tuning"]["points"]
    assert [point["args"] for point in points] == [{"action": 0}, {"action": 1}]
    assert [point["chosen"] for point in points].count(True) == 1
    tuned = next(cell for cell in shown["cells"] if cell["agent"] == "button")
    assert tuned["tuning_frames"] == 40
    assert tuned["estimate"]["n"] == 1
    table = invoke("study", "show", file).stdout.splitlines()
    row = next(
        line for line in table if line.split()[:1] == ["button"] and "1/1" in line
    )
    assert row.split()[-1] == "40"  # frames of tuning
    compared = invoke("compare", "runs/small", "--json").json
    assert compared
    again = invoke("study", "run", file, "--quiet", "--json")
    assert (again.exit_code, again.json["cells"]) == (0, shown["cells"])


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A complete study: two tuning runs, then two results."""
    folder = tmp_path_factory.mktemp("complete")
    (folder / "button.py").write_text(AGENT)
    (folder / "study.toml").write_text(STUDY)
    study = Study.from_file(folder / "study.toml", folder / "small")
    study.run(play_here())
    return study.path


@pytest.fixture
def played(complete: Path, tmp_path: Path) -> Path:
    """A copy of the complete study."""
    return Path(shutil.copytree(complete, tmp_path / "small"))


def test_every_run_of_a_study_is_validated_and_verified(played, invoke):
    for command, word in (("validate", "valid"), ("verify", "replayed")):
        answer = invoke(command, played)
        assert answer.exit_code == 0, answer.stdout
        rows = [line for line in answer.stdout.splitlines() if word in line.split()]
        parts = [row.split()[0] for row in rows]
        assert parts == ["tuning", "tuning", "result", "result"]
        assert "4 of 4 runs passed" in answer.stdout
    assert len(list(played.glob("*/*/episodes/*/verification.json"))) == 4
    documents = invoke("validate", played, "--json").json
    assert [document["frames"] for document in documents] == [20, 20, 40, 40]


def test_a_damaged_run_of_a_study_is_found(played, invoke):
    damaged = next(played.glob("tuning/*/episodes/*/events.jsonl"))
    damaged.write_bytes(damaged.read_bytes().replace(b'"reward":0.0', b'"reward":1.0'))
    for command, word in (("validate", "not valid"), ("verify", "does not reproduce")):
        answer = invoke(command, played)
        assert answer.exit_code == 1
        assert "3 of 4 runs passed" in answer.stdout
        assert word in answer.stdout
        assert damaged.parent.name in answer.stdout.replace("\n", "")


def test_runs_that_cannot_be_checked_do_not_hide_the_others(played, invoke):
    shutil.rmtree(next(played.glob("cells/*")))
    (cell,) = played.glob("cells/*")
    for path in cell.glob("episodes/*/config.json"):
        path.write_text("{")
    answer = invoke("validate", played)
    assert answer.exit_code != 0
    text = " ".join(answer.stdout.split())
    assert "2 of 3 runs passed; 1 planned run not started" in text


def test_an_agent_for_a_whole_study_is_refused(played, invoke):
    answer = invoke("verify", played, "--reexecute", "--agent", "button.py")
    assert answer.exit_code == 2
    assert "is a study of several agents; name one of its cells" in answer.stderr


def test_status_takes_a_study_as_well(played, invoke):
    answers = [invoke(*words, played).stdout for words in (("status",), STUDY_STATUS)]
    assert answers[0] == answers[1]
    assert "4/4 runs complete" in answers[0]


@pytest.mark.parametrize("command", ["retry", "show", "score", "pack"])
def test_a_command_for_experiments_names_the_cells(played, invoke, command):
    answer = invoke(command, played)
    assert answer.exit_code == 2
    assert "found a study, with its experiments in cells/" in answer.stderr


def test_a_shard_that_waits_for_others_asks_to_be_run_again(file, invoke):
    # Of four runs it plays the second, a tuning run, and the fourth, a result of it.
    answer = invoke("study", "run", file, "--shard", "2/2", "--quiet")
    assert answer.exit_code == 75
    assert "run this command again" in " ".join(answer.stdout.split())
    assert "waits for tuning" in invoke("study", "status", file).stdout
    answer = invoke("study", "run", file, "--shard", "1/2", "--quiet")
    assert answer.exit_code == 0, answer.stdout
    assert "1 run left for other processes" in answer.stdout
    answer = invoke("study", "run", file, "--shard", "2/2", "--quiet")
    assert answer.exit_code == 0, answer.stdout
    assert "left for other" not in answer.stdout


def test_a_failed_run_is_reported(file, invoke):
    file.with_name("button.py").write_text(AGENT.replace("self.action\n", "'up'\n"))
    answer = invoke("study", "run", file, "--quiet")
    assert answer.exit_code == 1
    assert "expected a point with a value, found none of 2" in " ".join(
        answer.stdout.split()
    )
    status = invoke("study", "status", file).stdout
    assert "1 failed" in status


def test_a_point_that_is_out_is_not_missing(file, invoke):
    text = file.read_text().replace("action = [0, 1]", "action = [0, 99]")
    file.write_text(text)
    assert invoke("study", "run", file, "--quiet").exit_code == 1
    answer = invoke("study", "run", file, "--quiet")
    assert answer.exit_code == 0, answer.stdout
    assert "left for other" not in answer.stdout


@pytest.mark.exhaustive
def test_an_agent_that_ends_the_process_does_not_block_the_others(file, spawn):
    """The first of two tuning runs does; the next command begins with the rest."""
    agent = AGENT.replace("import time", "import os, time")
    agent = agent.replace("return self", "self.action or os._exit(0); return self")
    file.with_name("button.py").write_text(agent)
    for complete in (0, 2):
        assert spawn("study", "run", file, "--quiet").exit_code == 1
        statuses = map(json.loads, map(Path.read_bytes, find_statuses(Path("runs"))))
        states = [status["state"] for status in statuses]
        assert sorted(states) == ["COMPLETED"] * complete + ["FAILED"]


def find_statuses(folder: Path) -> list[Path]:
    return list(folder.glob("*/*/*/episodes/*/status.json"))


@pytest.mark.parametrize(
    ("options", "exit_code"),
    [((), 75), (("--shard", "2/2"), 75), (("--shard", "1/2"), 0)],
)
def test_a_run_in_progress_elsewhere_is_not_complete(
    complete, played, invoke, options, exit_code
):
    """The fourth run, the second of shard 2: its node may have died just now."""
    (path,) = played.glob("cells/button*/episodes/*/status.json")
    status = json.loads(path.read_bytes())
    status |= {"state": "RUNNING", "host": "elsewhere", "heartbeat_utc": utc_now()}
    path.write_text(json.dumps(status))
    command = ("study", "run", complete.parent / "study.toml", "--out", played)
    answer = invoke(*command, *options, "--quiet")
    assert answer.exit_code == exit_code
    words = "elsewhere" if exit_code else "1 run left for other processes"
    assert words in " ".join(answer.stdout.split())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ray", 2, "--shard", "1/2"), "--shard: cannot be combined with --ray"),
        (("--ray", 2, "--ray-address", "auto"), "give only one of them"),
        (("--shard", "3/2"), "--shard: expected I/N"),
    ],
)
def test_wrong_options_are_refused(file, invoke, options, message):
    answer = invoke("study", "run", file, *options)
    assert answer.exit_code == 2
    assert message in answer.stderr


def test_a_folder_without_a_study_is_named(tmp_path, invoke):
    answer = invoke("study", "status", tmp_path)
    assert answer.exit_code == 2
    assert "study.json" in answer.stderr
