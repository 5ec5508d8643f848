"""The runs x games matrix of analysis.json: what rliable takes, and what it answers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.records import SuiteComparison
from longplay.lab.analysis.runs import RunReader
from longplay.lab.report.site.verdicts import open_pack
from longplay.scoring.anchors import shipped_anchors
from made_up_anchors import NO_ANCHORS, make_anchors, make_game
from written_runs import make_config, name_short_suite, write_run

ROOT = Path(__file__).parents[3]
# Computed once, with rliable 1.2.0: `aggregate_iqm`, `aggregate_mean`,
# `aggregate_median` and `aggregate_optimality_gap` of each agent's (runs, games) array
# in analysis.json.
RLIABLE = {
    "explore-only": (
        -0.004420768490796341,
        0.05548837112764643,
        -0.008490544923740097,
        0.9445116288723535,
    ),
    "linear-sarsa": (
        0.1685826734389569,
        0.20916361035150577,
        0.14714094347257978,
        0.7908363896484942,
    ),
    "random": (0.0003183347849718943, 1.2576745200831851e-17, 4.336808689942018e-19, 1),
    "stream-q": (
        0.0764915656758657,
        0.11270512566446561,
        0.06097963461626185,
        0.8872948743355344,
    ),
    "stream-q-l2init": (
        0.0590574712544829,
        0.09541838957333149,
        0.06053167145548167,
        0.9045816104266685,
    ),
}


@pytest.fixture(scope="module")
def suite() -> SuiteComparison:
    """The shipped results of control-6x3-v1, as read from analysis.json."""
    found = RunReader(open_pack).read([ROOT / "results" / "control-6x3-v1"])
    (suite,) = compare(found, Request(shipped_anchors())).suites
    return SuiteComparison.model_validate_json(suite.model_dump_json())


def test_aggregates_are_those_of_rliable(suite):
    assert suite.matrix is not None
    assert suite.matrix.pooled.keys() == RLIABLE.keys()
    gaps = {a.label: a.numbers["optimality_gap"].mean for a in suite.agents}
    for label, (*numbers, gap) in RLIABLE.items():
        found = suite.matrix.pooled[label]
        wanted = dict(zip(("iqm", "mean", "median"), numbers, strict=True))
        assert found == pytest.approx(wanted, rel=1e-12, abs=1e-15)
        assert gaps[label] == pytest.approx(gap, rel=1e-12)


def test_the_matrix_has_the_shape_that_rliable_takes(suite):
    assert suite.matrix is not None
    assert suite.matrix.number == "average"
    document = json.loads(suite.matrix.model_dump_json())
    for label, (iqm, mean, median, _) in RLIABLE.items():
        scores = np.array(document["scores"][label])
        assert scores.shape == (5, len(suite.matrix.games))
        assert scores.mean() == pytest.approx(mean, abs=1e-15)
        assert np.median(scores.mean(axis=0)) == pytest.approx(median, abs=1e-15)
        cut = scores.size // 4
        middle = np.sort(scores.ravel())[cut : scores.size - cut]
        assert middle.mean() == pytest.approx(iqm)


def test_numbers_of_a_run_are_aggregates_of_its_row(suite):
    """Six games: the average of a run is the plain mean."""
    assert suite.matrix is not None
    for agent in suite.agents:
        rows = np.array(suite.matrix.scores[agent.label])
        assert agent.per_run["average"] == pytest.approx(rows.mean(axis=1))
        assert agent.per_run["median"] == pytest.approx(np.median(rows, axis=1))
        for game, column in zip(suite.matrix.games, rows.T, strict=True):
            assert agent.games[game]["average"].mean == pytest.approx(column.mean())


def test_games_without_z_are_left_out(tmp_path):
    """Reward per frame is 3 and 5: z is 1 and 2 between the anchors 1 and 3."""
    for seed, reward in ((1000, 3.0), (1001, 5.0)):
        config = make_config(seed=seed)
        write_run(tmp_path / str(seed), config, np.full(config.total_frames, reward))
    found = RunReader().read([tmp_path])
    anchors = make_anchors(name_short_suite(), qbert=make_game(lower=1.0, upper=3.0))
    (table,) = compare(found, Request(anchors)).suites
    assert table.matrix is not None
    assert table.matrix.games == ("qbert",)
    assert table.matrix.scores == {"alpha": ((1.0,), (2.0,))}
    (table,) = compare(found, Request(NO_ANCHORS)).suites
    assert table.matrix is not None
    assert table.matrix.number == "rate"
    assert table.matrix.scores == {"alpha": ((3.0,) * 3, (5.0,) * 3)}
