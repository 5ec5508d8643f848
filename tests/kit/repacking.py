"""Packs taken apart and put together again, with changes."""

from __future__ import annotations

import hashlib
import tarfile
from pathlib import Path
from typing import Any

import zstandard

from longplay.contract.files import render_document
from longplay.contract.rundir import REPLAYED_FILES
from longplay.verify.archive import render_archive
from longplay.verify.pack_file import PackFile

Contents = dict[str, bytes]


def open_contents(pack: Path) -> Contents:
    """The contents of a pack, decompressed."""
    with tarfile.open(pack) as archive:
        return {
            member.name.removesuffix(".zst"): zstandard.decompress(
                archive.extractfile(member).read()  # type: ignore[union-attr]
            )
            for member in archive
            if member.name != "manifest.json"
        }


def close_pack(
    pack: Path,
    target: Path,
    contents: Contents,
    packed: Contents | None = None,
    version: int = 2,
    **changes: dict[str, Any],
) -> Path:
    """Makes a pack whose manifest agrees with its contents, except for `changes`."""
    with PackFile(pack) as opened:
        manifest = opened.manifest.model_dump() | {"version": version}
    members = {f"{n}.zst": zstandard.compress(c) for n, c in contents.items()}
    members |= packed or {}
    for name in [name for name in manifest["sizes"] if name not in REPLAYED_FILES]:
        del manifest["sizes"][name], manifest["sha256"][name]
    for name, content in (contents | members).items():
        manifest["sizes"][name] = len(content)
        manifest["sha256"][name] = hashlib.sha256(content).hexdigest()
    for key, values in changes.items():
        manifest[key].update(values)
    parts = {"manifest.json": render_document(manifest), **members}
    target.write_bytes(b"".join(render_archive(parts.items())))
    return target
