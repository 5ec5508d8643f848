"""Settings -> the contract hash: which benchmark a score belongs to.

Equal hashes mean equal games, schedule, control rules and scoring windows. The hash
does not cover clocks, paths, versions or machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from longplay.contract.config import RunConfig, ScoringDefaults


def contract_payload(config: RunConfig) -> dict[str, Any]:
    """Builds the object that is hashed, with every number in its canonical type."""
    return {
        **{name: getattr(config, name) for name in config.contract.settings},
        "games": list(config.games),
        "schedule": [
            {
                "visit_idx": visit.visit_idx,
                "cycle_idx": visit.cycle_idx,
                "game_id": visit.game_id,
                "visit_frames": visit.visit_frames,
            }
            for visit in config.schedule
        ],
        "decision_interval": config.decision_interval,
        "delay_frames": config.delay,
        "sticky": float(config.sticky),
        "life_loss_termination": config.life_loss_termination,
        "full_action_space": config.full_action_space,
        "global_action_set": list(config.action_mapping_policy.global_action_set),
        "default_action_idx": config.default_action_idx,
        "scoring_defaults": _scoring_payload(config.scoring_defaults),
    }


def _scoring_payload(scoring: ScoringDefaults) -> dict[str, Any]:
    return {
        "window_frames": scoring.window_frames,
        "bottom_k_frac": float(scoring.bottom_k_frac),
        "revisit_frames": scoring.revisit_frames,
        "final_score_weights": [float(w) for w in scoring.final_score_weights],
    }


def hash_payload(payload: dict[str, Any]) -> str:
    """SHA-256 over canonical JSON: sorted keys, no spaces, ASCII."""
    text = json.dumps(
        payload,
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
        allow_nan=False,
    )
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def agent_id(agent_config: Mapping[str, Any]) -> str:
    """SHA-256 of an agent's config: equal for equal configs, on every machine."""
    text = json.dumps(agent_config, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def contract_hash(config: RunConfig) -> str:
    """The hash of the benchmark that a config describes."""
    return hash_payload(contract_payload(config))
