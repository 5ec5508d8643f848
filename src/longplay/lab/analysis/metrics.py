"""Numbers of single runs that a comparison shows beside those of `records.METRICS`.

    def measure_worst(run):
        return float((run.totals.rewards / run.totals.frames).min())

    WORST_VISIT = Metric("worst_visit", "worst visit", measure_worst)

The package lists its own in `OWN`. Another package offers one by an entry point:

    [project.entry-points."longplay.metrics"]
    worst_visit = "my_package.metrics:WORST_VISIT"

Tables, JSON and LaTeX show it after the others: its mean over runs, with an interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from longplay import plugins
from longplay.errors import ConfigError
from longplay.lab.analysis.agent_arrays import AgentArrays
from longplay.lab.analysis.records import METRICS
from longplay.lab.analysis.runs import MeasuredRun


@dataclass(frozen=True)
class Metric:
    """A number of a run.

    Attributes:
        name: Its key in analysis.json.
        heading: The heading of its column.
        measure: Computes it; None where a run has none.
    """

    name: str
    heading: str
    measure: Callable[[MeasuredRun], float | None]


OWN: tuple[Metric, ...] = ()


def list_metrics() -> list[Metric]:
    """Those of the package and of installed ones.

    Raises:
        ConfigError: A package that offers one is broken, or its name is taken.
    """
    installed = plugins.load_entry_points(plugins.METRICS, Metric).values()
    for metric in installed:
        if METRICS.get(metric.name, metric.heading) != metric.heading:
            raise ConfigError(
                f"metric {metric.name!r} of {plugins.METRICS}: the name is taken by "
                f"{METRICS[metric.name]!r}; uninstall or change its package"
            )
    return [*OWN, *installed]


def add_metrics(found: AgentArrays, runs: Sequence[MeasuredRun]) -> None:
    """Adds the numbers of one agent's runs, in their order."""
    for metric in list_metrics():
        METRICS.setdefault(metric.name, metric.heading)
        values = [metric.measure(run) for run in runs]
        known = [v for v in values if v is not None and math.isfinite(v)]
        if len(known) < len(values):
            found.absent[metric.name] = "a run has none"
        else:
            found.per_run[metric.name] = np.array(known)
