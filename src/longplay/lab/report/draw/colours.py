"""Colours with the same meaning on every page.

Agents get the colour-blind-safe palette of Okabe and Ito, in the order of the table;
the random agent is grey.
A game has one colour, fixed by its name.
"""

from __future__ import annotations

import colorsys
import zlib
from functools import cache

from longplay.suites import SUITES

OKABE_ITO = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#F0E442",
)
RANDOM_COLOUR = "#808080"
# Steps of the golden angle spread any number of hues evenly.
_GOLDEN = 0.618033988749895


def agent_colour(position: int) -> str:
    """The colour of the agent at a position in the table."""
    return OKABE_ITO[position % len(OKABE_ITO)]


@cache
def _catalogued_games() -> tuple[str, ...]:
    return tuple(sorted({game for suite in SUITES.values() for game in suite.games}))


def game_colour(game: str) -> str:
    """The colour of a game."""
    known = _catalogued_games()
    step = known.index(game) if game in known else zlib.crc32(game.encode()) % 997
    red, green, blue = colorsys.hls_to_rgb(step * _GOLDEN % 1, 0.6, 0.55)
    return "#" + "".join(f"{round(255 * part):02x}" for part in (red, green, blue))
