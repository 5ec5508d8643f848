"""The prediction score: errors of predictions against reference values and returns.

Per game, over all rows of its visits, in float64 and with exactly rounded sums:

    mse         mean of (prediction - target)²
    nmse        mse / population variance of the targets: 1 for the best constant; null
                where the targets are all equal or their variance is below 1e-6
    return_mse  mean of (prediction - return)² over the rows whose return is known, up
                to each visit's last game over; null without one

Where the run's visits have rollout values, there are errors against these as well: see
`longplay.scoring.values`.

The return of a row is the discounted sum of the rewards from that row to the end of its
game episode, both included. The run's numbers are means over games, without nulls. The
keys of v1 are computed too, on delivered rewards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longplay.contract.documents import PredictionScore
from longplay.errors import DocumentError
from longplay.reference.rollout_file import RolloutValues, find_rollouts
from longplay.scoring.metrics import mean_or_none, median_or_none
from longplay.scoring.play import Play, PlayedVisit
from longplay.scoring.streaming import compute_score as compute_streaming_score
from longplay.scoring.values import (
    SMALLEST_VARIANCE,
    normalised_value_error,
    value_error,
)

Reals = NDArray[np.float64]


def sum_squares(differences: Reals) -> float:
    """Sum of squares, exactly rounded."""
    return math.fsum(differences**2)


def from_mean(targets: Reals) -> Reals:
    """Differences from the mean."""
    return targets - math.fsum(targets) / len(targets)


def mean_squared_error(predictions: Reals, truth: Reals) -> float:
    """Mean of squared differences, (n,) each."""
    return sum_squares(predictions - truth) / len(truth)


def normalised_error(predictions: Reals, targets: Reals) -> float | None:
    """Squared error / variance of the targets; None if that is negligible."""
    variance = sum_squares(from_mean(targets)) / len(targets)
    if targets.max() == targets.min() or variance < SMALLEST_VARIANCE:
        return None
    return mean_squared_error(predictions, targets) / variance


def discounted_returns(
    rewards: Reals, ends: NDArray[np.bool_], discount: float
) -> Reals:
    """Returns of the rows up to the last end; those after it are unknown.

    Args:
        rewards: (n,) delivered rewards.
        ends: (n,) whether a game episode ended with the row.
        discount: Weight of the next row's return.

    Returns:
        (k,) where row k - 1 is the last that ends an episode; k is 0 without one.
    """
    known = int(np.flatnonzero(ends)[-1]) + 1 if ends.any() else 0
    returns, following = np.zeros(known), 0.0
    for row in reversed(range(known)):
        following = rewards[row] + (0.0 if ends[row] else discount * following)
        returns[row] = following
    return returns


@dataclass(frozen=True)
class VisitForecasts:
    """Predictions and true values of one visit of n rows.

    Attributes:
        predictions: (n,) the agent's predictions.
        targets: (n,) reference values.
        ends: (n,) whether a game episode ended with the row.
        returns: (k,) returns of the first k rows; the others are unknown.
    """

    predictions: Reals
    targets: Reals
    ends: NDArray[np.bool_]
    returns: Reals


def collect_forecasts(play: Play, visit: PlayedVisit) -> VisitForecasts:
    """Predictions, targets and returns of one visit.

    Raises:
        DocumentError: It is not a prediction run.
    """
    if play.forecasts is None:
        raise DocumentError("events.jsonl: expected predictions and targets")
    rows = slice(visit.span.start, visit.span.end + 1)
    ends = np.zeros(visit.span.length, np.bool_)
    in_visit = play.terminated_ends - visit.span.start
    ends[in_visit[(in_visit >= 0) & (in_visit < len(ends))]] = True
    discount = play.config.discount
    if discount is None:
        raise DocumentError("config.json discount: expected a number, found none")
    return VisitForecasts(
        play.forecasts.predictions[rows],
        play.forecasts.targets[rows],
        ends,
        discounted_returns(play.rewards.spread(visit.span), ends, discount),
    )


@dataclass(frozen=True)
class GameForecasts:
    """Predictions and true values of all n rows of a game's visits.

    Attributes:
        predictions: (n,) the agent's predictions.
        targets: (n,) reference values.
        return_predictions: (k,) the predictions of the rows whose return is known.
        returns: (k,) their returns.
    """

    predictions: Reals
    targets: Reals
    return_predictions: Reals
    returns: Reals


def pool_forecasts(play: Play, game_id: str) -> GameForecasts | None:
    """Predictions, targets and returns of a game; None if it was not played.

    Raises:
        DocumentError: It is not a prediction run.
    """
    found = [collect_forecasts(play, visit) for visit in play.visits_of(game_id)]
    if not found:
        return None
    return GameForecasts(
        np.concatenate([visit.predictions for visit in found]),
        np.concatenate([visit.targets for visit in found]),
        np.concatenate([visit.predictions[: len(visit.returns)] for visit in found]),
        np.concatenate([visit.returns for visit in found]),
    )


@dataclass(frozen=True)
class _GameErrors:
    mse: float
    nmse: float | None
    return_mse: float | None


def _score_game(rows: GameForecasts) -> _GameErrors:
    return_mse = None
    if len(rows.returns):
        return_mse = mean_squared_error(rows.return_predictions, rows.returns)
    return _GameErrors(
        mean_squared_error(rows.predictions, rows.targets),
        normalised_error(rows.predictions, rows.targets),
        return_mse,
    )


class SquaredSum(NamedTuple):
    """One of the sums behind a game's errors."""

    differences: str
    timesteps: int
    total: float

    @property
    def mean(self) -> float | None:
        """None without timesteps."""
        return self.total / self.timesteps if self.timesteps else None


def explain_game(play: Play, game_id: str) -> list[SquaredSum]:
    """The sums behind a game's errors; empty if the game was not played."""
    found = pool_forecasts(play, game_id)
    if found is None:
        return []
    differences = {
        "prediction - value": found.predictions - found.targets,
        "value - mean value": from_mean(found.targets),
        "prediction - return": found.return_predictions - found.returns,
    }
    sums = [
        SquaredSum(name, len(rows), sum_squares(rows))
        for name, rows in differences.items()
    ]
    rollouts = find_rollouts(play.config)
    values = None if rollouts is None else rollouts.games.get(game_id)
    if values is not None:
        sums += _explain_values(found.predictions[values.timesteps], values)
    return sums


def _explain_values(predictions: Reals, values: RolloutValues) -> list[SquaredSum]:
    """value_mse is the first mean minus the last, D the second minus the last."""
    states = len(predictions)
    return [
        SquaredSum(name, states, total)
        for name, total in (
            ("prediction - rollout value", sum_squares(predictions - values.means)),
            ("rollout value - mean", sum_squares(from_mean(values.means))),
            ("sampling error of rollouts", math.fsum(values.noise)),
        )
    ]


def compute_score(play: Play) -> PredictionScore:
    """Computes every number of a prediction run's score.json.

    Raises:
        DocumentError: It is not a prediction run.
    """
    errors = {
        game: _score_game(rows)
        for game in dict.fromkeys(visit.visit.game_id for visit in play.visits)
        if (rows := pool_forecasts(play, game)) is not None
    }
    nmse = [e.nmse for e in errors.values() if e.nmse is not None]
    return_mse = [e.return_mse for e in errors.values() if e.return_mse is not None]
    return PredictionScore(
        **compute_streaming_score(play).model_dump(),
        mse=mean_or_none([e.mse for e in errors.values()]),
        per_game_mse={game: e.mse for game, e in errors.items()},
        nmse=mean_or_none(nmse),
        per_game_nmse={game: e.nmse for game, e in errors.items()},
        median_nmse=median_or_none(nmse),
        return_mse=mean_or_none(return_mse),
        per_game_return_mse={game: e.return_mse for game, e in errors.items()},
        **_compare_with_rollouts(play),
    )


def _compare_with_rollouts(play: Play) -> dict[str, Any]:
    """The keys of errors against rollout values; empty without rollouts."""
    rollouts = find_rollouts(play.config)
    if rollouts is None:
        return {}
    compared = {
        visit.visit.game_id: (_predictions_for(play, visit, values), values)
        for visit in play.visits
        if (values := rollouts.games.get(visit.visit.game_id)) is not None
    }
    mse = {game: value_error(*both) for game, both in compared.items()}
    nmse = {game: normalised_value_error(*both) for game, both in compared.items()}
    known = [error for error in nmse.values() if error is not None]
    return {
        "value_mse": mean_or_none(list(mse.values())),
        "per_game_value_mse": mse,
        "value_nmse": mean_or_none(known),
        "per_game_value_nmse": nmse,
        "median_value_nmse": median_or_none(known),
        "value_states": sum(len(values.timesteps) for _, values in compared.values()),
        "rollouts_sha256": rollouts.sha256,
    }


def _predictions_for(play: Play, visit: PlayedVisit, values: RolloutValues) -> Reals:
    """The predictions for the states that have a rollout value."""
    forecasts = collect_forecasts(play, visit)
    return forecasts.predictions[values.timesteps]
