"""On real games, DQN forgets, and a learner with weights per game does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longplay
from longplay.experiments.experiment import Experiment, plan_seeds
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.records import MemoryNumbers
from longplay.lab.analysis.runs import RunReader
from longplay.lab.probes.numbers import add_memory
from longplay.runs.options import RunOptions
from longplay.scoring.anchors import shipped_anchors

pytestmark = pytest.mark.exhaustive

SETTINGS = {
    "games": ["crazy_climber", "road_runner", "qbert"],
    "num_cycles": 2,
    "base_visit_frames": 10_000,
    "shuffle_games": False,
}
# 99 % of the sums of squares of nine standard normal numbers are in this range.
CHI_SQUARED_9 = (1.73, 23.59)


def measure(
    folder: Path, agent: str, seeds: range, branches: int = 8, **args: Any
) -> MemoryNumbers:
    plans = plan_seeds("control-3x3-v1", seeds, SETTINGS)
    experiment = replace(
        Experiment.create(plans, agent, out=folder / "exp", agent_args=args),
        options=RunOptions(keep_agent="visits"),
    )
    for result in experiment.run_sequentially():
        assert result.state == "COMPLETED", result.error
    probes = longplay.probe(folder / "exp", branches=branches)
    assert all(result.is_valid for result in probes)
    found, anchors = RunReader().read([folder / "exp"]), shipped_anchors()
    comparison = add_memory(compare(found, Request(anchors)), found, anchors)
    memory = comparison.suites[0].agents[0].memory
    assert memory is not None
    return memory


def test_dqn_forgets(tmp_path: Path) -> None:
    (run,) = measure(tmp_path, "dqn", range(1000, 1001), branches=32).runs
    forgetting = run.numbers["forgetting"]
    assert forgetting.error is not None
    assert forgetting.mean > 3 * forgetting.error


def test_weights_per_game_are_kept(tmp_path: Path) -> None:
    """Two runs have ten pairs: their squares in standard errors are those of noise."""
    memory = measure(tmp_path, "linear-sarsa", range(1000, 1002), memory="library")
    pairs = [p.amount for p in memory.pairs if p.kind == "forgetting"][:9]
    assert len(pairs) == 9
    squares = [(p.mean / p.error) ** 2 for p in pairs if p.error]
    assert CHI_SQUARED_9[0] < np.sum(squares) < CHI_SQUARED_9[1]
    for run in memory.runs:
        forgetting = run.numbers["forgetting"]
        assert forgetting.error is not None
        assert abs(forgetting.mean) < 2.6 * forgetting.error
