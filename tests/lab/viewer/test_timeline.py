"""A timeline has the numbers of the run, binned if there are too many to draw."""

from __future__ import annotations

import math

import numpy as np

from longplay.contract.curves import Curves
from longplay.contract.rows import EpisodeRow
from longplay.lab.viewer.tail import MetricPoints
from longplay.lab.viewer.timeline import (
    Played,
    choose_episodes,
    count_bins,
    draw_error,
    draw_levels,
    draw_metric,
    draw_rate,
    draw_timeline,
    draw_visit_rates,
)
from written_runs import make_config

CONFIG = make_config()  # six visits of 60 frames: a window is a frame


def make_curves(rewards: np.ndarray) -> Curves:
    return Curves(np.ones((6, 60), np.int64), rewards)


def test_rate_has_a_point_per_window_and_a_gap_between_visits():
    line = draw_rate(CONFIG, make_curves(np.arange(360.0).reshape(6, 60)))
    gaps = [n for n, y in enumerate(line.y) if math.isnan(y)]
    assert gaps == [60, 121, 182, 243, 304]
    assert [y for y in line.y if not math.isnan(y)] == list(range(360))
    assert line.x[:3] == (0.0, 2.0, 2.0)  # middles 0.5, 1.5, 2.5, rounded to even


def test_rate_continues_where_a_page_stopped():
    played = np.zeros((6, 60), np.int64)
    played[0, :45] = 1
    curves = Curves(played, np.ones((6, 60)))
    assert count_bins(CONFIG, curves) == 45
    line = draw_rate(CONFIG, curves, first_bin=40)
    assert line.y == (1.0,) * 5
    assert draw_rate(CONFIG, curves, first_bin=45).x == ()


def test_visits_without_rows_are_level_lines():
    """Two visits of six were played; the rates are those of the summary."""
    line = draw_visit_rates(CONFIG, [0.5, 0.25])
    assert line.x == (0.0, 60.0, 60.0, 60.0, 120.0, 120.0)
    assert [y for y in line.y if not math.isnan(y)] == [0.5, 0.5, 0.25, 0.25]
    assert math.isnan(line.y[2])
    assert math.isnan(line.y[5])


def test_many_visits_are_binned_with_minimum_and_maximum():
    """100 visits: 15 bins of 4 windows each, of rewards 0, 1, 2, 3 in every bin."""
    schedule = CONFIG.schedule[0]
    visits = tuple(
        schedule.model_copy(update={"visit_idx": n, "visit_frames": 60})
        for n in range(100)
    )
    config = CONFIG.model_copy(update={"schedule": visits})
    rewards = np.tile(np.arange(4.0), (100, 15))
    line = draw_rate(config, Curves(np.ones((100, 60), np.int64), rewards))
    known = [n for n, y in enumerate(line.y) if not math.isnan(y)]
    assert len(known) == 1500
    assert {(line.low[n], line.y[n], line.high[n]) for n in known} == {(0.0, 1.5, 3.0)}


def make_episodes(returns: list[float]) -> list[EpisodeRow]:
    return [
        EpisodeRow("pong", n, n, n, 1, value, "terminated")
        for n, value in enumerate(returns)
    ]


def test_few_episodes_are_all_shown():
    episodes = make_episodes([1.0, 2.0])
    assert choose_episodes(episodes) == episodes


def test_of_many_episodes_best_and_worst_stay():
    returns = [float(n % 7) for n in range(30_000)]
    returns[12_345], returns[23_456] = 99.0, -99.0
    chosen = choose_episodes(make_episodes(returns))
    assert len(chosen) == 3000
    assert {12_345, 23_456} <= {row.episode_id for row in chosen}
    ids = [row.episode_id for row in chosen]
    assert ids == sorted(ids)


def test_metric_is_binned():
    points = MetricPoints(list(range(3000)), [float(n % 2) for n in range(3000)])
    line = draw_metric("loss", points)
    assert len(line.x) == 1500
    assert (line.y[0], line.low[0], line.high[0]) == (0.5, 0.0, 1.0)
    few = draw_metric("loss", MetricPoints([10, 20], [1.0, math.inf]))
    assert (few.x, few.y, few.low) == ((10.0,), (1.0,), (None,))


def test_panels_share_the_visits():
    metrics = {f"m{n}": MetricPoints([1], [1.0]) for n in range(9)}
    curves = make_curves(np.ones((6, 60)))
    played = Played("abc", CONFIG, curves, make_episodes([1.0]), metrics)
    drawing = draw_timeline(played)
    assert len(drawing.panels) == 2 + 6
    assert "The first 6 of 9 metrics are shown." in drawing.caption
    first, second = drawing.panels[:2]
    assert [span.label for span in first.spans] == [v.game_id for v in CONFIG.schedule]
    assert [span.end for span in second.spans] == [60, 120, 180, 240, 300, 360]
    assert {span.label for panel in drawing.panels[1:] for span in panel.spans} == {""}
    assert second.series[0].links == ("/runs/abc/episodes/0",)


def test_run_without_rows_has_the_rates_of_its_visits():
    played = Played("abc", CONFIG, None, None, {}, [0.5] * 6)
    drawing = draw_timeline(played)
    assert [panel.title for panel in drawing.panels] == ["reward per frame"]
    assert "that of whole visits" in drawing.caption
    assert "episode" not in drawing.caption


def test_prediction_runs_show_squared_errors_first():
    curves = Curves(
        np.ones((6, 60), np.int64), np.zeros((6, 60)), np.full((6, 60), 0.25)
    )
    assert draw_error(CONFIG, curves, first_bin=301).y == (0.25,) * 59
    panels = draw_timeline(Played("id", CONFIG, curves, None, {})).panels
    titles = [panel.title for panel in panels]
    assert titles == ["squared error per frame", "reward per frame"]


def test_levels_are_those_of_the_game_of_each_visit():
    games = [visit.game_id for visit in CONFIG.schedule]
    (line,) = draw_levels(CONFIG, {"random": {games[0]: 0.5}})
    known = [(x, y) for x, y in zip(line.x, line.y, strict=True) if not math.isnan(y)]
    starts = [60 * n for n, game in enumerate(games) if game == games[0]]
    assert known == [(x, 0.5) for start in starts for x in (start, start + 60)]
    assert (line.label, line.key) == ("random", "")
