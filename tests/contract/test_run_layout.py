"""Runs are found in experiments, studies, folders and packs."""

from __future__ import annotations

from pathlib import Path

import pytest

from generated_runs import make_experiment, make_run, run_dir_of, write, write_plan
from longplay.contract.layout import find_run_groups
from longplay.errors import DocumentError, NotARunError


def make_planned(directory: Path, seeds: tuple[int, ...], started: int) -> Path:
    make_experiment(directory, seeds[:started])
    write_plan(directory, seeds)
    return directory


def test_run_directory(tmp_path):
    run_dir = make_run(tmp_path / "run", 3)
    (group,) = find_run_groups(run_dir)
    assert (group.runs, group.plan, group.packs) == ((run_dir,), None, ())


def test_experiment_with_its_plan(tmp_path):
    experiment = make_planned(tmp_path / "exp", (2, 10, 11), started=2)
    (group,) = find_run_groups(experiment)
    assert group.runs == (run_dir_of(experiment, 2), run_dir_of(experiment, 10))
    assert group.plan is not None
    assert group.plan.seeds == (2, 10, 11)


def test_experiment_without_started_runs(tmp_path):
    experiment = make_planned(tmp_path / "exp", (0, 1), started=0)
    (group,) = find_run_groups(experiment)
    assert group.runs == ()
    (experiment / "episodes").mkdir()
    assert find_run_groups(experiment) == [group]


def test_study_without_its_tuning(tmp_path):
    first = make_planned(tmp_path / "cells" / "a_x_01234567", (0,), started=1)
    second = make_planned(tmp_path / "cells" / "b_x_01234567", (0,), started=1)
    make_planned(tmp_path / "tuning" / "a", (1000,), started=1)
    write(tmp_path / "study.json", {})
    assert [g.directory for g in find_run_groups(tmp_path)] == [first, second]


def test_folder_with_everything(tmp_path):
    experiment = make_planned(tmp_path / "deep" / "er" / "exp", (0,), started=1)
    make_run(experiment / "archive" / "old" / "0", 0)
    run_dir = make_run(tmp_path / "run", 1)
    pack = tmp_path / "packs" / "one.longplay"
    pack.parent.mkdir()
    pack.write_bytes(b"")
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / ".hidden").mkdir()
    make_run(tmp_path / ".hidden" / "run", 1)
    (tmp_path / "loop").symlink_to(tmp_path)
    groups = find_run_groups(tmp_path)
    assert [g.directory for g in groups] == [experiment, pack, run_dir]
    assert groups[1].packs == (pack,)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing", "no such file or folder"), ("empty", "found none")],
)
def test_path_without_runs_is_refused(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotARunError, match=rf"expected a run, .*; {message}"):
        find_run_groups(tmp_path / name)


def test_broken_plan_is_refused(tmp_path):
    experiment = make_planned(tmp_path / "exp", (0,), started=1)
    write(experiment / "experiment_config.json", {"seeds": "all"})
    with pytest.raises(DocumentError, match=r"experiment_config\.json .*expected"):
        find_run_groups(experiment)


def test_broken_plan_can_be_kept(tmp_path):
    broken = make_planned(tmp_path / "a", (0,), started=1)
    write(broken / "experiment_config.json", {"seeds": "all"})
    sound = make_planned(tmp_path / "b", (0,), started=1)
    first, second = find_run_groups(tmp_path, keeps_broken=True)
    assert (first.directory, first.plan) == (broken, None)
    assert first.runs == (run_dir_of(broken, 0),)
    assert "experiment_config.json" in (first.problem or "")
    assert (second.directory, second.problem) == (sound, None)
