"""Visits -> reward per frame, over whole visits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longplay.contract.config import ScheduledVisit
from longplay.contract.curves import Curves, ratio
from longplay.contract.documents import RunSummary

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class VisitTotals:
    """The played part of each of V visits.

    Attributes:
        games: (V,) game of each visit.
        frames: (V,) frames played.
        rewards: (V,) sum of delivered rewards.
    """

    games: tuple[str, ...]
    frames: NDArray[np.int64]
    rewards: Reals

    @classmethod
    def from_summary(cls, summary: RunSummary) -> VisitTotals:
        """The started visits; the last one may be incomplete."""
        visits = summary.visits
        return cls(
            tuple(visit.game_id for visit in visits),
            np.array([visit.frames for visit in visits], np.int64),
            np.array([visit.reward_sum for visit in visits], np.float64),
        )

    @classmethod
    def from_curves(
        cls, schedule: Sequence[ScheduledVisit], curves: Curves
    ) -> VisitTotals:
        """Of a run without a summary, from its rows."""
        return cls(
            tuple(visit.game_id for visit in schedule),
            curves.frames.sum(axis=1),
            curves.rewards.sum(axis=1),
        )

    def rates_by_game(self, games: Sequence[str]) -> Reals:
        """Reward per frame over all visits of each game: (games,), NaN if never."""
        played = np.array(self.games)[np.newaxis, :] == np.array(games)[:, np.newaxis]
        return ratio(played @ self.rewards, played @ self.frames)
