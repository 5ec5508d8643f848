"""Delivered rewards per visit: is a policy better than random play on this track?

    data/random_visits.json    the random agent's visits of every game, on tuning seeds

Scores over whole games favour policies that survive, even if they stop collecting
rewards. All visits have the same number of timesteps, and the values of this track
are discounted sums of delivered rewards.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from pathlib import Path
from statistics import stdev

import numpy as np
from numpy.typing import NDArray

from longplay.contract.documents import Document
from longplay.reference.facts import lead_in_errors
from longplay.reference.library import (
    DATA,
    find_data,
    list_references,
    read_reference_document,
)
from longplay.reference.streams import RecordedVisit, StreamFacts, find_recorded_visit
from longplay.suites import REFERENCE_SUITE

RANDOM_VISITS = "random_visits.json"
# Tuning seeds: results on them may be used to choose a policy.
RANDOM_SEEDS = range(1000, 1008)
VISIT_TIMESTEPS = REFERENCE_SUITE.base_visit_frames

Rewards = NDArray[np.int8]


class VisitRewards(Document):
    """The delivered rewards of some visits of one game.

    Attributes:
        seeds: Run seeds, one visit each.
        rewards: The sum of each visit, in the order of the seeds.
        longest_idle_timesteps: Longest stretch without a reward in any of them.
    """

    seeds: tuple[int, ...]
    rewards: tuple[int, ...]
    longest_idle_timesteps: int

    @property
    def mean(self) -> float:
        """Mean per visit."""
        return sum(self.rewards) / len(self.rewards)

    @property
    def standard_error(self) -> float:
        """Of the mean; needs two visits."""
        return stdev(self.rewards) / sqrt(len(self.rewards))


class RandomVisits(Document):
    """The random agent's visits, as shipped."""

    schema_version: int = 1
    timesteps: int
    games: dict[str, VisitRewards]


class DeliveredLead(Document):
    """A game's policy compared with the random agent."""

    game: str
    policy: VisitRewards
    random: VisitRewards

    @property
    def lead_in_errors(self) -> float:
        """Lead over random, in standard errors of the difference."""
        return lead_in_errors(self.policy, self.random)


def count_rewards(visits: Mapping[int, Rewards]) -> VisitRewards:
    """Delivered rewards of every timestep, by seed -> their sums per visit."""
    return VisitRewards(
        seeds=tuple(visits),
        rewards=tuple(int(rewards.sum()) for rewards in visits.values()),
        longest_idle_timesteps=max(map(_longest_idle, visits.values())),
    )


def _longest_idle(rewards: Rewards) -> int:
    rewarded = np.flatnonzero(rewards)
    edges = np.concatenate([[-1], rewarded, [len(rewards)]])
    return int(np.diff(edges).max()) - 1


def read_random_visits(data: Path = DATA) -> RandomVisits:
    """The random agent's visits.

    Raises:
        DocumentError: The file is missing or damaged.
    """
    return read_reference_document(data / RANDOM_VISITS, RandomVisits)


def measure_leads(data: Path = DATA) -> list[DeliveredLead]:
    """Every recorded policy compared with the random agent, in the track's order.

    Raises:
        DocumentError: A file is missing or damaged.
    """
    random = read_random_visits(data)
    return [
        DeliveredLead(
            game=game,
            policy=_count_recorded(game, data),
            random=random.games[game],
        )
        for game in list_references(data)
    ]


def _count_recorded(game_id: str, data: Path) -> VisitRewards:
    recorded = read_recorded_visits(game_id, data)
    return count_rewards({seed: visit.rewards for seed, visit in recorded.items()})


def read_recorded_visits(
    game_id: str, data: Path | None = None
) -> dict[int, RecordedVisit]:
    """All recordings of a game, by seed.

    Raises:
        DocumentError: A file is missing, damaged or about another reference.
    """
    folder = data or find_data()
    facts = read_reference_document(folder / f"{game_id}.streams.json", StreamFacts)
    found = {
        seed: find_recorded_visit(game_id, seed, facts.visit_idx, folder)
        for seed in facts.seeds
    }
    return {seed: visit for seed, visit in found.items() if visit is not None}
