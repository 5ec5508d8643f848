"""Runs -> the measurements behind the anchors.

lower, any suite     runs of the random agent on the suite
upper, control       runs of a prediction suite: there the reference policies play,
                     whatever the agent predicts
upper, streaming     runs of specialists, one game each
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longplay.analysis.anchors import (
    RandomMeasurement,
    SuiteAnchors,
    UpperMeasurement,
    make_suite_anchors,
)
from longplay.analysis.runs import MeasuredRun
from longplay.errors import ConfigError

_LAST_THIRD = 1 / 3


def measure_random(runs: Sequence[MeasuredRun]) -> dict[str, RandomMeasurement]:
    """Game -> measurements of the random agent, run by run."""
    rates = [run.measure() for run in runs]
    found = {}
    for column, game in enumerate(runs[0].config.games):
        average, forgetting, recovery = (
            np.array([getattr(one, name)[column] for one in rates])
            for name in ("average", "forgetting", "recovery")
        )
        found[game] = RandomMeasurement(
            average,
            forgetting[~np.isnan(forgetting)],
            recovery[~np.isnan(recovery)],
        )
    return found


def measure_policies(runs: Sequence[MeasuredRun]) -> dict[str, UpperMeasurement]:
    """Game -> reward rate of its reference policy, per run of a prediction suite."""
    games = runs[0].config.games
    rates = np.array([run.measure().average for run in runs])
    return {
        game: UpperMeasurement(column, "reference policy")
        for game, column in zip(games, rates.T, strict=True)
    }


def measure_specialists(runs: Sequence[MeasuredRun]) -> dict[str, UpperMeasurement]:
    """Game -> reward rate of its specialist in the last third of each run.

    Raises:
        ConfigError: A run has several games, or its rows are missing.
    """
    rates: dict[str, list[float]] = {}
    for run in runs:
        if len(run.config.games) != 1 or run.curves is None:
            raise ConfigError(
                f"{run.path}: expected a run of one game with its rows, found "
                f"{len(run.config.games)} games"
                + ("" if run.curves else " and no rows")
            )
        rate = run.curves.rate_of_last(_LAST_THIRD)
        rates.setdefault(run.config.games[0], []).append(rate)
    return {
        game: UpperMeasurement(np.array(values), "specialist")
        for game, values in rates.items()
    }


def measure_suite(
    random_runs: Sequence[MeasuredRun], upper_runs: Sequence[MeasuredRun]
) -> SuiteAnchors:
    """Runs of both anchors -> the anchors of the random runs' suite.

    Raises:
        ConfigError: The runs are not of one suite, or do not fit each other.
    """
    suites = {run.conditions for run in random_runs}
    if len(suites) != 1:
        names = ", ".join(sorted(conditions.suite for conditions in suites)) or "none"
        raise ConfigError(f"random agent: expected runs of one suite, found {names}")
    agents = sorted({run.agent.name for run in random_runs})
    seeds = _seeds_of(random_runs)
    if agents != ["random"] or len(seeds) != len(random_runs):
        raise ConfigError(
            "random agent: expected one run per seed of `random`, found "
            f"{len(random_runs)} runs of {', '.join(agents)} on {len(seeds)} seeds"
        )
    are_policies = {run.track.predicts for run in upper_runs}
    if len(are_policies) > 1:
        raise ConfigError(
            "upper anchor: expected runs of a prediction suite or of specialists, "
            "found both"
        )
    uppers: dict[str, UpperMeasurement] = {}
    if upper_runs:
        measure = measure_policies if True in are_policies else measure_specialists
        uppers = measure(upper_runs)
    versions = random_runs[0].config.versions or {}
    return make_suite_anchors(
        measure_random(random_runs),
        uppers,
        random_seeds=seeds,
        upper_seeds=_seeds_of(upper_runs),
        versions={n: versions[n] for n in ("longplay", "ale_py") if n in versions},
    )


def _seeds_of(runs: Sequence[MeasuredRun]) -> list[int]:
    return sorted({run.seed for run in runs if run.seed is not None})
