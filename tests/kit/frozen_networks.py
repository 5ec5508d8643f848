"""Frozen networks with arbitrary weights, and their outputs by another way."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.reference.network import HIDDEN_LIMIT, SUM_LIMIT

Arrays = dict[str, NDArray[Any]]


def make_arrays(
    seed: int = 0,
    inputs: int = 600,
    units: tuple[int, int] = (256, 128),
    outputs: int = 6,
) -> Arrays:
    rng = np.random.default_rng(seed)
    first, second = units
    bits = rng.choice(2048, inputs, replace=False)
    per_layer: Arrays = {}
    for layer, count in (("1", first), ("2", second)):
        scale = 20.0 if layer == "1" else 2.0**-10
        per_layer |= {
            f"scale{layer}": (scale * rng.uniform(0.5, 1, count)).astype(np.float32),
            f"bias{layer}": rng.integers(-9999, 9999, count).astype(np.int32),
            f"gain{layer}": rng.normal(1, 0.3, count).astype(np.float32),
            f"offset{layer}": rng.normal(0, 0.3, count).astype(np.float32),
            f"stabiliser{layer}": np.array([3.7]),
        }
    return per_layer | {
        "input_bits": np.sort(bits).astype(np.int16),
        "weight1": rng.integers(-127, 128, (inputs, first)).astype(np.int8),
        "weight2": rng.integers(-32767, 32768, (first, second)).astype(np.int16),
        "weight3": rng.integers(-32767, 32768, (second, outputs)).astype(np.int16),
        "bias3": rng.integers(-(10**6), 10**6, outputs),
        "scale3": np.array([1e-5], np.float32),
    }


def make_pairs(count: int, seed: int = 1) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (count, 256), np.uint8)


def evaluate_with_integers(arrays: Arrays, pair: NDArray[np.uint8]) -> list[float]:
    """The outputs with Python's unbounded integers for every sum."""
    bits = np.unpackbits(pair)[arrays["input_bits"]].tolist()
    hidden = _hidden(arrays, 1, _sums(bits, arrays["weight1"]))
    hidden = _hidden(arrays, 2, _sums(hidden, arrays["weight2"]))
    step = float(arrays["scale3"][0])
    sums = _sums(hidden, arrays["weight3"])
    biases = arrays["bias3"].tolist()
    return [float(s + b) * step for s, b in zip(sums, biases, strict=True)]


def _sums(values: list[int], weights: NDArray[Any]) -> list[int]:
    columns = weights.T.tolist()
    return [sum(v * w for v, w in zip(values, c, strict=True)) for c in columns]


def _hidden(arrays: Arrays, layer: int, sums: list[int]) -> list[int]:
    names = ("scale", "bias", "gain", "offset")
    scale, bias, gain, offset = (arrays[f"{n}{layer}"].tolist() for n in names)
    rounded = [
        max(-int(SUM_LIMIT), min(int(SUM_LIMIT), round(s * a + b)))
        for s, a, b in zip(sums, scale, bias, strict=True)
    ]
    units, total = len(rounded), sum(rounded)
    spread = units * sum(z * z for z in rounded) - total * total
    stabiliser = float(units) * float(units) * float(arrays[f"stabiliser{layer}"][0])
    factor = 1.0 / (float(spread) + stabiliser) ** 0.5
    return [
        max(
            0,
            min(
                int(HIDDEN_LIMIT), round(((units * z - total) * factor * g + o) * 256.0)
            ),
        )
        for z, g, o in zip(rounded, gain, offset, strict=True)
    ]
