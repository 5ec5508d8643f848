"""Drawings -> figures for papers: PDF, PNG or SVG, with matplotlib.

The same drawing gives the same bytes: no dates, fixed ids. Fonts are embedded in PDF
and outlined in SVG. Sizes are those of a two-column paper.
"""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from longplay.errors import ConfigError, MissingExtraError
from longplay.lab.report.draw.drawings import (
    Drawing,
    Grid,
    Panel,
    Series,
    Span,
    number_marks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Columns = Literal[1, 2]

FORMATS = ("pdf", "png", "svg")
_WIDTH_IN = {1: 3.3, 2: 6.9}
_PANEL_HEIGHT_IN = 1.5
_CATEGORY_HEIGHT_IN = 0.13
# More names below an axis are thinned out, or turned.
_MOST_X_NAMES = 10
_MOST_UPRIGHT = 5
# A page has room for this, with a caption.
_LARGEST_HEIGHT_IN = 8.0
# Panels side by side: a few, or many of one figure.
_MANY_PANELS = 8
_ACROSS = {1: (2, 3), 2: (4, 5)}
# In the order of `drawings.number_marks`.
_DASHES: tuple[Any, ...] = (
    "-",
    "--",
    ":",
    "-.",
    (0, (6, 2)),
    (0, (6, 2, 1, 2)),
    (0, (3, 1, 1, 1)),
    (0, (1, 3)),
)
_SYMBOLS = ("o", "s", "D", "^", "P", "X", "*", "v")
# A legend: columns, and the size of a line with its gaps and of a letter.
_MOST_COLUMNS = 4
_HANDLE_IN = 0.42
_LETTER_IN = 0.054
# A row of dots per agent, named beside it, in place of a legend.
_NAMED_ROWS = ("average", "retention", "improvement")
_VISITS = ("curves", "lifetime")
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


def render_paper(
    drawing: Drawing, file_format: str, columns: Columns = 1, dpi: int = 300
) -> bytes:
    """Draws a figure.

    Args:
        drawing: What to draw.
        file_format: One of `FORMATS`.
        columns: Width in columns of a paper.
        dpi: Pixels per inch of a PNG.

    Raises:
        ConfigError: The format or the width is not known.
        MissingExtraError: matplotlib is not installed.
    """
    if file_format not in FORMATS:
        raise ConfigError(
            f"expected a figure named *.pdf, *.png or *.svg, found .{file_format}"
        )
    if columns not in _WIDTH_IN:
        raise ConfigError(f"expected 1 or 2, found {columns}", option="columns")
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise MissingExtraError.of("figures need matplotlib", "report") from error
    with mpl.rc_context(_STYLE):
        figure = _draw(Figure, drawing, columns)
        buffer = io.BytesIO()
        figure.savefig(
            buffer, format=file_format, dpi=dpi, metadata=_NO_DATE[file_format]
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
    marks = number_marks(drawing)
    for n, axes in enumerate(grid.flat):
        if n >= len(drawing.panels):
            axes.set_axis_off()
            continue
        panel = drawing.panels[n]
        _draw_panel(axes, panel, marks, has_bands=drawing.has_bands)
        left = drawing.panels[n - n % across]
        if n % across and panel.categories and panel.categories == left.categories:
            axes.tick_params(axis="y", labelleft=False)
        if across > _ACROSS[columns][0]:
            axes.title.set_size(6)
        if drawing.kind == "stream" and columns == 1:
            axes.locator_params(axis="x", nbins=5)
        if drawing.kind in _VISITS:  # visits are whole
            axes.set_xlim(0, math.ceil(axes.dataLim.x1))
            axes.locator_params(axis="x", integer=True, nbins=4, min_n_ticks=1)
    figure.supxlabel(drawing.x_label, fontsize=7)
    figure.supylabel(drawing.y_label, fontsize=7)
    _add_legend(figure, drawing)
    return figure


def _arrange(drawing: Drawing, columns: Columns) -> tuple[int, int]:
    """Rows and columns of panels."""
    count = len(drawing.panels)
    most = 1 if drawing.kind == "stream" else _ACROSS[columns][count > _MANY_PANELS]
    if drawing.panels[0].categories or drawing.panels[0].grid:
        most = {1: 1, 2: 3}[columns]
    if drawing.kind == "average":
        most = {1: 2, 2: 4}[columns]
    across = min(most, count)
    return across, math.ceil(count / across)


def _heights(drawing: Drawing, across: int, down: int) -> list[float]:
    """Inches of each row of panels."""
    heights = []
    for row in range(down):
        panels = drawing.panels[row * across : (row + 1) * across]
        if rows := max(len(panel.grid.rows) if panel.grid else 0 for panel in panels):
            heights.append(_CATEGORY_HEIGHT_IN * (rows + 3))
            continue
        lines = max(panel.dot_rows for panel in panels)
        heights.append(
            max(0.8, _CATEGORY_HEIGHT_IN * (lines + 1)) if lines else _PANEL_HEIGHT_IN
        )
    shrink = min(1.0, _LARGEST_HEIGHT_IN / sum(heights))
    return [height * shrink for height in heights]


def _draw_panel(
    axes: Axes, panel: Panel, marks: dict[str, int], *, has_bands: bool
) -> None:
    axes.set_title(panel.title)
    if not panel.categories:
        axes.margins(x=0.01)
    for span in panel.spans:
        _draw_span(axes, span)
    for value in panel.marks:
        line = axes.axvline if panel.categories else axes.axhline
        line(value, color="0.6", linewidth=0.6, linestyle=":", zorder=0)
    if panel.grid is not None:
        _draw_grid(axes, panel.grid)
    for series in panel.series:
        if panel.categories:
            _draw_dots(axes, series, marks[series.label])
        elif panel.has_bars:
            _draw_bars(axes, series, marks[series.label])
        else:
            _draw_line(axes, series, marks[series.label], has_band=has_bands)
    if panel.x_names:
        step = math.ceil(len(panel.x_names) / _MOST_X_NAMES)
        axes.set_xticks(range(0, len(panel.x_names), step), panel.x_names[::step])
        axes.set_xlim(-0.5, len(panel.x_names) - 0.5)
    if panel.limits is not None:
        room = 0.03 * (panel.limits[1] - panel.limits[0])
        bounds = (panel.limits[0] - room, panel.limits[1] + room)
        (axes.set_xlim if panel.categories else axes.set_ylim)(bounds)
    if panel.categories:
        axes.set_yticks(range(len(panel.categories)), panel.categories)
        axes.set_ylim(len(panel.categories) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        if panel.is_log:
            axes.set_xscale("log", nonpositive="clip")  # an interval may end at 0


def _draw_span(axes: Axes, span: Span) -> None:
    """A stretch in its colour, with its name: many colours look alike."""
    axes.axvspan(span.start, span.end, color=span.colour, alpha=0.25, linewidth=0)
    axes.text(
        (span.start + span.end) / 2,
        0.98,
        span.label,
        transform=axes.get_xaxis_transform(),
        rotation=90,
        fontsize=4.5,
        color="0.3",
        ha="center",
        va="top",
        zorder=0,
    )


def _draw_line(axes: Axes, series: Series, mark: int, *, has_band: bool) -> None:
    dash = _DASHES[mark % len(_DASHES)]
    axes.plot(series.x, series.y, color=series.colour, linewidth=1.0, linestyle=dash)
    known = [
        (x, low, high)
        for x, low, high in zip(series.x, series.low, series.high, strict=True)
        if low is not None and high is not None
    ]
    if known and has_band:
        x, low, high = zip(*known, strict=True)
        axes.fill_between(x, low, high, color=series.colour, alpha=0.2, linewidth=0)


def _draw_bars(axes: Axes, series: Series, mark: int) -> None:
    """Points with bars, joined by a line."""
    errors = [
        [
            0.0 if end is None else abs(y - end)
            for y, end in zip(series.y, ends, strict=True)
        ]
        for ends in (series.low, series.high)
    ]
    axes.errorbar(
        series.x,
        series.y,
        yerr=errors,
        color=series.colour,
        marker=_SYMBOLS[mark % len(_SYMBOLS)],
        markersize=2.4,
        linewidth=0.8,
        elinewidth=0.7,
        capsize=1.2,
    )


def _draw_grid(axes: Axes, grid: Grid) -> None:
    """Coloured cells with their values."""
    import numpy as np

    shades = np.array(grid.shades, float)
    axes.imshow(shades, cmap="Blues", vmin=-0.1, vmax=1.8, aspect="auto")
    for row, texts in enumerate(grid.texts):
        for column, text in enumerate(texts):
            axes.text(column, row, text, ha="center", va="center", fontsize=5)
    axes.set_xticks(range(len(grid.columns)), grid.columns)
    axes.set_yticks(range(len(grid.rows)), grid.rows)
    if len(grid.columns) > _MOST_UPRIGHT:
        axes.tick_params(axis="x", rotation=60)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def _draw_dots(axes: Axes, series: Series, mark: int) -> None:
    symbol = _SYMBOLS[mark % len(_SYMBOLS)]
    for x, y, low, high in zip(
        series.x, series.y, series.low, series.high, strict=True
    ):
        if low is not None and high is not None:
            axes.plot((low, high), (y, y), color=series.colour, linewidth=0.9)
        size = 4.2 if symbol == "*" else 2.8
        axes.plot(x, y, symbol, color=series.colour, markersize=size)


def _add_legend(figure: Figure, drawing: Drawing) -> None:
    """Agents, where panels do not name them already."""
    from matplotlib.lines import Line2D

    entries: dict[str, Any] = {}
    marks = number_marks(drawing)
    if drawing.kind not in (*_NAMED_ROWS, "stream"):
        for panel in drawing.panels:
            for series in panel.series:
                mark = marks[series.label]
                style: dict[str, Any] = {"linestyle": _DASHES[mark % len(_DASHES)]}
                if panel.categories:
                    symbol = _SYMBOLS[mark % len(_SYMBOLS)]
                    style = {"linestyle": "", "marker": symbol, "markersize": 4}
                entries[series.label] = Line2D([], [], color=series.colour, **style)
    if len(entries) > 1:
        figure.legend(
            list(entries.values()),
            list(entries),
            loc="outside upper center",
            ncols=_count_columns(list(entries), figure.get_figwidth()),
            handlelength=2.6,
        )


def _count_columns(labels: Sequence[str], width_in: float) -> int:
    """The most columns of a legend that fit side by side."""
    for columns in range(min(_MOST_COLUMNS, len(labels)), 1, -1):
        # matplotlib fills a legend column by column, the first ones with one more.
        rows, more = divmod(len(labels), columns)
        starts = [n * rows + min(n, more) for n in range(columns + 1)]
        longest = [max(map(len, labels[first:end])) for first, end in pairwise(starts)]
        if sum(_HANDLE_IN + _LETTER_IN * letters for letters in longest) <= width_in:
            return columns
    return 1
