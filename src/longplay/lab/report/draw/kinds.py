"""The kinds of figures by name: `longplay plot --kind NAME`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from longplay.errors import UnknownNameError
from longplay.lab.report.draw.drawings import (
    Drawing,
    Shown,
    draw_curves,
    draw_games,
    draw_improvement,
    draw_predictions,
    draw_profile,
    draw_retention,
    draw_stream,
)
from longplay.lab.report.draw.memory_drawings import draw_matrix, draw_memory

KINDS: Mapping[str, Callable[[Shown], Drawing]] = {
    "curves": draw_curves,
    "games": draw_games,
    "profile": draw_profile,
    "retention": draw_retention,
    "stream": draw_stream,
    "improvement": draw_improvement,
    "predictions": draw_predictions,
    "memory": draw_memory,
    "matrix": draw_matrix,
}


def draw(kind: str, shown: Shown) -> Drawing:
    """Makes a drawing of the given kind.

    Raises:
        UnknownNameError: There is no such kind.
        ConfigError: The runs lack the data for it.
    """
    if kind not in KINDS:
        raise UnknownNameError("kind of figure", kind, KINDS)
    return KINDS[kind](shown)
