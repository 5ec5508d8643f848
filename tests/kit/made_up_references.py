"""Untrained references: small exact networks, for whatever game is named."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from frozen_networks import Arrays, make_arrays
from longplay.contract.config import ScheduledVisit
from longplay.reference.facts import (
    AuditedState,
    AuditFacts,
    AuditSummary,
    PolicyFacts,
    ReferenceFacts,
    ScoreFacts,
    ValueFacts,
)
from longplay.reference.streams import RecordedVisit
from longplay.stream import Stream
from references.recording import write_streams

GAMES = ("pong", "breakout", "space_invaders")
# Of the first nine bytes, which the scripted console has too: now, and before.
_INPUT_BITS = np.r_[0:72, 1024:1096].astype(np.int16)


def make_facts(
    networks: bytes, game: str = "pong", exploration: float = 0.02
) -> ReferenceFacts:
    state = AuditedState(
        visit=0,
        timestep=3,
        value=0.5,
        mean_return=0.25,
        sampling_variance=0.01,
        continuations=32,
    )
    summary = AuditSummary(
        states=1,
        continuations=32,
        r2=None,
        r2_corrected=None,
        bias=0.25,
        rmse_corrected=0.2,
        value_std=0.0,
        sampling_error=0.1,
    )
    return ReferenceFacts(
        game=game,
        networks_sha256=hashlib.sha256(networks).hexdigest(),
        policy=PolicyFacts(
            actions=(0, 1, 3, 4, 11, 12),
            exploration=exploration,
            recipe={},
            score=ScoreFacts(games=32, mean=4.0, standard_error=0.3),
            random_score=ScoreFacts(games=32, mean=2.0, standard_error=0.4),
        ),
        values=ValueFacts(
            recipe={},
            timesteps=10,
            held_out_timesteps=5,
            held_out_variance=1.0,
            held_out_errors=(1.0, 0.5),
            frozen_error=0.5,
        ),
        audit=AuditFacts(summary=summary, audited=(state,)),
    )


def write_reference(
    folder: Path, game: str, policy: Arrays, values: Arrays, exploration: float = 0.02
) -> None:
    """Writes a game's two files as they are shipped."""
    networks = save(
        {f"policy.{name}": array for name, array in policy.items()}
        | {f"values.{name}": array for name, array in values.items()}
    )
    (folder / f"{game}.safetensors").write_bytes(networks)
    facts = make_facts(networks, game, exploration).model_dump(mode="json")
    (folder / f"{game}.json").write_text(json.dumps(facts))


def write_references(folder: Path, games: Sequence[str] = GAMES) -> Path:
    """Writes a reference for each game, all of them different."""
    for index, game in enumerate(games):
        policy, values = (
            make_arrays(10 * index + k, len(_INPUT_BITS), (16, 8), outputs)
            | {"input_bits": _INPUT_BITS}
            for k, outputs in enumerate((6, 1))
        )
        write_reference(folder, game, policy, values, exploration=0.1)
    return folder


def make_schedule(
    timesteps: int, games: Sequence[str] = GAMES
) -> tuple[ScheduledVisit, ...]:
    return tuple(
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=game, visit_frames=timesteps)
        for k, game in enumerate(games)
    )


def record_streams(folder: Path, seed: int, stream: Stream) -> None:
    """Plays a stream of live guides and ships what they did."""
    rows = []
    while not stream.done:
        rows.append(stream.advance(0.0))
    for visit in stream.schedule:
        own = [row for row in rows if row.visit_idx == visit.visit_idx]
        recorded = RecordedVisit(
            np.array([row.applied_action_idx for row in own], np.uint8),
            np.array([row.reward for row in own], np.int8),
            np.array([row.target for row in own], np.float32),
        )
        write_streams(folder, visit.game_id, visit.visit_idx, {seed: recorded})
