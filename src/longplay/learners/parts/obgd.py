"""Eligibility traces, and steps along them that cannot overshoot.

    traces.decay(discount * trace_decay)            # then add the new gradient
    network.add_gradient(d_values, traces.vector)
    traces.move(network.weights, error)             # when the error is known

Elsayed et al. (2024), algorithm 3 (ObGD, overshooting-bounded gradient descent): the
step size is capped at 1 / (`kappa` · max(1, |error|) · ‖trace‖₁), to keep an update
from moving the value beyond its target.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from longplay.learners.parts.kernels import Floats, compiled


class BoundedTraces:
    """A trace of gradients, and bounded steps along it."""

    SAVED: ClassVar[tuple[str, ...]] = ("vector",)

    def __init__(self, size: int, step_size: float, kappa: float) -> None:
        self.vector = np.zeros(size, np.float32)
        self._step_size = step_size
        self._kappa = kappa

    def decay(self, factor: float) -> None:
        """Decays the trace; 0 clears it."""
        if factor == 0.0:
            self.vector[:] = 0.0
        else:
            self.vector *= np.float32(factor)

    def move(self, weights: Floats, error: float) -> float:
        """Moves the weights along the trace by a bounded multiple of the error.

        Returns:
            The step size that was taken.
        """
        bound = self._kappa * max(abs(error), 1.0) * float(sum_absolute(self.vector))
        step_size = min(self._step_size, 1.0 / bound) if bound > 0 else 0.0
        add_scaled(weights, self.vector, np.float32(step_size * error))
        return step_size


@compiled
def sum_absolute(vector: Floats) -> np.float32:
    """The sum of absolute values."""
    total = np.float32(0.0)
    for k in range(len(vector)):
        total += abs(vector[k])
    return total


@compiled
def add_scaled(target: Floats, vector: Floats, factor: np.float32) -> None:
    """`target += factor * vector`, in one pass."""
    for k in range(len(target)):
        target[k] += factor * vector[k]
