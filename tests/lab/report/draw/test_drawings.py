"""What figures show, before they are drawn and after."""

from __future__ import annotations

import csv
import html
import io
import json
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from compared_runs import make_compared
from longplay.errors import ConfigError, UnknownNameError
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.runs import RunReader
from longplay.lab.report.draw.colours import OKABE_ITO, Style, style_agents
from longplay.lab.report.draw.drawings import (
    POINTS,
    Drawing,
    Panel,
    Resolution,
    Series,
    Shown,
    drawing_to_csv,
)
from longplay.lab.report.draw.figures import make_figure
from longplay.lab.report.draw.kinds import choose_agents, choose_games, draw
from longplay.lab.report.draw.paper import render_paper
from longplay.scoring.normalisation import make_scale
from made_up_anchors import NO_ANCHORS

PLAY_KINDS = (
    "average",
    "lifetime",
    "curves",
    "games",
    "profile",
    "retention",
    "stream",
    "improvement",
)
# Those of probes have tests of their own.
KINDS = (*PLAY_KINDS, "predictions")
GOLDEN = Path(__file__).parents[3] / "golden"


@pytest.fixture(scope="module")
def predictions() -> Shown:
    found = RunReader().read([GOLDEN / "prediction-v1"])
    (suite,) = compare(found, Request(NO_ANCHORS)).suites
    scale = make_scale(NO_ANCHORS, suite.suite, suite.games)
    return Shown(suite, {suite.agents[0].label: found.runs}, scale)


def make_drawing(kind, compared, predictions) -> Drawing:
    return draw(kind, predictions if kind == "predictions" else compared.shown)


# --- numbers --------------------------------------------------------------------


def test_curves_are_the_rewards(compared):
    """Alpha's reward at frame t of a visit is 1 + 2 t / 60 + seed / 10."""
    drawing = draw("curves", compared.shown)
    assert [panel.title for panel in drawing.panels] == list(compared.shown.suite.games)
    alpha = [s for s in drawing.panels[0].series if s.label == "alpha"]
    assert len(alpha) == 2
    for visit, series in enumerate(alpha):
        assert series.x == pytest.approx(visit + (np.arange(POINTS) + 0.5) / POINTS)
        middle = 3 * np.arange(POINTS) + 1
        assert series.y == pytest.approx(1.1 + 2 * middle / 60)
        assert all(
            low < y < high
            for low, y, high in zip(series.low, series.y, series.high, strict=True)
        )


def test_games_show_z_with_marks_at_random_and_the_upper_anchor(compared):
    (panel,) = draw("games", compared.shown).panels
    assert panel.categories == compared.shown.suite.games
    assert panel.marks == (0.0, 1.0)
    alpha = panel.series[0]
    expected = compared.shown.suite.agents[0].games["centipede"]["average"]
    assert alpha.x[0] == expected.mean
    assert (alpha.low[0], alpha.high[0]) == (expected.low, expected.high)


def test_stream_covers_the_run_and_names_its_games(compared):
    drawing = draw("stream", compared.shown)
    assert [panel.title for panel in drawing.panels] == [
        "alpha, seed 0",
        "<b>beta</b> & co, seed 0",
    ]
    panel = drawing.panels[0]
    schedule = compared.found.runs[0].config.schedule
    assert [span.label for span in panel.spans] == [v.game_id for v in schedule]
    assert (panel.spans[0].start, panel.spans[-1].end) == (0, 360)
    # z of reward 1 + 2 / 60 in the first window of three frames.
    assert panel.series[0].y[0] == pytest.approx((1 + 2 / 60 - 1) / 2)


def test_profile_retention_and_improvement_are_the_comparison(compared):
    suite = compared.shown.suite
    (profile,) = draw("profile", compared.shown).panels
    assert profile.series[0].y == tuple(s.mean for s in suite.agents[0].profile.shares)
    kept, lost, cost = draw("retention", compared.shown).panels
    assert kept.series[1].x == (suite.agents[1].numbers["retention"].mean,)
    assert lost.series[0].x == (suite.agents[0].numbers["change_at_revisit"].mean,)
    assert cost.series[0].x == (suite.agents[0].numbers["recovery"].mean,)
    (improvement,) = draw("improvement", compared.shown).panels
    assert improvement.categories == ("<b>beta</b> & co",)
    assert improvement.series[0].x == (suite.agents[1].improvement.mean,)


def test_predictions_show_errors(predictions):
    (panel,) = draw("predictions", predictions).panels
    assert panel.is_log
    assert panel.categories == ("space_invaders", "breakout")
    assert panel.series[0].x == pytest.approx((10.1276185, 32.26296622))


@pytest.mark.parametrize("kind", KINDS)
def test_data_of_a_drawing_comes_back_exactly(kind, compared, predictions):
    drawing = make_drawing(kind, compared, predictions)
    rows = list(csv.DictReader(io.StringIO(drawing_to_csv(drawing))))
    points = [
        (panel.title, series.label, x, low)
        for panel in drawing.panels
        for series in panel.series
        for x, low in zip(series.x, series.low, strict=True)
    ]
    found = [
        (r["panel"], r["series"], float(r["x"]), float(r["low"]) if r["low"] else None)
        for r in rows
    ]
    assert found == points


def test_averages_are_over_games_and_then_over_runs(compared):
    """z of three games is alike, so all aggregates of a run are its average."""
    suite = compared.shown.suite
    drawing = draw("average", compared.shown)
    assert [panel.title for panel in drawing.panels] == [
        "mean",
        "median",
        "optimality gap",
    ]
    mean, median, gap = drawing.panels
    assert mean.categories == tuple(agent.label for agent in suite.agents)
    for panel, name in ((mean, "average"), (median, "median"), (gap, "optimality_gap")):
        for series, agent in zip(panel.series, suite.agents, strict=True):
            number = agent.numbers[name]
            assert series.x == pytest.approx((number.mean,))
            lowest = 0.0 if name == "optimality_gap" else -np.inf
            assert series.low == pytest.approx((max(number.low, lowest),))
            assert series.high == pytest.approx((number.high,))


def test_averages_without_z_are_headlines(compared):
    (suite,) = compare(compared.found, Request(NO_ANCHORS)).suites
    scale = make_scale(NO_ANCHORS, suite.suite, suite.games)
    drawing = draw("average", Shown(suite, compared.shown.runs, scale))
    (panel,) = drawing.panels
    assert drawing.x_label == "final score"
    assert panel.series[0].x == (suite.agents[0].numbers["headline"].mean,)


def test_averages_of_predictions_are_those_of_errors(predictions):
    median, mean = draw("average", predictions).panels
    assert (median.title, mean.title) == ("median", "mean")
    assert mean.series[0].x == pytest.approx(((10.1276185 + 32.26296622) / 2,))


def test_a_life_is_the_mean_of_z_over_games(compared):
    """z of alpha at frame t of any visit is (1 + 2 t / 60 + seed / 10 - 1) / 2."""
    drawing = draw("lifetime", compared.shown)
    (panel,) = drawing.panels
    alpha = [s for s in panel.series if s.label == "alpha"]
    assert len(alpha) == 2
    middle = 3 * np.arange(POINTS) + 1
    for visit, series in enumerate(alpha):
        assert series.x == pytest.approx(visit + (np.arange(POINTS) + 0.5) / POINTS)
        assert series.y == pytest.approx((0.1 + 2 * middle / 60) / 2)


def test_bins_and_neighbours(compared):
    """Three points of 20 frames, whose middle is that of frames 9.5, 29.5 and 49.5."""
    coarse = replace(compared.shown, resolution=Resolution(3))
    first = draw("curves", coarse).panels[0].series[0]
    assert first.x == pytest.approx((1 / 6, 1 / 2, 5 / 6))
    rates = 1.1 + 2 * np.array([9.5, 29.5, 49.5]) / 60
    assert first.y == pytest.approx(rates)
    smooth = replace(compared.shown, resolution=Resolution(3, 1))
    first = draw("curves", smooth).panels[0].series[0]
    assert first.y == pytest.approx((rates[:2].mean(), rates.mean(), rates[1:].mean()))


@pytest.mark.parametrize("points", [0, 7, 120])
def test_bins_that_do_not_divide_a_visit(points):
    with pytest.raises(ConfigError, match=f"^bins: expected a divisor of 60.*{points}"):
        Resolution(points)


def test_fewer_than_no_neighbours():
    with pytest.raises(ConfigError, match=r"^smooth: expected 0 or more points.*-1"):
        Resolution(20, -1)


def test_intervals_end_where_rewards_do(tmp_path):
    """Three seeds with 0, 0 and 9 points per frame: 3 ± 22 reaches below 0."""
    found = make_compared(tmp_path, {"alpha": 0.0}, rewards=(0.0, 0.0, 9.0)).shown
    for kind in ("curves", "lifetime", "games"):
        for panel in draw(kind, found).panels:
            for series in panel.series:
                # A rate of 0 is z = -0.5.
                assert set(series.low) == {0.0 if kind == "curves" else -0.5}
    lost = make_compared(tmp_path / "lost", {"alpha": 0.0}, rewards=(0.0, -1.0, 9.0))
    for panel in draw("curves", lost.shown).panels:
        assert max(low for series in panel.series for low in series.low) < -1


# --- some agents and games ------------------------------------------------------


def test_some_agents_keep_their_styles(compared):
    beta = compared.shown.suite.agents[1]
    chosen = choose_agents(compared.shown, [beta.label])
    assert chosen.suite.agents == (beta,)
    assert chosen.style(beta) == compared.shown.style(beta)
    with pytest.raises(UnknownNameError, match="unknown agent among the runs 'gamma'"):
        choose_agents(compared.shown, ["alpha", "gamma"])


def test_some_games_in_the_order_of_the_suite(compared):
    chosen = choose_games(compared.shown, "curves", ["qbert", "centipede"])
    titles = [panel.title for panel in draw("curves", chosen).panels]
    assert titles == ["centipede", "qbert"]
    with pytest.raises(UnknownNameError, match="unknown game of the suite 'pong'"):
        choose_games(compared.shown, "games", "pong")
    with pytest.raises(
        ConfigError, match=r"^games: .* kind average is about all games"
    ):
        choose_games(compared.shown, "average", ["qbert"])
    with pytest.raises(ConfigError, match=r"^games: expected 1 or more, found 0"):
        choose_games(compared.shown, "games", 0)


def test_the_games_in_which_agents_differ_most(compared):
    first, second = compared.shown.suite.agents
    games = {
        game: {"average": numbers["average"].model_copy(update={"mean": mean})}
        for (game, numbers), mean in zip(
            first.games.items(), (0.3, -2.0, 0.9), strict=True
        )
    }
    zero = {
        game: {"average": numbers["average"].model_copy(update={"mean": 0.0})}
        for game, numbers in games.items()
    }
    agents = (
        first.model_copy(update={"games": games}),
        second.model_copy(update={"games": zero}),
    )
    suite = compared.shown.suite.model_copy(update={"agents": agents})
    shown = replace(compared.shown, suite=suite)
    assert choose_games(shown, "games", 2).suite.games == ("ms_pacman", "qbert")
    assert choose_games(shown, "games", 1).suite.games == ("ms_pacman",)


# --- refusals -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("profile", "nothing to draw: no game has z"),
        ("lifetime", "nothing to draw: anchors-1 has no anchors for"),
        ("retention", "nothing to draw: no game of this suite has z"),
        ("predictions", "nothing to draw: it is not a prediction suite"),
    ],
)
def test_figures_that_runs_do_not_have(compared, kind, message):
    (suite,) = compare(compared.found, Request(NO_ANCHORS)).suites
    scale = make_scale(NO_ANCHORS, suite.suite, suite.games)
    with pytest.raises(ConfigError, match=message):
        draw(kind, Shown(suite, compared.shown.runs, scale))


def test_figures_that_need_rows_or_two_agents(compared):
    suite = compared.shown.suite
    alone = suite.model_copy(update={"agents": suite.agents[:1]})
    with pytest.raises(ConfigError, match="needs two agents with runs"):
        draw("improvement", Shown(alone, compared.shown.runs, compared.shown.scale))
    for kind in ("curves", "stream", "lifetime"):
        with pytest.raises(ConfigError, match="no run has its rows"):
            draw(kind, Shown(suite, {}, compared.shown.scale))


def test_unknown_kind(compared):
    with pytest.raises(UnknownNameError, match="did you mean 'curves'"):
        draw("curve", compared.shown)


def test_predictions_have_a_kind_of_their_own(predictions):
    with pytest.raises(ConfigError, match="prediction suites have --kind predictions"):
        draw("games", predictions)


# --- styles ----------------------------------------------------------------------


def test_styles_are_those_of_names_unless_given(compared):
    shown = compared.shown
    styles = style_agents(agent.label for agent in shown.suite.agents)
    assert {a.label: shown.style(a) for a in shown.suite.agents} == styles
    star = Style("#123456", 6)
    given = replace(shown, styles={"alpha": star})
    assert given.style(shown.suite.agents[0]) == star
    (panel,) = draw("games", given).panels
    assert (panel.series[0].colour, panel.series[0].mark) == ("#123456", 6)
    (trace, _) = make_figure(draw("games", given))["data"]
    assert trace["marker"]["symbol"] == "star"


# --- matplotlib -----------------------------------------------------------------


@pytest.mark.few(3)
@pytest.mark.parametrize("kind", KINDS)
def test_same_drawing_gives_the_same_bytes(kind, compared, predictions):
    drawing = make_drawing(kind, compared, predictions)
    first = render_paper(drawing, "png", 2)
    assert first == render_paper(drawing, "png", 2)
    assert first.startswith(b"\x89PNG")


@pytest.mark.parametrize(("columns", "width"), [(1, 990), (2, 2070)])
def test_width_is_that_of_a_paper(compared, columns, width):
    png = render_paper(draw("curves", compared.shown), "png", columns)
    assert int.from_bytes(png[16:20]) == width


def test_pdf_embeds_its_fonts_and_has_no_date(compared):
    drawing = draw("curves", compared.shown)
    pdf = render_paper(drawing, "pdf")
    assert pdf == render_paper(drawing, "pdf")
    assert b"/FontFile2" in pdf
    assert b"/CreationDate" not in pdf


def test_svg_is_the_same_every_time_and_needs_no_font(compared):
    drawing = draw("games", compared.shown)
    svg = render_paper(drawing, "svg")
    assert svg == render_paper(drawing, "svg")
    assert b"<text" not in svg
    assert b"<dc:date>" not in svg


def test_colours_are_in_the_figure(compared):
    svg = render_paper(draw("profile", compared.shown), "svg").decode().lower()
    for agent in compared.shown.suite.agents:
        assert compared.shown.style(agent).colour.lower() in svg


@pytest.mark.parametrize(("agents", "bands"), [(3, 3), (4, 0)])
def test_bands_of_many_agents_are_left_out(agents, bands):
    x, y = (0.1, 0.9), (1.0, 2.0)
    series = tuple(
        Series(f"{n}", OKABE_ITO[n], x, y, (0.5, 1.0), (2.0, 3.0))
        for n in range(agents)
    )
    drawing = Drawing("curves", "", "", "", (Panel("pong", series),))
    assert render_paper(drawing, "svg", 2).count(b"FillBetweenPoly") == bands
    on_page = [trace for trace in make_figure(drawing)["data"] if "fill" in trace]
    assert len(on_page) == bands
    assert ("Intervals are drawn for up to 3" in drawing.full_caption) == (not bands)


def test_caption_of_dots_names_no_bands():
    dots = tuple(
        Series(f"{n}", OKABE_ITO[n], (1.0,), (float(n),), (0.5,), (1.5,))
        for n in range(4)
    )
    drawing = Drawing("average", "", "", "", (Panel("mean", dots, ("a",) * 4),), "One.")
    assert drawing.full_caption == "One."


def test_unknown_format(compared):
    with pytest.raises(ConfigError, match=r"found \.jpg"):
        render_paper(draw("games", compared.shown), "jpg")


# --- plotly ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_pages_show_the_same_numbers(kind, compared, predictions):
    drawing = make_drawing(kind, compared, predictions)
    figure = make_figure(drawing)
    assert json.dumps(figure) == json.dumps(make_figure(drawing))
    named = [trace for trace in figure["data"] if "name" in trace]
    series = [one for panel in drawing.panels for one in panel.series]
    names = [html.escape(one.label, quote=False) for one in series]
    assert [trace["name"] for trace in named] == names
    assert "<b>" not in json.dumps(figure)
    for trace, one in zip(named, series, strict=True):
        assert trace["x"] == pytest.approx(one.x)
        assert trace["y"] == pytest.approx(one.y)
    told = [trace["name"] for trace in named if trace["showlegend"]]
    assert len(told) == len(set(told)) == len({one.label for one in series})


def test_agents_are_named_once_in_a_row_of_panels(compared):
    """Else the names of a panel lie over the intervals of the one before."""
    layout = make_figure(draw("average", compared.shown))["layout"]
    axes = [layout[name] for name in layout if name.startswith("yaxis")]
    has_names = [axis.get("showticklabels", True) for axis in axes]
    assert len(axes) > 1
    assert has_names == [True] + [False] * (len(axes) - 1)


def test_spans_and_marks_are_drawn(compared):
    figure = make_figure(draw("stream", compared.shown))
    shapes = figure["layout"]["shapes"]
    spans = [shape for shape in shapes if shape["type"] == "rect"]
    assert len(spans) == 12
    assert len(shapes) - len(spans) == 4


def test_figure_is_small(compared):
    data = json.dumps(make_figure(draw("curves", compared.shown)))
    assert len(data) < 60_000
    assert len(zlib.compress(data.encode())) < 10_000


def test_series_of_a_panel_differ_without_colour(compared):
    names = [agent.label for agent in compared.shown.suite.agents]
    assert len(names) >= 2
    lines = {
        trace["name"]: trace["line"]["dash"]
        for trace in make_figure(draw("curves", compared.shown))["data"]
        if "name" in trace
    }
    assert len(set(lines.values())) == len(lines) == len(names)
    dots = {
        trace["name"]: trace["marker"]["symbol"]
        for trace in make_figure(draw("games", compared.shown))["data"]
    }
    assert len(set(dots.values())) == len(dots) == len(names)


def test_series_alone_in_their_panels_are_drawn_alike():
    point = ((1.0,), (2.0,), (None,), (None,))
    panels = [Panel(n, (Series(n, "#000000", *point),)) for n in ("a", "b")]
    drawing = Drawing("timeline", "", "x", "y", tuple(panels))
    dashes = [trace["line"]["dash"] for trace in make_figure(drawing)["data"]]
    assert dashes == ["solid", "solid"]


@pytest.mark.parametrize(("points", "mode"), [(1, "lines+markers"), (2, "lines")])
def test_a_line_of_one_point_is_visible(points, mode):
    x, unknown = tuple(map(float, range(points))), (None,) * points
    series = Series("loss", "#000000", x, x, unknown, unknown)
    drawing = Drawing("timeline", "", "x", "y", (Panel("loss", (series,)),))
    (trace,) = make_figure(drawing)["data"]
    assert trace["mode"] == mode
