"""`longplay compare`: what it prints, writes and refuses."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import longplay
from generated_runs import make_status, write
from longplay.contract.files import read_document
from longplay.lab.analysis.records import Comparison
from longplay.verify.pack import pack_run
from made_up_anchors import make_anchors, make_game
from written_runs import make_config, name_short_suite, write_run


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LONGPLAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    return tmp_path / "cache"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Two agents with three seeds; beta is a point behind, and a run of it failed."""
    for name, reward in (("alpha", 3.0), ("beta", 2.0)):
        for seed in range(3):
            rewards = np.full(360, reward + 0.1 * seed)
            run_dir = tmp_path / "runs" / name / str(seed)
            write_run(run_dir, make_config(seed=seed, agent=name), rewards)
    failed = tmp_path / "runs/beta/2/status.json"
    write(failed, make_status("FAILED", "Oops"))
    return tmp_path / "runs"


def test_table_for_people(invoke, runs):
    answer = invoke("compare", runs, "--games")
    assert answer.exit_code == 0
    assert max(map(len, answer.stdout.splitlines())) <= 80
    words = " ".join(answer.stdout.split())
    assert "alpha 3 3.10 ±0.25" in words
    assert "beta 2/3, 1 errored 2.05" in words
    assert "beta: 1 errored (seed 2); not in the means" in words
    assert "no z: anchors-2 has no anchors for stream-smoke-v1+" in words
    assert "stream-smoke-v1 with base_visit_frames = 60, jitter_pct = 0.0" in words
    assert "qbert alpha 3.10" in words


def test_json_for_machines(invoke, runs):
    answer = invoke("compare", runs, "--json", "--versus", "beta")
    (suite,) = answer.json["suites"]
    assert suite["versus"] == "beta"
    assert suite["agents"][0]["difference"]["mean"] == pytest.approx(1.0)
    assert answer.json["left_out"][0]["kind"] == "errored"


def test_files(invoke, runs, tmp_path):
    files = [tmp_path / name for name in ("a.csv", "a.tex", "analysis.json")]
    options = ("--csv", files[0], "--latex", files[1], "-o", files[2])
    assert invoke("compare", runs, *options).exit_code == 0
    rows = list(csv.DictReader(files[0].read_text().splitlines()))
    assert {row["agent"] for row in rows} == {"alpha", "beta"}
    assert r"\toprule" in files[1].read_text()
    comparison = read_document(files[2], Comparison)
    assert comparison.suites[0].agents[0].label == "alpha"


def test_chosen_columns(invoke, runs, tmp_path):
    latex = tmp_path / "a.tex"
    answer = invoke("compare", runs, "--metrics", "improvement, runs", "--latex", latex)
    assert answer.exit_code == 0
    assert "agent P(better) runs" in " ".join(answer.stdout.split())
    assert r"agent & $P$(better) & runs \\" in latex.read_text()
    answer = invoke("compare", runs, "--metrics", "speed")
    assert answer.exit_code == 2
    assert "'speed'" in answer.stderr


def test_figures_of_some_agents_and_games(invoke, runs, tmp_path):
    styles = tmp_path / "styles.toml"
    styles.write_text('[beta]\ncolour = "#123456"')
    figure, data = tmp_path / "figure.svg", tmp_path / "figure.csv"
    options = ("--agents", "beta", "--games", "qbert,centipede", "--bins", "5")
    files = ("--styles", styles, "-o", figure, "--csv", data)
    assert invoke("plot", runs, *options, "--smooth", "1", *files).exit_code == 0
    rows = list(csv.DictReader(data.read_text().splitlines()))
    assert {row["series"] for row in rows} == {"beta"}
    assert {row["panel"] for row in rows} == {"centipede", "qbert"}
    assert len(rows) == 2 * 2 * 5
    assert "#123456" in figure.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--bins", "7"), "--bins: expected a divisor of 60"),
        (("--agents", "gamma"), "unknown agent among the runs 'gamma'"),
        (("--games", "pong"), "unknown game of the suite 'pong'"),
        (
            ("--kind", "average", "--games", "qbert"),
            "--games: a figure of kind average is about all games of the suite",
        ),
        (("--games", "0"), "--games: expected 1 or more, found 0"),
        (("--kind", "lifetime"), "--kind lifetime: nothing to draw: anchors-2 has no"),
    ],
)
def test_figures_that_make_no_sense(invoke, runs, tmp_path, options, message):
    answer = invoke("plot", runs, "-o", tmp_path / "figure.pdf", *options)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
    assert not (tmp_path / "figure.pdf").exists()


def test_same_runs_give_the_same_bytes_wherever_they_lie(invoke, runs, tmp_path):
    first = invoke("compare", runs, "--json").json
    moved = runs.rename(tmp_path / "elsewhere")
    second = invoke("compare", moved, "--json").json
    assert first["suites"] == second["suites"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--suite", "control-v1"), "unknown suite among the runs 'control-v1'"),
        (("--versus", "betta"), "did you mean 'beta'?"),
    ],
)
def test_requests_that_make_no_sense(invoke, runs, options, message):
    answer = invoke("compare", runs, *options)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())


def test_nothing_to_compare(invoke, tmp_path, runs):
    assert invoke("compare", tmp_path / "nowhere").exit_code == 2
    answer = invoke("compare", runs / "beta" / "2")
    assert answer.exit_code == 2
    assert "expected at least one complete run, found none" in answer.stderr
    assert "FAILED: it broke" in answer.stderr


def test_broken_run_is_reported_and_the_others_are_compared(invoke, runs):
    (runs / "alpha/0/config.json").write_text("{")
    answer = invoke("compare", runs)
    assert answer.exit_code == 0
    assert "left out" in answer.stdout
    assert "config.json: not readable as JSON" in " ".join(answer.stdout.split())


def test_packs_are_compared_by_their_documents(invoke, finished_run, tmp_path):
    pack = tmp_path / "run.longplay"
    assert invoke("pack", finished_run, "-o", pack).exit_code == 0
    found = invoke("compare", pack, "--json").json["suites"][0]["agents"][0]
    score = longplay.read_run(finished_run).score
    assert found["numbers"]["headline"]["mean"] == pytest.approx(score.final_score)
    # The same run packed and not is one run.
    both = invoke("compare", pack, finished_run, "--json").json
    assert both["suites"][0]["agents"][0]["seeds"] == [0]


def test_damaged_pack_is_left_out(invoke, runs, tmp_path):
    (runs / "bad.longplay").write_bytes(b"not a pack")
    answer = invoke("compare", runs, "--json")
    assert answer.exit_code == 0
    kinds = {left["kind"] for left in answer.json["left_out"]}
    assert kinds == {"errored", "unreadable"}


def test_all_numbers_are_there_from_packs_alone(finished_run, tmp_path):
    """Without cache, emulator and DuckDB, as on a machine that only reads."""
    pack = tmp_path / "pack" / "one.longplay"
    pack.parent.mkdir()
    pack_run(finished_run, pack)
    assert pack.stat().st_size < 16_000
    code = """
import sys
for name in ("ale_py", "duckdb", "torch", "ray"):
    sys.modules[name] = None
from pathlib import Path
from longplay.lab.analysis.runs import RunReader
from longplay.lab.report.site.verdicts import open_pack
(run,) = RunReader(open_pack).read([Path(sys.argv[1])]).runs
print(run.measure())
"""
    answers = []
    for path in (pack, finished_run):
        command = [sys.executable, "-c", code, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        answers.append(done.stdout)
    assert answers[0] == answers[1]
    assert "retention" in answers[0]
    assert "nan" not in answers[0]


def test_output_is_json_even_for_errors(invoke, tmp_path):
    answer = invoke("compare", tmp_path, "--json")
    assert json.loads(answer.stdout)["error"]["type"] == "NotARunError"


# --- leaderboard ----------------------------------------------------------------


def test_refused_runs_are_printed_and_counted(invoke, runs, tmp_path):
    (runs / "bad.longplay").write_bytes(b"not a pack")
    answer = invoke("leaderboard", runs / "alpha", "-o", tmp_path / "one")
    assert answer.exit_code == 0
    lines = answer.stdout.splitlines()
    assert sum(line.startswith("refused: ") for line in lines) == 3
    assert "3 runs refused" in lines
    answer = invoke("leaderboard", runs, "-o", tmp_path / "two", "--strict")
    assert answer.exit_code == 1
    words = " ".join(answer.stdout.split())
    assert "refused: bad.longplay: unreadable: bad.longplay is not a" in words
    assert "refused: beta/2: errored: FAILED: it broke" in words
    assert (tmp_path / "two/index.html").exists()


def test_strict_board_without_refusals(invoke, tmp_path):
    config = make_config("control-smoke-v1", 0, {})
    write_run(tmp_path / "in/0", config, np.full(config.total_frames, 1.0))
    command = ("leaderboard", tmp_path / "in", "--strict")
    answer = invoke(*command, "-o", tmp_path / "site")
    assert answer.exit_code == 0
    assert "0 runs refused" in answer.stdout
    assert invoke(*command, "-o", tmp_path / "json", "--json").json["refused"] == []


def test_verdicts_that_came_with_the_packs_are_refused(invoke, runs, monkeypatch):
    """A committed cache would say what it likes."""
    site = runs.parent / "site"
    (runs / "cache/verdicts").mkdir(parents=True)
    monkeypatch.setenv("LONGPLAY_CACHE", str(runs / "cache"))
    options = ((), ("--verify",), ("--verdicts", runs / "cache/verdicts"))
    for given in options:
        answer = invoke("leaderboard", runs, "-o", site, *given)
        assert answer.exit_code == 2
        assert "expected verdicts outside of" in " ".join(answer.stderr.split())
        assert not site.exists()


# --- show -----------------------------------------------------------------------


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """Three seeds of one agent, as an experiment."""
    folder = tmp_path / "experiment"
    for seed in range(3):
        config = make_config(seed=seed, agent="alpha")
        run_dir = folder / "episodes" / f"{config.suite}_seed-{seed}"
        write_run(run_dir, config, np.full(360, 2.0 + 0.1 * seed))
    config = make_config(agent="alpha")
    plan = {
        "experiment_id": "0123456789abcdef",
        "experiment_name": "alpha",
        "suite": name_short_suite(),
        "seeds": [0, 1, 2],
        "n_tasks": 3,
        "config_given": config.config_given.model_dump(mode="json"),
        "agent": config.agent.model_dump(mode="json"),
    }
    write(folder / "experiment_config.json", plan)
    return folder


def test_show_has_every_game_over_seeds(invoke, experiment):
    answer = invoke("show", experiment)
    assert answer.exit_code == 0, answer.stderr
    words = " ".join(answer.stdout.split())
    assert (
        "final score: 2.1, mean of 3 seeds, 95 % interval 1.8516 … 2.3484 (t)" in words
    )
    assert "qbert 2.10 ±0.25" in words
    assert "average" not in words  # there are no anchors


def test_show_has_normalised_numbers_where_there_are_anchors(
    invoke, experiment, monkeypatch
):
    games = dict.fromkeys(("centipede", "ms_pacman", "qbert"), make_game())
    anchors = make_anchors(name_short_suite(), **games)
    monkeypatch.setattr(
        "longplay.lab.report.comparing.shipped_anchors", lambda: anchors
    )
    words = " ".join(invoke("show", experiment).stdout.split())
    assert "alpha 3 2.10 ±0.25 0.55 ±0.12" in words
    assert "retention" in words


def test_show_says_when_windows_coincide(invoke, experiment):
    run_dir = next((experiment / "episodes").iterdir())
    words = " ".join(invoke("show", run_dir).stdout.split())
    assert "windows of 200 frames cover whole visits: no plasticity" in words


def test_show_has_the_forgetting_of_the_random_agent(invoke, tmp_path):
    config = make_config("stream-smoke-v1", 0, {}, "alpha")
    run_dir = write_run(tmp_path / "run", config, [0.5] * config.total_frames)
    words = " ".join(invoke("show", run_dir).stdout.split())
    # Means of 0.358, -0.198 and 0.06; of 0.322, -0.058 and 0.057.
    assert "the random agent's forgetting: 0.0736, plasticity: 0.107" in words
    assert "windows of" not in words


@pytest.mark.exhaustive
def test_tuning_is_declared_and_survives_packing(invoke, tmp_path):
    out, pack = tmp_path / "out", tmp_path / "run.longplay"
    start = ("run", "control-smoke-v1", "--agent", "random", "--out", out)
    start += ("--set", "base_visit_frames=50", "--quiet", "--resume")
    assert invoke(*start, "--tuning-frames", 5000).exit_code == 0
    answer = invoke(*start, "--tuning-frames", 6000)
    assert answer.exit_code == 2
    assert "was started with 5000, found 6000" in answer.stderr.replace("\n", " ")
    (run_dir,) = (out / "episodes").iterdir()
    assert invoke("pack", run_dir, "-o", pack).exit_code == 0
    for path in (out, pack):
        (suite,) = invoke("compare", path, "--json").json["suites"]
        assert [agent["tuning_frames"] for agent in suite["agents"]] == [5000]
