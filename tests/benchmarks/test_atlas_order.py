"""The order of agents by the matrix, and by `compare`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import longplay
from atlas_order import main, order_agents
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.runs import RunReader
from longplay.lab.report.site.verdicts import open_pack
from longplay.scoring.anchors import shipped_anchors
from longplay.verify.pack import pack_run
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
    assert "the matrix has the same order" in capsys.readouterr().out
    (orders,) = order_agents(RunReader().read([tmp_path]), shipped_anchors())
    assert list(orders.compared) == list(orders.matrix) == ["best", "middle", "worst"]


def test_one_great_seed_moves_compare_and_not_the_matrix(tmp_path, capsys):
    """Rewards are standardised within a seed: two lost seeds outweigh one won."""
    write_agent(tmp_path, "lucky", [0.0, 0.0, 10.0])
    write_agent(tmp_path, "steady", [1.0, 1.0, 0.0])
    assert main([str(tmp_path)]) == 1
    title, _, *rows = capsys.readouterr().out.splitlines()
    assert title.endswith(": the orders differ")
    # z is 1, 1 and -1 or the opposite; ridge 1 on three entries leaves 3/4 of the mean.
    assert [row.split()[0] for row in rows] == ["lucky", "steady"]
    assert [row.split()[-3:] for row in rows] == [
        ["1", "-0.25", "2"],
        ["2", "0.25", "1"],
    ]


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "suite",
    [
        pytest.param("stream-smoke-v1", marks=pytest.mark.exhaustive),
        "control-smoke-v1",
    ],
)
def test_folder_of_packs_becomes_a_table(tmp_path, capsys, suite):
    """As results/ has them: <suite>/<agent>/seed-<n>.longplay."""
    short = {"base_visit_frames": 150}
    packs = tmp_path / "results" / suite
    for agent in ("random", "noop"):
        out = tmp_path / "runs" / agent
        longplay.run(suite, agent, seeds=[1000], out=out, overrides=short)
        (packs / agent).mkdir(parents=True)
        pack_run(out, packs / agent / "seed-1000.longplay")
    assert main([str(packs)]) == 0
    printed = capsys.readouterr().out
    _, _, *rows = printed.splitlines()
    assert [row.split()[0] for row in rows] == ["random", "noop"]
    assert main([str(tmp_path / "runs")]) == 0
    assert capsys.readouterr().out == printed


def test_table_has_eighty_columns(tmp_path, capsys):
    write_agent(tmp_path, "a" * 70, [1.0, 2.0, 3.0])
    write_agent(tmp_path, "b" * 70, [0.0, 1.0, 2.0])
    assert main([str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    # A table that is too wide continues below itself, with the names repeated.
    words = " ".join(lines).split()
    columns = [words.index(name) for name in ("final", "rank", "standardised")]
    assert columns == sorted(columns)
    assert [word for word in words if word in ("0.75", "-0.75")] == ["0.75", "-0.75"]


def test_suite_of_one_agent_has_no_order(tmp_path, capsys):
    write_agent(tmp_path, "alone", [1.0, 2.0])
    assert main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == ""


def test_matrix_of_shipped_results_has_the_order_of_their_headline():
    """`compare` leads with average performance: docs/eval_log.md says why."""
    results = Path(__file__).parents[2] / "results" / "control-v1"
    found = RunReader(open_pack).read([results])
    (suite,) = compare(found, Request(shipped_anchors())).suites
    numbers = {agent.label: agent.numbers["headline"].mean for agent in suite.agents}
    (orders,) = order_agents(found, shipped_anchors())
    assert list(orders.matrix) == sorted(numbers, key=numbers.__getitem__, reverse=True)
    assert list(orders.matrix)[-1] == "random"
