"""Tokens and cost of an agent: `usage()`, in run_summary.json and in records."""

from __future__ import annotations

from typing import Any, Self

from pydantic import AliasChoices, Field

from longplay.contract.typed_record import Record

# Other names of a field in the statistics of a trajectory.
_SPELLINGS = {"total_cost_usd": "cost", "n_llm_calls": "total_llm_calls"}


class UsageSummary(Record):
    """Tokens and cost of the language-model calls of a whole run."""

    prompt_tokens: int = Field(
        default=0,
        ge=0,
        validation_alias=AliasChoices("prompt_tokens", "input_tokens"),
        description="Tokens sent.",
    )
    completion_tokens: int = Field(
        default=0,
        ge=0,
        validation_alias=AliasChoices("completion_tokens", "output_tokens"),
        description="Tokens received.",
    )
    total_tokens: int = Field(default=0, ge=0, description="Both together.")
    cached_tokens: int = Field(
        default=0,
        ge=0,
        validation_alias=AliasChoices("cached_tokens", "input_tokens_cache_read"),
        description="Sent tokens served from a cache.",
    )
    cache_creation_tokens: int = Field(
        default=0,
        ge=0,
        validation_alias=AliasChoices(
            "cache_creation_tokens", "input_tokens_cache_write"
        ),
        description="Sent tokens that were put into one.",
    )
    total_cost_usd: float = Field(default=0.0, ge=0, description="US dollars.")
    n_llm_calls: int = Field(default=0, ge=0, description="Model calls.")

    @classmethod
    def from_summary_stats(cls, stats: dict[str, Any] | None) -> Self:
        """Picks the usage fields out of a trajectory's statistics."""
        stats = stats or {}
        found = {}
        for name in cls.model_fields.keys() - Record.model_fields.keys():
            for spelling in (name, _SPELLINGS.get(name, name)):
                if name not in found and stats.get(spelling) is not None:
                    found[name] = stats[spelling]
        usage = cls(**found)
        if "total_tokens" in found:
            return usage
        total = usage.prompt_tokens + usage.completion_tokens
        return usage.model_copy(update={"total_tokens": total})
