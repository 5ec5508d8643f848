"""Any text -> a folder name that is safe on every platform.

    folder name := TEXT             if it is harmless as it is
                 | TEXT~HASH        what is left of it, and 16 hex of its SHA-256

`~` never stands in a name of the first kind, so two ids never share a folder.
"""

from __future__ import annotations

import hashlib
import re

_MAX_CHARS = 120
_HARMLESS = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=,@-]*")
_HARMFUL = re.compile(r"[^A-Za-z0-9._+=,@-]+")
# Windows takes these for devices, whatever follows the first dot.
_DEVICES = {"CON", "PRN", "AUX", "NUL"} | {
    f"{port}{number}" for port in ("COM", "LPT") for number in range(10)
}


def folder_name(text: str) -> str:
    """Names a folder after any text; different texts get different folders."""
    if _is_harmless(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    rest = _HARMFUL.sub("-", text)[: _MAX_CHARS - len(digest) - 1].strip(".-")
    if not rest or _is_device(rest):
        rest = f"id-{rest}".rstrip("-")
    return f"{rest}~{digest}"


def _is_harmless(text: str) -> bool:
    return (
        len(text) <= _MAX_CHARS
        and _HARMLESS.fullmatch(text) is not None
        and not text.endswith(".")
        and not _is_device(text)
    )


def _is_device(text: str) -> bool:
    return text.partition(".")[0].upper() in _DEVICES
