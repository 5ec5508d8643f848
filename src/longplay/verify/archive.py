"""A plain tar of a few named files, in exactly one valid encoding.

Every header is a function of name and size: no owner, no clock, no folder. So a reader
renders the header again and compares, which rules out links, devices, paths outside
the archive and flipped bits. Any `tar` can list and extract such a file.
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

from longplay.errors import PackError

_BLOCK_BYTES = tarfile.BLOCKSIZE
_END = bytes(2 * _BLOCK_BYTES)
_KINDS = {
    tarfile.LNKTYPE: "a hard link",
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.DIRTYPE: "a folder",
    tarfile.FIFOTYPE: "a pipe",
}


class Member(NamedTuple):
    """A file in the archive."""

    name: str
    start_byte: int
    size_bytes: int


def render_archive(contents: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    """The archive, piece by piece."""
    for name, content in contents:
        yield _render_header(name, len(content))
        yield content
        yield bytes(-len(content) % _BLOCK_BYTES)
    yield _END


def _render_header(name: str, size_bytes: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size_bytes
    return info.tobuf(tarfile.USTAR_FORMAT)


def read_members(file: BinaryIO, known: Iterable[str]) -> dict[str, Member]:
    """Reads a whole archive and locates its files.

    Args:
        file: The archive, open for reading.
        known: The names that may appear.

    Raises:
        PackError: It is not exactly what `render_archive` writes for these files.
    """
    known = frozenset(known)
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    members: dict[str, Member] = {}
    while (header := file.read(_BLOCK_BYTES)) != _END[:_BLOCK_BYTES]:
        member = _read_header(header, file.tell())
        if member.name not in known:
            raise PackError(f"it contains {member.name!r}, which is not part of a pack")
        if member.name in members:
            raise PackError(f"it contains {member.name} twice")
        padded = member.size_bytes + -member.size_bytes % _BLOCK_BYTES
        if member.start_byte + padded > size_bytes:
            raise PackError(f"it is cut short within {member.name}")
        file.seek(member.start_byte + member.size_bytes)
        if any(file.read(padded - member.size_bytes)):
            raise PackError(f"it is damaged after {member.name}")
        members[member.name] = member
    if file.read(_BLOCK_BYTES + 1) != _END[_BLOCK_BYTES:]:
        raise PackError("it is cut short, or has data after its end")
    return members


def _read_header(header: bytes, start_byte: int) -> Member:
    if len(header) < _BLOCK_BYTES:
        raise PackError("it is cut short")
    try:
        info = tarfile.TarInfo.frombuf(header, "utf-8", "strict")
    except (tarfile.HeaderError, ValueError) as error:
        raise PackError(f"it is damaged: {error}") from error
    if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
        kind = _KINDS.get(info.type, f"of type {info.type!r}")
        raise PackError(f"{info.name!r} in it is {kind}, expected a plain file")
    if "/" in info.name or "\\" in info.name or info.name in ("", ".", ".."):
        raise PackError(f"{info.name!r} in it is a path, expected a file name")
    if not 0 <= info.size < 2**33 or header != _render_header(info.name, info.size):
        raise PackError(f"the header of {info.name!r} is not one that longplay writes")
    return Member(info.name, start_byte, info.size)
