"""Branches of a run's probes -> what its agent has learned, kept and forgotten.

R[i, g] is the mean over branches of x, the result of game g after visit i; R[fresh, g]
that of the agent as it was built. Per run:

    learned       R[i, g] - R[fresh, g], i a visit of g
    forgetting    R[i, g] - R[j, g], i a visit of g, j the visit before g's next one, or
                  the last visit of the run; only where j > i
    share         sum of forgetting / sum of learned over the pairs that have both; none
                  where the sum of learned is not above two standard errors
    transfer      R[j, g] - R[fresh, g], j the visit before g's first one; not for the
                  first game of the run

Standard errors are those of the branches, from differences paired by branch: they say
how well this run's numbers are known, not how much they differ from run to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longplay.contract.config import ScheduledVisit
from longplay.probes import FRESH

Reals = NDArray[np.float64]
# (state, game) -> (K,) results of its branches.
Matrix = Mapping[tuple[str, str], Reals]

# The kinds of pairs.
KINDS = ("learned", "forgetting", "transfer")

# The sum of learned must be above this many standard errors to be divided by.
SIGNIFICANT_ERRORS = 2.0


@dataclass(frozen=True)
class Amount:
    """A difference between two states, and its standard error over branches."""

    mean: float
    error: float


@dataclass(frozen=True)
class Pair:
    """Two states of an agent, asked for the same game.

    Attributes:
        game: The game.
        state: One state.
        other: The state it is compared with.
        difference: (K,) results of `state` minus those of `other`, branch by branch.
    """

    game: str
    state: str
    other: str
    difference: Reals

    @property
    def amount(self) -> Amount:
        """Its mean over branches."""
        return _sum_up([self])


@dataclass(frozen=True)
class Memory:
    """The pairs of one run.

    Attributes:
        learned: A visit of a game compared with `fresh`.
        forgetting: A visit of a game compared with the state before the next one.
        transfer: The state before a game's first visit compared with `fresh`.
    """

    learned: tuple[Pair, ...]
    forgetting: tuple[Pair, ...]
    transfer: tuple[Pair, ...]

    def mean(self, kind: str) -> Amount | None:
        """The mean over pairs of a kind; None without any."""
        pairs = getattr(self, kind)
        if not pairs:
            return None
        total = _sum_up(pairs)
        return Amount(total.mean / len(pairs), total.error / len(pairs))

    @property
    def sums(self) -> tuple[float, float]:
        """Sums of forgetting and of learned, over the pairs that have both."""
        return _sum_up(self.forgetting).mean, _sum_up(self._learned_before()).mean

    @property
    def share_forgotten(self) -> float | None:
        """Sum of forgetting / sum of learned; None where too little was learned."""
        learned = _sum_up(self._learned_before())
        if learned.mean <= SIGNIFICANT_ERRORS * learned.error:
            return None
        return _sum_up(self.forgetting).mean / learned.mean

    def _learned_before(self) -> list[Pair]:
        """What was learned by the visits of which something can be forgotten."""
        visits = {(pair.game, pair.state) for pair in self.forgetting}
        return [pair for pair in self.learned if (pair.game, pair.state) in visits]


def find_memory(
    schedule: Sequence[ScheduledVisit],
    matrix: Matrix,
    spans: Mapping[str, float] | None = None,
) -> Memory:
    """The pairs of one run.

    Args:
        schedule: Its visits.
        matrix: The results of its probes; cells that were not asked for are missing.
        spans: Game -> u - b, by which results are divided; games without one are left
            out. None leaves results as they are.
    """
    learned, forgetting, transfer = [], [], []
    last = len(schedule) - 1
    for i, visit in enumerate(schedule):
        game, state = visit.game_id, f"visit-{i}"
        later = [k for k in range(i + 1, last + 1) if schedule[k].game_id == game]
        is_first = all(other.game_id != game for other in schedule[:i])
        learned.append((game, state, FRESH))
        kept_until = later[0] - 1 if later else last
        if kept_until > i:
            forgetting.append((game, state, f"visit-{kept_until}"))
        if is_first and i > 0:
            transfer.append((game, f"visit-{i - 1}", FRESH))
    return Memory(
        *(
            tuple(pair for place in places if (pair := _pair(place, matrix, spans)))
            for places in (learned, forgetting, transfer)
        )
    )


def _pair(
    place: tuple[str, str, str], matrix: Matrix, spans: Mapping[str, float] | None
) -> Pair | None:
    game, state, other = place
    one, two = matrix.get((state, game)), matrix.get((other, game))
    if one is None or two is None or (spans is not None and game not in spans):
        return None
    return Pair(
        game, state, other, (one - two) / (1.0 if spans is None else spans[game])
    )


def _sum_up(pairs: Sequence[Pair]) -> Amount:
    """The sum over pairs of their means.

    Pairs of one game may share a state, so their branches are added before the error is
    taken; games are independent.
    """
    games: dict[str, Reals] = {}
    for pair in pairs:
        games[pair.game] = games.get(pair.game, 0.0) + pair.difference
    sums = list(games.values())
    variance = sum(float(x.var(ddof=1)) / len(x) for x in sums if len(x) > 1)
    return Amount(float(sum(x.mean() for x in sums)), variance**0.5)
