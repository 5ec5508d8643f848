"""Arrays and plain facts <-> one safetensors file, the facts as JSON in its header.

Files are written atomically.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from longplay.contract.files import open_regular, write_file
from longplay.errors import DocumentError

Arrays = dict[str, NDArray[Any]]

_LARGEST_BYTES = 2 * 2**30


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
        _check_size(path)
        with safe_open(path, "numpy") as file:
            facts = json.loads((file.metadata() or {})["facts"])
            return {name: file.get_tensor(name) for name in file.keys()}, facts  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise DocumentError(
            f"{path.name}: not readable in {path.parent}: {error}; "
            "delete it to make it again"
        ) from error


def _check_size(path: Path) -> None:
    with open_regular(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
    if size_bytes > _LARGEST_BYTES:
        raise DocumentError(
            f"{path.name}: expected at most {_LARGEST_BYTES:,} bytes, found "
            f"{size_bytes:,}"
        )
