"""Shipped references: files of `data/` -> policies, values, facts.

    data/<game>.safetensors      both networks: arrays `policy.<name>`, `values.<name>`
    data/<game>.json             facts about them, with the digest of the networks
    data/<game>.streams.…        recorded visits of some seeds: `streams.py`

A file that is missing, damaged or does not match its facts is rejected. The environment
variable LONGPLAY_REFERENCES replaces `data/` with another folder, for your own
references; they give a run another contract hash.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load

from longplay.console.games import check_game
from longplay.contract.files import describe_invalid, read_bounded
from longplay.contract.fingerprint import hash_payload
from longplay.errors import ConfigError, DocumentError
from longplay.reference.facts import ReferenceFacts
from longplay.reference.network import ARRAYS
from longplay.reference.policy import FixedPolicy, ValueFunction
from longplay.suites import REFERENCE_SUITE

# The games of the prediction track, in its order.
REFERENCE_GAMES = REFERENCE_SUITE.games

DATA = Path(__file__).parent / "data"

_REMEDY = "reinstall longplay, or fix the folder LONGPLAY_REFERENCES"

Facts = TypeVar("Facts", bound=BaseModel)


def find_data() -> Path:
    """The folder of the references in use."""
    return Path(os.environ.get("LONGPLAY_REFERENCES") or DATA)


@dataclass(frozen=True)
class Reference:
    """A game's fixed policy, its value function and facts about them."""

    policy: FixedPolicy
    values: ValueFunction
    facts: ReferenceFacts


def list_references(data: Path | None = None) -> list[str]:
    """The games that have a reference, in the track's order.

    Raises:
        DocumentError: The folder does not exist.
    """
    folder = data or find_data()
    if not folder.is_dir():
        raise DocumentError(f"{folder}: expected a folder of references; {_REMEDY}")
    return [game for game in REFERENCE_GAMES if (folder / f"{game}.json").exists()]


def read_facts(game_id: str, data: Path | None = None) -> ReferenceFacts:
    """Facts about a game's reference.

    Raises:
        ConfigError: The game has none.
        DocumentError: The file is missing or damaged.
    """
    if check_game(game_id) not in REFERENCE_GAMES:
        raise ConfigError(
            f"games: {game_id!r} has no reference; expected one of "
            f"{', '.join(REFERENCE_GAMES)}"
        )
    path = (data or find_data()) / f"{game_id}.json"
    facts = read_reference_document(path, ReferenceFacts)
    if facts.game != game_id:
        raise DocumentError(f"{path} game: expected {game_id}, found {facts.game}")
    return facts


def read_reference_document(path: Path, model: type[Facts]) -> Facts:
    """Reads a JSON file of a reference.

    Raises:
        DocumentError: It cannot be read, or is damaged.
    """
    try:
        return model.model_validate_json(read_bounded(path))
    except OSError as error:
        raise DocumentError(
            f"{path}: cannot be read: {error.strerror}; {_REMEDY}"
        ) from error
    except ValidationError as error:
        raise DocumentError(
            f"{path} {describe_invalid(error)}; it is damaged: {_REMEDY}"
        ) from error


def read_all_facts(data: Path | None = None) -> list[ReferenceFacts]:
    """The facts of every game that has a reference."""
    return [read_facts(game, data) for game in list_references(data)]


def load_reference(game_id: str, data: Path | None = None) -> Reference:
    """A game's reference, ready to play.

    Raises:
        ConfigError: The game has none.
        DocumentError: A file is missing, damaged or does not match its facts.
    """
    data = data or find_data()
    facts = read_facts(game_id, data)
    path = data / f"{game_id}.safetensors"
    arrays = read_safetensors(path, facts.networks_sha256)
    policy, values = _pick(arrays, "policy"), _pick(arrays, "values")
    name = f"{game_id}.safetensors"
    known = facts.policy
    return Reference(
        FixedPolicy(policy, known.actions, known.exploration, f"{name} policy"),
        ValueFunction(values, f"{name} values"),
        facts,
    )


def hash_references(games: Sequence[str], data: Path | None = None) -> str:
    """SHA-256 over everything that determines the policies' actions and the values.

    Raises:
        ConfigError: A game has no reference.
        DocumentError: A file is damaged.
    """
    facts = {game: read_facts(game, data) for game in games}
    return hash_payload(
        {
            game: {
                "networks_sha256": known.networks_sha256,
                "actions": list(known.policy.actions),
                "exploration": known.policy.exploration,
            }
            for game, known in facts.items()
        }
    )


def read_safetensors(path: Path, expected_sha256: str) -> dict[str, NDArray[Any]]:
    """The arrays of a file with the expected digest.

    Raises:
        DocumentError: The file is missing, damaged or has another digest.
    """
    try:
        content = read_bounded(path)
    except OSError as error:
        raise DocumentError(
            f"{path}: cannot be read: {error.strerror}; {_REMEDY}"
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != expected_sha256:
        raise DocumentError(
            f"{path}: expected SHA-256 {expected_sha256}, found {found}; "
            f"it is damaged: {_REMEDY}"
        )
    try:
        return load(content)
    except SafetensorError as error:
        raise DocumentError(f"{path}: not safetensors: {error}; {_REMEDY}") from error


def pick_visit(
    arrays: Mapping[str, NDArray[Any]],
    seed: int,
    dtypes: Mapping[str, type[np.generic]],
    where: str,
) -> dict[str, NDArray[Any]]:
    """The arrays of one seed's visit, `seed-<n>.<name>`, as name -> array.

    Raises:
        DocumentError: An array is missing, or has another dtype or length.
    """
    names = {name: f"seed-{seed}.{name}" for name in dtypes}
    found = {name: arrays[key] for name, key in names.items() if key in arrays}
    shapes = {array.shape for array in found.values()}
    if {n: a.dtype.type for n, a in found.items()} != dtypes or len(shapes) != 1:
        raise DocumentError(
            f"{where} seed-{seed}: expected {', '.join(dtypes)} of one length; "
            "record it again"
        )
    return found


def _pick(arrays: dict[str, NDArray[Any]], part: str) -> dict[str, NDArray[Any]]:
    names = [name for name in ARRAYS if f"{part}.{name}" in arrays]
    return {name: arrays[f"{part}.{name}"] for name in names}
