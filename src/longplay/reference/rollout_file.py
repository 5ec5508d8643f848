"""Shipped rollout values: files of `data/` <-> the values of a run's states.

    data/<game>.rollouts.safetensors   `seed-<n>.timesteps` int32, `.mean` float32 and
                                       `.variance` float32, (states,) each;
                                       `continuations` (K), `horizon` (h) int32, (1,)
    data/<game>.json                   `rollouts`: visits and reference of the values,
                                       digest of the arrays, audit

They only apply to the visits they were measured on: the same game at the same position
of the schedule, with the same seed, length and references.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longplay.contract.config import RunConfig, ScheduledVisit
from longplay.contract.fingerprint import hash_payload
from longplay.errors import DocumentError
from longplay.reference.facts import RolloutFacts
from longplay.reference.library import (
    find_data,
    hash_references,
    list_references,
    pick_visit,
    read_facts,
    read_safetensors,
)

ROLLOUT_DTYPES = {"timesteps": np.int32, "mean": np.float32, "variance": np.float32}


@dataclass(frozen=True)
class RolloutValues:
    """The measured states of one visit.

    Attributes:
        timesteps: (n,) timesteps of the states.
        mean: (n,) m, the mean return of the continuations.
        variance: (n,) s², the unbiased variance of a return.
        continuations: K, the number of continuations behind each mean.
    """

    timesteps: NDArray[np.int32]
    mean: NDArray[np.float32]
    variance: NDArray[np.float32]
    continuations: int

    @property
    def means(self) -> NDArray[np.float64]:
        """The means m as float64."""
        return self.mean.astype(np.float64)

    @property
    def noise(self) -> NDArray[np.float64]:
        """s² / K, the sampling variance of each mean."""
        return self.variance.astype(np.float64) / self.continuations


def rollouts_name(game_id: str) -> str:
    """The file name for a game."""
    return f"{game_id}.rollouts.safetensors"


@dataclass(frozen=True)
class RunRollouts:
    """The rollout values of a run, for the games that have them.

    Attributes:
        games: Game -> its values, in the order of the schedule.
        sha256: Digest over the files they were read from.
    """

    games: dict[str, RolloutValues]
    sha256: str


def find_rollouts(config: RunConfig) -> RunRollouts | None:
    """The rollout values of a prediction run; None if none of its games has any.

    Raises:
        DocumentError: A file is damaged.
    """
    folder = find_data()
    if config.seed is None or config.reference_sha256 is None or not folder.is_dir():
        return None
    if len(config.schedule) > len(config.games):
        return None  # rollouts are made for suites that visit each game once
    known = set(list_references(folder))
    if not known.issuperset(config.games):
        return None
    if hash_references(config.games, folder) != config.reference_sha256:
        return None
    found = {
        visit.game_id: facts
        for visit in config.schedule
        if (facts := _find_facts(visit, config.seed, folder)) is not None
    }
    if not found:
        return None
    digests = {game: facts.rollouts_sha256 for game, facts in found.items()}
    values = {
        game: read_visit_rollouts(folder / rollouts_name(game), facts, config.seed)
        for game, facts in found.items()
    }
    return RunRollouts(values, hash_payload(digests))


def _find_facts(visit: ScheduledVisit, seed: int, folder: Path) -> RolloutFacts | None:
    facts = read_facts(visit.game_id, folder).rollouts
    if facts is None or seed not in facts.seeds:
        return None
    if (facts.visit_idx, facts.visit_timesteps) != (
        visit.visit_idx,
        visit.visit_frames,
    ):
        return None
    if facts.reference_sha256 != hash_references([visit.game_id], folder):
        raise DocumentError(
            f"{visit.game_id}.json rollouts.reference_sha256: expected the digest of "
            f"the game's reference, found {facts.reference_sha256}; measure again"
        )
    return facts


def read_visit_rollouts(path: Path, facts: RolloutFacts, seed: int) -> RolloutValues:
    """The rollout values of a visit.

    Raises:
        DocumentError: The file is missing or damaged.
    """
    arrays = read_safetensors(path, facts.rollouts_sha256)
    visit = pick_visit(arrays, seed, ROLLOUT_DTYPES, path.name)
    timesteps = visit["timesteps"]
    if not (timesteps.min() >= 0 and timesteps.max() < facts.visit_timesteps):
        raise DocumentError(
            f"{path.name} seed-{seed}.timesteps: expected 0 … "
            f"{facts.visit_timesteps - 1}, found {timesteps.min()} … {timesteps.max()};"
            " measure again"
        )
    return RolloutValues(**visit, continuations=facts.continuations)
