"""A learner's state <-> files, bit-exact and without pickle.

A class lists its state between steps in `SAVED`: numbers, strings, lists, arrays,
generators, and objects with their own `SAVED`. Values that follow from the arguments of
`init` are not saved: `load_state` builds a new state with them and restores the saved
values.

    state.json            arguments of `init`, plain values, generators' states
    arrays.safetensors.zst  arrays, compressed
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import zstandard
from safetensors.numpy import load as read_safetensors
from safetensors.numpy import save as write_safetensors

VALUES_FILE = "state.json"
ARRAYS_FILE = "arrays.safetensors.zst"
# Fast: replayed frames shrink to a tenth, weights not at all at any level.
_LEVEL = 1


class Saved(Protocol):
    """An object that lists its state between steps."""

    SAVED: ClassVar[tuple[str, ...]]


class LearnerState(Saved, Protocol):
    """The state that a learner's `init` returns."""

    arguments: dict[str, Any]


State = TypeVar("State", bound=LearnerState)


def save_state(state: LearnerState, directory: Path) -> None:
    """Writes everything that `SAVED` names, and the arguments of `init`."""
    values: dict[str, Any] = {"arguments": state.arguments}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for path, owner, name in _walk(state):
        value = getattr(owner, name)
        if isinstance(value, np.ndarray):
            arrays[path] = np.ascontiguousarray(value)
        elif isinstance(value, np.random.Generator):
            values[path] = value.bit_generator.state
        else:
            values[path] = value
    text = json.dumps(values, allow_nan=False)
    (directory / VALUES_FILE).write_text(text, encoding="utf-8")
    packed = zstandard.compress(write_safetensors(arrays), _LEVEL)
    (directory / ARRAYS_FILE).write_bytes(packed)


def load_state(init: Callable[..., State], directory: Path) -> State:
    """Builds a state and puts the saved values into it."""
    values = json.loads((directory / VALUES_FILE).read_text(encoding="utf-8"))
    packed = (directory / ARRAYS_FILE).read_bytes()
    arrays = read_safetensors(zstandard.decompress(packed))
    state = init(**values["arguments"])
    for path, owner, name in _walk(state):
        current = getattr(owner, name)
        if isinstance(current, np.ndarray):
            setattr(owner, name, arrays[path].copy())
        elif isinstance(current, np.random.Generator):
            current.bit_generator.state = values[path]
        else:
            setattr(owner, name, values[path])
    return state


def _walk(owner: Any, prefix: str = "") -> Iterator[tuple[str, Any, str]]:
    """Path, owner and name of everything saved, depth first."""
    for name in owner.SAVED:
        value = getattr(owner, name)
        if hasattr(value, "SAVED"):
            yield from _walk(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", owner, name
