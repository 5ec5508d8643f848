"""The result of a comparison, written as `analysis.json`.

A number that cannot be computed is missing, and `absent` says why. Nothing depends on
the clock, the machine or the paths of the runs, except for the paths of runs that were
left out.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.lab.analysis.intervals import Estimate

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

    @property
    def is_different(self) -> bool:
        """Whether the interval of the difference excludes 0."""
        return self.difference is not None and self.difference.excludes_zero


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
