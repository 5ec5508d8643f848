"""Several seeds from the command line: run, status, retry, export, show."""

from __future__ import annotations

import json
import math
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from longplay.contract.files import read_json
from rows import read_rows

SHORT = (
    *("--set", 'games=["qbert"]', "--set", "num_cycles=1"),
    *("--set", "base_visit_frames=40", "--set", "jitter_pct=0"),
)
ROWS = ("events.jsonl", "episodes.jsonl", "segments.jsonl")
STATUS_KEYS = (
    "trajectory_id seed state frame frames_total fps heartbeat_utc retries error"
)

# Raises at frame 7 of a seed for as long as there is a file `raise-<seed>`.
AGENT = """
from pathlib import Path
from longplay.seeds import agent_seed

FLAGS = Path(__file__).parent
SEEDS = {agent_seed(seed): seed for seed in range(10)}

class Agent:
    def __init__(self, num_actions, seed):
        self.num_actions, self.seed = num_actions, SEEDS[seed]

    def step(self, obs, reward, terminated, truncated, info):
        frame = info["global_frame_idx"]
        if frame == 7 and (FLAGS / f"raise-{self.seed}").exists():
            raise ValueError("no more")
        return (frame + self.seed) % self.num_actions
"""


# --- helpers --------------------------------------------------------------------


def run_seeds(invoke, out: Path, seeds: str, *options: object, agent="random"):
    return invoke(
        *("run", "stream-smoke-v1", "--agent", agent, "--seeds", seeds, *SHORT),
        *("--out", out, "--quiet", "--json", *options),
    )


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(read(path) | changes))


def run_dir(directory: Path, seed: int) -> Path:
    (found,) = (directory / "episodes").glob(f"*_seed-{seed}")
    return found


def status_of(directory: Path, seed: int) -> dict[str, Any]:
    return read(run_dir(directory, seed) / "status.json")


def snapshot(folder: Path) -> dict[Path, tuple[bytes, int]]:
    """Bytes and mtimes of every file."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files}


def rows_of(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in ROWS]


def archives(directory: Path, seed: int) -> list[Path]:
    """The earlier tries of a run, oldest first."""
    found = (directory / "archive").glob(f"*_seed-{seed}/*")
    return sorted(found, key=lambda path: int(path.name))


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def dead_pid() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


def pretend_running(directory: Path, seed: int, **changes: Any) -> None:
    changes = {"host": platform.node(), "heartbeat_utc": now(), **changes}
    edit(run_dir(directory, seed) / "status.json", state="RUNNING", **changes)


def show_states(invoke, directory: Path) -> dict[int, str]:
    answer = invoke("status", directory, "--json")
    assert answer.exit_code == 0, answer.stderr
    return {row["seed"]: row["state"] for row in answer.json}


def all_completed(invoke, directory: Path) -> bool:
    assert invoke("validate", directory, "--json").exit_code == 0
    return set(show_states(invoke, directory).values()) == {"COMPLETED"}


def play(out: Path, agent: str, exit_code: int) -> Path:
    command = [sys.executable, "-m", "longplay", "run", "stream-smoke-v1", *SHORT]
    options = ["--agent", agent, "--seeds", "0-2", "--out", str(out), "--quiet"]
    done = subprocess.run(
        command + options, capture_output=True, text=True, check=False
    )
    assert done.returncode == exit_code, done.stderr
    return out


@pytest.fixture(scope="module")
def played(tmp_path_factory) -> Path:
    """Seeds 0 … 2 of a built-in agent. Not to be changed: see `experiment`."""
    return play(tmp_path_factory.mktemp("played") / "experiment", "random", 0)


@pytest.fixture
def experiment(played: Path, tmp_path: Path) -> Path:
    """A copy of the above."""
    return Path(shutil.copytree(played, tmp_path / "experiment"))


def write_agent(folder: Path) -> Path:
    """An agent in a file, failing at seed 1 until `repair`."""
    (folder / "raise-1").touch()
    path = folder / "failing_agent.py"
    path.write_text(AGENT)
    return path


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    return write_agent(tmp_path)


def repair(agent: Path, seed: int = 1) -> None:
    (agent.parent / f"raise-{seed}").unlink()


@pytest.fixture(scope="module")
def played_badly(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("played-badly")
    return play(folder / "experiment", str(write_agent(folder)), 1)


@pytest.fixture
def failed(played_badly: Path, agent: Path) -> Path:
    """A copy of an experiment of `agent`: seeds 0 … 2, of which 1 has failed."""
    return Path(shutil.copytree(played_badly, agent.parent / "failed"))


def test_an_agent_has_the_name_that_it_is_given(invoke, tmp_path: Path):
    for name in ("one", "two"):
        out = tmp_path / name
        run_seeds(invoke, out, "1000", "--name", name)
        agent = read_json(out / "experiment_config.json")["agent"]
        assert agent["name"] == name
    assert invoke("retry", tmp_path / "two", "--quiet").exit_code == 0
    found = invoke("compare", tmp_path, "--json").json
    labels = [agent["label"] for agent in found["suites"][0]["agents"]]
    assert labels == ["one", "two"]


def test_an_empty_name_is_refused(invoke, tmp_path: Path):
    result = run_seeds(invoke, tmp_path / "run", "1000", "--name", "")
    assert result.exit_code == 2
    assert "--name: expected at least one character" in result.stdout
    assert not (tmp_path / "run").exists()


# --- run ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seeds"),
    [("0-1,4", [0, 1, 4]), ("5,3", [3, 5]), ("2-2,7-8", [2, 7, 8])],
)
def test_seeds_and_ranges(invoke, tmp_path, text, seeds):
    answer = run_seeds(invoke, tmp_path / "out", text)
    assert answer.exit_code == 0, answer.stderr
    config = read(tmp_path / "out/experiment_config.json")
    assert sorted(config["seeds"]) == seeds
    assert config["n_tasks"] == len(seeds)
    assert sorted(run["seed"] for run in answer.json["runs"]) == seeds


@pytest.mark.parametrize(
    "text",
    ["a", "3-1", "", "1,1", "-1", "0,,1", "0-", "1-3,2", "0.5", "2147483648", "0 1"],
)
def test_seeds_that_cannot_be_meant(invoke, tmp_path, text):
    answer = invoke(
        *("run", "stream-smoke-v1", "--agent", "random", f"--seeds={text}", *SHORT),
        *("--out", tmp_path / "out"),
    )
    assert answer.exit_code == 2
    assert "seed" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("seed", [0, 3])
def test_seed_and_seeds_together_are_refused(invoke, tmp_path, seed):
    answer = run_seeds(invoke, tmp_path / "out", "0-1", "--seed", seed)
    assert answer.exit_code == 2
    assert "--seeds" in answer.stdout + answer.stderr
    assert not (tmp_path / "out").exists()


def test_two_places_to_run_are_refused(invoke, tmp_path):
    answer = run_seeds(
        invoke, tmp_path / "out", "0", "--ray", 2, "--ray-address", "127.0.0.1:1"
    )
    assert answer.exit_code == 2
    assert "give only one of them" in answer.json["error"]["message"]
    assert not (tmp_path / "out").exists()


def test_answer_of_several_seeds_for_machines(invoke, tmp_path):
    answer = run_seeds(invoke, tmp_path / "out", "0-2")
    assert answer.exit_code == 0, answer.stderr
    assert answer.json["experiment_dir"] == str(tmp_path / "out")
    assert answer.json["aggregate"]["n"] == 3
    for run in answer.json["runs"]:
        assert run["state"] == "COMPLETED"
        assert run["run_dir"] == str(run_dir(tmp_path / "out", run["seed"]))
        assert run["score"] is not None
        assert run["valid"] is True
        assert run["error"] is None


def test_answer_of_several_seeds_for_people(invoke, tmp_path):
    answer = invoke(
        *("run", "stream-smoke-v1", "--agent", "random", "--seeds", "0-1", *SHORT),
        *("--out", tmp_path / "out"),
    )
    assert answer.exit_code == 0, answer.stderr
    assert "no interval" in answer.stdout


@pytest.mark.parametrize(
    ("options", "seeds"),
    [((), [1000]), (("--seed", 3), [3]), (("--seeds", "0-1"), [0, 1])],
)
def test_answers_have_one_shape_whatever_the_number_of_seeds(
    invoke, tmp_path, options, seeds
):
    out = tmp_path / "out"
    played = invoke(
        *("run", "stream-smoke-v1", "--agent", "random", *SHORT, *options),
        *("--out", out, "--quiet", "--json"),
    )
    assert played.exit_code == 0, played.stderr
    answers = [played, *(invoke(c, out, "--json") for c in ("resume", "retry"))]
    for answer in answers:
        assert answer.exit_code == 0
        assert list(answer.json) == ["experiment_dir", "runs", "aggregate"]
        assert [run["seed"] for run in answer.json["runs"]] == seeds
        assert answer.json["runs"][0].keys() == played.json["runs"][0].keys()
    for run in played.json["runs"]:
        assert run["valid"] is run["validation"]["valid"] is True
        assert run["score"]["frames"] == run["frames_total"] == run["frame"]
        assert run["resumed_from"] is run["refused"] is run["error"] is None


@pytest.mark.parametrize("options", [("--seed", 1), ("--seeds", "0-1")])
def test_every_experiment_carries_its_records(invoke, tmp_path, options):
    out = tmp_path / "out"
    answer = invoke(
        *("run", "stream-smoke-v1", "--agent", "random", *SHORT, *options),
        *("--out", out, "--quiet", "--json"),
    )
    assert answer.exit_code == 0, answer.stderr
    config = read(out / "experiment_config.json")
    record = read(out / "experiment_record.json")
    assert record["experiment_id"] == config["experiment_id"]
    assert record["benchmark_subset"]["n_tasks"] == len(config["seeds"])
    summary = read(out / "experiment_summary.json")
    assert [run["seed"] for run in summary["runs"]] == config["seeds"]
    for seed in config["seeds"]:
        episode = read(run_dir(out, seed) / "episode_record.json")
        assert episode["experiment_id"] == config["experiment_id"]
        assert (episode["seed"], episode["error_type"]) == (seed, None)


def test_plan_is_written_before_the_first_frame(invoke, tmp_path):
    out, kept = tmp_path / "out", tmp_path / "kept.json"
    agent = tmp_path / "curious_agent.py"
    agent.write_text(
        "import shutil\n"
        "class Agent:\n"
        "    def __init__(self, num_actions, seed):\n        pass\n"
        "    def step(self, obs, reward, terminated, truncated, info):\n"
        "        if info['global_frame_idx'] == 0:\n"
        f"            shutil.copy({str(out / 'experiment_config.json')!r}, "
        f"{str(kept)!r})\n"
        "        return 0\n"
    )
    assert run_seeds(invoke, out, "3,5", agent=agent).exit_code == 0
    config = read(kept)
    assert (config["seeds"], config["n_tasks"]) == ([3, 5], 2)
    assert config == read(out / "experiment_config.json")


def test_existing_folder_is_refused(invoke, experiment):
    before = snapshot(experiment)
    answer = run_seeds(invoke, experiment, "0-1")
    assert answer.exit_code == 2
    assert "exists" in answer.stdout + answer.stderr
    assert snapshot(experiment) == before


def test_failed_seed_leaves_the_others_alone(invoke, agent, tmp_path):
    answer = run_seeds(invoke, tmp_path / "out", "0-2", agent=agent)
    assert answer.exit_code == 1
    runs = {run["seed"]: run for run in answer.json["runs"]}
    states = [runs[seed]["state"] for seed in range(3)]
    assert states == ["COMPLETED", "FAILED", "COMPLETED"]
    assert "no more" in json.dumps(runs[1]["error"])
    assert (runs[1]["score"], runs[0]["error"]) == (None, None)
    assert answer.json["aggregate"]["n"] == 2


def test_failed_seed_has_a_record(failed):
    record = read(run_dir(failed, 1) / "episode_record.json")
    assert (record["error_type"], record["reward"]) == ("ValueError", 0.0)
    assert record["n_steps"] == 7
    for seed in (0, 2):
        record = read(run_dir(failed, seed) / "episode_record.json")
        assert (record["error_type"], record["n_steps"]) == (None, 40)


# --- status ---------------------------------------------------------------------


def test_status_for_machines(invoke, played):
    rows = invoke("status", played, "--json").json
    assert [row["seed"] for row in rows] == [0, 1, 2]
    for row in rows:
        assert set(STATUS_KEYS.split()) <= row.keys()
        assert row["trajectory_id"] == run_dir(played, row["seed"]).name
        assert (row["state"], row["retries"]) == ("COMPLETED", 0)
        assert (row["frame"], row["frames_total"], row["error"]) == (40, 40, None)


def test_status_for_people(invoke, failed):
    answer = invoke("status", failed)
    assert answer.exit_code == 0
    assert answer.stdout.upper().count("COMPLETED") == 2
    assert answer.stdout.upper().count("FAILED") == 1


def test_status_of_a_run_directory(invoke, played):
    (row,) = invoke("status", run_dir(played, 1), "--json").json
    assert (row["seed"], row["state"]) == (1, "COMPLETED")


def test_damaged_status_names_its_run(invoke, experiment):
    (run_dir(experiment, 1) / "status.json").write_text("{")
    for command in ("status", "show", "retry"):
        answer = invoke(command, experiment)
        assert answer.exit_code == 1
        assert f"{run_dir(experiment, 1).name}/status.json" in answer.stderr


def test_status_of_a_folder_that_is_neither(invoke, tmp_path):
    assert invoke("status", tmp_path).exit_code == 2
    assert invoke("status", tmp_path / "nowhere").exit_code == 2


def test_failed_run_shows_its_error(invoke, failed):
    rows = {row["seed"]: row for row in invoke("status", failed, "--json").json}
    assert "no more" in json.dumps(rows[1]["error"])


def test_planned_run_that_never_began_is_queued(invoke, experiment):
    name = run_dir(experiment, 1).name
    shutil.rmtree(run_dir(experiment, 1))
    rows = {row["seed"]: row for row in invoke("status", experiment, "--json").json}
    assert list(rows) == [0, 1, 2]
    assert (rows[1]["state"], rows[1]["trajectory_id"]) == ("QUEUED", name)
    assert rows[0]["state"] == "COMPLETED"


def test_no_run_has_started_yet(invoke, experiment):
    shutil.rmtree(experiment / "episodes")
    assert set(show_states(invoke, experiment).values()) == {"QUEUED"}


@pytest.mark.parametrize(
    ("pid", "changes", "state"),
    [
        ("mine", {}, "RUNNING"),
        ("dead", {}, "STALE"),
        ("mine", {"heartbeat_utc": "2020-01-01T00:00:00.000Z"}, "STALE"),
        ("dead", {"host": "elsewhere"}, "RUNNING"),
    ],
    ids=["alive", "gone", "hanging", "elsewhere"],
)
def test_stale_run_differs_from_a_running_one(invoke, experiment, pid, changes, state):
    pid = os.getpid() if pid == "mine" else dead_pid()
    pretend_running(experiment, 1, pid=pid, **changes)
    before = snapshot(experiment)
    expected = {0: "COMPLETED", 1: state, 2: "COMPLETED"}
    assert show_states(invoke, experiment) == expected
    assert snapshot(experiment) == before


# --- retry ----------------------------------------------------------------------


def test_nothing_to_retry(invoke, experiment):
    before = snapshot(experiment / "episodes")
    answer = invoke("retry", experiment)
    assert answer.exit_code == 0
    assert "nothing" in (answer.stdout + answer.stderr).lower()
    assert snapshot(experiment / "episodes") == before


def test_nothing_to_retry_for_machines(invoke, experiment):
    answer = invoke("retry", experiment, "--json")
    assert answer.exit_code == 0
    assert answer.json is not None


def cancel(directory: Path) -> None:
    edit(run_dir(directory, 1) / "status.json", state="CANCELLED")


def lose_process(directory: Path) -> None:
    pretend_running(directory, 1, pid=dead_pid())
    events = run_dir(directory, 1) / "events.jsonl"
    events.write_bytes(events.read_bytes()[:-20])
    for name in ("run_summary.json", "score.json", "episode_record.json"):
        (run_dir(directory, 1) / name).unlink()


def mark_stale(directory: Path) -> None:
    edit(run_dir(directory, 1) / "status.json", state="STALE")


@pytest.mark.parametrize("damage", [cancel, lose_process, mark_stale])
def test_retry_replays_runs_that_did_not_end(invoke, played, experiment, damage):
    damage(experiment)
    left_behind = rows_of(run_dir(experiment, 1))
    answer = invoke("retry", experiment, "--json")
    assert answer.exit_code == 0, answer.stderr
    assert all_completed(invoke, experiment)
    assert rows_of(run_dir(experiment, 1)) == rows_of(run_dir(played, 1))
    assert status_of(experiment, 1)["retries"] == 1
    (archived,) = archives(experiment, 1)
    assert rows_of(archived) == left_behind


def test_retry_takes_the_stall_timeout(invoke, experiment):
    """Silent for a minute on another machine: it may or may not be alive."""
    silent = datetime.now(UTC) - timedelta(seconds=60)
    heartbeat = silent.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    pretend_running(experiment, 1, host="elsewhere", heartbeat_utc=heartbeat)
    answer = invoke("retry", experiment)
    assert answer.exit_code == 1
    assert "seed 1: running in another process" in answer.stdout
    assert invoke("retry", experiment, "--stall-timeout", 30).exit_code == 0
    assert all_completed(invoke, experiment)


def test_retry_starts_queued_runs(invoke, played, experiment):
    shutil.rmtree(run_dir(experiment, 1))
    answer = invoke("retry", experiment)
    assert answer.exit_code == 0, answer.stderr
    assert all_completed(invoke, experiment)
    assert rows_of(run_dir(experiment, 1)) == rows_of(run_dir(played, 1))
    assert status_of(experiment, 1)["retries"] == 0
    assert archives(experiment, 1) == []


def test_retry_leaves_completed_runs_alone(invoke, experiment):
    cancel(experiment)
    before = [snapshot(run_dir(experiment, seed)) for seed in (0, 2)]
    assert invoke("retry", experiment).exit_code == 0
    assert [snapshot(run_dir(experiment, seed)) for seed in (0, 2)] == before
    assert [status_of(experiment, seed)["retries"] for seed in (0, 2)] == [0, 0]


def test_retry_plays_completed_runs_again_and_archives_them(invoke, experiment):
    runs = sorted((experiment / "episodes").iterdir())
    before = {run.name: (run / "events.jsonl").read_bytes() for run in runs}
    started = {run.name: read_json(run / "run_summary.json") for run in runs}
    answer = invoke("retry", experiment, "--completed", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert len(answer.json["runs"]) == len(runs)
    for run in runs:
        archived = experiment / "archive" / run.name / "0"
        assert read_json(archived / "run_summary.json") == started[run.name]
        for folder in (archived, run):
            assert (folder / "events.jsonl").read_bytes() == before[run.name]
        assert read_json(run / "status.json")["retries"] == 1
    assert (
        invoke("export", experiment, "--jsonl", experiment.parent / "l").exit_code == 0
    )


def test_retry_says_that_everything_is_complete(invoke, experiment):
    answer = invoke("retry", experiment)
    assert answer.exit_code == 0
    assert "already complete; `longplay retry --completed` plays" in answer.stdout


def test_retry_of_one_completed_run_leaves_the_others_alone(invoke, experiment):
    first, *others = sorted((experiment / "episodes").iterdir())
    before = {run: (run / "status.json").read_bytes() for run in others}
    assert invoke("retry", first, "--completed").exit_code == 0
    assert [p.name for p in (experiment / "archive").iterdir()] == [first.name]
    assert {run: (run / "status.json").read_bytes() for run in others} == before


def test_retry_keeps_the_plan_and_renews_the_summary(invoke, experiment):
    config = read(experiment / "experiment_config.json")
    shutil.rmtree(run_dir(experiment, 2))
    assert invoke("retry", experiment).exit_code == 0
    assert read(experiment / "experiment_config.json") == config
    runs = read(experiment / "experiment_summary.json")["runs"]
    assert [run["state"] for run in runs] == ["COMPLETED"] * 3
    record = read(experiment / "experiment_record.json")
    assert record["experiment_id"] == config["experiment_id"]


def test_moved_experiment_keeps_its_id(invoke, played, experiment):
    cancel(experiment)
    assert invoke("retry", experiment).exit_code == 0
    planned = read(played / "experiment_config.json")["experiment_id"]
    for name in ("experiment_config.json", "experiment_record.json"):
        assert read(experiment / name)["experiment_id"] == planned
    for seed in range(3):
        record = read(run_dir(experiment, seed) / "episode_record.json")
        assert record["experiment_id"] == planned


def test_agent_of_a_file_is_asked_for_again(invoke, failed, agent):
    repair(agent)
    before = snapshot(failed / "episodes")
    answer = invoke("retry", failed)
    assert answer.exit_code == 2
    assert "--agent" in answer.stderr
    assert snapshot(failed / "episodes") == before
    assert not archives(failed, 1)


def test_another_agent_is_refused(invoke, failed, agent):
    repair(agent)
    before = snapshot(failed / "episodes")
    other = agent.with_name("other_agent.py")
    other.write_text(agent.read_text())
    agent.write_text(agent.read_text() + "# edited\n")
    for reference in (other, agent, "random"):
        assert invoke("retry", failed, "--agent", reference).exit_code == 2
    assert snapshot(failed / "episodes") == before
    assert not archives(failed, 1)


def test_retry_of_a_failed_run(invoke, failed, agent):
    repair(agent)
    answer = invoke("retry", failed, "--agent", agent, "--json")
    assert answer.exit_code == 0, answer.stderr
    assert all_completed(invoke, failed)
    record = read(run_dir(failed, 1) / "episode_record.json")
    assert (record["error_type"], record["n_steps"]) == (None, 40)
    (archived,) = archives(failed, 1)
    assert read(archived / "status.json")["state"] == "FAILED"
    assert not (run_dir(failed, 1) / "agent_output.txt").exists()


def test_tries_are_counted(invoke, failed, agent):
    for n in (1, 2):
        assert invoke("retry", failed, "--agent", agent).exit_code == 1
        assert status_of(failed, 1)["state"] == "FAILED"
        assert status_of(failed, 1)["retries"] == n
        assert len(archives(failed, 1)) == n
    repair(agent)
    assert invoke("retry", failed, "--agent", agent).exit_code == 0
    assert status_of(failed, 1)["retries"] == 3
    tries = [read(path / "status.json")["retries"] for path in archives(failed, 1)]
    assert tries == [0, 1, 2]


def test_archived_tries_are_not_counted_by_readers(invoke, failed, agent, tmp_path):
    repair(agent)
    assert invoke("retry", failed, "--agent", agent).exit_code == 0
    assert len(invoke("status", failed, "--json").json) == 3
    assert len(invoke("validate", failed, "--json").json) == 3
    lines = tmp_path / "lines.jsonl"
    assert invoke("export", failed, "--jsonl", lines).exit_code == 0
    assert len(lines.read_text().splitlines()) == 3


def test_second_driver_is_refused(invoke, experiment):
    cancel(experiment)
    before = snapshot(experiment / "episodes")
    with FileLock(experiment / ".lock"):
        answer = invoke("retry", experiment)
    assert answer.exit_code == 2
    assert str(experiment) in re.sub(r"\s", "", answer.stderr)
    assert "Traceback" not in answer.stderr
    assert snapshot(experiment / "episodes") == before
    assert invoke("retry", experiment).exit_code == 0


def test_lock_hinders_no_reader(invoke, experiment):
    with FileLock(experiment / ".lock"):
        assert all_completed(invoke, experiment)
        assert invoke("show", experiment).exit_code == 0


def test_retry_refuses_a_folder_without_an_experiment(invoke, tmp_path):
    assert invoke("retry", tmp_path).exit_code == 2
    assert invoke("retry", tmp_path / "nowhere").exit_code == 2
    assert list(tmp_path.iterdir()) == []


# --- export ---------------------------------------------------------------------


def export(invoke, directory: Path, file: Path, *options: object) -> list[Any]:
    answer = invoke("export", directory, "--jsonl", file, *options)
    assert answer.exit_code == 0, answer.stderr
    return read_rows(file)


def test_export_of_runs(invoke, played, tmp_path):
    lines = export(invoke, played, tmp_path / "runs.jsonl")
    assert [line["seed"] for line in lines] == [0, 1, 2]
    agent_id = read(played / "experiment_config.json")["agent"]["agent_id"]
    for line in lines:
        record = read(run_dir(played, line["seed"]) / "episode_record.json")
        assert line == record
        assert line["agent_id"] == agent_id


def test_export_of_visits_adds_up(invoke, played, tmp_path):
    lines = export(invoke, played, tmp_path / "visits.jsonl", "--level", "visit")
    assert len(lines) == 3
    for line in lines:
        events = (run_dir(played, line["seed"]) / "events.jsonl").read_text()
        rewards = [json.loads(event)["reward"] for event in events.splitlines()]
        assert line["reward"] == pytest.approx(sum(rewards))
        assert line["n_steps"] == 40


def test_export_of_a_run_directory(invoke, played, tmp_path):
    (line,) = export(invoke, run_dir(played, 2), tmp_path / "run.jsonl")
    assert line["seed"] == 2


def test_export_of_a_failed_run(invoke, failed, tmp_path):
    lines = export(invoke, failed, tmp_path / "runs.jsonl")
    errors = [line["error_type"] for line in lines]
    assert errors == [None, "ValueError", None]


def test_export_with_a_description(invoke, experiment, tmp_path):
    agent = read(experiment / "experiment_record.json")["agent"]
    assert agent["description"] is None
    text = "a first try, “sticky”"
    export(invoke, experiment, tmp_path / "runs.jsonl", "--description", text)
    described = read(experiment / "experiment_record.json")["agent"]
    assert described == {**agent, "description": text}


def test_description_outlives_a_retry(invoke, experiment, tmp_path):
    export(invoke, experiment, tmp_path / "runs.jsonl", "--description", "mine")
    cancel(experiment)
    assert invoke("retry", experiment).exit_code == 0
    agent = read(experiment / "experiment_record.json")["agent"]
    assert agent["description"] == "mine"


def test_export_for_machines(invoke, played, tmp_path):
    answer = invoke("export", played, "--jsonl", tmp_path / "runs.jsonl", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert 3 in answer.json.values()


@pytest.mark.parametrize("target", ["run", "experiment"])
def test_export_never_overwrites_its_inputs(invoke, experiment, target):
    run = run_dir(experiment, 0)
    file = (
        run / "episodes.jsonl"
        if target == "run"
        else experiment / "experiment_config.json"
    )
    before = snapshot(experiment)
    answer = invoke("export", experiment, "--jsonl", file)
    assert answer.exit_code == 2
    assert "choose another" in answer.stderr
    assert snapshot(experiment) == before


def test_export_from_inside_a_run(invoke, played, tmp_path, monkeypatch):
    monkeypatch.chdir(run_dir(played, 1))
    (line,) = export(invoke, Path(), tmp_path / "run.jsonl")
    assert line["trajectory_id"] == run_dir(played, 1).name


def test_description_given_with_a_run(invoke, experiment, tmp_path):
    run = run_dir(experiment, 1)
    export(invoke, run, tmp_path / "run.jsonl", "--description", "guesses")
    record = read(experiment / "experiment_record.json")
    assert record["agent"]["description"] == "guesses"


def test_export_at_an_unknown_level(invoke, played, tmp_path):
    file = tmp_path / "runs.jsonl"
    answer = invoke("export", played, "--jsonl", file, "--level", "frame")
    assert answer.exit_code == 2
    assert not file.exists()


def test_export_of_a_folder_that_is_neither(invoke, tmp_path):
    file = tmp_path / "runs.jsonl"
    assert invoke("export", tmp_path, "--jsonl", file).exit_code == 2
    assert not file.exists()


# --- show -----------------------------------------------------------------------


def final_scores(directory: Path, *seeds: int) -> list[float]:
    paths = [run_dir(directory, seed) / "score.json" for seed in seeds]
    return [read(path)["final_score"] for path in paths]


def test_show_of_three_seeds(invoke, played):
    answer = invoke("show", played)
    assert answer.exit_code == 0
    for seed in range(3):
        assert re.search(rf"\b{seed}\b", answer.stdout)
    assert "mean" in answer.stdout
    assert "95" in answer.stdout
    assert "no interval" not in answer.stdout


def test_show_of_three_seeds_for_machines(invoke, played):
    shown = invoke("show", played, "--json").json
    assert [run["seed"] for run in shown["runs"]] == [0, 1, 2]
    aggregate, scores = shown["aggregate"], final_scores(played, 0, 1, 2)
    assert aggregate["n"] == 3
    assert aggregate["mean"] == pytest.approx(statistics.fmean(scores))
    # Student's t with two degrees of freedom.
    half_width = 4.30265273 * statistics.stdev(scores) / math.sqrt(3)
    assert aggregate["low"] == pytest.approx(aggregate["mean"] - half_width)
    assert aggregate["high"] == pytest.approx(aggregate["mean"] + half_width)
    assert aggregate["method"] == "t"
    assert invoke("show", played, "--json").json == shown


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_two_completed_seeds_have_no_interval(invoke, failed, options):
    answer = invoke("show", failed, *options)
    assert answer.exit_code == 0
    if not options:
        assert "no interval" in answer.stdout
        return
    aggregate = answer.json["aggregate"]
    mean = statistics.fmean(final_scores(failed, 0, 2))
    assert (aggregate["n"], aggregate["mean"]) == (2, pytest.approx(mean))
    assert (aggregate["low"], aggregate["high"]) == (None, None)
    assert [run["seed"] for run in answer.json["runs"]] == [0, 1, 2]


def test_no_completed_seed_has_no_mean(invoke, experiment):
    for seed in range(3):
        edit(run_dir(experiment, seed) / "status.json", state="CANCELLED")
        (run_dir(experiment, seed) / "score.json").unlink()
    aggregate = invoke("show", experiment, "--json").json["aggregate"]
    assert (aggregate["n"], aggregate["mean"]) == (0, None)
    assert "no mean: no run is complete" in invoke("show", experiment).stdout


def test_show_of_one_run_of_several(invoke, played):
    shown = invoke("show", run_dir(played, 1), "--json").json
    assert "aggregate" not in shown
