"""Scores of the random agent, shipped as data to compare with.

`data/random.json` is written by `make baselines` from the packs of results/, or from
three seeds played with `longplay run`. A suite with changed settings is compared with
the suite it was derived from, and labelled so.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from longplay.scoring.metrics import mean_or_none


@dataclass(frozen=True)
class GameTotals:
    """Totals of a game in a run of the control track, mean over seeds."""

    reward: float
    game_score: float


@dataclass(frozen=True)
class RandomBaseline:
    """The random agent on one suite.

    Attributes:
        suite_id: The measured suite.
        emulator: Version of ale-py.
        seeds: The measured seeds.
        final_scores: Final score, per seed.
        rates: Game -> reward per frame over all its frames and seeds.
        scores: Game -> mean of its per-game scores over seeds.
        forgetting: Its mean forgetting, mean over seeds: what resets alone do.
        plasticity: Its mean plasticity, mean over seeds.
        us_per_frame: Processor time of playing, per frame.
        totals: Game -> what was collected in it; control suites only.
        cumulative_rewards: All delivered rewards, per seed; control suites only.
        cumulative_game_scores: All game rewards, per seed; control suites only.
    """

    suite_id: str
    emulator: str
    seeds: tuple[int, ...]
    final_scores: tuple[float, ...]
    rates: dict[str, float]
    scores: dict[str, float]
    forgetting: float | None
    plasticity: float | None
    us_per_frame: float
    totals: dict[str, GameTotals]
    cumulative_rewards: tuple[float, ...]
    cumulative_game_scores: tuple[float, ...]

    @property
    def final_score(self) -> float:
        """Mean over seeds."""
        return sum(self.final_scores) / len(self.final_scores)

    @property
    def cumulative_reward(self) -> float | None:
        """Mean over seeds."""
        return mean_or_none(self.cumulative_rewards)

    @property
    def cumulative_game_score(self) -> float | None:
        """Mean over seeds."""
        return mean_or_none(self.cumulative_game_scores)

    @property
    def headline(self) -> float:
        """The number by which runs of the suite are compared, mean over seeds."""
        total = self.cumulative_reward
        return self.final_score if total is None else total


@cache
def _read_data() -> dict[str, Any]:
    source = resources.files("longplay.scoring") / "data" / "random.json"
    data: dict[str, Any] = json.loads(source.read_bytes())
    return data


def random_baseline(suite_name: str) -> RandomBaseline | None:
    """The random agent's figures for a suite, or for the one it was derived from."""
    suite_id = suite_name.partition("+")[0]
    entry = _read_data()["suites"].get(suite_id)
    if entry is None:
        return None
    return RandomBaseline(
        suite_id=suite_id,
        emulator=entry["versions"]["ale_py"],
        seeds=tuple(entry["seeds"]),
        final_scores=tuple(entry["final_scores"]),
        rates={game: row["rate"] for game, row in entry["games"].items()},
        scores={game: row["score"] for game, row in entry["games"].items()},
        forgetting=_mean_of_known(entry["forgetting_index_means"]),
        plasticity=_mean_of_known(entry["plasticity_means"]),
        us_per_frame=entry["us_per_frame"],
        totals={
            game: GameTotals(**row) for game, row in entry.get("totals", {}).items()
        },
        cumulative_rewards=tuple(entry.get("cumulative_rewards", ())),
        cumulative_game_scores=tuple(entry.get("cumulative_game_scores", ())),
    )


def _mean_of_known(values: list[float | None]) -> float | None:
    return mean_or_none([value for value in values if value is not None])


def expected_seconds(suite_name: str, typical_suite: str, frames: int) -> float:
    """Approximate time of playing, without the agent's own computation.

    Args:
        suite_name: The suite to play.
        typical_suite: A measured suite, in case `suite_name` was not measured.
        frames: Number of frames to play.
    """
    measured = random_baseline(suite_name) or random_baseline(typical_suite)
    assert measured is not None
    return measured.us_per_frame * frames / 1e6
