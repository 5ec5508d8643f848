"""Two plans -> what differs, for people who change a plan that has been started."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from longplay.contract.files import shorten


def describe_differences(subject: str, was: Any, now: Any) -> list[str]:
    """`name: <subject> was started with …, found …` for each value that differs."""
    before, after = dict(_iter_leaves(was)), dict(_iter_leaves(now))
    return [
        f"{name}: {subject} was started with {_show(before, name)}, found "
        f"{_show(after, name)}"
        for name in {**before, **after}
        if before.get(name) != after.get(name)
    ]


def _iter_leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and plain values; lists of plain values count as one value."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _iter_leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, Sequence) and any(isinstance(v, Mapping) for v in value):
        for number, inner in enumerate(value):
            yield from _iter_leaves(inner, f"{name}[{number}]")
    else:
        yield name, value


def _show(values: Mapping[str, Any], name: str) -> str:
    return shorten(values[name], 200) if name in values else "none"
