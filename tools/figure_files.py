"""Matplotlib figures of the docs -> files; the same numbers give the same bytes.

Figures have a light background of their own, so that they can be read on a dark page.
"""

from __future__ import annotations

import io
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

SMALL = 7.5
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.6,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "figure.labelsize": 8.5,
    "figure.facecolor": "white",
    "figure.dpi": 120,
    "savefig.dpi": "figure",
}

# A decorator of functions that draw.
in_docs_style = mpl.rc_context(_STYLE)


@in_docs_style
def render_figure(figure: Figure) -> bytes:
    """A figure as PNG."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()
