"""Drawings -> plotly figures for pages, as plain data.

The result is JSON for plotly.js: the page contains the data, the library is a local
file, and nothing is fetched from the network.
"""

from __future__ import annotations

import html
import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from longplay.errors import MissingExtraError
from longplay.lab.report.draw.drawings import (
    Drawing,
    Grid,
    Panel,
    Series,
    number_marks,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_ACROSS = 4
_PANEL_PX = 210
_CATEGORY_PX = 16
# In the order of `drawings.number_marks`.
_DASHES = (
    "solid",
    "dash",
    "dot",
    "dashdot",
    "longdash",
    "longdashdot",
    "6px,2px,2px,2px",
    "2px,6px",
)
_SYMBOLS = (
    "circle",
    "square",
    "diamond",
    "triangle-up",
    "cross",
    "x",
    "star",
    "triangle-down",
)


def make_figure(drawing: Drawing) -> dict[str, Any]:
    """Draws a figure as `{data, layout}` of plotly.js.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    try:
        from plotly.subplots import make_subplots
    except ImportError as error:
        raise MissingExtraError.of("pages need plotly", "report") from error
    is_column = drawing.kind in ("stream", "timeline")
    across = 1 if is_column else min(_ACROSS, len(drawing.panels))
    down = math.ceil(len(drawing.panels) / across)
    is_timeline = drawing.kind == "timeline"
    figure = make_subplots(
        rows=down,
        cols=across,
        subplot_titles=[_escape(panel.title) for panel in drawing.panels],
        shared_xaxes=is_timeline,
        # Room for a title; the x axis has numbers only at the bottom.
        vertical_spacing=0.12 / down if is_timeline else None,
        shared_yaxes="all" if drawing.kind == "stream" else False,
        x_title=_escape(drawing.x_label),
        y_title=_escape(drawing.y_label),
    )
    marks = number_marks(drawing)
    named: set[str] = set()
    for n, panel in enumerate(drawing.panels):
        place = {"row": n // across + 1, "col": n % across + 1}
        _add_panel(figure, panel, place, marks, named, drawing.has_bands)
        left = drawing.panels[n - n % across]
        if n % across and panel.categories and panel.categories == left.categories:
            figure.update_yaxes(showticklabels=False, **place)
    figure.update_layout(
        template="plotly_white",
        height=_height(drawing, down),
        margin={"l": 70, "r": 20, "t": 30 if is_timeline else 70, "b": 60},
        legend={"orientation": "h", "yref": "container", "y": 1, "yanchor": "top"},
        font={"size": 12},
        showlegend=False if is_timeline else None,
    )
    if is_timeline and drawing.panels[0].spans:
        spans = drawing.panels[0].spans
        figure.update_xaxes(range=[spans[0].start, spans[-1].end])
    if is_timeline:
        figure.update_yaxes(fixedrange=True)  # zooming chooses frames
        figure.update_xaxes(tickformat=",d")
    found: dict[str, Any] = json.loads(figure.to_json())
    # Defaults that every figure would repeat: 7 KB each.
    found["layout"].pop("template", None)
    _add_spans(found["layout"], drawing.panels)
    return found


def _add_spans(layout: dict[str, Any], panels: Sequence[Panel]) -> None:
    """Colours stretches of the x axis, and names them.

    As plain data: `Figure.add_vrect` takes time that grows with their square.
    """
    shapes, names = [], []
    for n, panel in enumerate(panels):
        axes = {
            "xref": f"x{n + 1 if n else ''}",
            "yref": f"y{n + 1 if n else ''} domain",
        }
        for span in panel.spans:
            shape = {"type": "rect", "x0": span.start, "x1": span.end, "y0": 0, "y1": 1}
            fill = {"fillcolor": span.colour, "opacity": 0.25, "line": {"width": 0}}
            shapes.append({**axes, **shape, **fill, "layer": "below"})
            if span.label:
                text = {"text": _escape(span.label), "font": {"size": 9}}
                at = {"x": span.start, "xanchor": "left", "y": 1, "yanchor": "top"}
                names.append({**axes, **text, **at, "showarrow": False})
    layout["shapes"] = [*layout.get("shapes", ()), *shapes]
    layout["annotations"] = [*layout.get("annotations", ()), *names]


def _height(drawing: Drawing, down: int) -> int:
    if drawing.panels[0].grid is not None:
        rows = max(len(panel.grid.rows) for panel in drawing.panels if panel.grid)
        return 130 + down * max(_PANEL_PX, 2 * _CATEGORY_PX * rows)
    lines = max(panel.dot_rows + len(panel.categories) for panel in drawing.panels)
    return 130 + down * max(_PANEL_PX, _CATEGORY_PX * lines)


def _add_panel(
    figure: Figure,
    panel: Panel,
    place: dict[str, int],
    marks: dict[str, int],
    named: set[str],
    has_bands: bool,
) -> None:
    if panel.grid is not None:
        figure.add_trace(_heatmap(panel.grid), **place)
        figure.update_yaxes(autorange="reversed", automargin=True, **place)
    if panel.x_names:
        figure.update_xaxes(
            tickvals=list(range(len(panel.x_names))),
            ticktext=[_escape(name) for name in panel.x_names],
            **place,
        )
    for series in panel.series:
        mark = marks[series.label]
        if panel.categories:
            traces = _dots(series, _SYMBOLS[mark % len(_SYMBOLS)])
        elif panel.has_bars:
            traces = _bars(series, _SYMBOLS[mark % len(_SYMBOLS)])
        else:
            traces = _line(series, _DASHES[mark % len(_DASHES)], has_band=has_bands)
        for trace in traces:
            is_new = series.label not in named and "name" in trace
            named.update({series.label} if is_new else ())
            figure.add_trace({**trace, "showlegend": is_new}, **place)
    for value in panel.marks:
        line = figure.add_vline if panel.categories else figure.add_hline
        line(value, line_dash="dot", line_color="#999", line_width=1, **place)
    if panel.categories:
        figure.update_yaxes(
            tickvals=list(range(len(panel.categories))),
            ticktext=[_escape(name) for name in panel.categories],
            range=[len(panel.categories) - 0.5, -0.5],
            zeroline=False,
            automargin=True,
            **place,
        )
        if panel.is_log:
            figure.update_xaxes(type="log", **place)
    if panel.limits is not None:
        room = 0.03 * (panel.limits[1] - panel.limits[0])
        bounds = [panel.limits[0] - room, panel.limits[1] + room]
        update = figure.update_xaxes if panel.categories else figure.update_yaxes
        update(range=bounds, **place)


def _line(series: Series, dash: str, *, has_band: bool) -> list[dict[str, Any]]:
    """A line over its band, if it has one; a click in the legend takes both away."""
    group = {"type": "scatter", "legendgroup": _escape(series.label), "mode": "lines"}
    known = [
        (x, low, high)
        for x, low, high in zip(series.x, series.low, series.high, strict=True)
        if low is not None and high is not None
    ]
    traces: list[dict[str, Any]] = []
    if known and has_band:
        x, low, high = (list(column) for column in zip(*known, strict=True))
        traces.append(
            {
                **group,
                "x": [*x, *reversed(x)],
                "y": [*high, *reversed(low)],
                "fill": "toself",
                "fillcolor": _fade(series.colour),
                "line": {"width": 0},
                "hoverinfo": "skip",
            }
        )
    points = {"x": list(series.x), "y": list(series.y), "name": _escape(series.label)}
    line = {"color": series.colour, "width": 1.5, "dash": dash}
    style: dict[str, Any] = {"line": line}
    if len(series.x) == 1:  # a line of one point is invisible
        style |= {"mode": "lines+markers", "marker": {"color": series.colour}}
    if series.links:
        marker = {"color": series.colour, "size": 5}
        style = {
            "mode": "markers",
            "marker": marker,
            "customdata": list(series.links),
            "cliponaxis": False,  # the last episode ends at the edge
        }
    if series.key:
        style["meta"] = series.key
    return [*traces, {**group, **points, **style}]


def _bars(series: Series, symbol: str) -> list[dict[str, Any]]:
    """Points with bars, joined by a line."""
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": _escape(series.label),
        "legendgroup": _escape(series.label),
        "x": list(series.x),
        "y": list(series.y),
        "line": {"color": series.colour, "width": 1},
        "marker": {"color": series.colour, "size": 6, "symbol": symbol},
        "error_y": _error_bars(series, series.y, thickness=1.2, width=2),
    }
    return [{**trace, "customdata": list(series.links)} if series.links else trace]


def _heatmap(grid: Grid) -> dict[str, Any]:
    """Cells with their values; the page colours them by its theme."""
    trace = {
        "type": "heatmap",
        "x": [_escape(name) for name in grid.columns],
        "y": [_escape(name) for name in grid.rows],
        "z": [list(row) for row in grid.shades],
        "text": [list(row) for row in grid.texts],
        "texttemplate": "%{text}",
        "hovertemplate": "%{y}, %{x}: %{text}<extra></extra>",
        "zmin": -0.1,
        "zmax": 2.4,
        "showscale": False,
        "xgap": 2,
        "ygap": 2,
    }
    if any(any(row) for row in grid.links):
        return {**trace, "customdata": [list(row) for row in grid.links]}
    return trace


def _dots(series: Series, symbol: str) -> list[dict[str, Any]]:
    """Dots with intervals along x."""
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": _escape(series.label),
            "legendgroup": _escape(series.label),
            "x": list(series.x),
            "y": list(series.y),
            "marker": {"color": series.colour, "size": 7, "symbol": symbol},
            "error_x": _error_bars(series, series.x, thickness=1.5, width=0),
        }
    ]


def _error_bars(
    series: Series, values: Sequence[float], *, thickness: float, width: int
) -> dict[str, Any]:
    """From `low` to `high` of each value; no bar where an end is not known."""
    ends = list(zip(values, series.low, series.high, strict=True))
    return {
        "type": "data",
        "symmetric": False,
        "array": [0 if high is None else high - value for value, _, high in ends],
        "arrayminus": [0 if low is None else value - low for value, low, _ in ends],
        "color": series.colour,
        "thickness": thickness,
        "width": width,
    }


def _escape(text: str) -> str:
    """Names are text: plotly.js takes some tags in them for markup, links included."""
    return html.escape(text, quote=False)


def _fade(colour: str) -> str:
    red, green, blue = (int(colour[n : n + 2], 16) for n in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.2)"


def load_plotly() -> None:
    """Draws a figure without content: plotly loads most of itself with the first."""
    make_figure(Drawing("timeline", "", "", "", (Panel("", ()),)))


def plotly_script() -> str:
    """The source of plotly.js, to be stored with a page."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs())
