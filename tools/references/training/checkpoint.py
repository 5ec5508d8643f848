"""A training run's networks and optimisers <-> arrays for one file.

The emulators are not saved, because ALE cannot save them exactly: a resumed training
replays their actions, or starts new ones with seeds that depend on its timestep
(`Recipe.restart_timesteps`).
"""

from __future__ import annotations

import torch

from references.training.array_file import Arrays
from references.training.network import RamNetwork


def network_arrays(network: RamNetwork) -> Arrays:
    """All weights, and the inputs they belong to."""
    arrays = {f"net.{k}": v.numpy() for k, v in network.state_dict().items()}
    return {
        **arrays,
        "always": network.live.always,
        "ever": network.live.ever,
    }


def load_network(network: RamNetwork, arrays: Arrays) -> None:
    """Sets the weights of a network made with the same live inputs."""
    network.load_state_dict(
        {
            name.removeprefix("net."): torch.from_numpy(array.copy())
            for name, array in arrays.items()
            if name.startswith("net.")
        }
    )


def optimiser_arrays(optimiser: torch.optim.Optimizer) -> Arrays:
    """The optimiser's state, keyed by parameter position."""
    return {
        f"opt.{index}.{name}": value.numpy()
        for index, memory in optimiser.state_dict()["state"].items()
        for name, value in memory.items()
    }


def load_optimiser(optimiser: torch.optim.Optimizer, arrays: Arrays) -> None:
    """Restores the state of an optimiser."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, array in arrays.items():
        if key.startswith("opt."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = torch.from_numpy(array.copy())
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
