"""Rare colours of two observations -> features: which two colours, how far apart.

A paddle two blocks below a ball is the same feature wherever both are on the screen.
Liang et al. (2016), arXiv 1512.01563, call pairs within one screen PROS (pairwise
relative offsets in space) and pairs of two screens PROT (in time). What differs: there
are 8 colours, as in `features`, not 128, and only the rarest form pairs, because the
number of pairs grows with the square.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from longplay.learners.parts.features import (
    BLOCKS,
    COLOURS,
    COLUMNS,
    FEATURES,
    ROWS,
    Active,
    Floats,
)
from longplay.learners.parts.kernels import compiled

_HEIGHT, _WIDTH = 2 * ROWS - 1, 2 * COLUMNS - 1
_OFFSETS = _HEIGHT * _WIDTH
# Two colours within an observation have no order; now and before do.
_WITHIN = COLOURS * (COLOURS + 1) // 2 * _OFFSETS
# The features of `features` come first.
PAIR_FEATURES = FEATURES + _WITHIN + COLOURS * COLOURS * _OFFSETS
# A colour in a block forms pairs if fewer observations than this share have it, and
# at most so many of them do.
_RARE = 0.5
_MOST_COLOURS = 24


class OffsetFeatures:
    """Finds the pairs of rare colours of each observation, given the one before."""

    SAVED: ClassVar[tuple[str, ...]] = ("last",)

    def __init__(self, most: int) -> None:
        self._found = np.empty(most, np.int64)
        self._is_found = np.zeros(PAIR_FEATURES, np.bool_)
        # The rare colours of the last observation, as features of `features`.
        self.last = np.zeros(0, np.int64)

    def __call__(self, active: Active, rarities: Floats) -> Active:
        """The indices of the pairs: those of the rarest colours, up to `most`.

        Args:
            active: Features of `features`, the rarest first.
            rarities: Their weights.
        """
        is_rare = (rarities > _RARE) & (active < BLOCKS * COLOURS)
        rare = active[is_rare][:_MOST_COLOURS]
        count = _find_pairs(rare, self.last, self._is_found, self._found)
        self.last = rare
        return self._found[:count]

    def restart(self) -> None:
        """Nothing precedes the next observation."""
        self.last = self.last[:0]


@compiled
def _find_pairs(now: Active, last: Active, is_found: Active, found: Active) -> int:
    """Fills `found`, without repetition; `is_found` is all False before and after."""
    count = 0
    for u in range(len(now)):
        for v in range(u):
            first, second = min(now[u], now[v]), max(now[u], now[v])
            if first % COLOURS > second % COLOURS:
                first, second = second, first
            a, b = first % COLOURS, second % COLOURS
            kind = a * (2 * COLOURS - a - 1) // 2 + b
            pair = FEATURES + kind * _OFFSETS + _find_offset(first, second)
            if count < len(found) and not is_found[pair]:
                is_found[pair] = True
                found[count] = pair
                count += 1
        for v in range(len(last)):
            kind = now[u] % COLOURS * COLOURS + last[v] % COLOURS
            pair = FEATURES + _WITHIN + kind * _OFFSETS + _find_offset(now[u], last[v])
            if count < len(found) and not is_found[pair]:
                is_found[pair] = True
                found[count] = pair
                count += 1
    for k in range(count):
        is_found[found[k]] = False
    return count


@compiled
def _find_offset(first: int, second: int) -> int:
    """From the block of one feature to that of another: 0 … `_OFFSETS` - 1."""
    here, there = first // COLOURS, second // COLOURS
    rows = there // COLUMNS - here // COLUMNS + ROWS - 1
    columns = there % COLUMNS - here % COLUMNS + COLUMNS - 1
    return rows * _WIDTH + columns
