"""Shipped results and baselines -> agents to compare with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longplay.lab.analysis.agent_arrays import (
    AgentArrays,
    arrays_of_errors,
    arrays_of_rates,
)
from longplay.lab.analysis.intervals import Estimate
from longplay.lab.analysis.results import ResultRun, shipped_results
from longplay.lab.analysis.runs import AgentKey, MeasuredRun
from longplay.scoring.baselines import RandomBaseline, random_baseline
from longplay.scoring.normalisation import Scale
from longplay.scoring.prediction_baselines import (
    MeasuredError,
    PredictorBaseline,
    prediction_baselines,
)

_NOT_BY_RUN = "the shipped figures have no per-run rates"


def shipped_agents(
    run: MeasuredRun, scale: Scale, error: str | None
) -> dict[AgentKey, AgentArrays]:
    """The agents that were measured on a suite.

    None for a customised suite, and for another version of the emulator.

    Args:
        run: A run of the suite.
        scale: Of its games.
        error: `nmse` or `value_nmse`; None of a suite to play.
    """
    found = _baselines(run, error)
    for name, runs in shipped_results().agents_of(run.conditions).items():
        key = AgentKey(f"{name} (shipped)", runs[0].agent_id)
        # Instead of the same agent's means over seeds.
        found = {other: found[other] for other in found if other.name != key.name}
        found[key] = _result(runs, run.config.games, scale, error)
    return found


def shipped_rollouts(run: MeasuredRun) -> set[str | None]:
    """Digests of the rollout values behind the shipped errors on a suite."""
    results = shipped_results().agents_of(run.conditions).values()
    return {one.rollouts for runs in results for one in runs} | {
        baseline.rollouts_sha256 for baseline in _predictors(run)
    }


def _predictors(run: MeasuredRun) -> list[PredictorBaseline]:
    found = prediction_baselines(run.conditions.suite, run.conditions.references)
    return [one for one in found if one.emulator == run.conditions.emulator]


def _baselines(run: MeasuredRun, error: str | None) -> dict[AgentKey, AgentArrays]:
    suite, games = run.conditions.suite, run.config.games
    if error is not None:
        return {
            AgentKey(f"{baseline.label} (shipped)", None): _predictor(
                baseline, games, error
            )
            for baseline in _predictors(run)
        }
    baseline = random_baseline(suite)
    if baseline is None or baseline.suite_id != suite:
        return {}
    if baseline.emulator != run.conditions.emulator:
        return {}
    return {AgentKey("random (shipped)", None): _random(baseline, games)}


def _result(
    runs: Sequence[ResultRun], games: Sequence[str], scale: Scale, error: str | None
) -> AgentArrays:
    seeds = tuple(run.seed for run in runs)
    headlines = np.array(
        [np.nan if run.headline is None else run.headline for run in runs]
    )
    if error is not None:
        errors = np.array([run.game_errors(error, games) for run in runs])
        return arrays_of_errors(seeds, errors, headlines)
    rates = [run.game_rates(games) for run in runs]
    return arrays_of_rates(seeds, headlines, rates, scale, has_rows=True)


def _random(baseline: RandomBaseline, games: Sequence[str]) -> AgentArrays:
    """Headlines seed by seed; rates are means over seeds, without an interval."""
    n = len(baseline.seeds)
    headlines = baseline.cumulative_rewards or baseline.final_scores
    rates = {game: Estimate(mean=baseline.rates[game], n=n) for game in games}
    return AgentArrays(
        seeds=baseline.seeds,
        per_run={"headline": np.array(headlines)},
        per_game={},
        contest=np.full((n, len(games)), np.nan),
        absent=dict.fromkeys(("average", "final", "improvement"), _NOT_BY_RUN),
        game_means={"rate": rates},
    )


def _predictor(
    baseline: PredictorBaseline, games: Sequence[str], error: str
) -> AgentArrays:
    unknown = MeasuredError(None, (None,) * len(baseline.seeds))
    measured = [getattr(baseline.games[game], error) or unknown for game in games]
    errors = np.array(
        [[np.nan if e is None else e for e in one.seeds] for one in measured]
    ).T
    headlines = np.array(baseline.errors.nmse.seeds, np.float64)
    return arrays_of_errors(baseline.seeds, errors, headlines)
