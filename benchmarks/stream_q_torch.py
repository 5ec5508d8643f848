"""Stream Q(λ) in plain torch, the baseline of `learners/stream_q.py`.

The algorithm of `longplay.learners.stream_q` with the same numbers, as one would write
it down first: modules, autograd, one tensor of traces per parameter, a forward pass
wherever a value is needed. A test compares an update of both; `bench_learners.py` times
them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812 - as everyone calls it

from longplay.learners import stream_q
from longplay.learners.parts.networks import ConvNetwork


class TorchNetwork(torch.nn.Module):
    """The network of `ConvNetwork`, with its weights."""

    def __init__(self, network: ConvNetwork) -> None:
        super().__init__()
        layers = network.layers
        for number, layer in enumerate(layers):
            weights, bias = layer.views(network.weights)
            size, channels = layer.conv.size, layer.in_shape[2]
            is_last_two = number >= len(layers) - 2
            shape = (layer.conv.filters, size, size, channels)
            kernel = torch.tensor(weights).reshape(shape).permute(0, 3, 1, 2)
            if is_last_two:
                kernel = torch.tensor(weights)
            self.register_parameter(
                f"weight{number}", torch.nn.Parameter(kernel.contiguous())
            )
            self.register_parameter(
                f"bias{number}", torch.nn.Parameter(torch.tensor(bias))
            )
        self.strides = [layer.conv.stride for layer in layers[:-2]]

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Outputs of images (sample, row, column, frame)."""
        x = images.permute(0, 3, 1, 2)
        for number, stride in enumerate(self.strides):
            x = F.conv2d(x, *self.layer(number), stride=stride)
            x = F.leaky_relu(F.layer_norm(x, x.shape[1:]))
        x = x.permute(0, 2, 3, 1).flatten(1)
        hidden = len(self.strides)
        x = F.linear(x, *self.layer(hidden))
        x = F.leaky_relu(F.layer_norm(x, x.shape[1:]))
        return F.linear(x, *self.layer(hidden + 1))

    def layer(self, number: int) -> Iterator[torch.Tensor]:
        """Weight and bias of a layer."""
        yield self.get_parameter(f"weight{number}")
        yield self.get_parameter(f"bias{number}")

    def flatten(self) -> np.ndarray:
        """All weights as one vector, in the order of `ConvNetwork.weights`."""
        parts = []
        for parameter in self.parameters():
            tensor = parameter.detach()
            if tensor.dim() == 4:
                tensor = tensor.permute(0, 2, 3, 1)
            parts.append(tensor.reshape(-1).numpy())
        return np.concatenate(parts)


class TorchStreamQ:
    """The learning half of Stream Q(λ); what is seen and explored is `stream_q`'s."""

    def __init__(self, state: stream_q.State) -> None:
        self.state = state
        self.network = TorchNetwork(state.network)
        self.traces = [torch.zeros_like(p) for p in self.network.parameters()]
        self.image: torch.Tensor | None = None
        self.action = 0
        self.decay = 0.0

    def values(self, image: torch.Tensor) -> torch.Tensor:
        """The value of each action."""
        parts = torch.as_tensor(self.state.parts.of_action)
        return self.network(image)[0][parts].sum(dim=-1)

    def step(self, observation: np.ndarray, reward: float, info: dict) -> int:
        """As `stream_q.step`."""
        state = self.state
        is_over = info["terminated"] or info["truncated"]
        image = torch.tensor(state.vision.see(observation, info))
        if self.image is not None:
            self.learn(image, state.rewards(reward, is_over), is_over)
        state.explorer.observe(reward, info["truncated"])
        with torch.no_grad():
            values = self.values(image)
        self.action = state.explorer.choose(values.numpy())
        is_cut = state.cut_traces and not state.explorer.is_greedy
        self.decay = 0.0 if is_cut else state.discount * state.trace_decay
        self.image = image
        return self.action

    def learn(self, image: torch.Tensor, reward: float, is_over: bool) -> None:
        """One step of ObGD along the traces."""
        assert self.image is not None
        value = self.values(self.image)[self.action]
        self.network.zero_grad()
        value.backward()
        target = reward
        if not is_over:
            with torch.no_grad():
                target += self.state.discount * float(self.values(image).max())
        error = target - float(value.detach())
        norm = 0.0
        for trace, parameter in zip(
            self.traces, self.network.parameters(), strict=True
        ):
            assert parameter.grad is not None
            trace.mul_(self.decay).add_(parameter.grad)
            norm += float(trace.abs().sum())
        arguments = self.state.arguments
        bound = arguments["kappa"] * max(abs(error), 1.0) * norm
        step_size = min(arguments["step_size"], 1.0 / bound)
        with torch.no_grad():
            for trace, parameter in zip(
                self.traces, self.network.parameters(), strict=True
            ):
                parameter.add_(trace, alpha=step_size * error)
                if is_over:
                    trace.zero_()
