"""One run -> its rates per game, the basis of every number of a comparison.

Rates are delivered reward per frame, one column per game in the order of the suite.
Whole visits come from run_summary.json; values over windows come from `Curves` and are
NaN without rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longplay.contract.config import ScheduledVisit
from longplay.contract.curves import FIRST_HALF, HEAD, SECOND_HALF, TAIL, Curves, ratio
from longplay.lab.analysis import transfer
from longplay.scoring.rates import VisitTotals

Reals = NDArray[np.float64]


@dataclass(frozen=True)
class GameRates:
    """The rates of one run, (games,) each; NaN where a game has none.

    Attributes:
        average: Over all frames of the game.
        final: Over the second half of its last visit.
        first_visit: Over its first visit.
        retention: Head of the revisits minus head of the first visit.
        forgetting: Tail before minus head after, over revisits: the change at revisit
            before the random agent's is subtracted.
        recovery: Tail before minus first half after, over revisits.
    """

    average: Reals
    final: Reals
    first_visit: Reals
    retention: Reals
    forgetting: Reals
    recovery: Reals


def has_revisits(schedule: Sequence[ScheduledVisit]) -> bool:
    """Whether a game comes back after a visit of another one."""
    last: dict[str, int] = {}
    for visit in schedule:
        if visit.visit_idx > last.get(visit.game_id, visit.visit_idx) + 1:
            return True
        last[visit.game_id] = visit.visit_idx
    return False


def measure_games(
    schedule: Sequence[ScheduledVisit],
    games: Sequence[str],
    totals: VisitTotals,
    curves: Curves | None,
) -> GameRates:
    """Computes the rates of a whole run.

    Args:
        schedule: Its V visits.
        games: Columns of the result.
        totals: Of the V visits.
        curves: Of the V visits; None without rows.
    """
    visits = {g: [v.visit_idx for v in schedule if v.game_id == g] for g in games}
    whole = ratio(totals.rewards, totals.frames)
    nothing = np.full(len(games), np.nan)
    average = totals.rates_by_game(games)
    first_visit = np.array([whole[v[0]] if v else np.nan for v in visits.values()])
    if curves is None:
        return GameRates(average, nothing, first_visit, nothing, nothing, nothing)
    head, tail = curves.rates(HEAD), curves.rates(TAIL)
    first_half, second_half = curves.rates(FIRST_HALF), curves.rates(SECOND_HALF)
    rows = np.full((4, len(games)), np.nan)
    for column, indices in enumerate(visits.values()):
        v = np.array(indices, np.int64)
        if len(v):
            rows[:, column] = (
                second_half[v[-1]],
                transfer.retention(head[v], v),
                transfer.change_at_revisit(tail[v], head[v], v),
                transfer.recovery_cost(tail[v], first_half[v], v),
            )
    final, retention, forgetting, recovery = rows
    return GameRates(average, final, first_visit, retention, forgetting, recovery)
