"""Colours and markers with the same meaning in every figure.

An agent's style follows from its name alone: longplay's own agents have fixed ones, the
random agent is grey, and any other name is hashed onto the colour-blind-safe palette of
Okabe and Ito. If two agents of a comparison would look alike, the later name takes the
next free colour. A file of styles fixes the agents of a paper:

    ["my agent"]
    colour = "#0072B2"
    marker = "square"       # optional

A game has one colour, fixed by its name.
"""

from __future__ import annotations

import colorsys
import json
import tomllib
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from longplay.contract.documents import Document
from longplay.contract.files import describe_invalid, read_bounded
from longplay.errors import ConfigError, DocumentError
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
# Without yellow, which is hard to see on white.
_PALETTE = OKABE_ITO[:7]
# The position is the number of the marker; `figures` and `paper` have them in this
# order, and the dashes of lines beside them.
Marker = Literal[
    "circle",
    "square",
    "diamond",
    "triangle",
    "plus",
    "cross",
    "star",
    "triangle-down",
]
MARKERS: tuple[Marker, ...] = get_args(Marker)
# Agent -> its place in the palette. Agents that are compared have different ones.
_KNOWN = {
    "dqn": 0,
    "stream-q": 1,
    "linear-sarsa": 2,
    "stream-q-l2init": 3,
    "linear-prost": 4,
    "blind": 5,
    "explore-only": 6,
    # Predictors.
    "lstd-td": 0,
    "stream-td": 1,
    "linear-td": 2,
}
_SHIPPED = " (shipped)"
# Steps of the golden angle spread any number of hues evenly.
_GOLDEN = 0.618033988749895


@dataclass(frozen=True)
class Style:
    """How an agent is drawn.

    Attributes:
        colour: As hex.
        mark: Number of its marker in `MARKERS`, and of the dash of its lines.
    """

    colour: str
    mark: int


_RANDOM = Style(RANDOM_COLOUR, MARKERS.index("triangle-down"))


class _FileEntry(Document):
    """An agent in a file of styles."""

    model_config = ConfigDict(extra="forbid")

    colour: str = Field(pattern="^#[0-9A-Fa-f]{6}$")
    marker: Marker | None = None


_FILE = TypeAdapter(dict[str, _FileEntry])


def read_styles(path: Path) -> dict[str, Style]:
    """Reads a file of styles: agent -> its style.

    Raises:
        ConfigError: Names the file, the key, what was expected and what was found.
    """
    try:
        tables = tomllib.loads(read_bounded(path).decode("utf-8"))
        entries = _FILE.validate_json(json.dumps(tables, default=str))
    except (DocumentError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: expected TOML: {error}") from error
    except ValidationError as error:
        raise ConfigError(f"{path}: {describe_invalid(error)}") from error
    return {name: _to_style(name, entry) for name, entry in entries.items()}


def _to_style(name: str, entry: _FileEntry) -> Style:
    marker = entry.marker
    return Style(
        entry.colour, _place_of(name) if marker is None else MARKERS.index(marker)
    )


def style_agents(
    labels: Iterable[str], given: Mapping[str, Style] | None = None
) -> dict[str, Style]:
    """Label of an agent -> its style.

    Args:
        labels: Of all agents of a comparison, in any order.
        given: The styles of a file.
    """
    labels = list(labels)
    known = {"random": _RANDOM, **(given or {})}
    found = {label: known[name] for label in labels if (name := _name(label)) in known}
    uses = Counter(style.colour for style in found.values())
    for label in sorted(set(labels) - found.keys(), key=_claim):
        first = _place_of(_name(label))
        places = [*range(first, len(_PALETTE)), *range(first)]
        place = min(places, key=lambda n: uses[_PALETTE[n]])
        colour = _PALETTE[place]
        found[label] = Style(colour, (place + uses[colour]) % len(_PALETTE))
        uses[colour] += 1
    return found


def _name(label: str) -> str:
    """Shipped numbers of an agent look like runs of it."""
    return label.removesuffix(_SHIPPED)


def _claim(label: str) -> tuple[bool, str]:
    """Agents in the order in which they choose: longplay's own, then by name."""
    return label not in _KNOWN, label


def _place_of(name: str) -> int:
    """The place of a name in the palette."""
    return _KNOWN.get(name, zlib.crc32(name.encode()) % len(_PALETTE))


def agent_colour(position: int) -> str:
    """A colour by position, where lines are not agents: of seeds, for example."""
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
