"""Studies: planned, tuned, played, stopped and continued."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import paying_console
import pytest

import longplay
from longplay.contract.layout import find_run_groups
from longplay.contract.rundir import RunDirectory
from longplay.errors import (
    AgentError,
    ConfigError,
    DocumentError,
    LongplayError,
    OutputError,
    RunPreempted,
)
from longplay.experiments.experiment import Experiment
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.runs import RunReader, key_of_run
from longplay.lab.studies import study as study_module
from longplay.lab.studies.directory import read_study
from longplay.lab.studies.study import (
    Shard,
    Study,
    StudyResult,
    play_here,
)
from made_up_anchors import NO_ANCHORS

ROWS = ("events.jsonl", "episodes.jsonl", "segments.jsonl", "digests.jsonl")


def play(path: Path, out: Path, shard: str = "1/1") -> StudyResult:
    return Study.from_file(path, out).run(play_here(), Shard.parse(shard))


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def change(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    return path


@pytest.fixture(scope="module")
def played(paying_suite: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study, its agent and its directory `out`. Not to be changed."""
    folder = tmp_path_factory.mktemp("played")
    (folder / "button.py").write_text(paying_console.AGENT)
    (folder / "study.toml").write_text(paying_console.STUDY)
    result = play(folder / "study.toml", folder / "out")
    assert len(result.results) == 3 * 2 + 2 * 2
    assert not result.is_failed
    return folder


@pytest.fixture
def copied(played: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(played, tmp_path / "copied"))


def run_dirs(out: Path) -> dict[str, Path]:
    """`<part>/<agent>/<arguments>/<seed>` -> run directory."""
    found = {}
    for status in sorted(out.glob("*/*/episodes/*/status.json")):
        request = read(status.parent / "episode_config.json")
        args = request["agent"]["config"]["args"]
        part, cell = status.relative_to(out).parts[:2]
        agent = cell.partition("_")[0]
        name = f"{part}/{agent}/{args.get('action', '')}/{request['seed']}"
        found[name] = status.parent
    return found


# --- the plan ----------------------------------------------------------------------


def test_the_plan_lists_every_cell(study_file, tmp_path):
    plan = Study.from_file(study_file, tmp_path / "out").plan
    assert [(c.agent, c.seeds, len(c.candidates)) for c in plan.cells] == [
        ("random", (0, 1), 0),
        ("button", (0, 1), 3),
    ]
    assert [(c.args, c.seeds) for c in plan.tuning_cells] == [
        ({"action": action}, (1000, 1001)) for action in (3, 5, 7)
    ]
    folders = [cell.folder for cell in plan.all_cells]
    assert len(set(folders)) == 5
    for folder in folders:
        assert re.fullmatch(
            r"(cells|tuning)/(random|button)_paying-v1_[0-9a-f]{8}", folder
        )
    assert not (tmp_path / "out").exists()


def test_seeds_are_the_official_ones_unless_given(study_file, tmp_path):
    change(study_file, "seeds = [0, 1]\n", "")
    plan = Study.from_file(study_file, tmp_path / "out").plan
    assert plan.cells[0].seeds == (0, 1, 2, 3, 4)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('ref = "random"', 'ref = "button.py"', "agents[1].name: expected distinct"),
        (
            'ref = "random"',
            'ref = "button.py"\nname = "b2"\nargs = { action = 5 }',
            "found b2 and button twice on paying-v1",
        ),
        ("[3, 5, 7]", "[3, 5, 3]", "found button twice on paying-v1"),
        ('"paying-v1"', '"paying-v2"', "unknown suite 'paying-v2'; did you mean"),
        ("grid.button", "grid.buton", "tuning.grid.buton: expected the name of an"),
        (
            'ref = "button.py"',
            'ref = "button.py"\nargs = { action = 1 }',
            "agent button: expected action in its args or in tuning.grid",
        ),
        (
            "[[suites]]",
            '[[suites]]\nid = "paying-v1"\n[[suites]]',
            "found button twice on",
        ),
        ("seeds = [0, 1]", "seeds = [1, 1]", "expected distinct seeds, found 1 twice"),
        ('ref = "button.py"', 'ref = "gone.py"', "gone.py: no such file"),
        (
            'id = "paying-v1"',
            'id = "paying-v1"\nset = { games = 3 }',
            "games: expected a list, found 3",
        ),
        (
            '"reward_rate"',
            '"normalised"',
            "tuning.metric: expected reward_rate for paying-v1, found normalised; the "
            "random agent's rate is not known",
        ),
    ],
)
def test_a_study_that_cannot_be_planned(study_file, tmp_path, old, new, message):
    change(study_file, old, new)
    with pytest.raises(LongplayError, match=re.escape(message)):
        Study.from_file(study_file, tmp_path / "out")


def test_rewards_cannot_tune_predictions(study_file, tmp_path):
    change(study_file, '"paying-v1"', '"prediction-smoke-v1"')
    with pytest.raises(ConfigError, match=r"tuning\.metric: expected normalised"):
        Study.from_file(study_file, tmp_path / "out")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "seeds = [0, 1]",
            "seeds = [0, 2]",
            "seeds: the study was started with [0, 1]",
        ),
        (
            "[3, 5, 7]",
            "[3, 5]",
            "tuning.grid.button.action: the study was started with [3, 5, 7], found",
        ),
        ("fraction = 0.25", "fraction = 0.5", "tuning.fraction: the study was started"),
        (
            'id = "paying-v1"',
            'id = "paying-v1"\nset = { delay = 1 }',
            "suites[0].set.delay: the study was started with none, found 1",
        ),
    ],
)
def test_a_changed_file_is_refused(copied, old, new, message):
    change(copied / "study.toml", old, new)
    with pytest.raises(ConfigError, match=re.escape(message)):
        Study.from_file(copied / "study.toml", copied / "out")


def test_changed_code_is_refused(copied):
    change(copied / "button.py", "no such button", "none")
    with pytest.raises(ConfigError, match=r"source_sha256: the study was started"):
        Study.from_file(copied / "study.toml", copied / "out")


def test_comments_and_needs_may_change(copied):
    file = copied / "study.toml"
    change(file, 'ref = "random"', '# more memory\nref = "random"\nmemory_gb = 2')
    assert play(file, copied / "out").results == []


def test_another_folder_is_not_taken_over(study_file, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.tex").touch()
    with pytest.raises(OutputError, match="exists already and holds no study"):
        play(study_file, tmp_path / "out")


def test_agents_are_isolated_as_the_file_says(study_file, tmp_path):
    change(study_file, 'ref = "button.py"', 'ref = "button.py"\nisolate = "process"')
    change(study_file, "[3, 5, 7]", "[5]")
    play(study_file, tmp_path / "out")
    levels = {
        name: read(path / "config.json")["agent_isolation"]["level"]
        for name, path in run_dirs(tmp_path / "out").items()
    }
    assert levels["cells/button/5/0"] == levels["tuning/button/5/1000"] == "process"
    assert levels["cells/random//0"] == "none"


# --- tuning ------------------------------------------------------------------------


def test_the_best_argument_is_chosen_and_played(played):
    found = run_dirs(played / "out")
    # A quarter of two visits of 20 timesteps, all with a point: 10 points in 10 frames.
    summary = read(found["tuning/button/5/1000"] / "run_summary.json")
    assert (summary["frames"], summary["visits"][0]["reward_sum"]) == (10, 10.0)
    # Only the chosen argument meets the official seeds, on the whole stream.
    assert {name for name in found if name.startswith("cells/button")} == {
        "cells/button/5/0",
        "cells/button/5/1",
    }
    for seed in (0, 1):
        score = read(found[f"cells/button/5/{seed}"] / "score.json")
        assert score["cumulative_reward"] == 40.0


def test_official_seeds_wait_for_the_choice(played):
    found = run_dirs(played / "out")
    started = [
        read(found[f"cells/button/5/{seed}"] / "status.json")["started_utc"]
        for seed in (0, 1)
    ]
    ended = [
        read(path / "status.json")["heartbeat_utc"]
        for name, path in found.items()
        if name.startswith("tuning/")
    ]
    assert len(ended) == 6
    assert max(ended) <= min(started)


def test_records_carry_split_and_budget(played):
    records = {
        name: read(path / "episode_record.json")
        for name, path in run_dirs(played / "out").items()
    }
    facts = {
        name: (record["split"], record["tuning_frames"])
        for name, record in records.items()
    }
    # Three candidates, two seeds, 10 frames each.
    assert facts["cells/button/5/0"] == ("test", 60)
    assert facts["cells/random//0"] == ("test", None)
    assert facts["tuning/button/3/1001"] == ("val", None)


def test_analysis_reads_results_and_not_tuning(played):
    out = played / "out"
    groups = find_run_groups(out)
    assert sorted(group.directory.parent.name for group in groups) == ["cells"] * 2
    budgets = {run.agent.tuning_frames for run in RunReader().read([out]).runs}
    assert budgets == {None, 60}


def test_a_name_in_the_study_is_the_name_everywhere(study_file, tmp_path):
    change(study_file, 'ref = "button.py"', 'ref = "button.py"\nname = "the button"')
    change(study_file, "[tuning.grid.button]", '[tuning.grid."the button"]')
    out = tmp_path / "out"
    play(study_file, out)
    names = {run.agent.name for run in RunReader().read([out]).runs}
    assert names == {"random", "the button"}
    for run_dir in out.glob("*/the-button*/episodes/*"):
        assert key_of_run(RunDirectory(run_dir)).name == "the button"
        assert read(run_dir / "episode_record.json")["agent_name"] == "the button"
    (cell,) = (out / "cells").glob("the-button*")
    # A continued experiment keeps the name, which is not part of the agent's id.
    again = Experiment.open(cell, str(tmp_path / "button.py"))
    assert (again.agent.name, again.agent.entry.name) == ("the button", "the button")
    again.check_same()


def test_a_cell_under_way_is_one_agent(copied):
    """One run is complete, without a record yet; the other one was not started."""
    (cell,) = (copied / "out" / "cells").glob("button*")
    done, other = sorted((cell / "episodes").iterdir())
    shutil.rmtree(other)
    (done / "episode_record.json").unlink()
    (suite,) = compare(RunReader().read([copied / "out"]), Request(NO_ANCHORS)).suites
    found = {agent.label: agent for agent in suite.agents}
    assert found.keys() == {"button", "random"}
    assert found["button"].tuning_frames == 60
    assert found["button"].seeds == (0,)
    assert found["button"].left_out == {"missing": (1,)}


def test_a_point_whose_agent_raises_is_out(study_file, tmp_path):
    change(study_file, "[3, 5, 7]", "[3, -1]")
    result = play(study_file, tmp_path / "out")
    assert [run.error is not None for _, run in result.results].count(True) == 2
    assert "cells/button/3/0" in run_dirs(tmp_path / "out")
    # The failed runs are not repeated: their cell has been decided.
    assert play(study_file, tmp_path / "out").results == []


def test_a_study_without_any_value_says_so(study_file, tmp_path):
    change(study_file, "[3, 5, 7]", "[-1, -2]")
    result = play(study_file, tmp_path / "out")
    (problem,) = result.problems
    assert problem.startswith(
        "button on paying-v1: tuning: expected a point with a val"
    )
    assert "cells/random//0" in run_dirs(tmp_path / "out")
    assert not list((tmp_path / "out/cells").glob("button*"))


def test_a_choice_that_does_not_follow_from_the_runs_is_refused(copied):
    out = copied / "out"
    for run_dir in out.glob("tuning/*/episodes/*"):
        args = read(run_dir / "episode_config.json")["agent"]["config"]["args"]
        if args == {"action": 7}:
            summary = read(run_dir / "run_summary.json")
            summary["visits"][0]["reward_sum"] = 99.0
            (run_dir / "run_summary.json").write_text(json.dumps(summary))
    cell = next(c for c in read_study(out).plan.cells if c.candidates)
    with pytest.raises(DocumentError, match="the agent that the rule ch"):
        read_study(out).find_choice(cell)


# --- stopped, continued, shared ------------------------------------------------------


def test_a_complete_study_is_left_alone(played):
    out = played / "out"
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.json*")}
    assert play(played / "study.toml", out).results == []
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*.json*")} == before


def rows_of(out: Path) -> dict[str, list[bytes]]:
    return {
        name: [(path / row).read_bytes() for row in ROWS]
        for name, path in run_dirs(out).items()
    }


def test_a_stopped_study_continues(played, study_file, tmp_path, monkeypatch):
    out = tmp_path / "out"
    jobs = []

    def stop(job, *args: Any) -> Any:
        if len(jobs) == 4:
            raise RunPreempted("stopped")
        jobs.append(job)
        return play_job(job, *args)

    play_job = study_module.play_job
    with monkeypatch.context() as patch:
        patch.setattr(study_module, "play_job", stop)
        with pytest.raises(RunPreempted):
            play(study_file, out)
    assert len(play(study_file, out).results) == 10 - 4
    assert rows_of(out) == rows_of(played / "out")


def test_shards_share_the_runs(played, study_file, tmp_path):
    out = tmp_path / "out"
    first = play(study_file, out, "1/2")
    # 3 of 6 tuning runs and one of random's two; the choice waits for the others.
    assert len(first.results) == 4
    assert [cell.agent for cell in first.waiting] == ["button"]
    second = play(study_file, out, "2/2")
    assert len(second.results) == 5
    assert second.waiting == []
    assert len(play(study_file, out, "1/2").results) == 1
    assert rows_of(out) == rows_of(played / "out")
    records = list(out.glob("*/*/episodes/*/episode_record.json"))
    assert len(records) == 10
    for summary in out.glob("*/*/experiment_summary.json"):
        assert {run["state"] for run in read(summary)["runs"]} == {"COMPLETED"}


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "1/2/3", "-1/2"])
def test_wrong_shards_are_refused(text):
    with pytest.raises(ConfigError, match="--shard: expected I/N"):
        Shard.parse(text)


@pytest.mark.parametrize("other", ["1/1", "1/2", "2/3"])
def test_a_second_process_is_refused(study_file, tmp_path, monkeypatch, other):
    monkeypatch.setattr(study_module, "_CHECK_S", 0.0)
    out = tmp_path / "out"
    held = Study.from_file(study_file, out)
    with (
        held._lock(Shard.parse("1/2")),
        pytest.raises(OutputError, match="another longplay process works on this stu"),
    ):
        play(study_file, out, other)


def test_shards_that_start_together_write_one_plan(study_file, tmp_path, monkeypatch):
    """Each waits for the other before it writes: without a lock, both would."""
    writers, write = threading.Barrier(2, timeout=1.0), study_module.write_document
    written: list[Path] = []
    out = tmp_path / "out"

    def write_together(path: Path, document: Any) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            writers.wait()
        written.append(path)
        write(path, document)

    def stop(cells: Any) -> None:
        raise RunPreempted("stop")

    def run(index: int) -> None:
        with contextlib.suppress(RunPreempted):
            Study.from_file(study_file, out).run(stop, Shard(index, 2))

    monkeypatch.setattr(study_module, "write_document", write_together)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, range(2)))
    assert written == [out / "study.json"]


def test_another_shard_is_not_refused(study_file, tmp_path):
    held = Study.from_file(study_file, tmp_path / "out")
    with held._lock(Shard.parse("1/2")):
        assert len(play(study_file, tmp_path / "out", "2/2").results) == 4


def test_an_agent_that_cannot_be_built_does_not_stop_the_others(study_file, tmp_path):
    change(study_file, 'ref = "random"', 'ref = "random"\nargs = { sped = 1 }')
    result = play(study_file, tmp_path / "out")
    errors = [run.error for cell, run in result.results if cell.agent == "random"]
    assert ["sped" in error for error in errors] == [True, True]
    assert "cells/button/5/1" in run_dirs(tmp_path / "out")


# --- from Python ---------------------------------------------------------------------


def test_a_study_is_played_and_continued_from_python(
    study_file: Path, tmp_path: Path
) -> None:
    seen: list[Any] = []
    result = longplay.study(study_file, out=tmp_path / "out", observer=seen.append)
    assert result.directory == tmp_path / "out"
    assert len(result.results) == 3 * 2 + 2 * 2
    assert len(longplay.compare(result.directory).suites[0].agents) == 2
    again = longplay.study(str(study_file), out=tmp_path / "out")
    assert again.results == []


def test_a_failed_run_of_a_study_raises(study_file: Path, tmp_path: Path) -> None:
    change(study_file.parent / "button.py", "return self.action", "return 1 / 0")
    with pytest.raises(AgentError, match="ZeroDivisionError"):
        longplay.study(study_file, out=tmp_path / "out")
