"""Reward per frame -> z: 0 is the random agent, 1 the upper anchor.

    z = (x - b) / (u - b)

A game whose u - b is not above two standard errors of the difference has no scale: its
z would be noise divided by noise. Such games, and suites without anchors, are named
with the reason; their numbers are NaN in arrays and absent in documents, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longplay.scoring.anchors import Anchors, GameAnchors, SuiteAnchors

Reals = NDArray[np.float64]

# u - b must be above this many standard errors of the difference.
_SIGNIFICANT_ERRORS = 2.0


@dataclass(frozen=True)
class Scale:
    """Converts rates of the games of a suite into z.

    Attributes:
        games: The games of the suite, in its order; they give arrays their columns.
        lower: (games,) b; NaN where the game has no z.
        span: (games,) u - b; NaN as above.
        random_forgetting: (games,) of rates; NaN where the game has no revisit.
        random_recovery: (games,) the same for recovery.
        reasons: Game -> why it has no z.
    """

    games: tuple[str, ...]
    lower: Reals
    span: Reals
    random_forgetting: Reals
    random_recovery: Reals
    reasons: dict[str, str]

    @property
    def has_z(self) -> NDArray[np.bool_]:
        """(games,) whether a game has z."""
        return ~np.isnan(self.span)

    def normalise(self, rates: Reals) -> Reals:
        """Rates -> z: (…, games) -> (…, games)."""
        return (rates - self.lower) / self.span

    def normalise_game(self, game: str, rates: Reals) -> Reals:
        """Rates of one game -> z: (…,) -> (…,)."""
        column = self.games.index(game)
        return np.asarray((rates - self.lower[column]) / self.span[column])

    def normalise_difference(self, differences: Reals) -> Reals:
        """A difference of rates -> a difference of z: (…, games) -> (…, games)."""
        return differences / self.span

    def correct_forgetting(self, differences: Reals) -> Reals:
        """Forgetting in rates -> in z, less the random agent's: (…, games)."""
        return (differences - self.random_forgetting) / self.span

    def correct_recovery(self, differences: Reals) -> Reals:
        """Recovery cost in rates -> in z, less the random agent's: (…, games)."""
        return (differences - self.random_recovery) / self.span


def make_scale(
    anchors: Anchors, suite: str, games: Sequence[str], emulator: str | None = None
) -> Scale:
    """The scale of a suite, NaN for the games that have none.

    Args:
        anchors: Usually `shipped_anchors()`.
        suite: Its name.
        games: Its games.
        emulator: The version of ale-py that played; None if it is not known.
    """
    found = anchors.suites.get(suite)
    none_has = _explain_no_scale(anchors.name, suite, found, emulator)
    reasons: dict[str, str] = {}
    rows = []
    for game in games:
        entry = None if found is None else found.games.get(game)
        reason = none_has or _explain_missing(anchors.name, entry)
        if reason is not None:
            reasons[game] = reason
        rows.append(_scale_of(None if reason is not None else entry))
    lower, span, forgetting, recovery = np.array(rows).reshape(len(rows), 4).T
    return Scale(tuple(games), lower, span, forgetting, recovery, reasons)


def _explain_no_scale(
    anchors_name: str, suite: str, found: SuiteAnchors | None, emulator: str | None
) -> str | None:
    """Why no game of a suite has z; None if some may have."""
    if found is None:
        return f"{anchors_name} has no anchors for {suite}"
    measured = found.versions.get("ale_py")
    if None not in (emulator, measured) and emulator != measured:
        return f"{anchors_name} was measured with ale-py {measured}, found {emulator}"
    return None


def _explain_missing(anchors_name: str, entry: GameAnchors | None) -> str | None:
    """Why a game has no z; None if it has."""
    if entry is None:
        return f"{anchors_name} lacks this game"
    if entry.upper is None:
        return f"{anchors_name} has no upper anchor for this game"
    if entry.lower_error is None or entry.upper_error is None:
        return "an anchor measured once has no standard error"
    error = math.hypot(entry.lower_error, entry.upper_error)
    span = entry.upper - entry.lower
    if span <= _SIGNIFICANT_ERRORS * error:
        return (
            f"u - b = {span:.4g} is not above two standard errors of the difference "
            f"({_SIGNIFICANT_ERRORS * error:.4g})"
        )
    return None


def _scale_of(entry: GameAnchors | None) -> tuple[float, float, float, float]:
    nan = math.nan
    if entry is None or entry.upper is None:
        return nan, nan, nan, nan
    return (
        entry.lower,
        entry.upper - entry.lower,
        nan if entry.random_forgetting is None else entry.random_forgetting,
        nan if entry.random_recovery is None else entry.random_recovery,
    )
