"""Facts about a game's reference, shipped with it as JSON."""

from __future__ import annotations

from math import sqrt
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field

from longplay.contract.documents import is_none


class _Facts(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Measured(Protocol):
    """A mean and its standard error."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def standard_error(self) -> float:
        """Of the mean."""


def describe_mean(measured: Measured) -> str:
    """`12.3 ± 0.4`; without decimals from 100 on."""
    digits = 1 if abs(measured.mean) < 100 else 0
    return f"{measured.mean:,.{digits}f} ± {measured.standard_error:,.{digits}f}"


def lead_in_errors(measured: Measured, random: Measured) -> float:
    """Lead over random, in standard errors of the difference."""
    error = measured.standard_error**2 + random.standard_error**2
    return (measured.mean - random.mean) / sqrt(max(error, 1e-12))


class ScoreFacts(_Facts):
    """Game scores over whole games."""

    games: int
    mean: float
    standard_error: float

    def describe(self) -> str:
        """As `describe_mean`."""
        return describe_mean(self)


class PolicyFacts(_Facts):
    """Actions, training recipe and scores of a policy."""

    actions: tuple[int, ...]
    exploration: float = Field(ge=0, le=1)
    recipe: dict[str, Any]
    score: ScoreFacts
    random_score: ScoreFacts

    @property
    def lead_in_errors(self) -> float:
        """Lead over random, in standard errors of the difference."""
        return lead_in_errors(self.score, self.random_score)


class ValueFacts(_Facts):
    """How values were fitted, and their error on visits used only for early stopping.

    Errors are mean squared differences from single returns, so that even perfect values
    have an error; `held_out_variance` is the error of the best constant.
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
    """The result of an audit; see `references.auditing.summarise`."""

    states: int
    continuations: int
    r2: float | None
    r2_corrected: float | None
    bias: float
    rmse_corrected: float
    value_std: float
    sampling_error: float


class AuditFacts(_Facts):
    """Values compared with rollouts."""

    summary: AuditSummary
    audited: tuple[AuditedState, ...]


class R2Interval(_Facts):
    """A corrected R² and its 95 % interval, by bootstrap over states.

    All null where the states' values do not differ beyond the sampling error.
    """

    r2: float | None
    low: float | None
    high: float | None


class RolloutAudit(_Facts):
    """Rollout values and network, compared with independent continuations.

    `r2`, `low` and `high` belong to the rollout values.
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
    """Which states of which visits have rollout values, and their audit."""

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
    """All facts about a reference, and the digest of its networks."""

    schema_version: int = 1
    game: str
    networks_sha256: str
    policy: PolicyFacts
    values: ValueFacts
    audit: AuditFacts
    rollouts: RolloutFacts | None = Field(default=None, exclude_if=is_none)


def describe_r2(r2: float | None) -> str:
    """Two digits; a dash where states do not differ enough to have one."""
    return "–" if r2 is None else f"{r2:.2f}"
