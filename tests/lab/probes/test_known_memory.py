"""Agents whose memory is known: the numbers of their probes say so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import remembering

import longplay
from longplay import suites
from longplay.console.machines import add_machine, remove_machine
from longplay.experiments.experiment import Experiment, plan_seeds
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.records import MemoryNumbers
from longplay.lab.analysis.runs import RunReader
from longplay.lab.probes.numbers import add_memory
from longplay.lab.probes.table import tabulate_probes
from longplay.runs.options import RunOptions
from longplay.scoring.anchors import shipped_anchors

SEEDS = (1000, 1001, 1002)


@pytest.fixture(autouse=True)
def buttons() -> Iterator[None]:
    add_machine(remembering.MACHINE)
    suites.add_suite(remembering.SUITE)
    yield
    del suites.SUITES[remembering.SUITE.suite_id]
    remove_machine(remembering.MACHINE)


def measure(folder: Path, **args: Any) -> MemoryNumbers:
    """Plays three runs, probes all states, and measures."""
    path = folder / "agent.py"
    path.write_text(remembering.AGENT)
    plans = plan_seeds(remembering.SUITE.suite_id, SEEDS)
    experiment = replace(
        Experiment.create(plans, str(path), out=folder / "exp", agent_args=args),
        options=RunOptions(keep_agent="visits"),
    )
    for result in experiment.run_sequentially():
        assert result.state == "COMPLETED", result.error
    probed = longplay.probe(folder / "exp", agent=str(path), branches=8, frames=60)
    assert all(result.is_valid for result in probed)
    found = RunReader().read([folder / "exp"])
    anchors = shipped_anchors()
    comparison = add_memory(compare(found, Request(anchors)), found, anchors)
    memory = comparison.suites[0].agents[0].memory
    assert memory is not None and memory.seeds == SEEDS
    return memory


def test_agent_that_keeps_all_forgets_nothing(tmp_path: Path) -> None:
    memory = measure(tmp_path)
    assert memory.numbers["learned"].mean == 1
    assert memory.numbers["forgetting"].mean == 0
    assert memory.numbers["share_forgotten"].mean == 0


def test_a_table_has_a_row_per_branch(tmp_path: Path) -> None:
    memory = measure(tmp_path, loses=0.3)
    table = tabulate_probes(RunReader().read([tmp_path / "exp"]).runs)
    assert len(table) == 8 * len(memory.matrix)
    for cell in memory.matrix:
        place = zip(table["seed"], table["state"], table["game"], strict=True)
        rows = [it == (cell.seed, cell.state, cell.game) for it in place]
        assert table["branch"][rows].tolist() == [*range(8)]
        assert table["x"][rows].mean() == pytest.approx(cell.amount.mean)
    assert set(table["frames"]) == {60}
    assert set(table["agent"]) == {"agent"}
    assert np.isnan(table["z"]).all()


def test_agent_that_erases_has_forgotten_exactly_what_it_learned(
    tmp_path: Path,
) -> None:
    memory = measure(tmp_path, erases=True)
    assert memory.numbers["learned"].mean == 1
    assert memory.numbers["forgetting"].mean == 1
    assert memory.numbers["share_forgotten"].mean == 1
    assert memory.numbers["transfer"].mean == 0


def test_agent_that_loses_a_share_shows_that_share(tmp_path: Path) -> None:
    memory = measure(tmp_path, loses=0.3)
    assert memory.numbers["learned"].mean == 1
    for run in memory.runs:
        forgetting = run.numbers["forgetting"]
        assert forgetting.error is not None and 0 < forgetting.error < 0.05
        assert abs(forgetting.mean - 0.3) < 2 * forgetting.error
        assert run.share_forgotten == pytest.approx(forgetting.mean)
    share = memory.numbers["share_forgotten"]
    assert share.low is not None and share.high is not None
    assert share.low < 0.3 < share.high
