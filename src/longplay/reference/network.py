"""A frozen network: RAM -> outputs that are bit-identical on every machine.

Sums of floats depend on their order, and BLAS picks the order by machine and batch
size. Here the order does not matter: weights, layer inputs and sums are integers in
float64, small enough that every product and every partial sum is exact (below 2**53).
Everything else is one IEEE operation at a time (+ − × ÷ √), correctly rounded by
definition; there is no exp, log or tanh.

    bits ∈ {0, 1}       × int8 weights       → sums  ≤ 2**18, exact even in float32
    sums → rounded to integers, at most SUM_LIMIT = 2**18 − 1
    normalisation:        n·Σz² and (Σz)² are below 2**53 for n ≤ 256, so is n·z − Σz
    hidden ∈ 0 … 2**15−1 × int16 weights      → sums  ≤ 2**15 · 2**15 · 256 = 2**38

A sum is multiplied by its unit's scale (one operation) before it is rounded. The first
layer's sums are kept between calls and only updated for the bits that changed; since
they are integers, they do not depend on the path of updates.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.errors import DocumentError
from longplay.reference.ram import INPUT_BITS, RamPair

SUM_LIMIT = 2.0**18 - 1
HIDDEN_LIMIT = 2.0**15 - 1
HIDDEN_STEP = 2.0**-8
MAX_UNITS = 256

Reals = NDArray[np.float64]
Arrays = Mapping[str, NDArray[Any]]

# name -> dtype and dimensions of the arrays of a frozen network.
ARRAYS: dict[str, tuple[type[np.generic], int]] = {
    "input_bits": (np.int16, 1),
    "weight1": (np.int8, 2),
    "scale1": (np.float32, 1),
    "bias1": (np.int32, 1),
    "gain1": (np.float32, 1),
    "offset1": (np.float32, 1),
    "stabiliser1": (np.float64, 1),
    "weight2": (np.int16, 2),
    "scale2": (np.float32, 1),
    "bias2": (np.int32, 1),
    "gain2": (np.float32, 1),
    "offset2": (np.float32, 1),
    "stabiliser2": (np.float64, 1),
    "weight3": (np.int16, 2),
    "scale3": (np.float32, 1),
    "bias3": (np.int64, 1),
}


def check_arrays(arrays: Arrays, where: str, input_bits: int = INPUT_BITS) -> None:
    """Checks the arrays of a frozen network.

    Raises:
        DocumentError: Names the first invalid array.
    """
    for name, (dtype, dimensions) in ARRAYS.items():
        if name not in arrays:
            raise DocumentError(f"{where} {name}: expected an array, found none")
        found = arrays[name]
        if found.dtype != dtype or found.ndim != dimensions:
            raise DocumentError(
                f"{where} {name}: expected {dimensions} dimension(s) of "
                f"{np.dtype(dtype).name}, found {found.ndim} of {found.dtype}"
            )
    shapes = {name: arrays[name].shape for name in ARRAYS}
    if shapes != _expected_shapes(shapes):
        raise DocumentError(f"{where}: shapes do not fit together: {shapes}")
    bits = arrays["input_bits"]
    if len(bits) and not (bits.min() >= 0 and bits.max() < input_bits):
        raise DocumentError(f"{where} input_bits: expected 0 … {input_bits - 1}")


def _expected_shapes(found: dict[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    inputs, outputs = found["input_bits"][0], found["weight3"][1]
    first, second = (min(n, MAX_UNITS) for n in found["weight2"])
    shapes: dict[str, tuple[int, ...]] = {
        "input_bits": (inputs,),
        "weight1": (inputs, first),
        "weight2": (first, second),
        "weight3": (second, outputs),
        "scale3": (1,),
        "bias3": (outputs,),
    }
    for layer, units in (("1", first), ("2", second)):
        shapes |= {f"{n}{layer}": (units,) for n in _PER_UNIT}
        shapes[f"stabiliser{layer}"] = (1,)
    return {name: shapes[name] for name in ARRAYS}


_PER_UNIT = ("scale", "bias", "gain", "offset")


class _Normalisation:
    """Integer sums -> the next layer's integers: round, normalise, clip at zero."""

    def __init__(self, arrays: Arrays, layer: int) -> None:
        self._scale = arrays[f"scale{layer}"].astype(np.float64)
        self._bias = arrays[f"bias{layer}"].astype(np.float64)
        # In steps of a hidden input; dividing by a power of two is exact.
        self._gain = arrays[f"gain{layer}"].astype(np.float64) / HIDDEN_STEP
        self._offset = arrays[f"offset{layer}"].astype(np.float64) / HIDDEN_STEP
        self._units = float(len(self._bias))
        stabiliser = float(arrays[f"stabiliser{layer}"][0])
        self._stabiliser = self._units * self._units * stabiliser

    def apply(self, sums: Reals) -> Reals:
        # In place: at these sizes a new array costs as much as the arithmetic.
        units, z = self._units, sums * self._scale
        z += self._bias
        np.rint(z, out=z)
        np.maximum(z, -SUM_LIMIT, out=z)
        np.minimum(z, SUM_LIMIT, out=z)
        total = float(np.add.reduce(z))
        # units² times the variance, from exact sums
        spread = units * float(z.dot(z)) - total * total
        z *= units
        z -= total
        z *= 1.0 / sqrt(spread + self._stabiliser)
        z *= self._gain
        z += self._offset
        np.rint(z, out=z)
        np.maximum(z, 0.0, out=z)
        np.minimum(z, HIDDEN_LIMIT, out=z)
        return z


class ExactNetwork:
    """Evaluates one memory pair at a time."""

    def __init__(
        self,
        arrays: Arrays,
        where: str = "network",
        input_bits: int = INPUT_BITS,
    ) -> None:
        check_arrays(arrays, where, input_bits)
        self._input_bits = arrays["input_bits"].astype(np.intp)
        self._weight1 = arrays["weight1"].astype(np.float32)
        self._weight2 = arrays["weight2"].astype(np.float64)
        self._weight3 = arrays["weight3"].astype(np.float64)
        self._normalise1 = _Normalisation(arrays, 1)
        self._normalise2 = _Normalisation(arrays, 2)
        self._bias3 = arrays["bias3"].astype(np.float64)
        self._step3 = float(arrays["scale3"][0])
        self._bits = np.zeros(len(self._input_bits), np.int8)
        self._sums1 = np.zeros(self._weight1.shape[1])

    def evaluate(self, pair: RamPair) -> Reals:
        """The outputs for current and previous memory (256 bytes).

        Calls with equal bytes give equal bits, independent of earlier calls.
        """
        bits = np.unpackbits(pair).take(self._input_bits).view(np.int8)
        self._update_sums(bits - self._bits)
        self._bits = bits
        hidden = self._normalise1.apply(self._sums1)
        hidden = self._normalise2.apply(hidden @ self._weight2)
        return (hidden @ self._weight3 + self._bias3) * self._step3

    def _update_sums(self, change: NDArray[np.int8]) -> None:
        changed = change.nonzero()[0]
        signs = change[changed].astype(np.float32)
        self._sums1 += signs @ self._weight1.take(changed, axis=0)
