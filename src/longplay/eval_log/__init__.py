"""Experiment directory -> Atlas EvalLog: every class of the format."""

from __future__ import annotations

from longplay.contract.usage import UsageSummary
from longplay.eval_log.evidence import Evidence, Trust
from longplay.eval_log.log import EvalLog
from longplay.eval_log.records import (
    AgentInfo,
    BenchmarkSubset,
    EpisodeRecord,
    ExperimentRecord,
    Findings,
    InvestigatorLLMConfig,
    Verifier,
)

__all__ = [
    "AgentInfo",
    "BenchmarkSubset",
    "EpisodeRecord",
    "EvalLog",
    "Evidence",
    "ExperimentRecord",
    "Findings",
    "InvestigatorLLMConfig",
    "Trust",
    "UsageSummary",
    "Verifier",
]
