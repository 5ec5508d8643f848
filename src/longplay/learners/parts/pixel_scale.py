"""Frames -> frames standardised per pixel, tracking a changing stream.

Elsayed et al. (2024), algorithm 4, keep each pixel's mean and variance over all past
frames. A stream of many games never stops changing, so the weight of a new frame
never falls below 1 / `horizon` here, and the statistics restart with each game. Added
to the paper's: a least deviation, and a limit for scaled pixels.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from longplay.learners.parts.kernels import Floats, compiled

# A pixel that never changed has no deviation; a changed one is cut off at this many.
_LEAST_DEVIATION = 0.02
_LARGEST_PIXEL = 5.0


class PixelScale:
    """Each pixel minus its mean, divided by its deviation: constant parts vanish."""

    SAVED: ClassVar[tuple[str, ...]] = ("count", "mean", "variance")

    def __init__(self, size: int, horizon: int) -> None:
        self._horizon = horizon
        self.count = 0
        self.mean = np.zeros((size, size), np.float32)
        self.variance = np.ones((size, size), np.float32)

    def __call__(self, frame: Floats) -> Floats:
        """Updates the statistics with a frame and scales it in place."""
        self.count = min(self.count + 1, self._horizon)
        _scale_pixels(frame, self.mean, self.variance, np.float32(1 / self.count))
        return frame

    def restart(self) -> None:
        """The next frame's statistics replace the current ones."""
        self.count = 0


@compiled
def _scale_pixels(
    frame: Floats, mean: Floats, variance: Floats, weight: np.float32
) -> None:
    rows, columns = frame.shape
    least = np.float32(_LEAST_DEVIATION**2)
    largest = np.float32(_LARGEST_PIXEL)
    for y in range(rows):
        for x in range(columns):
            before = frame[y, x] - mean[y, x]
            mean[y, x] += weight * before
            after = frame[y, x] - mean[y, x]
            variance[y, x] += weight * (before * after - variance[y, x])
            scaled = after / np.sqrt(variance[y, x] + least)
            frame[y, x] = min(max(scaled, -largest), largest)
