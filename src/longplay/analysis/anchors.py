"""The lower and upper anchor of every game: frozen data, and its computation.

    lower    b: the random agent's reward per frame, mean over its seeds and visits
    upper    u: control suites: the reference policy's over its recorded visits;
             streaming suites: the specialist's over the last third of its run

`anchors-1` is shipped as `data/anchors-1.json`. It never changes: a better learner is
not a new upper anchor, and new anchors get a new name. It also has the random
agent's forgetting and recovery cost: the effect of resets alone on a rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from longplay.analysis.intervals import standard_error
from longplay.contract.files import read_document
from longplay.contract.records import Document
from longplay.contract.versions import SCHEMA_VERSION
from longplay.scoring.metrics import mean_or_none

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
    folder = resources.files("longplay.analysis") / "data"
    with resources.as_file(folder / f"{ANCHORS_NAME}.json") as path:
        return read_anchors(path)


def read_anchors(path: Path) -> Anchors:
    """Reads a set of anchors.

    Raises:
        DocumentError: The file is not a set of anchors.
    """
    return read_document(path, Anchors)


@dataclass(frozen=True)
class RandomMeasurement:
    """The random agent on one game.

    Attributes:
        rates: (runs,) mean over the game's visits of reward per frame.
        forgetting: (runs,) mean over its revisits; empty without revisits.
        recovery: (runs,) the same for recovery.
    """

    rates: NDArray[np.float64]
    forgetting: NDArray[np.float64]
    recovery: NDArray[np.float64]


@dataclass(frozen=True)
class UpperMeasurement:
    """The upper anchor on one game: (runs or visits,) reward per frame."""

    rates: NDArray[np.float64]
    source: UpperSource


def make_game_anchors(
    random: RandomMeasurement, upper: UpperMeasurement | None
) -> GameAnchors:
    """Measurements -> the anchors of a game.

    Raises:
        ValueError: The random agent has no run.
    """
    lower = mean_or_none(random.rates.tolist())
    if lower is None:
        raise ValueError("expected at least one run of the random agent, found none")
    return GameAnchors(
        lower=lower,
        lower_error=standard_error(random.rates),
        upper=None if upper is None else mean_or_none(upper.rates.tolist()),
        upper_error=None if upper is None else standard_error(upper.rates),
        upper_source=None if upper is None else upper.source,
        random_forgetting=mean_or_none(random.forgetting.tolist()),
        random_recovery=mean_or_none(random.recovery.tolist()),
    )


def make_suite_anchors(
    randoms: Mapping[str, RandomMeasurement],
    uppers: Mapping[str, UpperMeasurement],
    *,
    random_seeds: Sequence[int],
    upper_seeds: Sequence[int],
    versions: Mapping[str, str],
) -> SuiteAnchors:
    """Measurements by game -> the anchors of a suite."""
    return SuiteAnchors(
        random_seeds=tuple(random_seeds),
        upper_seeds=tuple(upper_seeds),
        versions=dict(versions),
        games={
            game: make_game_anchors(random, uppers.get(game))
            for game, random in randoms.items()
        },
    )
