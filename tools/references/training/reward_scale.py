"""The game's rewards -> rewards of about the same size in every game.

    (reward - mean) / scale        scale = root mean square / sqrt(1 - discount²)

Mean and mean square are over all timesteps of training so far. `scale` is the standard
deviation of a discounted sum of independent rewards with this mean square.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass
class RewardScale:
    """Sums over all rewards so far."""

    count: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, rewards: NDArray[np.float64]) -> None:
        """Adds the rewards of a rollout."""
        self.count += rewards.size
        self.total += float(rewards.sum())
        self.squares += float((rewards * rewards).sum())

    def apply(
        self, rewards: NDArray[np.float64], discount: float
    ) -> NDArray[np.float32]:
        """The scaled rewards; zeros before the first reward."""
        if not self.squares:
            return np.zeros(rewards.shape, np.float32)
        scale = (self.squares / self.count / (1 - discount**2)) ** 0.5
        return ((rewards - self.total / self.count) / scale).astype(np.float32)

    def facts(self) -> dict[str, float]:
        """The sums, for a checkpoint."""
        return asdict(self)
