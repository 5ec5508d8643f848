"""Figures and tables of probes show the numbers of the comparison."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from compared_runs import Compared
from longplay.errors import ConfigError
from longplay.lab.analysis.records import Comparison, MemoryNumbers
from longplay.lab.probes.memory import find_memory
from longplay.lab.probes.numbers import Probed, find_spans, measure_memory
from longplay.lab.probes.reading import RunProbes
from longplay.lab.report.draw.drawings import Shown, drawing_to_csv
from longplay.lab.report.draw.figures import make_figure
from longplay.lab.report.draw.kinds import draw
from longplay.lab.report.draw.paper import render_paper
from longplay.lab.report.memory_tables import (
    describe_memory,
    list_memory_tables,
    memory_to_latex,
)
from longplay.lab.report.tables import comparison_to_csv


def add_probes(compared: Compared, seeds: int) -> Comparison:
    """Gives the first agent probes: after visit i every game has i + 1, i + 3 points.

    The fresh agent has 0 and 2.
    """
    (suite,) = compared.comparison.suites
    spans = find_spans(suite, compared.anchors)
    runs = compared.shown.runs[suite.agents[0].label][:seeds]
    probed = []
    for run in runs:
        states = ["fresh", *(f"visit-{n}" for n in range(len(run.config.schedule)))]
        matrix = {
            (state, game): np.array([n, n + 2.0])
            for n, state in enumerate(states)
            for game in suite.games
        }
        probes = RunProbes(matrix, 2, 500, dict.fromkeys(states, run.path))
        memory = find_memory(run.config.schedule, matrix, spans)
        probed.append(Probed(run.seed, memory, probes))
    memory_numbers = measure_memory(probed, suite.games, "z", spans)
    return with_memory(compared.comparison, memory_numbers)


def with_memory(comparison: Comparison, memory: MemoryNumbers) -> Comparison:
    (suite,) = comparison.suites
    first, *others = suite.agents
    agents = (first.model_copy(update={"memory": memory}), *others)
    changed = suite.model_copy(update={"agents": agents})
    return comparison.model_copy(update={"suites": (changed,)})


@pytest.fixture(scope="module")
def probed(compared: Compared) -> Compared:
    return replace(compared, comparison=add_probes(compared, 1))


def test_memory_shows_every_state(probed: Compared) -> None:
    drawing = draw("memory", probed.shown)
    assert [panel.title for panel in drawing.panels] == list(probed.shown.suite.games)
    (line,) = drawing.panels[0].series
    scale = probed.shown.scale
    # Means over the two branches are 1, 2, …, as z; the error of each is 1.
    raw = np.arange(1.0, len(line.x) + 1)
    expected = (raw - scale.lower[0]) / scale.span[0]
    assert line.y == pytest.approx(expected.tolist())
    assert line.high[0] == pytest.approx(line.y[0] + 1 / scale.span[0])
    assert drawing.panels[0].x_names[:2] == ("fresh", "0")
    assert drawing.panels[0].marks == (0.0, line.y[0])
    schedule = probed.shown.runs[line.label][0].config.schedule
    own = [v.visit_idx for v in schedule if v.game_id == drawing.panels[0].title]
    assert [span.start for span in drawing.panels[0].spans] == [v + 0.5 for v in own]
    assert "standard errors over branches" in drawing.caption


def test_memory_shows_own_visits_where_orders_differ(compared: Compared) -> None:
    probed = replace(compared, comparison=add_probes(compared, 2))
    shown = probed.shown
    label = shown.suite.agents[0].label
    first, second, *others = shown.runs[label]
    turned = (*second.config.schedule[1:], second.config.schedule[0])
    config = second.config.model_copy(update={"schedule": turned})
    runs = {**shown.runs, label: [first, replace(second, config=config), *others]}
    drawing = draw("memory", replace(shown, runs=runs))
    panel = drawing.panels[0]
    orders = [[v.game_id for v in run.config.schedule] for run in runs[label][:2]]
    own = [[i for i, g in enumerate(o) if g == panel.title] for o in orders]
    number = len(own[0])
    assert panel.x_names[:3] == ("0", "1−", "1+") and panel.x_names[-1] == "end"
    assert len(panel.x_names) == 2 + 2 * number and not panel.spans
    (line,) = panel.series
    found = dict(zip(line.x, line.y, strict=True))
    # After visit i the mean over branches is i + 2, whatever the game.
    raw = np.mean([visits[0] + 2 for visits in own])
    scale = shown.scale
    assert found[2] == pytest.approx((raw - scale.lower[0]) / scale.span[0])
    assert "before (−) and after (+)" in drawing.x_label


def test_matrix_shows_states_and_games(probed: Compared) -> None:
    (panel,) = draw("matrix", probed.shown).panels
    grid = panel.grid
    assert grid is not None
    assert grid.rows[0] == "fresh"
    assert grid.columns == probed.shown.suite.games
    assert grid.shades[0][0] == 0 and grid.shades[-1][0] == 1
    assert "±" in grid.texts[0][0]


def test_cells_lead_to_their_branches(probed: Compared) -> None:
    shown: Shown = replace(probed.shown, link=lambda run, state: f"/{run.seed}/{state}")
    (panel,) = draw("matrix", shown).panels
    assert panel.grid is not None
    assert panel.grid.links[0][0] == "/0/fresh"
    (heatmap,) = make_figure(draw("matrix", shown))["data"]
    assert heatmap["customdata"][0][0] == "/0/fresh"
    trace = make_figure(draw("memory", shown))["data"][0]
    assert trace["customdata"][1] == "/0/visit-0"
    assert "customdata" not in make_figure(draw("memory", probed.shown))["data"][0]


@pytest.mark.parametrize("kind", ["memory", "matrix"])
def test_figures_are_the_same_bytes(probed: Compared, kind: str) -> None:
    drawing = draw(kind, probed.shown)
    first = render_paper(drawing, "png", 2)
    assert first == render_paper(drawing, "png", 2)
    assert json.dumps(make_figure(drawing)) == json.dumps(make_figure(drawing))
    rows = list(csv.DictReader(io.StringIO(drawing_to_csv(drawing))))
    states = 1 + len(probed.found.runs[0].config.schedule)
    assert len(rows) == states * len(probed.shown.suite.games)


@pytest.mark.parametrize("kind", ["memory", "matrix"])
def test_runs_without_probes_have_no_figure(compared: Compared, kind: str) -> None:
    with pytest.raises(ConfigError, match="no run has probes; `longplay probe` plays"):
        draw(kind, compared.shown)


def test_tables_show_the_numbers(probed: Compared) -> None:
    (suite,) = probed.comparison.suites
    agents, runs, games, pairs = list_memory_tables(suite, with_games=True)
    memory = suite.agents[0].memory
    assert memory is not None
    assert agents.rows[0][2].value == memory.numbers["learned"].mean
    assert runs.rows[0][2].value == memory.runs[0].numbers["learned"].mean
    assert len(games.rows) == len(suite.games)
    assert len(pairs.rows) == len(memory.pairs)
    assert any("unit: z" in line for line in describe_memory(suite))


def test_csv_and_latex_have_the_numbers(probed: Compared, compared: Compared) -> None:
    rows = list(csv.DictReader(io.StringIO(comparison_to_csv(probed.comparison))))
    (suite,) = probed.comparison.suites
    memory = suite.agents[0].memory
    assert memory is not None
    learned = [r for r in rows if (r["game"], r["metric"]) == ("", "probe_learned")]
    assert float(learned[0]["mean"]) == memory.numbers["learned"].mean
    assert "zero-shot transfer" in memory_to_latex(probed.comparison)
    assert memory_to_latex(compared.comparison) == ""


def test_analysis_without_probes_has_no_memory(compared: Compared) -> None:
    assert "memory" not in compared.comparison.suites[0].agents[0].model_dump()
