"""The result of a comparison, written as `analysis.json`.

A number that cannot be computed is missing, and `absent` says why. Nothing depends on
the clock, the machine or the paths of the runs, except for the paths of runs that were
left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

from pydantic import Field

from longplay.contract.documents import SCHEMA_VERSION, Document, optional
from longplay.lab.analysis.intervals import Estimate


def key_by_seed(
    seeds: Sequence[int | None], values: Iterable[float]
) -> dict[Hashable, float]:
    """Seed -> value of its run; a run without a seed gets a key of its own."""
    keys = [object() if seed is None else seed for seed in seeds]
    return dict(zip(keys, values, strict=True))


# Names of metrics -> headings, in the order of tables.
METRICS = {
    "headline": "headline",
    "average": "average",
    "median": "median",
    "optimality_gap": "optimality gap",
    "final": "final",
    "retention": "retention",
    "change_at_revisit": "change at revisit",
    "recovery": "recovery cost",
    "transfer": "forward transfer",
    "error": "median error",
}
# Names of the numbers of one game.
GAME_METRICS = {
    "rate": "reward per frame",
    "average": "average",
    "final": "final",
    "retention": "retention",
    "change_at_revisit": "change at revisit",
    "recovery": "recovery cost",
    "transfer": "forward transfer",
    "error": "error",
}
LESS_IS_BETTER = ("optimality_gap", "change_at_revisit", "recovery", "error")


# Names of the numbers of probes -> headings.
MEMORY_METRICS = {
    "learned": "learned",
    "forgetting": "forgetting",
    "share_forgotten": "share forgotten",
    "transfer": "zero-shot transfer",
}


class Amount(Document):
    """A mean over branches, and its standard error."""

    mean: float
    error: float | None = Field(description="None of a single branch.")


class MatrixCell(Document):
    """R[i, g] of one run: how well a state plays a game."""

    seed: int | None
    state: str
    game: str
    amount: Amount = Field(description="Over branches, in `MemoryNumbers.unit`.")


class PairNumbers(Document):
    """Two states of one run, asked for the same game."""

    seed: int | None
    kind: str = Field(description="learned, forgetting or transfer.")
    game: str
    state: str
    other: str
    amount: Amount = Field(description="`state` minus `other`, paired by branch.")


class RunMemory(Document):
    """The numbers of one run."""

    seed: int | None
    numbers: dict[str, Amount] = Field(description="Means over pairs.")
    share_forgotten: float | None = Field(
        description="None where too little was learned."
    )


class MemoryNumbers(Document):
    """What the probes of an agent's runs say."""

    unit: Literal["z", "reward per frame", "-mse / variance"]
    branches: int = Field(description="Branches of a game.")
    frames: int = Field(description="Frames of a branch.")
    seeds: tuple[int | None, ...] = Field(description="Of the runs with probes.")
    numbers: dict[str, Estimate] = Field(description="Over runs.")
    games: dict[str, dict[str, Estimate]] = Field(description="Game -> over runs.")
    runs: tuple[RunMemory, ...]
    pairs: tuple[PairNumbers, ...]
    matrix: tuple[MatrixCell, ...]
    absent: dict[str, str] = Field(description="Number -> why it is not there.")


class Profile(Document):
    """Share of (run, game) with z ≥ τ."""

    thresholds: tuple[float, ...] = Field(description="τ.")
    shares: tuple[Estimate, ...] = Field(description="At each τ, over runs.")


class AgentNumbers(Document):
    """One agent on one suite."""

    label: str = Field(description="Its name, unique in this table.")
    agent_id: str | None
    is_shipped: bool = Field(description="Figures of the package, without runs.")
    isolation: str = Field(description="none, process or sandbox.")
    tuning_frames: int | None = Field(description="Declared budget of tuning.")
    seeds: tuple[int | None, ...] = Field(description="Of the runs that count.")
    left_out: dict[str, tuple[int | None, ...]] = Field(
        description="missing, errored, unfinished, tuning or unreadable -> seeds."
    )
    numbers: dict[str, Estimate] = Field(description="Over runs.")
    per_run: dict[str, tuple[float, ...]] = Field(
        description="The same run by run, in the order of the seeds."
    )
    games: dict[str, dict[str, Estimate]] = Field(description="Game -> numbers.")
    profile: Profile | None
    absent: dict[str, str] = Field(description="Number -> why it is missing.")
    difference: Estimate | None = Field(
        description="Difference in `lead` from the compared agent, paired by seed."
    )
    headline_difference: Estimate | None = Field(
        description="Difference in the headline, where that is not `lead`."
    )
    improvement: Estimate | None = Field(
        description="Probability of being better than that agent."
    )
    memory: MemoryNumbers | None = optional(
        "What was learned, kept and forgotten, where runs have probes."
    )

    def by_seed(self, name: str) -> dict[Hashable, float]:
        """Seed -> number; a run without a seed is never paired."""
        values = self.per_run.get(name)
        return {} if values is None else key_by_seed(self.seeds, values)


class ScoreMatrix(Document):
    """Runs x games of every agent, in the shape that rliable takes.

    Only the games that every run of every agent has; without agents whose values are
    not known run by run.
    """

    number: Literal["average", "rate", "error"] = Field(
        description="z; reward per frame where no game has z; or the error."
    )
    games: tuple[str, ...] = Field(description="Columns.")
    scores: dict[str, tuple[tuple[float, ...], ...]] = Field(
        description="Label -> a row per run, in the order of the agent's seeds."
    )
    pooled: dict[str, dict[str, float]] = Field(
        description="Label -> iqm, mean and median as rliable defines them: over runs "
        "and games together. `numbers` aggregate games within a run first."
    )


class SuiteComparison(Document):
    """Agents on one suite, under one set of conditions."""

    title: str = Field(
        description="The suite, and what tells it apart from its other tables."
    )
    suite: str
    track: str
    frame_noun: str = Field(description="What a frame of these runs is called.")
    emulator: str | None = Field(description="Version of ale-py.")
    roms: str | None = Field(description="Digest of the ROMs' digests.")
    references: str | None = Field(description="Digest; prediction suites.")
    headline: str = Field(description="Key of score.json that is the headline.")
    headline_is_better: Literal["more", "less"]
    error: str | None = Field(description="nmse or value_nmse; prediction suites.")
    lead: str = Field(description="The number that differences are about.")
    versus: str = Field(description="Label of the agent others are compared with.")
    games: tuple[str, ...]
    games_without_z: dict[str, str] = Field(description="Game -> why it has no z.")
    notes: tuple[str, ...] = Field(description="What else to know.")
    agents: tuple[AgentNumbers, ...]
    matrix: ScoreMatrix | None = Field(
        default=None, description="None if no game has a value in every run."
    )

    @property
    def lead_is_better(self) -> Literal["more", "less"]:
        """Which direction of `lead` is better."""
        if self.lead == "headline":
            return self.headline_is_better
        return "less" if self.lead in LESS_IS_BETTER else "more"


class LeftOutRun(Document):
    """A run that was left out."""

    kind: str = Field(description="As in `AgentNumbers.left_out`.")
    path: str
    reason: str
    suite: str | None
    agent: str | None
    seed: int | None


class Comparison(Document):
    """The whole output of `longplay compare`."""

    schema_version: int = SCHEMA_VERSION
    anchors: str = Field(description="Name of the anchors that z refers to.")
    suites: tuple[SuiteComparison, ...]
    left_out: tuple[LeftOutRun, ...]
