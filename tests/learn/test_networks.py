"""The network written out, compared with torch's autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from longplay.errors import ConfigError
from longplay.learners import dqn, stream_q, stream_td
from longplay.learners.parts.adam import Adam
from longplay.learners.parts.kernels import Floats
from longplay.learners.parts.networks import (
    ConvNetwork,
    NetworkShape,
    choose_layers,
    draw_sparse,
)
from longplay.learners.parts.obgd import BoundedTraces
from longplay.learners.parts.replay import Batch
from stream_q_torch import TorchNetwork, TorchStreamQ

SHAPE = (210, 160, 3)


def make_network(size: int, outputs: int = 7, hidden: int = 33) -> ConvNetwork:
    shape = NetworkShape((size, size, 4), outputs, choose_layers(size), hidden)
    network = ConvNetwork(shape, seed=1, sparsity=0.5)
    rng = np.random.default_rng(2)
    for layer in network.layers:  # biases begin at 0, which would hide mistakes
        _, bias = layer.views(network.weights)
        bias[:] = rng.normal(0, 0.1, len(bias))
    return network


def make_torch_network(network: ConvNetwork, weights: Floats) -> TorchNetwork:
    """The network in torch, with other weights."""
    other = ConvNetwork(network.shape, seed=0)
    other.weights = weights
    return TorchNetwork(other)


def flatten_gradient(network: TorchNetwork) -> Floats:
    """The gradient, in the order of `ConvNetwork.weights`; its weights are lost."""
    for parameter in network.parameters():
        parameter.data = parameter.grad
    return network.flatten()


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
    found = flatten_gradient(twin)
    assert np.abs(gradient - found).max() < 1e-5 * np.abs(found).max()


def test_gradient_is_by_the_weights_of_the_last_forward() -> None:
    network = make_network(42)
    rng = np.random.default_rng(3)
    images = rng.normal(size=(2, 42, 42, 4)).astype(np.float32)
    d_outputs = rng.normal(size=(2, 7)).astype(np.float32)
    others = network.weights[::-1].copy()
    twin = make_torch_network(network, others)
    (twin(torch.tensor(images)) * torch.tensor(d_outputs)).sum().backward()
    gradient = np.zeros_like(network.weights)
    network.forward(images, others)
    network.add_gradient(d_outputs, gradient)
    found = flatten_gradient(twin)
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


# --- updates of the learners --------------------------------------------------------


def make_frames(count: int) -> list[Any]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, 256, SHAPE, np.uint8) for _ in range(count)]


def compare_with_torch(**settings: Any) -> float:
    """Plays `stream_q` and its twin in torch; returns the largest of the last moves."""
    torch.set_num_threads(1)
    ours = stream_q.init(SHAPE, 18, 3, epsilons=(0.5,), **settings)
    twin = TorchStreamQ(stream_q.init(SHAPE, 18, 3, epsilons=(0.5,), **settings))
    for k, frame in enumerate(make_frames(12)):
        info = {"terminated": k == 7, "truncated": k == 9}
        reward = float(k % 3)
        before = ours.network.weights.copy()
        _, action, _ = stream_q.step(ours, frame, frame, reward, info)
        assert action == twin.step(frame, reward, info)
        moved = twin.network.flatten() - before
        assert np.abs(ours.network.weights - before - moved).max() < 1e-5
    return float(np.abs(moved).max())


@pytest.mark.parametrize("size", [42, 84])
@pytest.mark.parametrize("cut_traces", [True, False])
def test_updates_are_those_of_plain_torch(size: int, cut_traces: bool) -> None:
    assert compare_with_torch(size=size, cut_traces=cut_traces) > 1e-4


@pytest.mark.parametrize("settings", [{"kappa": 0.5}, {"step_size": 1e-4}])
def test_updates_with_other_bounds_are_those_of_plain_torch(
    settings: dict[str, float],
) -> None:
    assert compare_with_torch(**settings) > 1e-4


class TorchStreamTD:
    """The learning half of Stream TD(λ) in plain torch."""

    def __init__(self, state: stream_td.State) -> None:
        self.arguments = state.arguments
        self.network = TorchNetwork(state.network)
        self.traces = [torch.zeros_like(p) for p in self.network.parameters()]
        self.image: torch.Tensor | None = None

    def step(self, image: torch.Tensor, reward: float, is_over: bool) -> float:
        """Learns from the transition to this image; returns the prediction."""
        if self.image is not None:
            self.learn(image, reward, is_over)
        self.image = image
        return float(self.network(image)[0, 0].detach())

    def learn(self, image: torch.Tensor, reward: float, is_over: bool) -> None:
        discount, decay = (self.arguments[k] for k in ("discount", "trace_decay"))
        value = self.network(self.image)[0, 0]
        following = 0.0 if is_over else float(self.network(image)[0, 0].detach())
        error = reward + discount * following - float(value.detach())
        parameters = list(self.network.parameters())
        gradients = torch.autograd.grad(value, parameters)
        for trace, gradient in zip(self.traces, gradients, strict=True):
            trace.mul_(discount * decay).add_(gradient)
        norm = sum(float(trace.abs().sum()) for trace in self.traces)
        bound = self.arguments["kappa"] * max(abs(error), 1.0) * norm
        step_size = min(self.arguments["step_size"], 1.0 / bound)
        with torch.no_grad():
            for trace, parameter in zip(self.traces, parameters, strict=True):
                parameter.add_(trace, alpha=step_size * error)
                trace.mul_(0.0 if is_over else 1.0)


@pytest.mark.parametrize("size", [42, 84])
def test_updates_of_stream_td_are_those_of_plain_torch(size: int) -> None:
    torch.set_num_threads(1)
    ours = stream_td.init(SHAPE, 3, size=size)
    twin = TorchStreamTD(ours)
    for k, frame in enumerate(make_frames(12)):
        info = {"terminated": k == 7, "truncated": k == 9}
        before = ours.network.weights.copy()
        _, prediction, _ = stream_td.step(ours, frame, frame, float(k % 3), info)
        image = torch.tensor(ours.vision.stack.image)
        expected = twin.step(image, float(k % 3), any(info.values()))
        assert prediction == pytest.approx(expected, abs=1e-4)
        moved = twin.network.flatten() - before
        assert np.abs(ours.network.weights - before - moved).max() < 1e-5
    assert np.abs(moved).max() > 1e-4


def make_untrained_dqn() -> dqn.State:
    """A DQN with transitions in its replay, and a target network unlike the other."""
    state = dqn.init(SHAPE, 18, 3, hidden=32, first_update=10**9)
    rng = np.random.default_rng(1)
    for k, frame in enumerate(make_frames(60)):
        info = {"terminated": k % 13 == 12, "truncated": k == 40}
        dqn.step(state, frame, frame, float(rng.integers(-1, 3)), info)
    noise = rng.normal(0, 0.05, len(state.target_weights))
    state.target_weights += noise.astype(np.float32)
    return state


def draw_next_batch(state: dqn.State) -> Batch:
    """The batch that `train` will draw."""
    rng = np.random.default_rng()
    rng.bit_generator.state = state.rng.bit_generator.state
    training = state.training
    return state.replay.draw(rng, training.batch_size, training.discount)


def find_torch_errors(state: dqn.State, batch: Batch) -> tuple[Any, TorchNetwork]:
    """The errors of double Q-learning, and the network that they belong to."""
    network = TorchNetwork(state.network)
    target_network = make_torch_network(state.network, state.target_weights)
    parts = torch.as_tensor(state.parts.of_action)
    samples = torch.arange(len(batch.images))

    def find_values(network: TorchNetwork, images: Floats) -> torch.Tensor:
        return network(torch.tensor(images))[:, parts].sum(-1)

    with torch.no_grad():
        picked = find_values(network, batch.next_images).argmax(1)
        following = find_values(target_network, batch.next_images)
        # Else it would not matter which network picks the action.
        assert (picked != following.argmax(1)).any()
        targets = torch.tensor(batch.rewards)
        targets += torch.tensor(batch.discounts) * following[samples, picked]
    values = find_values(network, batch.images)
    return values[samples, torch.as_tensor(batch.actions)] - targets, network


def test_gradient_of_dqn_is_that_of_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    state = make_untrained_dqn()
    batch = draw_next_batch(state)
    errors, network = find_torch_errors(state, batch)
    assert 0 < (errors.abs() > 1).sum() < len(errors)  # both pieces of Huber's loss
    assert 0 < (batch.discounts == 0).sum() < len(errors)  # with ends and without
    torch.nn.functional.huber_loss(errors, torch.zeros_like(errors)).backward()
    expected = flatten_gradient(network)
    used: list[Floats] = []
    monkeypatch.setattr(state.adam, "move", lambda _, found: used.append(found))
    loss = dqn.train(state)
    assert loss == pytest.approx(float(errors.detach().square().mean()), rel=1e-4)
    (gradient,) = used
    assert np.abs(gradient - expected).max() < 1e-4 * np.abs(expected).max()


def test_target_network_of_dqn_by_hand() -> None:
    state = make_untrained_dqn()
    before, target = state.network.weights.copy(), state.target_weights.copy()
    dqn.train(state)
    after = state.network.weights
    # A hundredth of the way to the weights after the update, not before it.
    assert np.abs(state.target_weights - (0.99 * target + 0.01 * after)).max() < 1e-7
    assert np.abs(0.01 * (after - before)).max() > 1e-6
