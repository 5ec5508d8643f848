"""A small convolutional network with its gradient, written out.

    shape = NetworkShape((84, 84, 4), 18, choose_layers(84), hidden=256)
    network = ConvNetwork(shape, seed=0, sparsity=0.9)
    values = network.forward(images)                # (sample, output)
    network.add_gradient(d_values, gradient)        # of the last `forward`, summed

Layers: convolutions, one fully connected layer, outputs; each but the last is followed
by layer normalisation without parameters and a leaky rectifier, as in Elsayed et al.
(2024), "Streaming Deep Reinforcement Learning Finally Works", arXiv 2410.14606. All
weights lie in one vector, `network.weights`, so that an optimiser, a trace or a
gradient is a vector of the same length. A test compares the gradient with torch's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from longplay.errors import ConfigError
from longplay.learners.parts import kernels
from longplay.learners.parts.kernels import Floats


@dataclass(frozen=True)
class Convolution:
    """Square patches of `size`, taken every `stride` pixels, into `filters` numbers."""

    filters: int
    size: int
    stride: int


# Elsayed et al. (2024), table of hyper-parameters for Atari.
STREAM_LAYERS = (Convolution(32, 8, 5), Convolution(64, 4, 3), Convolution(64, 3, 2))
# A quarter of the products at 42 × 42.
SMALL_LAYERS = (Convolution(16, 6, 3), Convolution(32, 4, 2), Convolution(32, 3, 1))


def choose_layers(size: int) -> tuple[Convolution, ...]:
    """The convolutions that are used for images of size × size."""
    return STREAM_LAYERS if size >= 64 else SMALL_LAYERS


@dataclass(frozen=True)
class NetworkShape:
    """The shape of a network; (rows, columns, channels) of its images."""

    image: tuple[int, int, int]
    outputs: int
    convolutions: tuple[Convolution, ...]
    hidden: int


class _Buffers:
    """What a layer writes while a batch of so many samples passes."""

    def __init__(self, layer: _Layer, samples: int) -> None:
        patches = samples * layer.out_shape[0] * layer.out_shape[1]
        self.patches = np.zeros((patches, layer.depth), np.float32)
        self.d_patches = np.zeros_like(self.patches)
        self.raw = np.zeros((patches, layer.conv.filters), np.float32)
        self.d_raw = np.zeros_like(self.raw)
        self.unit = np.zeros((samples, math.prod(layer.out_shape) + 1), np.float32)
        self.out = np.zeros((samples, math.prod(layer.out_shape)), np.float32)
        self.d_in = np.zeros((samples, *layer.in_shape), np.float32)


class _Layer:
    """One product, its place among the weights, and its buffers."""

    def __init__(
        self, in_shape: tuple[int, int, int], conv: Convolution, start: int
    ) -> None:
        rows, columns, channels = in_shape
        self.conv = conv
        self.in_shape = in_shape
        self.out_shape = (
            (rows - conv.size) // conv.stride + 1,
            (columns - conv.size) // conv.stride + 1,
            conv.filters,
        )
        self.depth = conv.size * conv.size * channels
        self.weight_slice = slice(start, start + conv.filters * self.depth)
        stop = self.weight_slice.stop
        self.bias_slice = slice(stop, stop + conv.filters)
        self._kept: dict[int, _Buffers] = {}

    def buffers(self, samples: int) -> _Buffers:
        """The buffers for a batch, made once for each size."""
        if samples not in self._kept:
            self._kept[samples] = _Buffers(self, samples)
        return self._kept[samples]

    def views(self, vector: Floats) -> tuple[Floats, Floats]:
        """The layer's weights and biases within a vector of all weights."""
        weights = vector[self.weight_slice].reshape(self.conv.filters, self.depth)
        return weights, vector[self.bias_slice]


class ConvNetwork:
    """The network, its weights, and the activations of the last `forward`."""

    SAVED: ClassVar[tuple[str, ...]] = ("weights",)

    def __init__(
        self, shape: NetworkShape, seed: int | np.random.Generator, sparsity: float = 0
    ) -> None:
        self.shape = shape
        self.layers = list(_build_layers(shape))
        self.weights = np.zeros(self.layers[-1].bias_slice.stop, np.float32)
        # Of the last `forward`.
        self._samples, self._weights = 1, self.weights
        rng = np.random.default_rng(seed)
        for layer in self.layers:
            weights, _ = layer.views(self.weights)
            weights[:] = draw_sparse(rng, weights.shape, sparsity)

    def forward(self, images: Floats, weights: Floats | None = None) -> Floats:
        """Outputs (sample, output) of a batch of images; with other weights, if given.

        The result is a buffer of the network: the next `forward` writes to it.
        """
        weights = self.weights if weights is None else weights
        samples = len(images)
        self._samples, self._weights = samples, weights
        current = images
        for layer in self.layers:
            buffers, conv = layer.buffers(samples), layer.conv
            images = current.reshape(samples, *layer.in_shape)
            kernels.gather_patches(images, conv.size, conv.stride, buffers.patches)
            kernels.multiply(buffers.patches, *layer.views(weights), buffers.raw)
            raw = buffers.raw.reshape(samples, -1)
            if layer is not self.layers[-1]:
                kernels.normalise_and_rectify(raw, buffers.unit, buffers.out)
                current = buffers.out
        return raw

    def add_gradient(self, d_outputs: Floats, gradient: Floats) -> None:
        """Adds the gradient of `sum(d_outputs * outputs)` of the last `forward`.

        It is the gradient by the weights which that `forward` used.

        Args:
            d_outputs: (sample, output), float32.
            gradient: As long as `weights`; may hold other gradients or traces.
        """
        d_rows = d_outputs
        for number in range(len(self.layers) - 1, -1, -1):
            layer = self.layers[number]
            buffers = layer.buffers(self._samples)
            d_weights, d_bias = layer.views(gradient)
            kernels.add_products(d_rows, buffers.patches, d_weights)
            kernels.add_rows(d_rows, d_bias)
            if number > 0:
                d_rows = self._step_back(layer, self.layers[number - 1], d_rows)

    def _step_back(self, layer: _Layer, before: _Layer, d_rows: Floats) -> Floats:
        """The gradient by what a layer got -> by the product of the layer before it."""
        buffers, conv = layer.buffers(self._samples), layer.conv
        weights, _ = layer.views(self._weights)
        buffers.d_patches[:] = 0.0
        kernels.add_products(d_rows.T, weights, buffers.d_patches)
        kernels.scatter_patches(buffers.d_patches, conv.size, conv.stride, buffers.d_in)
        previous = before.buffers(self._samples)
        kernels.normalise_back(
            buffers.d_in.reshape(self._samples, -1),
            previous.unit,
            previous.d_raw.reshape(self._samples, -1),
        )
        return previous.d_raw

    def count_dormant(self, threshold: float = 0.025) -> float:
        """Share of hidden units whose activity is below a share of their layer's mean.

        Sokar et al. (2023), "The Dormant Neuron Phenomenon in Deep Reinforcement
        Learning", on the images of the last `forward`. On fewer images more units are
        silent, so only shares over equally many images can be compared.
        """
        dormant = np.concatenate(self.find_dormant(threshold))
        return int(dormant.sum()) / len(dormant)

    def find_dormant(self, threshold: float) -> list[NDArray[np.bool_]]:
        """Which units (filters) of each hidden layer are dormant."""
        found = []
        for layer in self.layers[:-1]:
            activity = _mean_activity(layer, self._samples)
            found.append(activity <= threshold * activity.mean())
        return found


def _mean_activity(layer: _Layer, samples: int) -> Floats:
    """Mean activity of each unit (filter) above zero, over places and samples."""
    outputs = layer.buffers(samples).out.reshape(-1, layer.conv.filters)
    outputs = np.maximum(outputs, 0.0)
    activity: Floats = outputs.mean(axis=0)
    return activity


def _check_image(shape: NetworkShape) -> None:
    """Refuses images from which the last convolution gets less than a patch."""
    rows, columns, _ = shape.image
    least = 1
    for conv in reversed(shape.convolutions):
        least = (least - 1) * conv.stride + conv.size
    if min(rows, columns) < least:
        raise ConfigError(
            f"size: expected images of at least {least} × {least} for this network, "
            f"found {rows} × {columns}"
        )


def _build_layers(shape: NetworkShape) -> Iterator[_Layer]:
    _check_image(shape)
    current, start = shape.image, 0
    for conv in shape.convolutions:
        layer = _Layer(current, conv, start)
        yield layer
        current, start = layer.out_shape, layer.bias_slice.stop
    for units in (shape.hidden, shape.outputs):
        # One patch, as large as the whole of what comes in.
        flat = (1, 1, math.prod(current))
        layer = _Layer(flat, Convolution(units, 1, 1), start)
        yield layer
        current, start = layer.out_shape, layer.bias_slice.stop


def draw_sparse(
    rng: np.random.Generator, shape: tuple[int, ...], sparsity: float
) -> Floats:
    """Weights of (units, inputs), uniform within ±1 / √inputs, a share of each unit 0.

    Elsayed et al. (2024), algorithm 1 (SparseInit).
    """
    units, inputs = shape
    bound = 1 / math.sqrt(inputs)
    weights = rng.uniform(-bound, bound, (units, inputs)).astype(np.float32)
    zeros = math.ceil(sparsity * inputs)
    for unit in range(units):
        weights[unit, rng.permutation(inputs)[:zeros]] = 0.0
    return weights
