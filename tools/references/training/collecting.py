"""A finished workspace -> the two shipped files of a game."""

from __future__ import annotations

import hashlib
from pathlib import Path

from safetensors.numpy import save

from longplay.contract.files import (
    make_directory,
    read_bounded,
    write_document,
    write_file,
)
from longplay.errors import ConfigError
from longplay.reference.facts import (
    AuditFacts,
    ReferenceFacts,
    RolloutFacts,
    ValueFacts,
)
from longplay.reference.library import load_reference, read_facts
from references.training.array_file import read_arrays
from references.training.stages import read_policy
from references.workspace import Workspace


def collect_reference(workspace: Workspace, data: Path) -> None:
    """Writes a game's networks and facts, and loads them once as a check.

    Raises:
        ConfigError: A stage of the game is not done.
    """
    stage = workspace.next_stage()
    if stage is not None:
        raise ConfigError(
            f"{workspace.game_id}: expected all stages to be done, {stage} is not; "
            f"run `python -m references {stage} --game {workspace.game_id}` first"
        )
    policy, _ = read_arrays(workspace.result("freeze"))
    values, value_facts = read_arrays(workspace.result("values"))
    networks = save(
        {f"policy.{name}": array for name, array in policy.items()}
        | {f"values.{name}": array for name, array in values.items()}
    )
    audit = AuditFacts.model_validate_json(read_bounded(workspace.result("audit")))
    facts = ReferenceFacts(
        game=workspace.game_id,
        networks_sha256=hashlib.sha256(networks).hexdigest(),
        policy=read_policy(workspace)[1],
        values=ValueFacts.model_validate(value_facts, strict=False),
        audit=audit,
    )
    facts = facts.model_copy(update={"rollouts": _keep_rollouts(facts, data)})
    make_directory(data, exist_ok=True)
    write_file(data / f"{workspace.game_id}.safetensors", networks)
    write_document(data / f"{workspace.game_id}.json", facts)
    load_reference(workspace.game_id, data)


def _keep_rollouts(facts: ReferenceFacts, data: Path) -> RolloutFacts | None:
    """The facts of rollout values that are there, if the networks did not change."""
    if not (data / f"{facts.game}.json").exists():
        return None
    known = read_facts(facts.game, data)
    return known.rollouts if known.networks_sha256 == facts.networks_sha256 else None
