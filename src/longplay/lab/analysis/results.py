"""Results of longplay's own agents on official seeds: shipped data, run by run.

`data/results.json` has the numbers that comparisons need of every run whose pack is in
`results/` of the repository. They are kept as rates, not as z: new anchors change
no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.contract.files import read_document
from longplay.lab.analysis.intervals import Estimate, estimate_mean
from longplay.lab.analysis.measures import GameRates
from longplay.lab.analysis.runs import Conditions

RESULTS_FILE = "results.json"
# Agents that learn nothing: what learners are compared with.
NON_LEARNERS = ("random", "explore-only")
RATES = tuple(GameRates.__dataclass_fields__)

# Game -> number; None where a game has none.
ByGame = dict[str, float | None]


class ResultRun(Document):
    """One run on an official seed."""

    pack: str = Field(description="Its path in results/.")
    pack_sha256: str
    suite: str
    agent: str
    agent_id: str | None
    seed: int
    emulator: str | None = Field(description="Version of ale-py.")
    roms: str | None = Field(description="Digest of the ROMs' digests.")
    references: str | None = Field(description="Digest; prediction suites.")
    rollouts: str | None = Field(description="Digest; prediction suites.")
    headline: float | None = Field(description="The track's own, from score.json.")
    rates: dict[str, ByGame] = Field(
        description="Reward per frame: number -> game -> value; empty of predictions."
    )
    errors: dict[str, ByGame] = Field(
        description="nmse and value_nmse: number -> game -> value; predictions."
    )

    @property
    def conditions(self) -> Conditions:
        """The conditions it can be compared under."""
        return Conditions(self.suite, self.emulator, self.roms, self.references)

    def game_rates(self, games: Sequence[str]) -> GameRates:
        """Its rates, in the order of the games."""
        return GameRates(*(_column(self.rates[name], games) for name in RATES))

    def game_errors(self, error: str, games: Sequence[str]) -> NDArray[np.float64]:
        """Its errors, in the order of the games."""
        return _column(self.errors[error], games)


class Results(Document):
    """The content of `data/results.json`."""

    schema_version: int = SCHEMA_VERSION
    runs: tuple[ResultRun, ...] = ()

    def agents_of(self, conditions: Conditions) -> dict[str, list[ResultRun]]:
        """Agent -> its runs under these conditions, by seed."""
        found: dict[str, list[ResultRun]] = {}
        for run in sorted(self.runs, key=lambda run: run.seed):
            if run.conditions == conditions:
                found.setdefault(run.agent, []).append(run)
        return found

    def headlines_of(self, suite: str) -> dict[str, Estimate]:
        """Agent -> the mean of its headline over seeds."""
        by_agent: dict[str, list[float]] = {}
        for run in self.runs:
            if run.suite == suite and run.headline is not None:
                by_agent.setdefault(run.agent, []).append(run.headline)
        found = {agent: estimate_mean(values) for agent, values in by_agent.items()}
        return {agent: estimate for agent, estimate in found.items() if estimate}


def _column(values: ByGame, games: Sequence[str]) -> NDArray[np.float64]:
    found = (values.get(game) for game in games)
    return np.array([np.nan if value is None else value for value in found])


@cache
def shipped_results() -> Results:
    """The results shipped with the package."""
    folder = resources.files("longplay.lab.analysis") / "data"
    with resources.as_file(folder / RESULTS_FILE) as path:
        return read_document(path, Results)
