"""Runs of an agent that draws from `random` and `numpy.random` reproduce."""

# ruff: noqa: NPY002 - the legacy generator is what this is about
from __future__ import annotations

import random
import signal
from pathlib import Path

import numpy as np
import pytest
from scenarios import Reference, Scenario

import longplay
from killing import Fault, find_run_dir, read_result, read_rows
from longplay.agents.global_random import GlobalRandomState
from longplay.runs.loop import Progress
from longplay.verify.verification import reexecute
from planning import plan_experiment

AGENT = str(Path(__file__).parent / "unseeded_agent.py")
SUITE = "control-smoke-v1"
SETTINGS = {"games": ["breakout", "berzerk"], "base_visit_frames": 60}


def play(
    out: Path, seeds: tuple[int, ...] = (3,), observer: object = None
) -> list[Path]:
    experiment = plan_experiment(SUITE, AGENT, seeds=seeds, out=out, overrides=SETTINGS)
    watch = {} if observer is None else {"observer": observer}
    outcomes = experiment.run_sequentially(**watch)
    assert [outcome.state for outcome in outcomes] == ["COMPLETED"] * len(seeds)
    return [Path(outcome.run_dir) for outcome in outcomes]


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    (found,) = play(tmp_path_factory.mktemp("unseeded") / "out")
    return found


def test_run_does_not_depend_on_earlier_draws_of_the_process(
    run_dir: Path, tmp_path: Path
) -> None:
    random.seed(8)
    np.random.seed(8)
    before = GlobalRandomState.read()
    (again,) = play(tmp_path / "out")
    assert GlobalRandomState.read() == before
    assert read_rows(again) == read_rows(run_dir)
    actions = longplay.read_run(run_dir).events.numpy("decided_action_idx")
    assert len(set(actions["decided_action_idx"])) > 10


def test_seeds_give_different_runs_and_share_no_state(
    run_dir: Path, tmp_path: Path
) -> None:
    four, three = play(tmp_path / "out", (4, 3))
    assert read_rows(three) == read_rows(run_dir)
    assert read_rows(four) != read_rows(run_dir)


def test_an_observer_that_draws_does_not_disturb_the_agent(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[float] = []

    def observe(progress: Progress) -> None:
        drawn.append(random.random() + np.random.rand())

    monkeypatch.setattr("longplay.runs.loop._TICK_S", 0.0)
    random.seed(5)
    np.random.seed(5)
    (watched,) = play(tmp_path / "out", observer=observe)
    assert read_rows(watched) == read_rows(run_dir)
    random.seed(5)
    np.random.seed(5)
    assert drawn == [random.random() + np.random.rand() for _ in drawn]
    assert len(drawn) > 10


def test_run_is_reexecuted(run_dir: Path) -> None:
    verification = reexecute(run_dir, AGENT)
    assert verification.difference is None
    assert verification.passed


def test_killed_run_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    """From a checkpoint in the middle of a visit: the states come from its record."""
    scenario = Scenario("unseeded", AGENT, SETTINGS, SUITE)
    reference = Reference.play(scenario, tmp_path)
    out = tmp_path / "killed"
    ended = scenario.run(out, fault=Fault("frame", 100))
    assert ended.exit_code == -signal.SIGKILL, ended.output
    resumed = scenario.run(out)
    assert resumed.exit_code == 0, resumed.output
    assert "checkpoint at timestep" in resumed.words
    run_dir = find_run_dir(out)
    assert run_dir is not None
    result = read_result(run_dir)
    for name, expected in reference.result.items():
        assert result[name] == expected, name
