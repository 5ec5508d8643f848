"""Suite + seed -> the visits of a run, in order. Pure.

The draws are part of the contract: one generator per run; per cycle one shuffle of
the games in configured order, then one uniform number per visit if there is jitter.
A suite without `shuffle_games` has one fixed order: nothing is shuffled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from longplay.contract.config import ScheduledVisit

if TYPE_CHECKING:
    from longplay.suites import Suite


def make_schedule(suite: Suite, seed: int) -> list[ScheduledVisit]:
    """Draws the realised schedule of a suite for one seed."""
    return [
        ScheduledVisit(
            visit_idx=visit_idx,
            cycle_idx=cycle_idx,
            game_id=game_id,
            visit_frames=visit_frames,
        )
        for visit_idx, (cycle_idx, game_id, visit_frames) in enumerate(
            draw_visits(suite, seed)
        )
    ]


def draw_visits(suite: Suite, seed: int) -> Iterator[tuple[int, str, int]]:
    """Draws the cycle, the game and the length of every visit, in order."""
    rng = np.random.default_rng(seed)
    for cycle_idx in range(suite.num_cycles):
        games = list(suite.games)
        if suite.shuffle_games:
            rng.shuffle(games)
        for game_id in games:
            yield cycle_idx, game_id, _draw_visit_frames(suite, rng)


def _draw_visit_frames(suite: Suite, rng: np.random.Generator) -> int:
    frames = suite.base_visit_frames
    if suite.jitter_pct > 0:
        u = rng.uniform(-suite.jitter_pct, suite.jitter_pct)
        frames = round(suite.base_visit_frames * (1 + u))
    return max(suite.min_visit_frames, frames)
