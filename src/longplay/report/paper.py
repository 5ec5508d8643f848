"""Drawings -> figures for papers: PDF, PNG or SVG, with matplotlib.

The same drawing gives the same bytes: no dates, fixed ids. Fonts are embedded in PDF
and outlined in SVG. Sizes are those of a two-column paper.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any, Literal

from longplay.errors import ConfigError, MissingExtraError
from longplay.report.drawings import Drawing, Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = Literal[1, 2]

FORMATS = ("pdf", "png", "svg")
_WIDTH_IN = {1: 3.3, 2: 6.9}
_PANEL_HEIGHT_IN = 1.5
_CATEGORY_HEIGHT_IN = 0.13
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.labelsize": 7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.labelsize": 6,
    "ytick.labelsize": 6,
    "legend.fontsize": 6,
    "legend.frameon": False,
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "longplay",
}
_NO_DATE: dict[str, dict[str, None]] = {
    "pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}


def render_paper(drawing: Drawing, file_format: str, columns: Columns = 1) -> bytes:
    """Draws a figure.

    Args:
        drawing: What to draw.
        file_format: One of `FORMATS`.
        columns: Width in columns of a paper.

    Raises:
        ConfigError: The format is not known.
        MissingExtraError: matplotlib is not installed.
    """
    if file_format not in FORMATS:
        raise ConfigError(
            f"expected a figure named *.pdf, *.png or *.svg, found .{file_format}"
        )
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError(
            "figures need matplotlib: pip install '.[report]'"
        ) from error
    with mpl.rc_context(_STYLE):
        figure = _draw(Figure, drawing, columns)
        buffer = io.BytesIO()
        figure.savefig(
            buffer, format=file_format, dpi=300, metadata=_NO_DATE[file_format]
        )
    return buffer.getvalue()


def _draw(make_figure: type[Figure], drawing: Drawing, columns: Columns) -> Figure:
    across, down = _arrange(drawing, columns)
    height = sum(_heights(drawing, across, down)) + 0.5
    figure = make_figure(figsize=(_WIDTH_IN[columns], height), layout="constrained")
    grid = figure.subplots(
        down,
        across,
        squeeze=False,
        sharey=drawing.kind == "stream",
        gridspec_kw={"height_ratios": _heights(drawing, across, down)},
    )
    for n, axes in enumerate(grid.flat):
        if n >= len(drawing.panels):
            axes.set_axis_off()
            continue
        _draw_panel(axes, drawing.panels[n])
        if drawing.kind == "curves":  # visits are whole
            axes.locator_params(axis="x", integer=True)
    figure.supxlabel(drawing.x_label, fontsize=7)
    figure.supylabel(drawing.y_label, fontsize=7)
    _add_legend(figure, drawing)
    return figure


def _arrange(drawing: Drawing, columns: Columns) -> tuple[int, int]:
    """Rows and columns of panels."""
    count = len(drawing.panels)
    most = 1 if drawing.kind == "stream" else {1: 2, 2: 4}[columns]
    if drawing.panels[0].categories:
        most = {1: 1, 2: 3}[columns]
    across = min(most, count)
    return across, math.ceil(count / across)


def _heights(drawing: Drawing, across: int, down: int) -> list[float]:
    """Inches of each row of panels."""
    series = len(drawing.panels[0].series)
    heights = []
    for row in range(down):
        panels = drawing.panels[row * across : (row + 1) * across]
        tallest = max(len(panel.categories) for panel in panels)
        lines = tallest * (
            1 if drawing.kind in ("retention", "improvement") else series
        )
        heights.append(
            max(0.8, _CATEGORY_HEIGHT_IN * (lines + 1)) if tallest else _PANEL_HEIGHT_IN
        )
    return heights


def _draw_panel(axes: Axes, panel: Panel) -> None:
    axes.set_title(panel.title)
    if not panel.categories:
        axes.margins(x=0.01)
    for span in panel.spans:
        axes.axvspan(span.start, span.end, color=span.colour, alpha=0.25, linewidth=0)
    for value in panel.marks:
        line = axes.axvline if panel.categories else axes.axhline
        line(value, color="0.6", linewidth=0.6, linestyle=":", zorder=0)
    for series in panel.series:
        if panel.categories:
            _draw_dots(axes, series)
        else:
            _draw_line(axes, series)
    if panel.limits is not None:
        room = 0.03 * (panel.limits[1] - panel.limits[0])
        bounds = (panel.limits[0] - room, panel.limits[1] + room)
        (axes.set_xlim if panel.categories else axes.set_ylim)(bounds)
    if panel.categories:
        axes.set_yticks(range(len(panel.categories)), panel.categories)
        axes.set_ylim(len(panel.categories) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        if panel.is_log:
            axes.set_xscale("log")


def _draw_line(axes: Axes, series: Series) -> None:
    axes.plot(series.x, series.y, color=series.colour, linewidth=1.0)
    known = [
        (x, low, high)
        for x, low, high in zip(series.x, series.low, series.high, strict=True)
        if low is not None and high is not None
    ]
    if known:
        x, low, high = zip(*known, strict=True)
        axes.fill_between(x, low, high, color=series.colour, alpha=0.2, linewidth=0)


def _draw_dots(axes: Axes, series: Series) -> None:
    for x, y, low, high in zip(
        series.x, series.y, series.low, series.high, strict=True
    ):
        if low is not None and high is not None:
            axes.plot((low, high), (y, y), color=series.colour, linewidth=0.9)
        axes.plot(x, y, "o", color=series.colour, markersize=2.8)


def _add_legend(figure: Figure, drawing: Drawing) -> None:
    """Agents, where panels do not name them already; games of a stream."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    entries: dict[str, Any] = {}
    if drawing.kind not in ("retention", "improvement", "stream"):
        for panel in drawing.panels:
            for series in panel.series:
                entries[series.label] = Line2D([], [], color=series.colour)
    for panel in drawing.panels:
        for span in panel.spans:
            entries[span.label] = Patch(color=span.colour, alpha=0.5)
    if len(entries) > 1:
        figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside upper center",
            ncols=min(4, len(entries)),
        )
