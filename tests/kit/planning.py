"""Suite and agent -> an experiment that is planned, but not played."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from longplay.experiments.experiment import Experiment, plan_seeds


def plan_experiment(
    suite: str,
    agent: Any,
    *,
    seeds: Sequence[int] = (1000,),
    overrides: Mapping[str, Any] | None = None,
    **options: Any,
) -> Experiment:
    """Plans an experiment; nothing is written, and the agent is imported, not built."""
    return Experiment.create(plan_seeds(suite, seeds, overrides), agent, **options)
