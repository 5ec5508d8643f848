"""A small network on RAM: live inputs -> two normalised hidden layers -> outputs."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from references.training.features import LiveInputs

HIDDEN_UNITS = (256, 128)

_FIRST_WEIGHT_SCALE = 0.05


class RamNetwork(nn.Module):
    """Two hidden layers, each with layer normalisation.

    The normalisation keeps Q-learning without replay stable. The first layer has
    weights for the live inputs only; `grow` adds rows.
    """

    def __init__(self, output_count: int, live: LiveInputs, seed: int) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        first, second = HIDDEN_UNITS
        # Drawn for all inputs at once: a row does not depend on when it is added.
        self._initial_weights = _FIRST_WEIGHT_SCALE * torch.randn(
            live.input_bits + 2 * live.memory_bytes, first, generator=generator
        )
        self.live = live
        self.input_ids = torch.from_numpy(live.ids)
        self.weight1 = nn.Parameter(self._initial_weights[self.input_ids].clone())
        self.bias1 = nn.Parameter(torch.zeros(first))
        self.norm1 = nn.LayerNorm(first)
        self.layer2 = nn.Linear(first, second)
        self.norm2 = nn.LayerNorm(second)
        self.layer3 = nn.Linear(second, output_count)
        for layer, gain in ((self.layer2, 2**0.5), (self.layer3, 0.1)):
            nn.init.orthogonal_(layer.weight, gain, generator=generator)
            nn.init.zeros_(layer.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs (n, outputs) of live inputs (n, ids)."""
        hidden = torch.relu(self.norm1(inputs @ self.weight1 + self.bias1))
        hidden = torch.relu(self.norm2(self.layer2(hidden)))
        outputs: Tensor = self.layer3(hidden)
        return outputs

    def read(self, pairs: np.ndarray) -> Tensor:
        """The inputs of memory pairs (n, 256)."""
        return torch.from_numpy(self.live.read(pairs))

    def grow(self, optimiser: torch.optim.Optimizer) -> None:
        """Adds rows for new live inputs, to the weights and the optimiser's state."""
        ids = torch.from_numpy(self.live.ids)
        kept = torch.searchsorted(ids, self.input_ids)
        old, rows = self.weight1, self._initial_weights[ids].clone()
        rows[kept] = old.data
        self.weight1, self.input_ids = nn.Parameter(rows), ids
        _replace_parameter(optimiser, old, self.weight1, kept)


def _replace_parameter(
    optimiser: torch.optim.Optimizer,
    old: nn.Parameter,
    new: nn.Parameter,
    kept: Tensor,
) -> None:
    parameters: list[nn.Parameter] = optimiser.param_groups[0]["params"]
    parameters[[entry is old for entry in parameters].index(True)] = new
    memory = optimiser.state.pop(old, None)
    if memory is None:
        return
    for name, value in memory.items():
        if value.shape == old.shape:
            memory[name] = torch.zeros_like(new).index_copy_(0, kept, value)
    optimiser.state[new] = memory
