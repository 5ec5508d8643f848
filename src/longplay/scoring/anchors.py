"""The lower and upper anchor of every game: frozen data.

    lower    b: the random agent's reward per frame, mean over its seeds and visits
    upper    u: that of a policy that sees the machine's memory, over whole visits
             (in anchors-1, on streaming suites: of an agent that learned this game
             alone, over the last third of its run)

A set of anchors never changes: a better learner is not a new upper anchor, and new
anchors get a new name. A comparison uses one set and names it. A set also has the rate
of `explore-only`, which explores as the learners do and learns nothing, and the random
agent's change at revisits and recovery cost: the effect of resets alone on a rate.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import Field

from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.contract.files import read_document
from longplay.errors import ConfigError

ANCHORS_NAME = "anchors-2"

UpperSource = Literal["reference policy", "specialist", "anchor policy"]


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
    explore_only: float | None = Field(
        default=None, description="The rate of `explore-only`; null if not measured."
    )


class SuiteAnchors(Document):
    """The anchors of one suite."""

    random_seeds: tuple[int, ...] = Field(description="Seeds of the random agent.")
    upper_seeds: tuple[int, ...] = Field(description="Seeds of the upper anchor.")
    versions: dict[str, str] = Field(description="longplay, ale_py that played.")
    games: dict[str, GameAnchors]


class Anchors(Document):
    """A set of anchors: the content of `data/<name>.json`."""

    schema_version: int = SCHEMA_VERSION
    name: str
    suites: dict[str, SuiteAnchors] = Field(
        description="Suites of the catalogue; one that is not here has no z."
    )


@cache
def shipped_anchors(name: str = ANCHORS_NAME) -> Anchors:
    """A set of anchors shipped with the package.

    Raises:
        ConfigError: There is no such set.
    """
    folder = resources.files("longplay.scoring") / "data"
    names = sorted(Path(file.name).stem for file in folder.iterdir())
    names = [known for known in names if known.startswith("anchors-")]
    if name not in names:
        raise ConfigError(f"anchors: expected one of {names}, found {name!r}")
    with resources.as_file(folder / f"{name}.json") as path:
        return read_document(path, Anchors)
