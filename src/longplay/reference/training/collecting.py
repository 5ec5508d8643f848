"""A finished workplace -> the two files of a game that are shipped."""

from __future__ import annotations

import hashlib
from pathlib import Path

from safetensors.numpy import save

from longplay.contract.files import make_directory, write_document, write_file
from longplay.errors import ConfigError
from longplay.reference.facts import AuditFacts, ReferenceFacts, ValueFacts
from longplay.reference.library import load_reference
from longplay.reference.training.array_file import read_arrays
from longplay.reference.training.stages import read_policy
from longplay.reference.workplace import Workplace


def collect_reference(place: Workplace, data: Path) -> None:
    """Writes a game's networks and facts, and loads them once to be sure.

    Raises:
        ConfigError: A stage of the game is not done.
    """
    stage = place.next_stage()
    if stage is not None:
        raise ConfigError(
            f"{place.game_id}: expected all stages done, found {stage} open; "
            f"run `longplay reference {stage} --game {place.game_id}` first"
        )
    policy, _ = read_arrays(place.result("freeze"))
    values, value_facts = read_arrays(place.result("values"))
    networks = save(
        {f"policy.{name}": array for name, array in policy.items()}
        | {f"values.{name}": array for name, array in values.items()}
    )
    audit = AuditFacts.model_validate_json(place.result("audit").read_bytes())
    facts = ReferenceFacts(
        game=place.game_id,
        networks_sha256=hashlib.sha256(networks).hexdigest(),
        policy=read_policy(place)[1],
        values=ValueFacts.model_validate(value_facts, strict=False),
        audit=audit,
    )
    make_directory(data, exist_ok=True)
    write_file(data / f"{place.game_id}.safetensors", networks)
    write_document(data / f"{place.game_id}.json", facts)
    load_reference(place.game_id, data)
