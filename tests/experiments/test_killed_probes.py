"""Probes that are killed at random moments and continued give the same bytes."""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import longplay
from kill_counts import KillCounts
from killing import PLACES, Fault, run_command
from longplay.contract.rundir import ROW_FILES
from longplay.experiments.experiment import Experiment, plan_seeds
from longplay.experiments.probing import ProbeRequest, Probing, find_probed_runs
from longplay.runs.loop import Progress
from longplay.runs.options import RunOptions

SETTINGS = {"games": ["qbert", "pong"], "base_visit_frames": 60, "num_cycles": 1}
SIZE = ("--branches", 4, "--frames", 20)
KILLS_PER_TRIAL = 4
STATES = ("fresh", "visit-0", "visit-1")


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has kept the states of its agent."""
    plans = plan_seeds("control-smoke-v1", [1000], SETTINGS)
    out = tmp_path_factory.mktemp("killed") / "exp"
    experiment = replace(
        Experiment.create(plans, "linear-sarsa", out=out),
        options=RunOptions(keep_agent="visits"),
    )
    (result,) = experiment.run_sequentially()
    return result.run_dir


def read_probes(folder: Path) -> dict[str, bytes]:
    (probes,) = folder.iterdir()
    return {
        f"{state}/{name}": (probes / state / name).read_bytes()
        for state in STATES
        for name in (*ROW_FILES, "probe.json")
    }


@pytest.fixture(scope="module")
def expected(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("expected")
    longplay.probe(run_dir, branches=4, frames=20, out=folder)
    return folder


@pytest.fixture(scope="module")
def counts(run_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """Place -> how often it is reached without a kill."""
    folder = tmp_path_factory.mktemp("counts")
    ended = run_command(
        folder, "probe", run_dir, *SIZE, "-o", folder / "out", "--quiet"
    )
    assert ended.exit_code == 0, ended.output
    return ended.counts


@pytest.mark.kills
@pytest.mark.exhaustive
def test_killed_probes_continue(
    tmp_path: Path, run_dir: Path, expected: Path, counts: dict[str, int]
) -> None:
    kills = KillCounts("probe, none")
    for trial in kills.trials(40):
        kill_probes(tmp_path / str(trial), run_dir, expected, counts, trial)
        kills.add(trial, KILLS_PER_TRIAL, KILLS_PER_TRIAL - 1)


def kill_probes(
    folder: Path, run_dir: Path, expected: Path, counts: dict[str, int], trial: int
) -> None:
    folder.mkdir()
    rng = random.Random(trial)
    places = [place for place in PLACES if counts.get(place)]
    command = ("probe", run_dir, *SIZE, "-o", folder / "out", "--quiet")
    kills = 0
    while kills < KILLS_PER_TRIAL:
        place = rng.choice(places)
        fault = Fault(place, rng.randint(1, max(1, counts[place] // 2)))
        ended = run_command(folder / "log", *command, fault=fault)
        assert ended.exit_code in (0, -9), (fault, ended.output)
        if ended.exit_code == 0:  # the rest was shorter: begin again
            shutil.rmtree(folder / "out")
            continue
        kills += 1
    ended = run_command(folder / "log", *command)
    assert ended.exit_code == 0, ended.output
    assert read_probes(folder / "out") == read_probes(expected)
    for path in (folder / "out").glob("*/*/config.json"):
        assert longplay.validate_run(path.parent, origin=run_dir).is_valid
        assert not (path.parent / "checkpoint").exists()


@pytest.mark.exhaustive
def test_a_thousand_branches_use_constant_memory(run_dir: Path, tmp_path: Path) -> None:
    """Two games of 500 branches each; memory after 100 branches and at the end."""
    page_bytes = 4096
    sizes: dict[int, int] = {}

    def watch(progress: Progress) -> None:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        sizes[progress.visit_idx] = pages * page_bytes

    request = ProbeRequest(branches=500, frames=8, out=tmp_path)
    (run,) = find_probed_runs([run_dir], request)
    run.cells = {"fresh": run.cells["fresh"]}
    (result,) = Probing([run], watch).play()
    assert result.is_valid
    early = min(size for visit, size in sizes.items() if visit >= 100)
    late = max(size for visit, size in sizes.items() if visit >= 900)
    assert late - early < 20e6, (early, late)
