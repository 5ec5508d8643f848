"""Pixels -> binary features for linear learners, with NumPy only.

The screen is divided into blocks. A feature says that a colour is seen in a block, or
that a block has changed since the last observation: a coarse form of the features named
Basic in Bellemare et al. (2013), "The Arcade Learning Environment", with motion.
`linear_sarsa` also compares the first observation of a game or an episode with the last
one before it, so most blocks seem to move for one decision; `linear_td` avoids this.
`linear_sarsa` weights a feature by its rarity, so the constant background does not take
part in learning.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

ROWS, COLUMNS, COLOURS = 14, 16, 8
BLOCKS = ROWS * COLUMNS
FEATURES = BLOCKS * COLOURS + BLOCKS

Observation = np.ndarray[Any, np.dtype[np.uint8]]
Active = np.ndarray[Any, np.dtype[np.int64]]
Floats = np.ndarray[Any, np.dtype[np.float32]]


class BlockFeatures:
    """Finds the active features of observations of one shape."""

    def __init__(self, observation_shape: tuple[int, int, int]) -> None:
        height, width, _ = observation_shape
        # Every third line and every second column are enough to see a colour.
        lines, dots = np.arange(1, height, 3), np.arange(0, width, 2)
        blocks = (lines * ROWS // height)[:, None] * COLUMNS + dots * COLUMNS // width
        self._block_of_pixel = blocks.ravel().astype(np.int64)

    def __call__(self, previous: Observation, observation: Observation) -> Active:
        """The indices of the active features, ascending."""
        pixels = observation[1::3, ::2] >> 7  # one bit for each of red, green and blue
        colours = (pixels[..., 0] * 4 + pixels[..., 1] * 2 + pixels[..., 2]).ravel()
        seen = np.bincount(
            self._block_of_pixel * COLOURS + colours, minlength=BLOCKS * COLOURS
        )
        # Green alone: two colours of the palette hardly ever share it.
        changed = observation[1::3, ::2, 1] != previous[1::3, ::2, 1]
        moving = np.bincount(self._block_of_pixel[changed.ravel()], minlength=BLOCKS)
        return np.flatnonzero(np.concatenate((seen, moving)))


class Rarity:
    """The weight of each feature: 1 minus its share of observations.

    The weight of a new observation never falls below 1 / `horizon`.
    """

    SAVED: ClassVar[tuple[str, ...]] = ("count", "shares")

    def __init__(self, horizon: int) -> None:
        self._horizon = horizon
        self.count = 0
        self.shares = np.zeros(FEATURES, np.float32)

    def weigh(self, active: Active) -> Floats:
        """Updates the weights; returns those of the active features."""
        self.count = min(self.count + 1, self._horizon)
        self.shares *= np.float32(1 - 1 / self.count)
        self.shares[active] += np.float32(1 / self.count)
        rarities: Floats = np.float32(1.0) - self.shares[active]
        return rarities

    def restart(self) -> None:
        """Another game begins: the next observation replaces all that was seen."""
        self.count = 0
