"""`--set key=value`, `--agent-arg k=v` and `--config FILE` -> plain mappings."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from longplay.contract.files import parse_json, read_bounded, read_json, shorten
from longplay.errors import ConfigError, DocumentError
from longplay.runs.options import CHECKPOINT_S, KEPT_AGENT_BYTES, RunOptions, Tracker

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
    """Reads a `--config` file, TOML or JSON, with the same keys as `--set`."""
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


_UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_seconds(text: str, option: str) -> float:
    """Reads a time: `300s`, `5m`, `1h`; a bare number is seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text.strip())
    seconds = float(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if seconds <= 0:
        raise ConfigError(
            f"{option}: expected a time as 300s, 5m or 1h, found {text!r}"
        )
    return seconds


def make_run_options(
    checkpoint_every: str | None, keep_agent: str | None, track: str | None = None
) -> RunOptions:
    """Reads `--checkpoint-every`, `--keep-agent` and `--track`."""
    if track is not None and track not in get_args(Tracker):
        known = " or ".join(get_args(Tracker))
        raise ConfigError(f"--track: expected {known}, found {track!r}")
    kept = {None: KEPT_AGENT_BYTES, "none": 0, "final": None}
    if keep_agent not in kept:
        raise ConfigError(f"--keep-agent: expected none or final, found {keep_agent!r}")
    checkpoint_s = CHECKPOINT_S
    if checkpoint_every is not None:
        checkpoint_s = parse_seconds(checkpoint_every, "--checkpoint-every")
    return RunOptions(checkpoint_s, kept[keep_agent], track)  # type: ignore[arg-type]


def describe_run_options(options: RunOptions) -> list[str]:
    """The options of a command line that ask for the same; none for the defaults."""
    words = []
    if options.checkpoint_s != CHECKPOINT_S:
        words += ["--checkpoint-every", f"{options.checkpoint_s:g}s"]
    if options.kept_agent_bytes != KEPT_AGENT_BYTES:
        kept = "final" if options.kept_agent_bytes is None else "none"
        words += ["--keep-agent", kept]
    if options.tracker is not None:
        words += ["--track", options.tracker]
    return words


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
