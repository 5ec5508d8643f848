"""Rewards of any size -> rewards of about unit size, tracking a changing stream.

Elsayed et al. (2024), algorithm 5, keep the variance of all past rewards. A
stream of many games never stops changing, so the weight of a new number never falls
below 1 / `horizon` here. Unlike that of pixels, this scale does not restart with a new
game: after a game with large rewards, small ones stay too small for several horizons
(docs/learners.md has an example).
"""

from __future__ import annotations

import math
from typing import ClassVar


class RewardScale:
    """Rewards over the deviation of the discounted sum of rewards.

    Rewards of a stream are raw game scores, up to thousands, or signs.
    """

    SAVED: ClassVar[tuple[str, ...]] = ("count", "total", "mean", "variance")

    def __init__(self, discount: float, horizon: int) -> None:
        self._discount = discount
        self._horizon = horizon
        self.count = 0
        self.total = 0.0
        self.mean = 0.0
        self.variance = 0.0

    def __call__(self, reward: float, is_over: bool) -> float:
        """Updates the scale with a reward and returns the scaled reward."""
        self.total = self._discount * self.total + reward
        self.count = min(self.count + 1, self._horizon)
        before = self.total - self.mean
        self.mean += before / self.count
        after = self.total - self.mean
        self.variance += (before * after - self.variance) / self.count
        if is_over:
            self.total = 0.0
        return reward / self.deviation if self.variance > 0 else 0.0

    @property
    def deviation(self) -> float:
        """The divisor of rewards; 0 before the first one."""
        return math.sqrt(self.variance)
