"""A learner's state <-> files, bit-exact and without pickle.

A class lists its state between steps in `SAVED`: arrays, generators, objects with their
own `SAVED`, and plain values: None, bools, finite numbers, strings, lists of these, and
dicts of these with strings as keys. Anything else is refused, because it would not come
back as it was. Values that follow from the arguments of `init` are not saved:
`load_state` builds a new state with them and restores the saved values. What a class
lists in `ADDED`, too, is newer than some files, which may lack it.

    state.json            arguments of `init`, plain values, generators' states
    arrays.safetensors.zst  arrays, compressed
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np
import zstandard
from safetensors.numpy import load as read_safetensors
from safetensors.numpy import save as write_safetensors

from longplay.errors import AgentError, describe_value

VALUES_FILE = "state.json"
ARRAYS_FILE = "arrays.safetensors.zst"
# Fast: replayed frames shrink to a tenth, weights not at all at any level.
_LEVEL = 1
# What safetensors can write.
_ARRAY_TYPES = frozenset(
    (
        *("bool", "float16", "float32", "float64", "complex64"),
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    )
)


class Saved(Protocol):
    """An object that lists its state between steps."""

    SAVED: ClassVar[tuple[str, ...]]


class LearnerState(Saved, Protocol):
    """The state that a learner's `init` returns."""

    arguments: dict[str, Any]


State = TypeVar("State", bound=LearnerState)


def save_state(state: LearnerState, directory: Path) -> None:
    """Writes everything that `SAVED` names, and the arguments of `init`.

    Raises:
        AgentError: Something would not come back as it was; it names the attribute.
    """
    values, arrays = _encode(state)
    (directory / VALUES_FILE).write_bytes(values)
    (directory / ARRAYS_FILE).write_bytes(arrays)


def load_state(init: Callable[..., State], directory: Path) -> State:
    """Builds a state and puts the saved values into it."""
    values = (directory / VALUES_FILE).read_bytes()
    return _decode(init, values, (directory / ARRAYS_FILE).read_bytes())


def pack_state(state: LearnerState) -> bytes:
    """What `save_state` writes, as one piece of memory."""
    return b"\n".join(_encode(state))


def unpack_state(init: Callable[..., State], packed: bytes) -> State:
    """The state that was packed."""
    values, _, arrays = packed.partition(b"\n")
    return _decode(init, values, arrays)


def copy_generators(source: LearnerState, target: LearnerState) -> None:
    """Lets the generators of one state go on in another of the same learner."""
    places = {path: getattr(owner, name) for path, owner, name in _walk(source)}
    for path, owner, name in _walk(target):
        if isinstance(places[path], np.random.Generator):
            generator = getattr(owner, name).bit_generator
            generator.state = places[path].bit_generator.state


def _encode(state: LearnerState) -> tuple[bytes, bytes]:
    """A state as JSON in one line, and as compressed arrays."""
    _check_plain("arguments", state.arguments, sequences=(list, tuple))
    values: dict[str, Any] = {"arguments": state.arguments}
    arrays: dict[str, np.ndarray[Any, Any]] = {}
    for path, owner, name in _walk(state):
        value = getattr(owner, name)
        if isinstance(value, np.ndarray):
            _check_array(path, value)
            arrays[path] = np.ascontiguousarray(value)
            continue
        if isinstance(value, np.random.Generator):
            value = value.bit_generator.state
        _check_plain(path, value)
        values[path] = value
    packed = zstandard.compress(write_safetensors(arrays), _LEVEL)
    return json.dumps(values, allow_nan=False).encode(), packed


def _decode(init: Callable[..., State], text: bytes, packed: bytes) -> State:
    values = json.loads(text)
    arrays = read_safetensors(zstandard.decompress(packed))
    state = init(**values["arguments"])
    for path, owner, name in _walk(state):
        current = getattr(owner, name)
        if path in arrays:
            setattr(owner, name, arrays[path].copy())
        elif isinstance(current, np.random.Generator):
            current.bit_generator.state = values[path]
        elif path in values or name not in getattr(owner, "ADDED", ()):
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


def _check_array(path: str, array: np.ndarray[Any, Any]) -> None:
    if array.dtype.name not in _ARRAY_TYPES or not array.ndim:
        raise AgentError(
            f"save_state: {path}: expected an array of numbers or bools with at least "
            f"one dimension, found dtype {array.dtype} and shape {array.shape}"
        )


def _check_plain(path: str, value: Any, sequences: tuple[type, ...] = (list,)) -> None:
    """Refuses values that JSON cannot write, or would read as something else."""
    if type(value) in sequences:
        for index, item in enumerate(value):
            _check_plain(f"{path}[{index}]", item, sequences)
    elif type(value) is dict:
        for key, item in value.items():
            if not isinstance(key, str):
                raise AgentError(
                    f"save_state: {path}: expected strings as keys of a dict, found "
                    f"{describe_value(key)}"
                )
            _check_plain(f"{path}[{key!r}]", item, sequences)
    elif not _is_plain(value):
        raise AgentError(
            f"save_state: {path}: expected None, a bool, finite number or string, or a "
            f"list or dict of these, found {describe_value(value)}; arrays, generators "
            "and objects with SAVED must be attributes of their own"
        )


def _is_plain(value: object) -> bool:
    is_finite = not isinstance(value, float) or isfinite(value)
    return value is None or (isinstance(value, int | float | str) and is_finite)
