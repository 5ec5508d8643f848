"""What is known about a game's reference, shipped beside it as JSON."""

from __future__ import annotations

from math import sqrt
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from longplay.contract.records import is_none


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class ScoreFacts(_Facts):
    """Game scores over whole games."""

    games: int
    mean: float
    standard_error: float

    def describe(self) -> str:
        """`12.3 ± 0.4`; from 100 on without decimals."""
        digits = 1 if abs(self.mean) < 100 else 0
        return f"{self.mean:,.{digits}f} ± {self.standard_error:,.{digits}f}"


class PolicyFacts(_Facts):
    """Which actions a policy has, how it was trained, what it scores."""

    actions: tuple[int, ...]
    exploration: float = Field(ge=0, le=1)
    recipe: dict[str, Any]
    score: ScoreFacts
    random_score: ScoreFacts

    @property
    def lead_in_errors(self) -> float:
        """How far above random, in standard errors of the difference."""
        error = self.score.standard_error**2 + self.random_score.standard_error**2
        lead = self.score.mean - self.random_score.mean
        return lead / sqrt(max(error, 1e-12))


class ValueFacts(_Facts):
    """What values were fitted on, and the error on visits that only end the fit.

    Errors are mean squared differences from plain returns, so that even perfect values
    have one; `held_out_variance` is what the best constant would have.
    """

    recipe: dict[str, Any]
    timesteps: int
    held_out_timesteps: int
    held_out_variance: float
    held_out_errors: tuple[float, ...]
    frozen_error: float


class AuditedState(_Facts):
    """One state: its reference value, and the returns measured from it."""

    visit: int
    timestep: int
    value: float
    mean_return: float
    sampling_variance: float
    continuations: int


class AuditSummary(_Facts):
    """What an audit says; see `longplay.reference.training.audit.summarise`."""

    states: int
    continuations: int
    r2: float | None
    r2_corrected: float | None
    bias: float
    rmse_corrected: float
    value_std: float
    sampling_error: float


class AuditFacts(_Facts):
    """Values against rollouts."""

    summary: AuditSummary
    audited: tuple[AuditedState, ...]


class R2Interval(_Facts):
    """A corrected R² and its 95 % interval, by bootstrap over places.

    All null where states do not differ beyond the sampling error.
    """

    r2: float | None
    low: float | None
    high: float | None


class RolloutAudit(_Facts):
    """Rollout values and network against continuations that neither has seen.

    `r2`, `low` and `high` are those of the rollout values.
    """

    states: int
    continuations: int
    horizon_timesteps: int
    r2: float | None
    low: float | None
    high: float | None
    bias: float
    rmse_corrected: float
    network: R2Interval


class RolloutFacts(_Facts):
    """Which states of which visits have rollout values, and how good these are."""

    rollouts_sha256: str
    reference_sha256: str
    visit_idx: int
    visit_timesteps: int
    every_timesteps: int
    seeds: tuple[int, ...]
    continuations: int
    horizon_timesteps: int
    audit: RolloutAudit


class ReferenceFacts(_Facts):
    """All of it, and the digest of the networks it is about."""

    schema_version: int = 1
    game: str
    networks_sha256: str
    policy: PolicyFacts
    values: ValueFacts
    audit: AuditFacts
    rollouts: RolloutFacts | None = Field(default=None, exclude_if=is_none)
