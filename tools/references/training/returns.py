"""Rewards and ends of visits -> discounted returns, and which are known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# 0.99**1000 < 5e-5: later rewards are negligible.
HORIZON_TIMESTEPS = 1_000

Floats = NDArray[np.float32]


def discounted_returns(
    rewards: Floats, ends: NDArray[np.bool_], discount: float
) -> Floats:
    """Returns to the end of the game episode; axis 0 is time."""
    returns = np.empty_like(rewards)
    following = np.zeros_like(rewards[0])
    for t in reversed(range(len(rewards))):
        following = rewards[t] + discount * np.where(ends[t], 0, following)
        returns[t] = following
    return returns


def known_returns(ends: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a return is not truncated: an end follows, or at least the horizon."""
    end_follows = np.logical_or.accumulate(ends[::-1], axis=0)[::-1]
    ahead = np.arange(len(ends), 0, -1) >= HORIZON_TIMESTEPS
    return end_follows | ahead.reshape(-1, *[1] * (ends.ndim - 1))
