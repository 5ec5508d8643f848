"""The runs of one agent on one suite -> arrays of every number, run by run."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.contract.config import RunConfig
from longplay.lab.analysis.aggregation import aggregate_games, optimality_gap
from longplay.lab.analysis.intervals import Estimate, estimate_mean
from longplay.lab.analysis.measures import GameRates, has_revisits
from longplay.lab.analysis.records import METRICS, key_by_seed
from longplay.lab.analysis.runs import MeasuredRun
from longplay.lab.analysis.transfer import forward_transfer
from longplay.scoring.metrics import mean_or_none
from longplay.scoring.normalisation import Scale

Reals = NDArray[np.float64]

_NO_REVISITS = "this suite has no revisits"
_NO_CURVES = "an older pack has no curves: `longplay unpack` computes them"
_OF_REVISITS = ("retention", "change_at_revisit", "recovery")


@dataclass
class AgentArrays:
    """Every number of R runs on G games.

    Attributes:
        seeds: (R,) of the runs, ascending.
        per_run: Number -> (R,).
        per_game: Number of a game -> (R, G), NaN where a game has none.
        contest: (R, G) the ranking criterion, higher is better; NaN where unknown.
        absent: Number -> why it is missing.
        game_means: Number of a game -> game -> estimate, where the runs are not known.
    """

    seeds: tuple[int | None, ...]
    per_run: dict[str, Reals]
    per_game: dict[str, Reals]
    contest: Reals
    absent: dict[str, str] = field(default_factory=dict)
    game_means: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)

    def by_seed(self, name: str) -> dict[Hashable, float]:
        """Seed -> number; a run without a seed is never paired."""
        values = self.per_run.get(name)
        return {} if values is None else key_by_seed(self.seeds, values.tolist())

    def estimate(self) -> dict[str, Estimate]:
        """The mean of each number over runs."""
        found = {name: estimate_mean(values) for name, values in self.per_run.items()}
        return {name: estimate for name, estimate in found.items() if estimate}

    def estimate_games(self, games: Sequence[str]) -> dict[str, dict[str, Estimate]]:
        """Game -> number -> its mean over the runs that have it.

        Where cycles are shuffled, a game may come back at once in one run and not in
        another.
        """
        found: dict[str, dict[str, Estimate]] = {game: {} for game in games}
        for name, values in self.per_game.items():
            for game, column in zip(games, values.T, strict=True):
                estimate = estimate_mean(column[~np.isnan(column)])
                if estimate is not None:
                    found[game][name] = estimate
        for name, means in self.game_means.items():
            for game, estimate in means.items():
                found.setdefault(game, {})[name] = estimate
        return found


# (game, frames) -> the rate of a fresh agent on that game alone, None if not known.
AloneRate = Callable[[str, int], float | None]


def measure_play(
    runs: Sequence[MeasuredRun], scale: Scale, alone: AloneRate
) -> AgentArrays:
    """Control and streaming runs of one agent -> its numbers.

    Args:
        runs: Of one agent under one set of conditions.
        scale: Of the suite's games.
        alone: Rates of the same agent on single games.
    """
    rates = [run.measure() for run in runs]
    found = arrays_of_rates(
        tuple(run.seed for run in runs),
        np.array([_headline(run) for run in runs]),
        rates,
        scale,
        has_rows=all(run.curves for run in runs),
        has_revisits=any(has_revisits(run.config.schedule) for run in runs),
    )
    if scale.has_z.any():
        _add_transfer(found, runs, rates, scale, alone)
    return found


def arrays_of_rates(
    seeds: tuple[int | None, ...],
    headlines: Reals,
    rates: Sequence[GameRates],
    scale: Scale,
    *,
    has_rows: bool,
    has_revisits: bool = True,
) -> AgentArrays:
    """Rates of the runs of one agent -> its numbers.

    Args:
        seeds: (R,) of the runs.
        headlines: (R,) of the runs.
        rates: Of the R runs.
        scale: Of the suite's games.
        has_rows: Whether the rates over windows are known.
        has_revisits: Whether a game may come back.
    """
    per_game = {"rate": _stack(rates, "average")}
    found = AgentArrays(seeds, {}, per_game, contest=per_game["rate"])
    _add_headlines(found, headlines)
    if not scale.has_z.any():
        reason = "no game of this suite has z"
        names = ("average", "median", "optimality_gap", "final", *_OF_REVISITS)
        found.absent.update(dict.fromkeys(names, reason))
        return found
    _add_performance(found, rates, scale)
    if has_revisits:
        _add_revisits(found, rates, scale, has_rows=has_rows)
    else:
        found.absent.update(dict.fromkeys(_OF_REVISITS, _NO_REVISITS))
    return found


def _headline(run: MeasuredRun) -> float:
    value = run.score.headline
    return float("nan") if value is None else value


def _add_headlines(found: AgentArrays, headlines: Reals) -> None:
    if np.isnan(headlines).any():
        found.absent["headline"] = "the score.json of a run has null"
    else:
        found.per_run["headline"] = headlines


def _stack(rates: Sequence[GameRates], name: str) -> Reals:
    return np.array([getattr(run, name) for run in rates], np.float64)


def _add_performance(
    found: AgentArrays, rates: Sequence[GameRates], scale: Scale
) -> None:
    z = scale.normalise(_stack(rates, "average"))
    final = scale.normalise(_stack(rates, "final"))
    found.per_game["average"] = z
    known = z[:, scale.has_z]
    found.per_run["average"] = aggregate_games(known)
    found.per_run["median"] = np.median(known, axis=1)
    found.per_run["optimality_gap"] = optimality_gap(known)
    if np.isnan(final[:, scale.has_z]).any():
        found.absent["final"] = _NO_CURVES
    else:
        found.per_game["final"] = final
        found.per_run["final"] = aggregate_games(final[:, scale.has_z])


def _add_revisits(
    found: AgentArrays, rates: Sequence[GameRates], scale: Scale, *, has_rows: bool
) -> None:
    measured = {
        "retention": ("retention", scale.normalise_difference),
        "change_at_revisit": ("forgetting", scale.correct_forgetting),
        "recovery": ("recovery", scale.correct_recovery),
    }
    for name, (rate, normalise) in measured.items():
        differences = _stack(rates, rate)
        values = normalise(differences)
        if not has_rows:
            found.absent[name] = _NO_CURVES
        elif np.isnan(differences).all():
            found.absent[name] = _NO_REVISITS
        elif np.isnan(values).all():
            found.absent[name] = f"the anchors lack the random agent's {METRICS[name]}"
        else:
            _add_mean_over_games(found, name, values, "a run has no revisit")


def _add_mean_over_games(
    found: AgentArrays, name: str, values: Reals, why_not: str
) -> None:
    """Takes each run's mean over the games that have the number, if all runs can."""
    found.per_game[name] = values
    if np.isnan(values).all(axis=1).any():
        found.absent[name] = why_not
    else:
        found.per_run[name] = np.nanmean(values, axis=1)


def _add_transfer(
    found: AgentArrays,
    runs: Sequence[MeasuredRun],
    rates: Sequence[GameRates],
    scale: Scale,
    alone: AloneRate,
) -> None:
    differences = np.array(
        [_transfer_of(run, one, alone) for run, one in zip(runs, rates, strict=True)]
    )
    values = scale.normalise_difference(differences)
    if np.isnan(values).all():
        found.absent["transfer"] = "no run of this agent on a single game was given"
    else:
        why_not = "a run shares no game with the single-game runs"
        _add_mean_over_games(found, "transfer", values, why_not)


def _transfer_of(run: MeasuredRun, rates: GameRates, alone: AloneRate) -> Reals:
    games, schedule = run.config.games, run.config.schedule
    first: dict[str, int] = {}
    for visit in schedule:
        first.setdefault(visit.game_id, visit.visit_frames)
    found = [alone(game, first[game]) if game in first else None for game in games]
    baseline = np.array([np.nan if rate is None else rate for rate in found])
    is_first_game = np.array([game == schedule[0].game_id for game in games])
    return forward_transfer(rates.first_visit, baseline, is_first_game)


# --- runs of an agent on one game alone: the baseline of forward transfer ----------


class SingleGameRuns:
    """The single-game runs among the given runs."""

    def __init__(self, runs: Iterable[MeasuredRun]) -> None:
        self._runs: dict[Any, list[MeasuredRun]] = {}
        for run in runs:
            if len(run.config.games) == 1 and run.curves is not None:
                (game,) = run.config.games
                key = (run.agent, game, _rules_of(run.config, game))
                self._runs.setdefault(key, []).append(run)

    def rates_for(self, run: MeasuredRun) -> AloneRate:
        """Rates of the same agent and settings on single games, mean over runs.

        Single-game runs shorter than the requested length are ignored.
        """

        def find(game: str, frames: int) -> float | None:
            key = (run.agent, game, _rules_of(run.config, game))
            rates = [
                single.curves.rate_of_first(0, frames)
                for single in self._runs.get(key, ())
                if single.curves is not None
            ]
            return mean_or_none([rate for rate in rates if not math.isnan(rate)])

        return find


def _rules_of(config: RunConfig, game: str) -> tuple[Any, ...]:
    """All settings of a run except the schedule, and its emulator and ROM."""
    roms = config.rom_sha256 or config.rom_md5 or {}
    return (
        (config.versions or {}).get("ale_py"),
        roms.get(game),
        config.benchmark_contract_version,
        config.decision_interval,
        config.delay,
        config.sticky,
        config.life_loss_termination,
        config.full_action_space,
        config.frame_skip,
        config.reward,
    )


# --- predictions ------------------------------------------------------------------


def measure_predictions(runs: Sequence[MeasuredRun], error: str) -> AgentArrays:
    """Prediction runs of one agent -> its numbers.

    Args:
        runs: Of one agent under one set of conditions.
        error: `nmse` or `value_nmse`.
    """
    errors = np.array(
        [
            [
                np.nan if (value := per_game.get(game)) is None else value
                for game in run.config.games
            ]
            for run in runs
            for per_game in [getattr(run.score, f"per_game_{error}")]
        ],
        np.float64,
    )
    return arrays_of_errors(
        tuple(run.seed for run in runs),
        errors,
        np.array([_headline(run) for run in runs]),
    )


def arrays_of_errors(
    seeds: tuple[int | None, ...], errors: Reals, headlines: Reals
) -> AgentArrays:
    """Errors of a predictor -> its numbers: (R, G), (R,)."""
    found = AgentArrays(seeds, {}, {"error": errors}, contest=-errors)
    names = ("average", "final", *_OF_REVISITS)
    found.absent.update(dict.fromkeys(names, "predictions have no z"))
    _add_headlines(found, headlines)
    if np.isnan(errors).all(axis=1).any():
        found.absent["error"] = "a run has no game with an error"
    else:
        found.per_run["error"] = np.nanmedian(errors, axis=1)
    return found
