"""The loops of a small network, compiled: patches, products, normalisation.

A layer is `out = patches @ weights.T + bias`; a fully connected layer has one patch per
sample. All arrays are float32 and C-contiguous, images are (sample, row, column,
channel). Sums run over the contiguous axis in blocks that stay in registers: for the
sizes of Atari agents that is as fast as BLAS, and always single-threaded.
`docs/learners.md` has the measurements.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.errors import MissingExtraError

try:
    from numba import njit
except ImportError as error:
    raise MissingExtraError.of("this learner needs numba", "learn") from error

Floats = NDArray[np.float32]

LEAK = np.float32(0.01)
_EPSILON = np.float32(1e-5)
_ZERO = np.float32(0.0)


def compiled(function: Any) -> Any:
    """Compiles a loop; numba caches the code in `NUMBA_CACHE_DIR` or next to it.

    `fastmath` lets sums be reordered, which vector instructions need. The order is
    fixed when a loop is compiled: results are bit-identical on one machine.
    """
    return njit(fastmath=True, cache=True, nogil=True)(function)


@compiled
def gather_patches(images: Floats, size: int, stride: int, patches: Floats) -> None:
    """Writes each patch of each image as a row: (sample, row, column, channel)."""
    samples, height, width, channels = images.shape
    lines = images.reshape(samples, height, width * channels)
    rows, columns = (height - size) // stride + 1, (width - size) // stride + 1
    length = size * channels
    for sample in range(samples):
        for row in range(rows):
            for column in range(columns):
                patch = patches[(sample * rows + row) * columns + column]
                start = column * stride * channels
                for y in range(size):
                    source = lines[sample, row * stride + y, start : start + length]
                    target = patch[y * length : (y + 1) * length]
                    for k in range(length):
                        target[k] = source[k]


@compiled
def scatter_patches(patches: Floats, size: int, stride: int, images: Floats) -> None:
    """Adds each patch to where it was gathered from."""
    samples, height, width, channels = images.shape
    lines = images.reshape(samples, height, width * channels)
    rows, columns = (height - size) // stride + 1, (width - size) // stride + 1
    length = size * channels
    lines[:] = _ZERO
    for sample in range(samples):
        for row in range(rows):
            for column in range(columns):
                patch = patches[(sample * rows + row) * columns + column]
                start = column * stride * channels
                for y in range(size):
                    target = lines[sample, row * stride + y, start : start + length]
                    source = patch[y * length : (y + 1) * length]
                    for k in range(length):
                        target[k] += source[k]


@compiled
def multiply(patches: Floats, weights: Floats, bias: Floats, out: Floats) -> None:
    """`out[p, n] = patches[p] · weights[n] + bias[n]`, 4 × 2 products at a time."""
    rows, depth = patches.shape
    units = len(weights)
    paired = units - units % 2
    blocked = rows - rows % 4
    for p in range(0, blocked, 4):
        a, b, c, d = patches[p], patches[p + 1], patches[p + 2], patches[p + 3]
        for n in range(0, paired, 2):
            v, w = weights[n], weights[n + 1]
            av = bv = cv = dv = _ZERO
            aw = bw = cw = dw = _ZERO
            for k in range(depth):
                av += a[k] * v[k]
                bv += b[k] * v[k]
                cv += c[k] * v[k]
                dv += d[k] * v[k]
                aw += a[k] * w[k]
                bw += b[k] * w[k]
                cw += c[k] * w[k]
                dw += d[k] * w[k]
            out[p, n], out[p, n + 1] = av + bias[n], aw + bias[n + 1]
            out[p + 1, n], out[p + 1, n + 1] = bv + bias[n], bw + bias[n + 1]
            out[p + 2, n], out[p + 2, n + 1] = cv + bias[n], cw + bias[n + 1]
            out[p + 3, n], out[p + 3, n + 1] = dv + bias[n], dw + bias[n + 1]
    for p in range(rows):
        a = patches[p]
        for n in range(paired if p < blocked else 0, units):
            v = weights[n]
            total = _ZERO
            for k in range(depth):
                total += a[k] * v[k]
            out[p, n] = total + bias[n]


@compiled
def add_products(factors: Floats, rows: Floats, totals: Floats) -> None:
    """`totals[n] += sum over p of factors[p, n] * rows[p]`, four rows at a time."""
    count, depth = rows.shape
    blocked = count - count % 4
    for p in range(0, blocked, 4):
        e, f, g, h = rows[p], rows[p + 1], rows[p + 2], rows[p + 3]
        for n in range(len(totals)):
            a, b = factors[p, n], factors[p + 1, n]
            c, d = factors[p + 2, n], factors[p + 3, n]
            total = totals[n]
            for k in range(depth):
                total[k] += a * e[k] + b * f[k] + c * g[k] + d * h[k]
    for p in range(blocked, count):
        e = rows[p]
        for n in range(len(totals)):
            a, total = factors[p, n], totals[n]
            for k in range(depth):
                total[k] += a * e[k]


@compiled
def add_rows(d_out: Floats, d_bias: Floats) -> None:
    """`d_bias[n] += sum over p of d_out[p, n]`."""
    for p in range(len(d_out)):
        for n in range(len(d_bias)):
            d_bias[n] += d_out[p, n]


@compiled
def normalise_and_rectify(raw: Floats, unit: Floats, out: Floats) -> None:
    """Layer normalisation of each sample without parameters, then a leaky rectifier.

    `unit` gets the normalised numbers and, in its last column, 1 / deviation, for the
    backward pass.
    """
    samples, size = raw.shape
    for sample in range(samples):
        x = raw[sample]
        mean = _ZERO
        for k in range(size):
            mean += x[k]
        mean /= np.float32(size)
        variance = _ZERO
        for k in range(size):
            variance += (x[k] - mean) * (x[k] - mean)
        scale = np.float32(1.0) / np.sqrt(variance / np.float32(size) + _EPSILON)
        unit[sample, size] = scale
        for k in range(size):
            y = (x[k] - mean) * scale
            unit[sample, k] = y
            out[sample, k] = y if y > _ZERO else LEAK * y


@compiled
def normalise_back(d_out: Floats, unit: Floats, d_raw: Floats) -> None:
    """The gradient before the rectifier and the normalisation."""
    samples, size = d_raw.shape
    for sample in range(samples):
        mean = along = _ZERO
        for k in range(size):
            y = unit[sample, k]
            slope = np.float32(1.0) if y > _ZERO else LEAK
            d = d_out[sample, k] * slope
            d_raw[sample, k] = d
            mean += d
            along += d * y
        mean /= np.float32(size)
        along /= np.float32(size)
        scale = unit[sample, size]
        for k in range(size):
            d_raw[sample, k] = scale * (
                d_raw[sample, k] - mean - unit[sample, k] * along
            )
