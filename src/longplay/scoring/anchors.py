"""The lower and upper anchor of every game: frozen data.

    lower    b: the random agent's reward per frame, mean over its seeds and visits
    upper    u: control suites: the reference policy's over its recorded visits;
             streaming suites: the specialist's over the last third of its run

`anchors-1` is shipped as `data/anchors-1.json`. It never changes: a better learner is
not a new upper anchor, and new anchors get a new name. It also has the random
agent's forgetting and recovery cost: the effect of resets alone on a rate.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field

from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.contract.files import read_document

ANCHORS_NAME = "anchors-1"

UpperSource = Literal["reference policy", "specialist"]


class GameAnchors(Document):
    """The anchors of one game, in reward per frame."""

    lower: float = Field(description="b: the random agent's rate.")
    lower_error: float | None = Field(
        description="Its standard error over runs; null of one run."
    )
    upper: float | None = Field(description="u: the upper anchor's rate.")
    upper_error: float | None = Field(description="Its standard error.")
    upper_source: UpperSource | None = Field(description="Who it was measured on.")
    random_forgetting: float | None = Field(
        description="The random agent's tail before minus head after, over revisits."
    )
    random_recovery: float | None = Field(
        description="The random agent's tail before minus first half after."
    )


class SuiteAnchors(Document):
    """The anchors of one suite."""

    random_seeds: tuple[int, ...] = Field(description="Seeds of the random agent.")
    upper_seeds: tuple[int, ...] = Field(description="Seeds of the upper anchor.")
    versions: dict[str, str] = Field(description="longplay, ale_py that played.")
    games: dict[str, GameAnchors]


class Anchors(Document):
    """A set of anchors: the content of `data/anchors-1.json`."""

    schema_version: int = SCHEMA_VERSION
    name: str
    suites: dict[str, SuiteAnchors] = Field(
        description="Suites of the catalogue; one that is not here has no z."
    )


@cache
def shipped_anchors() -> Anchors:
    """The anchors shipped with the package."""
    folder = resources.files("longplay.scoring") / "data"
    with resources.as_file(folder / f"{ANCHORS_NAME}.json") as path:
        return read_anchors(path)


def read_anchors(path: Path) -> Anchors:
    """Reads a set of anchors.

    Raises:
        DocumentError: The file is not a set of anchors.
    """
    return read_document(path, Anchors)
