"""Anchors with round numbers."""

from __future__ import annotations

from longplay.scoring.anchors import Anchors, GameAnchors, SuiteAnchors

NO_ANCHORS = Anchors(name="anchors-1", suites={})


def make_game(**changes: float | None) -> GameAnchors:
    """b = 1, u = 3, errors 0.3 and 0.4: u - b = 2 against 2 · 0.5."""
    numbers: dict[str, float | None] = {
        "lower": 1.0,
        "lower_error": 0.3,
        "upper": 3.0,
        "upper_error": 0.4,
        "random_forgetting": 0.2,
        "random_recovery": -0.4,
    }
    return GameAnchors(upper_source="specialist", **{**numbers, **changes})


def make_anchors(suite: str, **games: GameAnchors) -> Anchors:
    entry = SuiteAnchors(random_seeds=(0,), upper_seeds=(0,), versions={}, games=games)
    return Anchors(name="anchors-1", suites={suite: entry})
