"""`--set key=value`, `--agent-arg k=v` and `--config FILE` -> plain mappings."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from longplay.contract.config import find_delay
from longplay.contract.files import parse_json, read_bounded, read_json, shorten
from longplay.errors import ConfigError, DocumentError

_MAX_SEEDS = 100_000


def _split(pair: str, option: str) -> tuple[str, str]:
    name, equals, text = pair.partition("=")
    if not equals or not name.strip():
        raise ConfigError(f"{option}: expected key=value, found {pair!r}")
    return name.strip(), text


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Reads `--set` options: the value is JSON."""
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, text = _split(pair, "--set")
        try:
            settings[name] = parse_json(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(
                f"--set {name}: expected a JSON value, found {shorten(text)}; strings "
                f"need quotes, as in --set 'games=[\"qbert\"]'"
            ) from error
    return settings


def parse_agent_args(pairs: Sequence[str]) -> dict[str, Any]:
    """Reads `--agent-arg` options: a value that is not JSON is a string."""
    arguments: dict[str, Any] = {}
    for pair in pairs:
        name, text = _split(pair, "--agent-arg")
        try:
            arguments[name] = json.loads(text)
        except ValueError:
            arguments[name] = text
        except RecursionError as error:
            raise ConfigError(
                f"--agent-arg {name}: expected JSON or a string, found "
                f"{shorten(text)}, which is nested too deeply"
            ) from error
    return arguments


def read_settings(path: Path) -> dict[str, Any]:
    """Reads a `--config` file, TOML or JSON, with the same keys as `--set`.

    Keys of the first implementation of contract v1 are taken or left out; see
    `list_ignored`.
    """
    settings = _read_file(path)
    delay = find_delay(settings)
    settings.pop("delay_frames", None)
    if delay is not None:
        settings["delay"] = delay
    if isinstance(games := settings.get("games"), str):
        settings["games"] = [game.strip() for game in games.split(",")]
    return {k: v for k, v in settings.items() if k not in _IGNORED}


def list_ignored(path: Path) -> list[str]:
    """The keys of a `--config` file that are not settings of a suite."""
    return [name for name in _read_file(path) if name in _IGNORED]


# Keys in which the first implementation of contract v1 says who played, where and how
# it was logged, and what follows from the settings.
_IGNORED = frozenset(
    """
    action_mapping_policy agent agent_config benchmark_contract_hash
    benchmark_contract_version config config_file logdir multi_run_profile
    multi_run_schema_version repeat_action_idx resolved_action_sets run_dir
    runner_config runner_mode schedule seed timestamps total_scheduled_frames versions
    """.split()
)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        if path.suffix == ".toml":
            return tomllib.loads(read_bounded(path).decode())
        if path.suffix == ".json":
            settings = read_json(path)
            if isinstance(settings, dict):
                return settings
            raise ConfigError(f"--config {path}: expected a JSON object at the top")
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"--config {path}: {error}") from error
    except DocumentError as error:
        raise ConfigError(f"--config {error}") from error
    raise ConfigError(f"--config {path}: expected a file ending in .toml or .json")


def parse_seeds(text: str) -> list[int]:
    """Reads `--seeds`: `0-4,7` is 0, 1, 2, 3, 4 and 7."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,10})(?:-(\d{1,10}))?\s*", part)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if first > last:
            raise ConfigError(
                "--seeds: expected numbers and ranges as in 0-4,7, found "
                f"{shorten(text)}"
            )
        if len(seeds) + last - first >= _MAX_SEEDS:
            raise ConfigError(
                f"--seeds: expected at most {_MAX_SEEDS:,}, found more in "
                f"{shorten(text)}"
            )
        seeds += range(first, last + 1)
    if len(set(seeds)) != len(seeds):
        raise ConfigError(f"--seeds: expected distinct seeds, found {shorten(text)}")
    return seeds
