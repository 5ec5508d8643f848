"""A reference and a seed -> a recorded visit of its policy, and its file.

It is played with the same stream as a run, so a recording cannot differ from a live
policy.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from longplay.console.base import Console
from longplay.contract.config import ScheduledVisit
from longplay.contract.files import make_directory, write_document, write_file
from longplay.contract.rows import PredictionRow
from longplay.reference.driver import ReferenceDriver
from longplay.reference.guide import LiveGuide
from longplay.reference.library import hash_references, load_reference
from longplay.reference.streams import STREAM_DTYPES, RecordedVisit, StreamFacts
from longplay.seeds import emulator_seed, policy_seed
from longplay.stream import Mechanics, Stream


def record_visit(
    visit: ScheduledVisit, seed: int, console: Console, data: Path | None = None
) -> RecordedVisit:
    """Plays one visit of a run live and records it.

    Args:
        visit: Game, position in the schedule, and length.
        seed: The run seed.
        console: A console with the track's four emulator frames per step.
        data: Folder of the reference; the installed ones if None.
    """
    index = visit.visit_idx
    guide = LiveGuide(load_reference(visit.game_id, data), policy_seed(seed, index))
    stream = Stream(
        (visit,),
        (emulator_seed(seed, index),),
        console,
        Mechanics(reward="sign"),
        ReferenceDriver({index: guide}),
    )
    rows = []
    while not stream.done:
        row = stream.advance(0.0)
        assert isinstance(row, PredictionRow)
        rows.append((row.applied_action_idx, row.reward, row.target))
    actions, rewards, values = zip(*rows, strict=True)
    return RecordedVisit(
        np.array(actions, np.uint8),
        np.array(rewards, np.int8),
        np.array(values, np.float32),
    )


def write_streams(
    folder: Path, game_id: str, visit_idx: int, visits: Mapping[int, RecordedVisit]
) -> None:
    """Writes the recorded visits of a game, one per seed, next to its reference."""
    arrays = {
        f"seed-{seed}.{name}": np.ascontiguousarray(getattr(visit, name), dtype)
        for seed, visit in visits.items()
        for name, dtype in STREAM_DTYPES.items()
    }
    content = save(arrays)
    facts = StreamFacts(
        game=game_id,
        visit_idx=visit_idx,
        reference_sha256=hash_references([game_id], folder),
        streams_sha256=hashlib.sha256(content).hexdigest(),
        seeds=tuple(visits),
    )
    make_directory(folder, exist_ok=True)
    write_file(folder / f"{game_id}.streams.safetensors", content)
    write_document(folder / f"{game_id}.streams.json", facts)
