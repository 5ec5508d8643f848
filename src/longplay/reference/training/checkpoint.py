"""A training run on disk: one safetensors file, its plain values as JSON in the header.

Written whole or not at all. The emulators are not in it, because ALE cannot save them
exactly: a run that goes on starts them anew, with seeds that depend on how far it was.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from longplay.contract.files import write_file
from longplay.errors import DocumentError
from longplay.reference.training.network import RamNetwork

Arrays = dict[str, NDArray[Any]]


def write_arrays(path: Path, arrays: Arrays, facts: dict[str, Any]) -> None:
    """Writes arrays and plain facts as one file."""
    header = {"facts": json.dumps(facts, sort_keys=True, allow_nan=False)}
    tidy = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    write_file(path, save(tidy, header))


def read_arrays(path: Path) -> tuple[Arrays, dict[str, Any]]:
    """Reads what `write_arrays` wrote.

    Raises:
        DocumentError: The file is missing or damaged.
    """
    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise DocumentError(
            f"{path.name}: not readable in {path.parent}: {error}; "
            "remove it to make it again"
        ) from error


def network_arrays(network: RamNetwork) -> Arrays:
    """All weights, and which inputs they belong to."""
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
    """The optimiser's memory, keyed by parameter position."""
    return {
        f"opt.{index}.{name}": value.numpy()
        for index, memory in optimiser.state_dict()["state"].items()
        for name, value in memory.items()
    }


def load_optimiser(optimiser: torch.optim.Optimizer, arrays: Arrays) -> None:
    """Gives an optimiser its memory back."""
    state: dict[int, dict[str, torch.Tensor]] = {}
    for key, array in arrays.items():
        if key.startswith("opt."):
            _, index, name = key.split(".")
            state.setdefault(int(index), {})[name] = torch.from_numpy(array.copy())
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": state, "param_groups": groups})
