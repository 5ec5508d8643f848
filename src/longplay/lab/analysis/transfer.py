"""Rates within the visits of one game -> retention, change at revisit and transfer.

All arrays are about the K visits of one game in one run, in order:

    head         (K,) rate over the first tenth of each visit
    tail         (K,) rate over the last tenth
    first_half   (K,) rate over the first half
    visit_idx    (K,) position of the visit in the schedule

Rates are reward per frame. `normalisation.py` brings the differences onto the scale of
z and subtracts the random agent's own differences. A number without a revisit is NaN.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Reals = NDArray[np.float64]
Ints = NDArray[np.int64]


def find_revisits(visit_idx: Ints) -> NDArray[np.bool_]:
    """(K,) -> (K - 1,): whether other visits lie between visits j and j + 1.

    Two visits next to each other in the schedule are one long visit.
    """
    return np.diff(visit_idx) > 1


def retention(head: Reals, visit_idx: Ints) -> float:
    """Mean over revisits of their head minus the head of the first visit.

    Both windows begin at a reset, so a reset cannot look like forgetting.
    """
    return _mean((head[1:] - head[:1])[find_revisits(visit_idx)])


def change_at_revisit(tail: Reals, head: Reals, visit_idx: Ints) -> float:
    """Mean over revisits of the tail before minus the head after.

    It mixes what the agent forgot with the restart of the game.
    """
    return _mean((tail[:-1] - head[1:])[find_revisits(visit_idx)])


def recovery_cost(tail: Reals, first_half: Reals, visit_idx: Ints) -> float:
    """Mean over revisits of the tail before minus the first half after."""
    return _mean((tail[:-1] - first_half[1:])[find_revisits(visit_idx)])


def _mean(values: Reals) -> float:
    return float(values.mean()) if len(values) else float("nan")


def forward_transfer(
    first: Reals, alone: Reals, is_first_game: NDArray[np.bool_]
) -> Reals:
    """The effect of earlier games on the first visit of each game.

    Args:
        first: (games,) rate of a game's first visit.
        alone: (games,) rate of a fresh agent on that game alone for as many frames; NaN
            where there is no such run.
        is_first_game: (games,) whether the run begins with the game: nothing was
            played before it.

    Returns:
        (games,) difference of rates; NaN where it has none.
    """
    return np.where(is_first_game, np.nan, first - alone)
