"""RGB frames of Atari -> small grey frames, and stacks of the last few.

    vision = Vision((210, 160, 3), size=84, frames=4, horizon=10_000)
    image = vision.see(observation, info)           # (1, 84, 84, 4), the newest last

or its pieces, `Shrinker`, `PixelScale` and `FrameStack`.

A small pixel is the mean brightness of the area it covers, so no detail
is lost between two pixels.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from longplay.errors import ConfigError
from longplay.learners.parts.kernels import Floats, compiled
from longplay.learners.parts.pixel_scale import PixelScale

Observation = np.ndarray[Any, np.dtype[np.uint8]]

# ITU-R BT.601, as ALE's own grey palette.
_RED, _GREEN, _BLUE = np.float32(0.299), np.float32(0.587), np.float32(0.114)


class Shrinker:
    """Makes square grey frames out of RGB observations of one shape."""

    def __init__(self, observation_shape: tuple[int, int, int], size: int) -> None:
        height, width, channels = observation_shape
        if channels != 3 or not 1 <= size <= min(height, width):
            raise ConfigError(
                f"size: expected 1 … {min(height, width)} for RGB observations, found "
                f"{size} for {observation_shape}"
            )
        self._size = size
        self._rows = find_overlaps(height, size)
        self._columns = find_overlaps(width, size)
        self._line = np.zeros((height, size), np.float32)

    def __call__(self, observation: Observation) -> Floats:
        """The grey frame of an observation, from 0 to 1."""
        grey = np.zeros((self._size, self._size), np.float32)
        _shrink(observation, *self._rows, *self._columns, self._line, grey)
        return grey


def find_overlaps(length: int, size: int) -> tuple[np.ndarray[Any, Any], Floats]:
    """Cuts `length` pixels into `size` parts.

    Returns:
        The first pixel of each part, and the weights of it and those after it:
        (part, pixel), each row summing to 1.
    """
    edges = np.arange(size + 1) * length / size
    starts = np.floor(edges[:-1]).astype(np.int64)
    reach = int((np.ceil(edges[1:]) - starts).max())
    pixels = starts[:, None] + np.arange(reach)
    overlap = np.minimum(pixels + 1, edges[1:, None]) - np.maximum(
        pixels, edges[:-1, None]
    )
    weights = np.maximum(overlap, 0.0) * size / length
    return starts, weights.astype(np.float32)


@compiled
def _shrink(
    observation: Any,
    row_starts: Any,
    row_weights: Floats,
    column_starts: Any,
    column_weights: Floats,
    line: Floats,
    grey: Floats,
) -> None:
    height, width, _ = observation.shape
    size = len(grey)
    bright = np.empty(width, np.float32)
    for y in range(height):
        for x in range(width):
            bright[x] = (
                _RED * observation[y, x, 0]
                + _GREEN * observation[y, x, 1]
                + _BLUE * observation[y, x, 2]
            )
        for part in range(size):
            total = np.float32(0.0)
            for k in range(column_weights.shape[1]):
                x = min(column_starts[part] + k, width - 1)
                total += column_weights[part, k] * bright[x]
            line[y, part] = total / np.float32(255.0)
    for part in range(size):
        for k in range(row_weights.shape[1]):
            y = min(row_starts[part] + k, height - 1)
            weight = row_weights[part, k]
            for x in range(size):
                grey[part, x] += weight * line[y, x]


class FrameStack:
    """The last few frames, oldest first, as the channels of one image."""

    SAVED: ClassVar[tuple[str, ...]] = ("image",)

    def __init__(self, size: int, depth: int) -> None:
        self.image = np.zeros((1, size, size, depth), np.float32)

    def push(self, frame: Floats, is_first: bool) -> Floats:
        """Adds a frame; the first one of a game fills the stack.

        Returns:
            (1, row, column, frame); the next call writes to it.
        """
        if is_first:
            self.image[0] = frame[..., None]
        else:
            push_frame(self.image, frame)
        return self.image


@compiled
def push_frame(image: Floats, frame: Floats) -> None:
    """Moves every pixel's frames one place on and appends the new one."""
    _, rows, columns, depth = image.shape
    for y in range(rows):
        for x in range(columns):
            for k in range(depth - 1):
                image[0, y, x, k] = image[0, y, x, k + 1]
            image[0, y, x, depth - 1] = frame[y, x]


class Vision:
    """Observations -> stacks of small grey frames, each scaled on arrival."""

    SAVED: ClassVar[tuple[str, ...]] = ("scale", "stack", "is_first")

    def __init__(
        self,
        observation_shape: tuple[int, int, int],
        size: int,
        frames: int,
        horizon: int,
    ) -> None:
        self._shrink = Shrinker(observation_shape, size)
        self.scale = PixelScale(size, horizon)
        self.stack = FrameStack(size, frames)
        self.is_first = True

    def restart(self) -> None:
        """The next observation is the first of a game that was seen before."""
        self.is_first = True

    def see(self, observation: Observation, info: dict[str, bool]) -> Floats:
        """The last few frames of this game alone: (1, row, column, frame)."""
        if info["truncated"]:
            self.scale.restart()
        is_first = self.is_first or info["terminated"] or info["truncated"]
        self.is_first = False
        return self.stack.push(self.scale(self._shrink(observation)), is_first)
