"""Bytes -> the same bytes with one change, as a damaged disk or a liar makes it.

A mutation is a function of its number: number n changes the same file in the same way
on every machine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

# Values that break assumptions about ranges and types.
EXTREMES = (
    *(0, -1, 1, 2, 255, 2**31, 2**53 + 1, 2**63 - 1, 2**63, -(2**63), 2**70, 10**400),
    *(0.5, -0.0, 1e308, -1e308, 5e-324, float("nan"), float("inf")),
    *(None, True, False, "", "x" * 70_000, "\x1b[2J\u202e\0", "\ud800", "../../x"),
    *([], {}, [[]], {"": {}}, [None] * 1000, "2026-99-99T00:00:00.000Z", "0" * 64),
)
_DEPTHS = (1, 3, 900, 20_000)

Mutation = Callable[[bytes, Random], bytes]


def flip_bit(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content))
    changed = bytes([content[place] ^ 1 << random.randrange(8)])
    return content[:place] + changed + content[place + 1 :]


def cut_off(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content))]


def splice(content: bytes, random: Random) -> bytes:
    """Removes a piece, doubles it, or puts noise in its place."""
    first, last = sorted(random.randrange(len(content) + 1) for _ in range(2))
    last = min(last, first + 200)
    piece = content[first:last]
    new = random.choice((b"", piece * 2, random.randbytes(len(piece))))
    return content[:first] + new + content[last:]


def move_line(content: bytes, random: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    line = lines.pop(random.randrange(len(lines)))
    for _ in range(random.choice((0, 1, 2))):
        lines.insert(random.randrange(len(lines) + 1), line)
    return b"".join(lines)


def change_value(content: bytes, random: Random) -> bytes:
    """Gives a value of a document or row another type, or an extreme value."""

    def change(holder: Any, key: Any) -> None:
        value = holder[key]
        swaps = [str(value), [value], {"value": value}]
        if isinstance(value, int | float):
            swaps += [value + 1, -value, float(value), value * 10**9]
        holder[key] = random.choice((random.choice(EXTREMES), random.choice(swaps)))

    return _edit(content, random, change)


def remove_value(content: bytes, random: Random) -> bytes:
    def remove(holder: Any, key: Any) -> None:
        del holder[key]

    return _edit(content, random, remove)


def nest_value(content: bytes, random: Random) -> bytes:
    """Puts brackets around a value, up to far more than a parser can follow."""
    depth = random.choice(_DEPTHS)
    opening, closing = random.choice((("[", "]"), ('{"a":', "}")))
    mark = "the value that is nested"

    def nest(holder: Any, key: Any) -> None:
        holder[key] = mark

    nested = opening * depth + "1" + closing * depth
    return _edit(content, random, nest).replace(f'"{mark}"'.encode(), nested.encode())


def double_key(content: bytes, random: Random) -> bytes:
    return content.replace(b"{", b'{"schema_version": 1, "seed": 7, ', 1)


def _edit(content: bytes, random: Random, change: Callable[[Any, Any], None]) -> bytes:
    """Changes a place of a JSON document, or of one line; noise stays noise."""
    lines = content.splitlines(keepends=True)
    is_rows = len(lines) > 1 and lines[0].lstrip().startswith(b'{"')
    number = random.randrange(len(lines)) if is_rows else 0
    try:
        document = json.loads(lines[number] if is_rows else content)
    except ValueError:
        return splice(content, random)
    places = list(_list_places(document))
    if not places:
        return splice(content, random)
    change(*random.choice(places))
    text = json.dumps(document).encode()
    if not is_rows:
        return text
    return b"".join([*lines[:number], text + b"\n", *lines[number + 1 :]])


def _list_places(document: Any) -> Iterator[tuple[Any, Any]]:
    keys = document if isinstance(document, dict) else range(len(document))
    for key in keys:
        yield document, key
        if isinstance(document[key], dict | list):
            yield from _list_places(document[key])


_OF_BYTES: tuple[Mutation, ...] = (flip_bit, cut_off, splice)
_OF_JSON: tuple[Mutation, ...] = (
    *_OF_BYTES,
    *(move_line, double_key, remove_value, nest_value),
    *(change_value,) * 4,
)


def mutate(content: bytes, number: int, *, is_json: bool = True) -> bytes:
    """The mutation with this number; different from the content."""
    random = Random(number)
    changed = content
    while changed == content:
        changed = random.choice(_OF_JSON if is_json else _OF_BYTES)(content, random)
    return changed
