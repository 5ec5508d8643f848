"""One run -> its timeline: reward rate, episodes and metrics over one x axis.

Curves are binned before they are sent: whatever the length of a run, a panel has some
thousand points. A bin of several values shows their mean between minimum and maximum.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from longplay.contract.config import RunConfig, visit_spans
from longplay.contract.curves import WINDOWS, Curves, ratio
from longplay.contract.rows import EpisodeRow
from longplay.lab.report.draw.colours import OKABE_ITO, RANDOM_COLOUR, game_colour
from longplay.lab.report.draw.drawings import Drawing, Panel, Series, Span
from longplay.lab.viewer.tail import MetricPoints
from longplay.lab.viewer.zoom import MOST_FRAMES, Zoom, bin_rewards
from longplay.tracks.catalogue import track_of

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]
# x, y, and the lowest and highest value behind y.
Point = tuple[float, float, float | None, float | None]

_MOST_POINTS = 1500
_MOST_DOTS = 3000
_MOST_METRIC_PANELS = 6
_MOST_SPANS = 400
_MOST_LABELLED_SPANS = 40

_RATE, _RETURN, _METRIC, _ERROR = OKABE_ITO[:4]
_LEVEL = RANDOM_COLOUR


@dataclass(frozen=True)
class Played:
    """What is known of a run's play.

    Attributes:
        run_id: Its id in addresses.
        config: Its settings.
        curves: Windows of each visit; None without rows.
        episodes: Game episodes that have ended; None without rows.
        metrics: Metric of the agent -> its points.
        visit_rates: Reward per frame of the visits that were started, from the
            summary; shown without curves.
        zoom: The part that is shown larger, if any.
        levels: Agent that learns nothing -> its reward per frame by game.
    """

    run_id: str
    config: RunConfig
    curves: Curves | None
    episodes: Sequence[EpisodeRow] | None
    metrics: Mapping[str, MetricPoints]
    visit_rates: Sequence[float] = ()
    zoom: Zoom | None = None
    levels: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


def draw_timeline(played: Played) -> Drawing:
    """The whole run, panel below panel."""
    noun = track_of(played.config).frame_noun
    spans = _spans(played.config)
    lines: dict[str, tuple[Series, ...]] = {}
    curves = played.curves
    if curves is not None and curves.squared_errors is not None:
        lines[f"squared error per {noun}"] = (draw_error(played.config, curves),)
    levels = draw_levels(played.config, played.levels)
    lines[f"reward per {noun}"] = (_draw_rewards(played), *levels)
    if played.episodes is not None:
        dots = draw_episodes(played.run_id, played.episodes, zoom=played.zoom)
        lines["return of each episode"] = (dots,)
    panels = [Panel(title, drawn, spans=spans) for title, drawn in lines.items()]
    for name in list(played.metrics)[:_MOST_METRIC_PANELS]:
        line = draw_metric(name, played.metrics[name], zoom=played.zoom)
        panels.append(Panel(name, (line,), spans=spans))
    return Drawing(
        "timeline",
        "Timeline",
        noun,
        "",
        (panels[0], *map(_without_labels, panels[1:])),
        " ".join(_describe(played, noun, panels)),
    )


def _draw_rewards(played: Played) -> Series:
    if played.curves is None:
        return draw_visit_rates(played.config, played.visit_rates)
    return draw_rate(played.config, played.curves, zoom=played.zoom)


def _without_labels(panel: Panel) -> Panel:
    spans = tuple(replace(span, label="") for span in panel.spans)
    return replace(panel, spans=spans)


def _describe(played: Played, noun: str, panels: Sequence[Panel]) -> Iterator[str]:
    """The sentences below the timeline."""
    yield "Colours are games. Drag to zoom, double click to zoom out."
    if played.curves is None:
        yield "The reward rate is that of whole visits, from the summary."
    elif played.zoom is not None and played.zoom.rewards is None:
        yield f"Bins become finer in parts of {MOST_FRAMES:,} {noun}s or less."
    if played.levels:
        names = " and ".join(played.levels)
        yield f"Grey lines: agents that learn nothing ({names}), shipped means."
    if played.episodes is not None:
        yield "A dot is a game episode; click it to watch it."
        episodes = len(played.episodes)
        dots = (line for panel in panels for line in panel.series if line.links)
        if sum(len(line.x) for line in dots) < episodes:
            yield f"Of {episodes:,} episodes, the best and worst of each bin are shown."
    if (metrics := len(played.metrics)) > _MOST_METRIC_PANELS:
        yield f"The first {_MOST_METRIC_PANELS} of {metrics} metrics are shown."


def _spans(config: RunConfig) -> tuple[Span, ...]:
    visits = config.played_schedule
    if len(visits) > _MOST_SPANS:
        return ()
    is_labelled = len(visits) <= _MOST_LABELLED_SPANS
    return tuple(
        Span(
            span.start,
            span.stop,
            visit.game_id if is_labelled else "",
            game_colour(visit.game_id),
        )
        for visit, span in zip(visits, visit_spans(visits), strict=True)
    )


# --- reward rate ----------------------------------------------------------------


def draw_rate(
    config: RunConfig, curves: Curves, first_bin: int = 0, zoom: Zoom | None = None
) -> Series:
    """Reward per frame, a gap between visits.

    Args:
        config: Of the run.
        curves: Windows of its visits.
        first_bin: Bins before it are left out.
        zoom: Frames that have finer bins.
    """
    points = _list_bins(config, curves.frames, curves.rewards, first_bin)
    if zoom is not None and zoom.rewards is not None:
        before = [point for point in points if point[0] < zoom.frames.start]
        after = [point for point in points if point[0] >= zoom.frames.stop]
        points = [*before, *_zoom_in(config, zoom.frames, zoom.rewards), *after]
    return _series("reward rate", _RATE, points, key="rate")


def draw_error(config: RunConfig, curves: Curves, first_bin: int = 0) -> Series:
    """Squared error per frame of a prediction run; arguments as of `draw_rate`."""
    assert curves.squared_errors is not None
    points = _list_bins(config, curves.frames, curves.squared_errors, first_bin)
    return _series("squared error", _ERROR, points, key="error")


def draw_levels(
    config: RunConfig, levels: Mapping[str, Mapping[str, float]]
) -> Iterator[Series]:
    """What agents get that learn nothing, a level line per visit."""
    visits = config.played_schedule
    if len(visits) > _MOST_SPANS:
        return
    for name, rates in levels.items():
        known = [rates.get(visit.game_id, math.nan) for visit in visits]
        yield replace(
            draw_visit_rates(config, known), label=name, colour=_LEVEL, key=""
        )


def _list_bins(
    config: RunConfig, frames: Ints, sums: Reals, first_bin: int
) -> list[Point]:
    """Means of bins of windows, a gap between visits."""
    lengths = np.array([visit.visit_frames for visit in config.played_schedule])
    bins = _bins_per_visit(len(lengths))
    x, mean, low, high = _bin_windows(lengths, frames, sums, bins)
    points: list[Point] = []
    for n in range(first_bin, len(x)):
        if not math.isnan(mean[n]):
            if n % bins == 0 and n:  # a gap between visits
                points.append((float(x[n]), math.nan, None, None))
            has_band = high[n] > low[n]
            band = (float(low[n]), float(high[n])) if has_band else (None, None)
            points.append((float(x[n]), float(mean[n]), *band))
    return points


def _zoom_in(config: RunConfig, frames: range, rewards: Reals) -> Iterator[Point]:
    fine = bin_rewards(config, frames, rewards)
    columns = (fine.x.tolist(), fine.rates.tolist(), fine.starts_visit.tolist())
    for x, rate, starts_visit in zip(*columns, strict=True):
        if starts_visit:  # a gap between visits
            yield x, math.nan, None, None
        if not math.isnan(rate):
            yield x, rate, None, None


def draw_visit_rates(config: RunConfig, rates: Sequence[float]) -> Series:
    """Reward per frame of whole visits, each a line from its start to its end."""
    points: list[Point] = []
    for span, rate in zip(visit_spans(config.played_schedule), rates, strict=False):
        points += [(float(x), rate, None, None) for x in (span.start, span.stop)]
        points.append((float(span.stop), math.nan, None, None))
    return _series("reward rate", _RATE, points, key="rate")


def _bins_per_visit(visits: int) -> int:
    """The most bins that divide the windows of a visit and stay below the limit."""
    divisors = (60, 30, 20, 15, 12, 10, 6, 5, 4, 3, 2, 1)
    assert divisors[0] == WINDOWS
    return next((n for n in divisors if n * visits <= _MOST_POINTS), 1)


def count_bins(config: RunConfig, curves: Curves) -> int:
    """Bins of a run in progress that will not change any more."""
    visits = config.played_schedule
    bins = _bins_per_visit(len(visits))
    played = curves.frames.reshape(len(visits) * bins, -1)
    return int(np.flatnonzero(played.all(axis=1)).max(initial=-1)) + 1


def _bin_windows(
    lengths: Ints, frames: Ints, sums: Reals, bins: int
) -> tuple[Reals, Reals, Reals, Reals]:
    """(visits * bins,) each: middle of a bin, its mean, lowest and highest window."""
    shape = (len(lengths), bins, WINDOWS // bins)
    mean = ratio(sums.reshape(shape).sum(axis=2), frames.reshape(shape).sum(axis=2))
    windows = ratio(sums, frames).reshape(shape)
    is_known = ~np.isnan(windows)
    low = np.min(windows, axis=2, where=is_known, initial=np.inf)
    high = np.max(windows, axis=2, where=is_known, initial=-np.inf)
    starts = np.cumsum(lengths) - lengths
    middle = (np.arange(bins) + 0.5) / bins
    x = starts[:, np.newaxis] + np.round(middle * lengths[:, np.newaxis])
    return x.ravel(), mean.ravel(), low.ravel(), high.ravel()


# --- episodes -------------------------------------------------------------------


def draw_episodes(
    run_id: str,
    episodes: Sequence[EpisodeRow],
    first: int = 0,
    zoom: Zoom | None = None,
) -> Series:
    """The return of every episode at its end, a link each."""
    ends = [row.end_global_frame_idx for row in episodes]
    parts = (episodes[part] for part in _split(ends, first, zoom))
    shown = [row for part in parts for row in choose_episodes(part)]
    return Series(
        "episodes",
        _RETURN,
        tuple(float(row.end_global_frame_idx) for row in shown),
        tuple(row.return_ for row in shown),
        (None,) * len(shown),
        (None,) * len(shown),
        tuple(episode_address(run_id, row.episode_id) for row in shown),
        "episodes",
    )


def episode_address(run_id: str, episode_id: int) -> str:
    """The page of an episode."""
    return f"/runs/{run_id}/episodes/{episode_id}"


def choose_episodes(episodes: Sequence[EpisodeRow]) -> list[EpisodeRow]:
    """All episodes, or the best and the worst of each of many bins."""
    if len(episodes) <= _MOST_DOTS:
        return list(episodes)
    chosen: list[EpisodeRow] = []
    edges = np.linspace(0, len(episodes), _MOST_DOTS // 2 + 1).astype(int).tolist()
    for start, end in pairwise(edges):
        binned = sorted(episodes[start:end], key=lambda row: row.return_)
        chosen += [binned[0], binned[-1]] if len(binned) > 1 else binned
    return sorted(chosen, key=lambda row: row.episode_id)


# --- metrics --------------------------------------------------------------------


def draw_metric(
    name: str, points: MetricPoints, first: int = 0, zoom: Zoom | None = None
) -> Series:
    """A metric of the agent, binned if there are many rows."""
    found: list[Point] = []
    for part in _split(points.frames, first, zoom):
        found += _bin_metric(points.frames[part], points.values[part])
    return _series(name, _METRIC, found, key=f"metric:{name}")


def _bin_metric(frames: Sequence[int], values: Sequence[float]) -> Iterator[Point]:
    x, y = np.array(frames, np.float64), np.array(values, np.float64)
    x, y = x[np.isfinite(y)], y[np.isfinite(y)]
    size = max(1, math.ceil(len(x) / _MOST_POINTS))
    for start in range(0, len(x), size):
        part = y[start : start + size]
        band = (float(part.min()), float(part.max())) if size > 1 else (None, None)
        yield float(x[start]), float(part.mean()), *band


def _split(frames: Sequence[int], first: int, zoom: Zoom | None) -> list[slice]:
    """Parts to bin on their own: before, in and after the part that is shown larger."""
    if zoom is None:
        return [slice(first, None)]
    start = max(first, bisect_left(frames, zoom.frames.start))
    stop = max(start, bisect_left(frames, zoom.frames.stop))
    return [slice(first, start), slice(start, stop), slice(stop, None)]


def _series(
    label: str,
    colour: str,
    points: Sequence[Point],
    key: str,
) -> Series:
    x, y, low, high = zip(*points, strict=True) if points else ((), (), (), ())
    return Series(label, colour, x, y, low, high, key=key)
