"""A trained network -> the integers of a frozen one.

The weights of byte inputs are folded into those of their bits, then every layer is
rounded to the grids described in `reference/network.py`. A sample of memory pairs sets
the scales, so that sums use their range without exceeding it.
"""

from __future__ import annotations

from math import floor, log2
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from longplay.reference.network import ARRAYS, HIDDEN_STEP, SUM_LIMIT
from longplay.reference.ram import RamPair
from references.training.features import NUMBER_SCALE
from references.training.network import RamNetwork

Reals = NDArray[np.float64]

_INT8, _INT16 = 127, 32767
# Ratio of the limit to the largest sum of the sample.
_HEADROOM = 4.0


def freeze_network(network: RamNetwork, sample: RamPair) -> dict[str, NDArray[Any]]:
    """The arrays of the frozen network."""
    weight1, bias1 = fold_numbers(network)
    with torch.no_grad():
        inputs = network.read(sample)
        sums1 = inputs @ network.weight1 + network.bias1
        hidden = torch.relu(network.norm1(sums1))
        sums2 = network.layer2(hidden)
    bit_ids = network.live.ids[: network.live.bit_count]
    weight2, bias2 = _as_reals(network.layer2.weight.T), network.layer2.bias
    weight3, bias3 = _as_reals(network.layer3.weight.T), network.layer3.bias
    arrays = {
        "input_bits": bit_ids,
        **_freeze_hidden(1, weight1, bias1, network.norm1, sums1, 1.0, _INT8),
        **_freeze_hidden(
            2, weight2, _as_reals(bias2), network.norm2, sums2, HIDDEN_STEP, _INT16
        ),
        **_freeze_outputs(weight3, _as_reals(bias3)),
    }
    return {name: arrays[name].astype(dtype) for name, (dtype, _) in ARRAYS.items()}


def _as_reals(tensor: torch.Tensor) -> Reals:
    return tensor.detach().numpy().astype(np.float64)


def fold_numbers(network: RamNetwork) -> tuple[Reals, Reals]:
    """First-layer weights of the live bits only, and the matching bias."""
    live = network.live
    weights = _as_reals(network.weight1)
    folded, bias = weights[: live.bit_count].copy(), _as_reals(network.bias1)
    row_of = {int(bit): row for row, bit in enumerate(live.ids[: live.bit_count])}
    always = np.unpackbits(np.concatenate([live.always, live.always]))
    for row, number_id in enumerate(live.ids[live.bit_count :], live.bit_count):
        for place in range(8):
            bit = 8 * (int(number_id) - live.input_bits) + place
            share = weights[row] * (NUMBER_SCALE / 255 * 2 ** (7 - place))
            if bit in row_of:
                folded[row_of[bit]] += share
            elif always[bit]:
                bias += share
    return folded, bias


def _freeze_hidden(
    layer: int,
    weights: Reals,
    bias: Reals,
    norm: torch.nn.LayerNorm,
    sums: torch.Tensor,
    input_step: float,
    largest: int,
) -> dict[str, NDArray[Any]]:
    reach = max(float(sums.abs().max()), 1e-6)
    unit = 2.0 ** floor(log2(SUM_LIMIT / (_HEADROOM * reach)))
    steps = np.maximum(np.abs(weights).max(axis=0), 1e-12) / largest
    return {
        f"weight{layer}": np.rint(weights / steps),
        f"scale{layer}": steps * input_step * unit,
        f"bias{layer}": np.rint(bias * unit),
        f"gain{layer}": _as_reals(norm.weight),
        f"offset{layer}": _as_reals(norm.bias),
        f"stabiliser{layer}": np.array([norm.eps * unit * unit]),
    }


def _freeze_outputs(weights: Reals, bias: Reals) -> dict[str, NDArray[Any]]:
    step = max(float(np.abs(weights).max()), 1e-12) / _INT16
    return {
        "weight3": np.rint(weights / step),
        "bias3": np.rint(bias / (step * HIDDEN_STEP)),
        "scale3": np.array([step * HIDDEN_STEP]),
    }
