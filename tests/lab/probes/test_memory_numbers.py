"""Learned, forgetting, share and transfer, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from longplay.contract.config import ScheduledVisit
from longplay.lab.probes.memory import Matrix, find_memory
from longplay.probes import choose_cells


def make_schedule(games: str) -> list[ScheduledVisit]:
    return [
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=game, visit_frames=9)
        for k, game in enumerate(games)
    ]


def make_matrix(cells: dict[tuple[str, str], list[float]]) -> Matrix:
    return {place: np.array(values) for place, values in cells.items()}


def test_due_cells_are_the_last_game_and_the_next() -> None:
    assert choose_cells(make_schedule("abca"), "abc") == {
        "fresh": ("a", "b", "c"),
        "visit-0": ("a", "b"),
        "visit-1": ("b", "c"),
        "visit-2": ("a", "c"),
        "visit-3": ("a", "b", "c"),
    }
    everything = choose_cells(make_schedule("ab"), "ab", "all")
    assert set(everything.values()) == {("a", "b")}


# Two games, two cycles; two branches per cell.
CELLS = {
    ("fresh", "a"): [0.0, 1.0],
    ("fresh", "b"): [1.0, 1.0],
    ("visit-0", "a"): [4.0, 5.0],
    ("visit-0", "b"): [2.0, 4.0],
    ("visit-1", "b"): [7.0, 7.0],
    ("visit-1", "a"): [2.0, 1.0],
    ("visit-2", "a"): [6.0, 7.0],
    ("visit-2", "b"): [6.0, 6.0],
    ("visit-3", "a"): [5.0, 6.0],
    ("visit-3", "b"): [9.0, 9.0],
}


def test_by_hand() -> None:
    found = find_memory(make_schedule("abab"), make_matrix(CELLS))
    learned = [(p.game, p.state, p.amount.mean) for p in found.learned]
    assert learned == [
        ("a", "visit-0", 4.0),
        ("b", "visit-1", 6.0),
        ("a", "visit-2", 6.0),
        ("b", "visit-3", 8.0),
    ]
    # After visit 0, a is played again after visit 1; after visit 2, never again.
    forgotten = [(p.game, p.state, p.other, p.amount.mean) for p in found.forgetting]
    assert forgotten == [
        ("a", "visit-0", "visit-1", 3.0),
        ("b", "visit-1", "visit-2", 1.0),
        ("a", "visit-2", "visit-3", 1.0),
    ]
    assert [(p.game, p.amount.mean) for p in found.transfer] == [("b", 2.0)]
    forgetting = found.mean("forgetting")
    assert forgetting is not None
    assert forgetting.mean == pytest.approx(5 / 3)
    # Branches of a: 2 + 1 and 4 + 1, of b 1 and 1; their mean is 5, the error is that
    # of a's 3 and 5, which is 1.
    assert forgetting.error == pytest.approx(1 / 3)
    assert found.sums == (5.0, 16.0)
    assert found.share_forgotten == pytest.approx(5 / 16)


def test_games_are_scaled_and_those_without_a_span_left_out() -> None:
    found = find_memory(make_schedule("abab"), make_matrix(CELLS), {"a": 2.0})
    assert {pair.game for pair in found.learned} == {"a"}
    assert [pair.amount.mean for pair in found.forgetting] == [1.5, 0.5]


def test_cells_that_were_not_asked_for_give_no_pair() -> None:
    cells = {k: v for k, v in CELLS.items() if k != ("visit-1", "a")}
    found = find_memory(make_schedule("abab"), make_matrix(cells))
    assert [pair.game for pair in found.forgetting] == ["b", "a"]


def test_adjacent_visits_of_one_game_cannot_forget_in_between() -> None:
    cells = {(state, "a"): [1.0, 2.0] for state in ("fresh", "visit-0", "visit-1")}
    found = find_memory(make_schedule("aa"), make_matrix(cells))
    assert found.forgetting == ()
    assert found.mean("forgetting") is None
    assert found.share_forgotten is None


def test_share_needs_something_learned() -> None:
    noisy = {**CELLS, ("fresh", "a"): [-40.0, 49.0]}
    assert (
        find_memory(make_schedule("abab"), make_matrix(noisy)).share_forgotten is None
    )
