"""What is known about a game's reference, shipped beside it as JSON."""

from __future__ import annotations

from math import sqrt
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field


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
    """`12.3 ± 0.4`; from 100 on without decimals."""
    digits = 1 if abs(measured.mean) < 100 else 0
    return f"{measured.mean:,.{digits}f} ± {measured.standard_error:,.{digits}f}"


def lead_in_errors(measured: Measured, random: Measured) -> float:
    """How far above random, in standard errors of the difference."""
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
    """Which actions a policy has, how it was trained, what it scores."""

    actions: tuple[int, ...]
    exploration: float = Field(ge=0, le=1)
    recipe: dict[str, Any]
    score: ScoreFacts
    random_score: ScoreFacts

    @property
    def lead_in_errors(self) -> float:
        """How far above random, in standard errors of the difference."""
        return lead_in_errors(self.score, self.random_score)


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


class ReferenceFacts(_Facts):
    """All of it, and the digest of the networks it is about."""

    schema_version: int = 1
    game: str
    networks_sha256: str
    policy: PolicyFacts
    values: ValueFacts
    audit: AuditFacts
