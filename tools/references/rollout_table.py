"""Facts about rollout values -> the table of docs/prediction.md.

The value network is in it as a *privileged predictor*: it sees the console's RAM and
was fitted to half a million timesteps of the same policy before its first prediction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from longplay.errors import DocumentError
from longplay.lab.analysis.intervals import estimate_mean
from longplay.reference.facts import R2Interval, RolloutFacts
from longplay.reference.library import find_data, read_all_facts, read_facts
from longplay.reference.rollout_file import (
    RolloutValues,
    read_visit_rollouts,
    rollouts_name,
)
from longplay.reference.streams import find_recorded_visit
from longplay.scoring.metrics import median_or_none
from longplay.scoring.values import normalised_value_error

# The target R² of every game.
_WEAK = 0.85

_HEAD = (
    "| game | K | h | R² of rollout values | R² of the network "
    "| value_nmse of the network |\n|---|--:|--:|--:|--:|--:|\n"
)


@dataclass(frozen=True)
class RolloutRow:
    """A game of the table.

    Attributes:
        game: Its name.
        facts: Facts about its rollout values.
        network_nmse: value_nmse of the value network, per seed.
    """

    game: str
    facts: RolloutFacts
    network_nmse: tuple[float | None, ...]


@dataclass(frozen=True)
class PredictedVisit:
    """The measured states of a visit, and their values by the value network."""

    values: RolloutValues
    network: NDArray[np.float64]


def read_predicted_visits(
    game_id: str, facts: RolloutFacts, data: Path | None = None
) -> list[PredictedVisit]:
    """The visits of a game that have rollout values, seed by seed.

    Raises:
        DocumentError: A visit was not recorded, or a file is damaged.
    """
    visits = []
    for seed, values in read_rollouts(game_id, data).items():
        recorded = find_recorded_visit(game_id, seed, facts.visit_idx, data)
        if recorded is None:
            raise DocumentError(
                f"{game_id}.streams.json seeds: expected {seed}, which has rollout "
                f"values; `python -m references record --game {game_id}` records it"
            )
        network = recorded.values[values.timesteps].astype(np.float64)
        visits.append(PredictedVisit(values, network))
    return visits


def read_rows(data: Path | None = None) -> list[RolloutRow]:
    """The games that have rollout values, in the track's order."""
    rows = []
    for known in read_all_facts(data):
        if known.rollouts is not None:
            visits = read_predicted_visits(known.game, known.rollouts, data)
            errors = [normalised_value_error(v.network, v.values) for v in visits]
            rows.append(RolloutRow(known.game, known.rollouts, tuple(errors)))
    return rows


def read_rollouts(game_id: str, data: Path | None = None) -> dict[int, RolloutValues]:
    """Seed -> the rollout values of its visit; empty for a game without any.

    Raises:
        DocumentError: A file is missing or damaged.
    """
    folder = data or find_data()
    facts = read_facts(game_id, folder).rollouts
    if facts is None:
        return {}
    path = folder / rollouts_name(game_id)
    return {seed: read_visit_rollouts(path, facts, seed) for seed in facts.seeds}


def render_rollouts(rows: Sequence[RolloutRow]) -> str:
    """A markdown table, one row per game, and the medians."""
    if not rows:
        return "Not measured yet.\n"
    r2s = [row.facts.audit.r2 for row in rows]
    median = median_or_none([r2 for r2 in r2s if r2 is not None])
    weak = [row.game for row in rows if (row.facts.audit.r2 or 0) < _WEAK]
    words = "–" if median is None else f"{median:.2f}"
    noun = "game" if len(rows) == 1 else "games"
    return (
        _HEAD
        + "".join(map(_render_row, rows))
        + f"\nMedian R² of the rollout values over {len(rows)} {noun}: {words}. "
        f"Below {_WEAK}: {', '.join(weak) or 'none'}.\n"
    )


def _render_row(row: RolloutRow) -> str:
    facts, audit = row.facts, row.facts.audit
    rollouts = R2Interval(r2=audit.r2, low=audit.low, high=audit.high)
    cells = (
        row.game,
        str(facts.continuations),
        str(facts.horizon_timesteps),
        _describe_r2(rollouts),
        _describe_r2(audit.network),
        _describe_seeds(row.network_nmse),
    )
    return f"| {' | '.join(cells)} |\n"


def _describe_r2(found: R2Interval) -> str:
    """`0.94 (0.90 … 0.97)`; a dash where states do not differ enough."""
    if found.r2 is None:
        return "–"
    return f"{found.r2:.2f} ({found.low:.2f} … {found.high:.2f})"


def _describe_seeds(errors: Sequence[float | None]) -> str:
    """The mean over seeds, its 95 % interval, and how many seeds have no value."""
    known = [error for error in errors if error is not None]
    mean = estimate_mean(known)
    if mean is None:
        return "–"
    missing = len(errors) - len(known)
    words = f"{mean.mean:.3f}"
    if mean.half_width is not None:
        words += f" ± {mean.half_width:.3f}"
    return f"{words}, null on {missing}" if missing else words
