"""Names: any text -> a safe folder name; an agent's config -> its name in tables.

    folder name := TEXT             if it is safe as it is
                 | TEXT~HASH        its safe characters, and 16 hex of its SHA-256

`~` never occurs in a name of the first kind, so two ids never share a folder.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from longplay.errors import show_name

_MAX_CHARS = 120
_SAFE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._+=,@-]*")
_UNSAFE = re.compile(r"[^A-Za-z0-9._+=,@-]+")
# Windows treats these as devices, with any suffix after a dot.
_DEVICES = {"CON", "PRN", "AUX", "NUL"} | {
    f"{port}{number}" for port in ("COM", "LPT") for number in range(10)
}


def folder_name(text: str) -> str:
    """Names a folder after any text; different texts get different folders."""
    if _is_safe(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    rest = _UNSAFE.sub("-", text)[: _MAX_CHARS - len(digest) - 1].strip(".-")
    if not rest or _is_device(rest):
        rest = f"id-{rest}".rstrip("-")
    return f"{rest}~{digest}"


def _is_safe(text: str) -> bool:
    return (
        len(text) <= _MAX_CHARS
        and _SAFE.fullmatch(text) is not None
        and not text.endswith(".")
        and not _is_device(text)
    )


def _is_device(text: str) -> bool:
    return text.partition(".")[0].upper() in _DEVICES


def name_agent(config: Mapping[str, Any]) -> str:
    """The name of an agent as it is shown: its file, or that of a built-in agent."""
    if file := config.get("file"):
        return show_name(Path(str(file)).stem)
    given = str(config.get("_type", "agent"))
    *modules, name = given.split(".")
    if name[:1].isdigit():
        return show_name(given)  # not a class: a loop's own name, such as `dqn-0.1`
    # `longplay.learners.stream_q.module` is `stream-q`.
    is_ours = modules[:1] == ["longplay"]
    return show_name(modules[-1].replace("_", "-") if is_ours else name)


def describe_args(args: Mapping[str, Any]) -> str:
    """The arguments of an agent as they are shown: `epsilon=0.1 hidden=32`."""
    return " ".join(f"{name}={json.dumps(value)}" for name, value in args.items())
