"""The network written out, compared with torch's autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from longplay.errors import ConfigError
from longplay.learners import stream_q
from longplay.learners.adam import Adam
from longplay.learners.networks import (
    ConvNetwork,
    NetworkShape,
    choose_layers,
    draw_sparse,
)
from longplay.learners.obgd import BoundedTraces
from stream_q_torch import TorchNetwork, TorchStreamQ

GOING_ON = {"terminated": False, "truncated": False}


def make_network(size: int, outputs: int = 7, hidden: int = 33) -> ConvNetwork:
    shape = NetworkShape((size, size, 4), outputs, choose_layers(size), hidden)
    network = ConvNetwork(shape, seed=1, sparsity=0.5)
    rng = np.random.default_rng(2)
    for layer in network.layers:  # biases begin at 0, which would hide mistakes
        _, bias = layer.views(network.weights)
        bias[:] = rng.normal(0, 0.1, len(bias))
    return network


@pytest.mark.parametrize("size", [42, 84])
@pytest.mark.parametrize("samples", [1, 3, 5])
def test_outputs_and_gradient_are_those_of_autograd(size: int, samples: int) -> None:
    network = make_network(size)
    twin = TorchNetwork(network)
    rng = np.random.default_rng(3)
    images = rng.normal(size=(samples, size, size, 4)).astype(np.float32)
    d_outputs = rng.normal(size=(samples, 7)).astype(np.float32)
    outputs = network.forward(images)
    expected = twin(torch.tensor(images))
    assert np.abs(outputs - expected.detach().numpy()).max() < 1e-5
    gradient = np.zeros_like(network.weights)
    network.add_gradient(d_outputs, gradient)
    (expected * torch.tensor(d_outputs)).sum().backward()
    for parameter in twin.parameters():
        parameter.data = parameter.grad
    found = twin.flatten()
    assert np.abs(gradient - found).max() < 1e-5 * np.abs(found).max()


def test_gradients_add_up() -> None:
    network = make_network(42)
    images = np.random.default_rng(0).normal(size=(2, 42, 42, 4)).astype(np.float32)
    d_outputs = np.ones((2, 7), np.float32)
    network.forward(images)
    once, twice = (np.zeros_like(network.weights) for _ in range(2))
    network.add_gradient(d_outputs, once)
    network.add_gradient(d_outputs, twice)
    network.add_gradient(d_outputs, twice)
    assert np.abs(twice - 2 * once).max() <= 1e-5 * np.abs(twice).max()


def test_batches_of_different_sizes_do_not_disturb_each_other() -> None:
    network = make_network(42)
    images = np.random.default_rng(0).normal(size=(4, 42, 42, 4)).astype(np.float32)
    alone = network.forward(images[:1]).copy()
    batch = network.forward(images).copy()
    assert network.forward(images[:1]) == pytest.approx(batch[:1], abs=1e-6)
    assert np.array_equal(network.forward(images[:1]), alone)


def test_patches_must_fit_into_the_image() -> None:
    shape = NetworkShape((10, 10, 4), 3, choose_layers(10), 8)
    message = "size: expected images of at least 27 × 27 .*, found 10 × 10"
    with pytest.raises(ConfigError, match=message):
        ConvNetwork(shape, seed=0)


def test_sparse_weights() -> None:
    weights = draw_sparse(np.random.default_rng(0), (50, 100), 0.9)
    assert ((weights == 0).sum(axis=1) == 90).all()
    assert np.abs(weights).max() <= 0.1
    assert np.abs(weights).max() > 0.09


@pytest.mark.parametrize(("faint", "dormant"), [(0.02, 10), (0.018, 11)])
def test_dormant_units_by_hand(faint: float, dormant: int) -> None:
    network = make_network(42, hidden=4)
    network.weights[:] = 0.0  # what remains are the biases, normalised per layer
    biases = [layer.views(network.weights)[1] for layer in network.layers[:-1]]
    for bias in biases[:-1]:  # 3 of 16, 32 and 32 filters are below the mean: silent
        bias[:] = 1.0
        bias[:3] = -1.0
    # Sums to 0, so it is only scaled: one silent unit, a faint one and two others. The
    # mean activity is 3 / 4; a unit is dormant up to 0.025 of it, 0.01875.
    biases[-1][:] = (-3.0, faint, 1.0 - faint, 2.0)
    network.forward(np.ones((1, 42, 42, 4), np.float32))
    assert network.count_dormant() == dormant / (16 + 32 + 32 + 4)


def test_fewer_units_are_dormant_on_more_images() -> None:
    network = make_network(42)
    images = np.random.default_rng(0).normal(size=(32, 42, 42, 4)).astype(np.float32)
    network.forward(images[:1])
    on_one_image = network.count_dormant()
    network.forward(images)
    assert network.count_dormant() < on_one_image / 2


# --- optimisers ---------------------------------------------------------------------


def test_bounded_step_by_hand() -> None:
    traces = BoundedTraces(3, step_size=1.0, kappa=2.0)
    traces.vector[:] = (1.0, -3.0, 0.0)
    weights = np.zeros(3, np.float32)
    # 2 · max(|½|, 1) · 4 = 8: the step is 1/8, times the error.
    assert traces.move(weights, 0.5) == pytest.approx(1 / 8)
    assert weights == pytest.approx([1 / 16, -3 / 16, 0.0])
    # 2 · 3 · 4 = 24
    assert traces.move(weights, -3.0) == pytest.approx(1 / 24)
    traces.decay(0.5)
    assert traces.vector.tolist() == [0.5, -1.5, 0.0]
    traces.vector[:] = (0.01, 0.0, 0.0)
    assert traces.move(weights, 0.5) == 1.0
    traces.decay(0.0)
    assert not traces.vector.any()
    assert traces.move(weights, 0.5) == 0.0


def test_adam_is_torch_s() -> None:
    rng = np.random.default_rng(0)
    weights = rng.normal(size=20).astype(np.float32)
    twin = torch.nn.Parameter(torch.tensor(weights))
    ours = Adam(20, 1e-2)
    theirs = torch.optim.Adam([twin], lr=1e-2, eps=1.5e-4)
    for _ in range(300):
        gradient = rng.normal(size=20).astype(np.float32)
        ours.move(weights, gradient)
        twin.grad = torch.tensor(gradient)
        theirs.step()
    # Its eps is added after the correction of the mean square, ours before: equal in
    # the long run.
    assert np.abs(weights - twin.detach().numpy()).max() < 1e-3


# --- one update of Stream Q(λ) ------------------------------------------------------


def make_frames(count: int) -> list[Any]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, (210, 160, 3), np.uint8) for _ in range(count)]


@pytest.mark.parametrize("size", [42, 84])
@pytest.mark.parametrize("cut_traces", [True, False])
def test_updates_are_those_of_plain_torch(size: int, cut_traces: bool) -> None:
    torch.set_num_threads(1)
    settings = {"size": size, "epsilons": (0.5,), "cut_traces": cut_traces}
    ours = stream_q.init((210, 160, 3), 18, 3, **settings)
    twin = TorchStreamQ(stream_q.init((210, 160, 3), 18, 3, **settings))
    frames = make_frames(12)
    for k, frame in enumerate(frames):
        info = {"terminated": k == 7, "truncated": k == 9}
        reward = float(k % 3)
        before = ours.network.weights.copy()
        _, action, _ = stream_q.step(ours, frame, frame, reward, info)
        assert action == twin.step(frame, reward, info)
        moved = twin.network.flatten() - before
        assert np.abs(ours.network.weights - before - moved).max() < 1e-5
    assert np.abs(moved).max() > 1e-4
