"""Rejects configs that contain something like a password, before anything is written.

Records are made to be published. Keys match regardless of case and separators:
`api_key`, `OPENAI_API_KEY`, `apiKey` and `llm.api-key` are the same. Some keys match
with any value (`password`), others only with a string value (`hub_token`, but not
`rng_key=3`). A value matches by itself if it looks like a key of a known service, or
like a URL with a password.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from longplay.errors import ConfigError

# Last words of a key that match with any value.
_ENDINGS = tuple(
    "apikey secret password passwd passphrase accesstoken authtoken authorization "
    "privatekey credential credentials".split()
)
# Last and first words that make a key of several words match a string value.
_LAST_WORDS = {"token", "key"}
_FIRST_WORDS = {"aws"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_SECRET_VALUES = re.compile(
    r"""
    \b(?:AKIA|ASIA|AIza)[0-9A-Za-z_-]{16,}              # Amazon, Google
    | \b(?:gh[pousr]|github_pat)_[A-Za-z0-9_]{22,}      # GitHub
    | \bhf_[A-Za-z0-9]{30,}                             # Hugging Face
    | \b(?:sk|glpat)-[A-Za-z0-9_-]{20,}                 # OpenAI, Anthropic, GitLab
    | \bxox[abeprs]-[A-Za-z0-9-]{10,}                   # Slack
    | \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.   # JSON web tokens
    | -----BEGIN[ ][A-Z ]*PRIVATE[ ]KEY
    | \bBearer[ ][A-Za-z0-9._~+/-]{16,}
    | \b[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s@]+@         # scheme://user:password@host
    """,
    re.VERBOSE,
)
# Only the beginning of a longer string is searched.
_LONGEST_SEARCHED = 100_000


def check_no_secrets(mapping: Mapping[str, Any], where: str) -> None:
    """Rejects a mapping that contains something like a secret, at any depth.

    Args:
        mapping: The config to be written.
        where: Its name in the message: `agent args`, `--set`, …

    Raises:
        ConfigError: Names the key, never its value.
    """
    for key, reason in _find_secrets(mapping, ""):
        raise ConfigError(
            f"{where} {key}: {reason}, and configs are written into records; let the "
            "agent read it from the environment (an isolated agent gets a variable "
            "with --agent-env NAME)"
        )


def _find_secrets(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            inner_path = f"{path}.{key}" if path else str(key)
            if _names_secret(str(key), inner):
                yield inner_path, "a key of this name may hold a secret"
            yield from _find_secrets(inner, inner_path)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _find_secrets(inner, f"{path}[{index}]")
    elif isinstance(value, str) and _SECRET_VALUES.search(value[:_LONGEST_SEARCHED]):
        yield path, "its value looks like a secret"


def _names_secret(key: str, value: Any) -> bool:
    if re.sub(r"[^a-z0-9]", "", key.lower()).endswith(_ENDINGS):
        return True
    words = [word.lower() for word in _WORD.findall(key)]
    is_suspect = len(words) > 1 and (
        words[-1] in _LAST_WORDS or words[0] in _FIRST_WORDS
    )
    return is_suspect and isinstance(value, str) and bool(value)
