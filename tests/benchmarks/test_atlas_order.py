"""The order of agents by the matrix, and by `compare`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import longplay
from atlas_order import main, order_agents
from longplay.analysis.anchors import shipped_anchors
from longplay.analysis.runs import RunReader
from written_runs import SHORT, make_config, write_run


def write_agent(folder: Path, name: str, rewards: list[float]) -> None:
    """One run per reward per frame; seeds 1000, 1001, …"""
    for n, reward in enumerate(rewards):
        config = make_config(seed=1000 + n, overrides=SHORT, agent=name)
        values = np.full(config.total_frames, reward)
        write_run(folder / name / str(n), config, values)


def test_matrix_orders_agents_as_compare_does(tmp_path, capsys):
    write_agent(tmp_path, "worst", [0.0, 1.0, 0.5])
    write_agent(tmp_path, "best", [2.0, 3.0, 2.5])
    write_agent(tmp_path, "middle", [1.0, 2.0, 1.5])
    assert main([str(tmp_path)]) == 0
    assert "same order" in capsys.readouterr().out
    (orders,) = order_agents(RunReader().read([tmp_path]), shipped_anchors())
    assert orders.compared == orders.matrix == ("best", "middle", "worst")


def test_one_great_seed_moves_compare_and_not_the_matrix(tmp_path, capsys):
    """Rewards are standardised within a seed: two lost seeds outweigh one won."""
    write_agent(tmp_path, "lucky", [0.0, 0.0, 10.0])
    write_agent(tmp_path, "steady", [1.0, 1.0, 0.0])
    assert main([str(tmp_path)]) == 1
    assert "orders differ" in capsys.readouterr().out
    (orders,) = order_agents(RunReader().read([tmp_path]), shipped_anchors())
    assert orders.compared == ("lucky", "steady")
    assert orders.matrix == ("steady", "lucky")


@pytest.mark.parametrize(
    "suite",
    [
        pytest.param("stream-smoke-v1", marks=pytest.mark.exhaustive),
        "control-smoke-v1",
    ],
)
def test_played_experiments_have_both_orders(tmp_path, suite):
    short = {"base_visit_frames": 150}
    for agent in ("random", "repeat", "noop"):
        out = tmp_path / agent
        longplay.run(suite, agent, seeds=[1000, 1001], out=out, overrides=short)
    (orders,) = order_agents(RunReader().read([tmp_path]), shipped_anchors())
    assert set(orders.compared) == set(orders.matrix) == {"random", "repeat", "noop"}
