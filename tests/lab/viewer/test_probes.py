"""Figures of probes lead to their branches, which can be watched like episodes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

import longplay
from longplay.experiments.experiment import Experiment, plan_seeds
from longplay.runs.options import RunOptions
from viewer_requests import open_viewer

SETTINGS = {"games": ["qbert", "pong"], "base_visit_frames": 60, "num_cycles": 1}


@pytest.fixture(scope="module")
def probed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("viewed") / "exp"
    experiment = replace(
        Experiment.create(
            plan_seeds("control-smoke-v1", [1000], SETTINGS), "random", out=out
        ),
        options=RunOptions(keep_agent="visits"),
    )
    experiment.run_sequentially()
    longplay.probe(out, branches=2, frames=20)
    return out


def find_probe(experiment: Path, state: str) -> Path:
    (path,) = experiment.glob(f"probes/*/{state}")
    return path


def test_experiment_shows_figures_that_lead_to_branches(probed: Path) -> None:
    viewer = open_viewer(probed)
    (experiment_id,) = viewer.site.index.read().experiments
    text = viewer.get(f"/experiments/{experiment_id}").text
    assert ">Memory</h3>" in text and ">States and games</h3>" in text
    address = viewer.run_address(find_probe(probed, "visit-0"))
    assert f"{address}#visits" in text
    assert "pairs of states" in text


def test_branches_are_watched_like_visits(probed: Path) -> None:
    viewer = open_viewer(probed)
    address = viewer.run_address(find_probe(probed, "visit-0"))
    text = viewer.get(address).text
    assert "Probe: state visit-0 of the agent of" in text
    assert "seed 1000, probe visit-0</h1>" in text
    assert "<h2>Branches</h2>" in text
    assert f'href="{address}/visits/3"' in text
    assert "of random, probe visit-0</h1>" in viewer.get(f"{address}/visits/3").text
    frames = viewer.get(f"{address}/frames.png?from=60&to=64")
    assert frames.status == 200 and frames.body.startswith(b"\x89PNG")


def test_probes_are_not_in_the_list(probed: Path) -> None:
    text = open_viewer(probed).get("/").text
    assert "1 run, 1 experiment." in text
    assert "probes/" not in text


def test_probes_outside_of_the_given_path_are_not_read(probed: Path) -> None:
    (run_dir,) = (probed / "episodes").iterdir()
    viewer = open_viewer(run_dir)
    assert viewer.site.index.read().others == {}
    assert viewer.get(viewer.run_address(find_probe(probed, "fresh"))).status == 404
    found = viewer.site.read_runs(list(viewer.site.index.read().runs.values()))
    assert viewer.site.link_probe(found.runs[0], "fresh") == ""
    ids = list(viewer.site.index.read().runs)
    assert "Memory" not in viewer.get(f"/compare?run={ids[0]}").text
