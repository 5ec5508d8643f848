"""Adam (Kingma and Ba, 2015, arXiv 1412.6980) on one vector of weights."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from longplay.learners.parts.kernels import Floats, compiled


class Adam:
    """Running means of the gradient and its square, and the step they make."""

    SAVED: ClassVar[tuple[str, ...]] = ("mean", "square", "updates")

    def __init__(
        self, size: int, step_size: float, betas: tuple[float, float] = (0.9, 0.999)
    ) -> None:
        self._step_size = step_size
        self._betas = betas
        self.mean = np.zeros(size, np.float32)
        self.square = np.zeros(size, np.float32)
        self.updates = 0

    def restart(self) -> None:
        """Forgets all gradients."""
        self.mean[:] = self.square[:] = 0.0
        self.updates = 0

    def move(self, weights: Floats, gradient: Floats) -> None:
        """Moves the weights against the gradient."""
        self.updates += 1
        first, second = self._betas
        scale = (1 - second**self.updates) ** 0.5 / (1 - first**self.updates)
        _move(
            weights,
            gradient,
            self.mean,
            self.square,
            np.float32(self._step_size * scale),
            np.float32(first),
            np.float32(second),
        )


@compiled
def _move(
    weights: Floats,
    gradient: Floats,
    mean: Floats,
    square: Floats,
    step_size: np.float32,
    first: np.float32,
    second: np.float32,
) -> None:
    one, least = np.float32(1.0), np.float32(1.5e-4)
    for k in range(len(weights)):
        slope = gradient[k]
        mean[k] = first * mean[k] + (one - first) * slope
        square[k] = second * square[k] + (one - second) * slope * slope
        weights[k] -= step_size * mean[k] / (np.sqrt(square[k]) + least)
