"""An experiment read back: plan, scores and columns that agree with each other."""

from __future__ import annotations

from pathlib import Path

import pytest

import longplay

SUITE = "control-smoke-v1"
SHORT = {"base_visit_frames": 200, "min_visit_frames": 200}


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("experiments") / "random"
    longplay.run(SUITE, "random", seeds=[0, 1], out=out, overrides=SHORT)
    return out


def test_windows_add_up_to_the_scores(directory: Path) -> None:
    experiment = longplay.read_experiment(directory)
    windows = experiment.windows
    for run, (seed, score) in enumerate(experiment.scores.items()):
        assert isinstance(score, longplay.ControlScore)
        rows = windows["run"] == run
        assert set(windows["seed"][rows].tolist()) == {seed}
        assert windows["reward"][rows].sum() == score.cumulative_reward
        assert windows["frames"][rows].sum() == experiment.runs[seed].summary.frames


def test_columns_have_one_row_per_visit_and_window(directory: Path) -> None:
    windows = longplay.read_experiment(directory).windows
    keys = zip(windows["run"], windows["visit_idx"], windows["window"], strict=True)
    assert len(set(keys)) == len(windows)
    assert set(windows["game"].tolist()) == set(longplay.get_suite(SUITE).games)


def test_a_run_directory_opens_its_experiment(directory: Path) -> None:
    run_dir = longplay.read_experiment(directory).runs[0].path
    assert longplay.read_experiment(run_dir).path == directory


def test_a_folder_without_an_experiment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(longplay.NotARunError):
        longplay.read_experiment(tmp_path)
