"""Recorded visits of a reference: actions, rewards and values, without networks.

    data/<game>.streams.safetensors   `seed-<n>.actions` uint8, `.rewards` int8 (the
                                      delivered signs), `.values` float32, (timesteps,)
    data/<game>.streams.json          visit and reference of the recording, and the
                                      digest of the arrays

A visit is a pure function of game, seed and actions, so replaying the recorded actions
gives the policy's own visit, up to the recorded length. A recording is rejected if it
was made with another reference than the one in the same folder.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longplay.contract.documents import Document
from longplay.errors import DocumentError
from longplay.reference.library import (
    find_data,
    hash_references,
    pick_visit,
    read_reference_document,
    read_safetensors,
)

STREAM_DTYPES: dict[str, type[np.generic]] = {
    "actions": np.uint8,
    "rewards": np.int8,
    "values": np.float32,
}


@dataclass(frozen=True)
class RecordedVisit:
    """Actions, rewards and values of a fixed policy in one visit, per timestep."""

    actions: NDArray[np.uint8]
    rewards: NDArray[np.int8]
    values: NDArray[np.float32]

    def __len__(self) -> int:
        """Number of recorded timesteps."""
        return len(self.actions)


class StreamFacts(Document):
    """Which visits a file of recorded streams contains."""

    schema_version: int = 1
    game: str
    visit_idx: int
    reference_sha256: str
    streams_sha256: str
    seeds: tuple[int, ...]


def find_recorded_visit(
    game_id: str, seed: int, visit_idx: int, data: Path | None = None
) -> RecordedVisit | None:
    """The recording of a visit, or None.

    Raises:
        DocumentError: A file is missing, damaged or made with another reference.
    """
    folder = data or find_data()
    path, name = folder / f"{game_id}.streams.json", f"{game_id}.streams.safetensors"
    if not path.exists() and not (folder / name).exists():
        return None
    facts = read_reference_document(path, StreamFacts)
    if facts.game != game_id:
        raise DocumentError(f"{path} game: expected {game_id}, found {facts.game}")
    if facts.visit_idx != visit_idx or seed not in facts.seeds:
        return None
    expected = hash_references([game_id], folder)
    if facts.reference_sha256 != expected:
        raise DocumentError(
            f"{path.name} reference_sha256: expected {expected}, found "
            f"{facts.reference_sha256}; record it again"
        )
    arrays = read_safetensors(folder / name, facts.streams_sha256)
    return RecordedVisit(**pick_visit(arrays, seed, STREAM_DTYPES, name))
