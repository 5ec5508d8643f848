"""What is printed about rollout values, and what can be told by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longplay.reference.facts import R2Interval, RolloutAudit, RolloutFacts
from longplay.reference.library import DATA, read_all_facts
from longplay.scoring.values import has_spread, normalised_value_error, value_spread
from references.reference_tables import fill_marked
from references.rollout_table import (
    RolloutRow,
    read_predicted_visits,
    read_rows,
    render_rollouts,
)

PAGE = Path(__file__).parents[3] / "docs/prediction.md"
SHIPPED = {f.game: f.rollouts for f in read_all_facts(DATA) if f.rollouts is not None}


def make_facts(r2: float | None) -> RolloutFacts:
    low, high = (None, None) if r2 is None else (r2 - 0.1, r2 + 0.05)
    return RolloutFacts(
        rollouts_sha256="0" * 64,
        reference_sha256="0" * 64,
        visit_idx=0,
        visit_timesteps=10_000,
        every_timesteps=40,
        seeds=(0, 1),
        continuations=8,
        horizon_timesteps=100,
        audit=RolloutAudit(
            states=105,
            continuations=8,
            horizon_timesteps=500,
            r2=r2,
            low=low,
            high=high,
            bias=0.0,
            rmse_corrected=0.1,
            network=R2Interval(r2=0.5, low=0.25, high=0.75),
        ),
    )


def test_rows_are_filled_from_the_facts() -> None:
    rows = [
        RolloutRow("pong", make_facts(0.9), (0.5, 0.25, 0.75)),
        RolloutRow("qbert", make_facts(0.8), (None, 0.5)),
        RolloutRow("krull", make_facts(None), (None, None)),
    ]
    table = render_rollouts(rows).splitlines()
    network = "0.50 (0.25 … 0.75)"
    assert table[2:5] == [
        f"| pong | 8 | 100 | 0.90 (0.80 … 0.95) | {network} | 0.500 ± 0.621 |",
        f"| qbert | 8 | 100 | 0.80 (0.70 … 0.85) | {network} | 0.500, null on 1 |",
        f"| krull | 8 | 100 | – | {network} | – |",
    ]
    assert table[6] == (
        "Median R² of the rollout values over 3 games: 0.85. Below 0.85: qbert, krull."
    )


def test_no_table_without_games() -> None:
    assert render_rollouts([]) == "Not measured yet.\n"


def test_the_printed_table_is_that_of_the_shipped_facts() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert fill_marked(page, "rollouts", render_rollouts(read_rows(DATA))) == page, (
        "run `python -m references rollouts … --page docs/prediction.md`"
    )


@pytest.mark.parametrize("game", SHIPPED)
def test_shipped_rollouts_meet_the_targets(game: str) -> None:
    facts = SHIPPED[game]
    assert facts.seeds == (0, 1, 2, 3, 4)
    assert facts.continuations >= 8
    assert facts.horizon_timesteps >= 100
    assert facts.audit.states >= 100
    assert facts.audit.continuations >= 8
    for visit in read_predicted_visits(game, facts, DATA):
        assert visit.values.timesteps.tolist() == list(range(0, 10_000, 40))


@pytest.mark.parametrize("game", SHIPPED)
def test_noise_on_the_network_is_ordered_by_size(game: str) -> None:
    """Over five seeds, on every game whose states differ enough to have an error."""
    rng = np.random.default_rng(0)
    visits = read_predicted_visits(game, SHIPPED[game], DATA)
    visits = [visit for visit in visits if has_spread(visit.values)]
    means = []
    for size in (0.0, 0.3, 0.6, 1.2):
        errors = [
            normalised_value_error(
                visit.network
                + size
                * np.sqrt(value_spread(visit.values))
                * rng.normal(size=len(visit.network)),
                visit.values,
            )
            for visit in visits
        ]
        means.append(np.mean([error for error in errors if error is not None]))
    assert not visits or means == sorted(means)
