"""The curves of a probe -> probe.json: how well a state of an agent plays each game.

    control, streaming   x = delivered reward per frame of the branch
    prediction           x = -(mean squared error of the branch) / (variance of the
                         targets over all branches of the game); null where that is
                         below 1e-6

Branches of one game show the same streams to every state of an agent, so the variance
is the same number for all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from longplay.contract.config import RunConfig
from longplay.contract.documents import BranchResult, ProbeRecord
from longplay.contract.rows import CurveRow
from longplay.errors import DocumentError
from longplay.scoring.values import SMALLEST_VARIANCE

PROBE_FILE = "probe.json"


def compute_probe(config: RunConfig, rows: Sequence[CurveRow]) -> ProbeRecord:
    """The result of a probe.

    Raises:
        DocumentError: It is not a probe, or a branch has no row.
    """
    if config.probe is None:
        raise DocumentError("config.json probe: expected the probe, found none")
    if len(rows) != len(config.schedule):
        raise DocumentError(
            f"curves.jsonl: expected {len(config.schedule)} branches, found {len(rows)}"
        )
    spreads = _spreads(rows)
    return ProbeRecord(
        state=config.probe.state,
        branches=tuple(
            BranchResult(
                visit_idx=row.visit_idx,
                game_id=row.game_id,
                branch=row.cycle_idx,
                x=_measure(row, spreads.get(row.game_id)),
            )
            for row in rows
        ),
    )


def _measure(row: CurveRow, spread: float | None) -> float | None:
    if row.squared_error_sums is None:
        return math.fsum(row.reward_sums) / row.frames
    if spread is None:
        return None
    return -math.fsum(row.squared_error_sums) / row.frames / spread


def _spreads(rows: Sequence[CurveRow]) -> dict[str, float]:
    """Game -> variance of its targets; without those where it is negligible."""
    games: dict[str, list[CurveRow]] = {}
    for row in rows:
        if row.target_sums is not None:
            games.setdefault(row.game_id, []).append(row)
    spreads = {game: _spread(branches) for game, branches in games.items()}
    return {g: spread for g, spread in spreads.items() if spread >= SMALLEST_VARIANCE}


def _spread(rows: Sequence[CurveRow]) -> float:
    count = sum(row.frames for row in rows)
    mean = math.fsum(x for row in rows for x in row.target_sums or ()) / count
    squares = math.fsum(x for row in rows for x in row.squared_target_sums or ())
    return squares / count - mean**2
