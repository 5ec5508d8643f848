"""Configs that hold something like a password are refused before anything is written.

Records are made to be published. A key counts whatever its case and separators:
`api_key`, `OPENAI_API_KEY`, `apiKey` and `llm.api-key` are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from longplay.errors import ConfigError

_ENDINGS = (
    "apikey",
    "secret",
    "password",
    "accesstoken",
    "authtoken",
    "privatekey",
    "credential",
    "credentials",
)


def check_no_secrets(mapping: Mapping[str, Any], where: str) -> None:
    """Refuses a mapping that has a key for a secret, at any depth.

    Args:
        mapping: What is to be written down.
        where: How the message names it: `agent args`, `--set`, …

    Raises:
        ConfigError: Names the key, never its value.
    """
    for key in _find_secrets(mapping, ""):
        raise ConfigError(
            f"{where} {key}: a key of this name may hold a secret, and configs are "
            "written into records; let the agent read it from the environment"
        )


def _find_secrets(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            inner_path = f"{path}.{key}" if path else str(key)
            if re.sub(r"[^a-z0-9]", "", str(key).lower()).endswith(_ENDINGS):
                yield inner_path
            yield from _find_secrets(inner, inner_path)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _find_secrets(inner, f"{path}[{index}]")
