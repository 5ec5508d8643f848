"""The commands as a user types them."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

from longplay.cli.app import app
from longplay.cli.catalogue import reference_app

SHORT = (
    *("--set", "base_visit_frames=40"),
    *("--set", "jitter_pct=0"),
    *("--set", "num_cycles=1"),
)

SLOW_AGENT = """
import time

class Agent:
    def __init__(self, num_actions, seed):
        pass

    def step(self, obs_rgb, reward, terminated, truncated, info):
        if info["global_frame_idx"] == 5:
            time.sleep(0.5)
        return 0
"""


@pytest.fixture
def experiment_dir(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run's whole experiment."""
    return Path(shutil.copytree(finished_run.parent.parent, tmp_path / "experiment"))


@pytest.fixture(params=["experiment", "run"])
def directory(request: pytest.FixtureRequest, experiment_dir: Path) -> Path:
    """DIR may be either."""
    if request.param == "experiment":
        return experiment_dir
    (run_dir,) = (experiment_dir / "episodes").iterdir()
    return run_dir


def list_files(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


# --- the program ----------------------------------------------------------------


def test_version(invoke):
    answer = invoke("--version")
    assert answer.exit_code == 0
    assert answer.stdout == f"longplay {version('longplay')}\n"


def test_version_of_the_module(spawn):
    assert spawn("--version").stdout == f"longplay {version('longplay')}\n"


HELP_PAGES = [
    [],
    ["reference"],
    *([command.name] for command in app.registered_commands),
    *(["reference", command.name] for command in reference_app.registered_commands),
]


@pytest.mark.parametrize("command", HELP_PAGES, ids=" ".join)
def test_help_shows_flags_without_a_type(invoke, command):
    answer = invoke(*command, "--help")
    assert answer.exit_code == 0
    assert "--help" in answer.stdout
    assert "<bool>" not in answer.stdout


def test_help_names_every_command(invoke):
    answer = invoke("--help")
    assert answer.exit_code == 0
    for name in "run validate score show suites games agents check-agent".split():
        assert re.search(rf"\b{name}\b", answer.stdout), name


def test_unknown_command_is_a_usage_error(invoke):
    answer = invoke("rnu")
    assert answer.exit_code == 2
    assert "rnu" in answer.stderr


# --- catalogues -----------------------------------------------------------------

SUITE_FRAMES = {
    "stream-smoke-v1": (11_400, 12_600),
    "stream-3x2-v1": (1_116_000, 1_284_000),
    "stream-8x3-v1": (4_464_000, 5_136_000),
    "stream-8x3-1m-v1": (24_000_000, 24_000_000),
}


def test_suites_for_machines(invoke):
    rows = {row["suite"]: row for row in invoke("suites", "--json").json}
    assert set(SUITE_FRAMES) <= set(rows)
    for suite, (least, most) in SUITE_FRAMES.items():
        row = rows[suite]
        assert least <= row["frames"] <= most
        assert row["expected_seconds"] > 0
        assert row["expected_bytes"] > 200 * row["frames"]
        assert row["settings"]["sticky"] == 0.25


def test_suites_for_people(invoke):
    answer = invoke("suites")
    assert answer.exit_code == 0
    for suite in SUITE_FRAMES:
        assert suite in answer.stdout
    assert "24,000,000" in answer.stdout


def test_games_for_machines(invoke):
    rows = {row["game"]: row for row in invoke("games", "--json").json}
    playable = [game for game, row in rows.items() if row["playable"]]
    refused = [game for game, row in rows.items() if not row["playable"]]
    # 104 single-player games, 13 of them with frames of another height, and 4 more.
    assert (len(playable), len(refused)) == (91, 17)
    assert set(SUITE_FRAMES) <= set(rows["qbert"]["suites"])
    assert "two players" in rows["warlords"]["reason"]
    assert "250" in rows["pacman"]["reason"]


def test_games_for_people(invoke):
    answer = invoke("games")
    assert answer.exit_code == 0
    assert "battle_zone" in answer.stdout
    assert "joust" in answer.stdout


def test_agents_for_machines(invoke):
    rows = {row["agent"]: row for row in invoke("agents", "--json").json}
    assert {"random", "repeat", "noop"} <= set(rows)
    for name in ("random", "repeat", "noop"):
        assert rows[name]["location"].startswith(f"longplay.agents.{name}:")
        assert rows[name]["summary"]


def test_agents_for_people(invoke):
    answer = invoke("agents")
    assert answer.exit_code == 0
    for name in ("random", "repeat", "noop"):
        assert name in answer.stdout


# --- dry runs -------------------------------------------------------------------


def test_dry_run_of_the_benchmark_agrees_with_the_contract(invoke):
    answer = invoke("run", "stream-8x3-v1", "--dry-run", "--json")
    assert answer.exit_code == 0
    schedule = answer.json["schedule"]
    assert [visit["visit_idx"] for visit in schedule] == list(range(24))
    assert [visit["cycle_idx"] for visit in schedule] == [i // 8 for i in range(24)]
    for cycle in range(3):
        games = [v["game_id"] for v in schedule if v["cycle_idx"] == cycle]
        assert Counter(games) == Counter(answer.json["games"])
    assert len(answer.json["games"]) == 8
    lengths = [visit["visit_frames"] for visit in schedule]
    assert all(186_000 <= frames <= 214_000 for frames in lengths)
    assert len(set(lengths)) > 12
    assert answer.json["frames"] == sum(lengths)
    for visit in schedule:
        assert list(visit) == ["visit_idx", "cycle_idx", "game_id", "visit_frames"]


def test_dry_run_names_hash_task_size_and_time(invoke):
    plan = invoke("run", "stream-smoke-v1", "--dry-run", "--json").json
    assert re.fullmatch("[0-9a-f]{64}", plan["benchmark_contract_hash"])
    assert plan["task_id"] == "stream-smoke-v1/seed-1000"
    assert plan["expected_bytes"] > 200 * plan["frames"]
    assert plan["expected_seconds"] > 0


def test_dry_run_prints_the_plan_that_is_run(invoke, finished_run):
    settings = ("--set", "base_visit_frames=700", "--set", "jitter_pct=0.1")
    options = ("--seed", "0", "--dry-run", "--json")
    plan = invoke("run", "stream-smoke-v1", *options, *settings).json
    config = json.loads((finished_run / "config.json").read_bytes())
    for name in ("schedule", "benchmark_contract_hash", "emulator_seeds", "suite"):
        assert plan[name] == config[name]


@pytest.mark.parametrize("option", [(), ("--json",)])
@pytest.mark.parametrize("agent", [(), ("--agent", "random")])
def test_dry_run_writes_nothing(invoke, tmp_path, monkeypatch, option, agent):
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "out"
    answer = invoke(
        "run", "stream-smoke-v1", *agent, "--out", out, "--dry-run", *option
    )
    assert answer.exit_code == 0
    assert list_files(tmp_path) == []


# Two agent files: one that cannot be built, one that cannot be imported.
UNBUILT = """
def init(observation_shape, num_actions, seed):
    return missing


def step(state, previous_observation, observation, reward):
    return state, 0
"""
UNLOADED = "import a_module_that_is_not_there"


@pytest.mark.parametrize(
    ("agent", "message"),
    [
        (("--agent", "randm"), "did you mean"),
        (("--agent", "nowhere.py"), "no such file"),
        (("--agent", "unbuilt.py"), "NameError"),
        (("--agent", "unloaded.py"), "a_module_that_is_not_there"),
        (("--agent", "random", "--agent-arg", "epsilon=1"), "epsilon"),
        (("--agent", "random", "--agent-arg", "api_key=1"), "api_key"),
        (("--agent", "random", "--out", "taken"), "taken exists already"),
    ],
)
def test_dry_run_refuses_what_the_run_refuses(
    invoke, tmp_path, monkeypatch, agent, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "unbuilt.py").write_text(UNBUILT)
    (tmp_path / "unloaded.py").write_text(UNLOADED)
    (tmp_path / "taken").mkdir()
    dry, real = (
        invoke("run", "stream-smoke-v1", *agent, *option)
        for option in (("--dry-run",), ())
    )
    assert dry.exit_code == real.exit_code == 2
    assert message in dry.stderr
    assert dry.stderr == real.stderr
    assert dry.stdout == ""
    found = {path.name for path in list_files(tmp_path)}
    assert found == {"unbuilt.py", "unloaded.py", "taken"}


def test_dry_run_for_people(invoke):
    answer = invoke("run", "stream-smoke-v1", "--dry-run", "--seed", "7")
    text = " ".join(answer.stdout.split())
    plan = invoke("run", "stream-smoke-v1", "--dry-run", "--seed", "7", "--json").json
    assert f"{plan['frames']:,}" in text
    assert plan["benchmark_contract_hash"][:16] in text
    for visit in plan["schedule"]:
        assert f"{visit['visit_frames']:,}" in text
    assert "nothing was written" in text


def test_settings_reach_the_plan(invoke):
    plan = invoke(
        *("run", "stream-smoke-v1", "--dry-run", "--json"),
        *("--set", 'games=["qbert"]', "--set", "delay=0"),
        *("--set", "scoring_defaults.window_frames=9"),
    ).json
    assert {visit["game_id"] for visit in plan["schedule"]} == {"qbert"}
    assert plan["delay"] == 0
    assert plan["scoring_defaults"]["window_frames"] == 9
    assert re.fullmatch(r"stream-smoke-v1\+[0-9a-f]{8}", plan["suite"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("settings.toml", "delay = 0\n[scoring_defaults]\nwindow_frames = 9\n"),
        ("settings.json", '{"delay": 0, "scoring_defaults": {"window_frames": 9}}'),
    ],
)
def test_config_file_reaches_the_plan(invoke, tmp_path, name, text):
    (tmp_path / name).write_text(text)
    plan = invoke(
        *("run", "stream-smoke-v1", "--dry-run", "--json"),
        *("--config", tmp_path / name, "--set", "delay=1"),
    ).json
    assert plan["delay"] == 1  # --set is the last word
    assert plan["scoring_defaults"]["window_frames"] == 9


# --- run ------------------------------------------------------------------------


def test_run_for_machines(invoke, tmp_path):
    out = tmp_path / "out"
    answer = invoke(
        *("run", "stream-smoke-v1", "--agent", "noop", "--out", out, *SHORT),
        *("--quiet", "--json"),
    )
    assert answer.exit_code == 0
    assert answer.stderr == ""
    assert answer.json["experiment_dir"] == str(out)
    (run,) = answer.json["runs"]
    run_dir = Path(run["run_dir"])
    assert run_dir.parent == out / "episodes"
    assert run["validation"]["valid"] is True
    assert run["score"] == json.loads((run_dir / "score.json").read_bytes())
    assert run["score"]["frames"] == 120


def test_run_for_people(invoke, tmp_path):
    answer = invoke(
        *("run", "stream-smoke-v1", "--agent", "noop", "--quiet", *SHORT),
        *("--out", tmp_path / "out"),
    )
    assert answer.exit_code == 0
    assert "final score" in answer.stdout
    assert "valid: 120 rows checked" in answer.stdout


def test_run_makes_a_folder_of_its_own(invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = invoke(
        "run", "stream-smoke-v1", "--agent", "noop", "--quiet", "--json", *SHORT
    )
    assert answer.exit_code == 0
    (experiment,) = (tmp_path / "runs").iterdir()
    assert re.fullmatch(
        r"\d{8}T\d{6}Z_stream-smoke-v1\+[0-9a-f]{8}_noop_[0-9a-f]{8}", experiment.name
    )
    assert (experiment / "experiment_config.json").is_file()
    (run_dir,) = (experiment / "episodes").iterdir()
    assert re.fullmatch(r"stream-smoke-v1\+[0-9a-f]{8}_seed-1000", run_dir.name)


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("seed", "line"),
    [
        ((), "no seed was given: playing tuning seed 1000"),
        (("--seeds", "0,7,1"), "0, 1 are official seeds of control-smoke-v1"),
        (("--seed", "2"), "2 is an official seed of control-smoke-v1: the score is a"),
        (("--seed", "1001"), ""),
        (("--seed", "0", "--set", "base_visit_frames=400"), ""),
        (("--seed", "0", "--quiet"), ""),
    ],
)
def test_a_line_says_what_the_seed_means(invoke, tmp_path, seed, line):
    answer = invoke(
        *("run", "control-smoke-v1", "--agent", "noop", "--out", tmp_path / "e", *seed)
    )
    assert answer.exit_code == 0, answer.stderr
    told = [text for text in answer.stderr.splitlines() if "official" in text]
    assert len(told) == bool(line)
    assert line in "".join(told)


def test_a_dry_run_says_what_the_seeds_mean(invoke):
    run = ("run", "control-smoke-v1", "--agent", "noop", "--dry-run")
    line = "0, 1 are official seeds of control-smoke-v1: the score is a result"
    assert line in invoke(*run, "--seeds", "0-1").stdout.replace("\n", " ")
    assert "playing tuning seed 1000" in invoke(*run).stdout
    assert "official" not in invoke(*run, "--seed", "1001").stdout


@pytest.fixture
def slow_agent(tmp_path: Path) -> Path:
    path = tmp_path / "slow_agent.py"
    path.write_text(SLOW_AGENT)
    return path


PROGRESS = re.compile(
    r"(centipede|ms_pacman|qbert) · visit \d/3 · cycle 0 · frame \d+/120 · "
    r"last return (–|[-\d.]+) · [\d,]+ fps"
)


def test_progress_is_plain_lines_off_a_terminal(spawn, slow_agent, tmp_path):
    answer = spawn(
        *("run", "stream-smoke-v1", "--agent", slow_agent, "--out", tmp_path / "out"),
        *("--json", "--seed", "1000", *SHORT),
    )
    assert answer.exit_code == 0
    assert answer.json["runs"][0]["score"]["frames"] == 120  # progress is not on stdout
    lines = answer.stderr.splitlines()
    assert lines
    for line in lines:
        assert PROGRESS.match(line), line
    assert "\x1b" not in answer.stderr


def test_no_progress_when_quiet(spawn, slow_agent, tmp_path):
    answer = spawn(
        *("run", "stream-smoke-v1", "--agent", slow_agent, "--out", tmp_path / "out"),
        *("--json", "--quiet", *SHORT),
    )
    assert answer.exit_code == 0
    assert answer.stderr == ""


# --- reading --------------------------------------------------------------------


def test_validate_for_machines(invoke, directory, finished_run):
    answer = invoke("validate", directory, "--json")
    assert answer.exit_code == 0
    report = answer.json
    assert report["valid"] is True
    assert report["counts"] == {}
    frames = (finished_run / "events.jsonl").read_bytes().count(b"\n")
    assert report["frames"] == frames


def test_validate_for_people(invoke, directory):
    answer = invoke("validate", directory)
    assert answer.exit_code == 0
    assert "✓ valid" in answer.stdout


def test_validate_finds_and_exits_with_one(invoke, experiment_dir):
    (run_dir,) = (experiment_dir / "episodes").iterdir()
    events = (run_dir / "events.jsonl").read_text()
    (run_dir / "events.jsonl").write_text(
        events.replace('"reward":0.0', '"reward":1.0')
    )
    answer = invoke("validate", experiment_dir)
    assert answer.exit_code == 1
    assert "✗ not valid" in answer.stdout
    report = invoke("validate", experiment_dir, "--json").json
    assert report["valid"] is False
    assert sum(report["counts"].values()) >= len(report["findings"]) > 0


def test_score_for_machines(invoke, directory, finished_run):
    answer = invoke("score", directory, "--json")
    assert answer.exit_code == 0
    assert answer.json == json.loads((finished_run / "score.json").read_bytes())


def test_score_writes_the_same_bytes_again(invoke, directory, finished_run):
    for path in directory.rglob("score.json"):
        path.unlink()
    assert invoke("score", directory).exit_code == 0
    (written,) = directory.rglob("score.json")
    assert written.read_bytes() == (finished_run / "score.json").read_bytes()


def test_show_for_machines(invoke, directory, finished_run):
    answer = invoke("show", directory, "--json")
    assert answer.exit_code == 0
    run = answer.json
    for key, name in (
        ("config", "config.json"),
        ("score", "score.json"),
        ("summary", "run_summary.json"),
        ("status", "status.json"),
    ):
        written = json.loads((finished_run / name).read_bytes())
        assert {k: run[key][k] for k in written} == written


def test_show_for_people(invoke, directory, finished_run):
    answer = invoke("show", directory)
    assert answer.exit_code == 0
    config = json.loads((finished_run / "config.json").read_bytes())
    text = "".join(answer.stdout.split())
    for word in ("forgetting", "plasticity", "episodes", "random", "COMPLETED"):
        assert word in text, word
    assert config["benchmark_contract_hash"] in text
    for visit in config["schedule"]:
        assert f"{visit['visit_frames']:,}" in text


def test_show_of_a_run_under_way(invoke, experiment_dir, finished_run):
    (run_dir,) = (experiment_dir / "episodes").iterdir()
    for name in ("run_summary.json", "score.json"):
        (run_dir / name).unlink()
    config = json.loads((run_dir / "config.json").read_text())
    first, second, third, *_ = (v["visit_frames"] for v in config["schedule"])
    status = json.loads((run_dir / "status.json").read_text())
    status |= {"state": "RUNNING", "frame": first + 100}
    (run_dir / "status.json").write_text(json.dumps(status))
    shown = " ".join(invoke("show", experiment_dir).stdout.split())
    games = [visit["game_id"] for visit in config["schedule"]]
    assert f"0 0 {games[0]} {first:,} – – – –" in shown
    assert f"1 0 {games[1]} 100/{second:,} – – – –" in shown
    assert f"2 0 {games[2]} 0/{third:,} " in shown


def test_show_of_a_run_without_a_score(invoke, experiment_dir):
    for path in experiment_dir.rglob("score.json"):
        path.unlink()
    answer = invoke("show", experiment_dir)
    assert answer.exit_code == 0
    assert "not scored" in answer.stdout
    assert invoke("show", experiment_dir, "--json").json["score"] is None


READING = ("validate", "score", "show")


@pytest.mark.parametrize("command", READING)
def test_folder_without_a_run_is_a_usage_error(invoke, tmp_path, command):
    answer = invoke(command, tmp_path)
    assert answer.exit_code == 2
    assert "expected a run directory" in answer.stderr
    assert answer.stdout == ""


@pytest.mark.parametrize("command", READING)
def test_errors_are_json_too(invoke, tmp_path, command):
    answer = invoke(command, tmp_path / "nowhere", "--json")
    assert answer.exit_code == 2
    assert answer.json["error"]["type"] == "NotARunError"
    assert "no such folder" in answer.json["error"]["message"]


@pytest.mark.parametrize("command", READING)
def test_reading_needs_a_folder(invoke, command):
    answer = invoke(command)
    assert answer.exit_code == 2
    assert "DIR" in answer.stderr


@pytest.mark.parametrize("command", ["validate", "show"])
def test_validate_and_show_write_nothing(invoke, experiment_dir, command):
    before = {p: p.read_bytes() for p in list_files(experiment_dir) if p.is_file()}
    invoke(command, experiment_dir)
    after = {p: p.read_bytes() for p in list_files(experiment_dir) if p.is_file()}
    assert after == before
