"""Probes of several runs -> numbers with intervals that cover as they say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longplay.contract.config import ScheduledVisit
from longplay.errors import DocumentError
from longplay.lab.analysis.intervals import estimate_ratio
from longplay.lab.probes.memory import Matrix, find_memory
from longplay.lab.probes.numbers import Probed, estimate_memory, measure_memory
from longplay.lab.probes.reading import RunProbes

BRANCHES = 8


def make_schedule(games: str) -> list[ScheduledVisit]:
    return [
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=game, visit_frames=9)
        for k, game in enumerate(games)
    ]


def make_probed(
    seed: int, games: str, matrix: Matrix, spans: dict[str, float] | None = None
) -> Probed:
    places = {state: Path(state) for state, _ in matrix}
    (branches,) = {len(values) for values in matrix.values()}
    memory = find_memory(make_schedule(games), matrix, spans)
    return Probed(seed, memory, RunProbes(matrix, branches, 500, places))


def make_run(seed: int, learned: float, forgotten: float) -> Probed:
    """Games a and b in turn; after the visit of a, a is forgotten in part."""
    cells = {
        ("fresh", "a"): [0.0, 0.0],
        ("fresh", "b"): [0.0, 0.0],
        ("visit-0", "a"): [learned - 1, learned + 1],
        ("visit-0", "b"): [0.5, 0.5],
        ("visit-1", "a"): [learned - forgotten] * 2,
        ("visit-1", "b"): [2.0, 2.0],
    }
    return make_probed(seed, "ab", {k: np.array(v) for k, v in cells.items()})


def test_numbers_by_hand() -> None:
    runs = [make_run(0, 10, 2), make_run(1, 20, 5), make_run(2, 30, 5)]
    found = measure_memory(runs, ("a", "b"))
    # Learned per run: (10 + 2) / 2, (20 + 2) / 2, (30 + 2) / 2.
    assert found.numbers["learned"].mean == pytest.approx(11)
    assert found.numbers["learned"].method == "t"
    # Their standard deviation is 5, so the half width is 4.30265 * 5 / sqrt(3).
    assert found.numbers["learned"].half_width == pytest.approx(12.4207, rel=1e-5)
    assert found.numbers["forgetting"].mean == pytest.approx(4)
    assert found.numbers["transfer"].mean == pytest.approx(0.5)
    share = found.numbers["share_forgotten"]
    assert share.mean == pytest.approx(12 / 60)
    # Without one run: 10/50, 7/40, 7/30; their mean is 0.202778.
    spread = sum((x - 0.2027778) ** 2 for x in (0.2, 0.175, 7 / 30))
    assert share.half_width == pytest.approx(4.30265 * (2 / 3 * spread) ** 0.5, 1e-5)
    assert share.method == "jackknife t"
    assert found.games["a"]["learned"].mean == pytest.approx(20)
    assert "forgetting" not in found.games["b"]


def test_one_run_has_errors_over_branches() -> None:
    found = measure_memory([make_run(7, 10, 2)], ("a", "b"))
    assert found.numbers["learned"].half_width is None
    (run,) = found.runs
    assert run.seed == 7
    # Branches of a: 9 and 11, so its error is 1; that of the mean of two pairs half.
    assert run.numbers["learned"].error == pytest.approx(0.5)
    assert run.share_forgotten == pytest.approx(0.2)
    cells = {(cell.state, cell.game): cell.amount for cell in found.matrix}
    assert cells["visit-0", "a"].mean == 10
    assert cells["visit-0", "a"].error == 1
    kinds = [(pair.kind, pair.game) for pair in found.pairs]
    assert kinds == [
        ("learned", "a"),
        ("learned", "b"),
        ("forgetting", "a"),
        ("transfer", "b"),
    ]


def test_little_learned_has_no_share() -> None:
    runs = [make_run(0, 10, 2), make_run(1, -8, 2), make_run(2, 1, 1)]
    found = measure_memory(runs, ("a", "b"))
    assert "share_forgotten" not in found.numbers
    assert "not above two standard errors" in found.absent["share_forgotten"]


def test_probes_of_two_sizes_are_not_mixed() -> None:
    small, large = make_run(0, 10, 2), make_run(1, 10, 2)
    other = {cell: np.tile(x, 2) for cell, x in large.probes.matrix.items()}
    with pytest.raises(DocumentError, match=r"expected one size.*\(2, 500\), \(4, 500"):
        measure_memory([small, make_probed(1, "ab", other)], ("a", "b"))


def test_results_are_divided_by_their_span() -> None:
    matrix = make_run(0, 10, 2).probes.matrix
    probed = make_probed(0, "ab", matrix, {"a": 5.0})
    found = measure_memory([probed], ("a", "b"), "z", {"a": 5.0})
    assert found.numbers["learned"].mean == pytest.approx(2)
    assert {cell.game for cell in found.matrix} == {"a"}


def test_ratio_of_equal_runs_is_exact() -> None:
    share = estimate_ratio([1.0, 1.0, 1.0], [4.0, 4.0, 4.0])
    assert (share.low, share.mean, share.high) == (0.25, 0.25, 0.25)


# Agents differ from run to run in what they learn (mean 5, standard deviation 1), lose
# a quarter of it, and branches have the noise of real games: as large as what is
# learned.
LEARNED, SPREAD, SHARE, NOISE = 5.0, 1.0, 0.25, 3.0
GAMES = "abcabc"


def simulate_run(rng: np.random.Generator, seed: int) -> Probed:
    """A run of three games in two cycles with a known memory."""
    ability = dict.fromkeys("abc", 0.0)
    skill = {game: max(0.0, rng.normal(LEARNED, SPREAD)) for game in "abc"}
    matrix = {}

    def ask(state: str) -> None:
        for game in "abc":
            noise = rng.normal(0, NOISE, BRANCHES)
            matrix[state, game] = ability[game] + noise

    ask("fresh")
    for position, game in enumerate(GAMES):
        ability[game] = skill[game]
        for other in set("abc") - {game}:
            # The loss until the next visit, two visits later, is a quarter.
            ability[other] *= (1 - SHARE) ** 0.5
        ask(f"visit-{position}")
    return make_probed(seed, GAMES, matrix)


@pytest.mark.exhaustive
def test_intervals_cover_as_often_as_they_say() -> None:
    """2,000 experiments of five runs, of a difference and of a ratio."""
    rng = np.random.default_rng(0)
    # Of the five pairs with later states, three are two visits apart; after the second
    # cycle, b is one visit old and a two.
    half = 1 - (1 - SHARE) ** 0.5
    true_forgetting = LEARNED * (4 * SHARE + half) / 5
    true_share = (4 * SHARE + half) / 5
    covered = {"forgetting": 0, "share_forgotten": 0}
    experiments = 2000
    for _ in range(experiments):
        runs = [simulate_run(rng, seed).memory for seed in range(5)]
        numbers, _ = estimate_memory(runs)
        for name, true in (
            ("forgetting", true_forgetting),
            ("share_forgotten", true_share),
        ):
            low, high = numbers[name].low, numbers[name].high
            assert low is not None and high is not None
            covered[name] += low <= true <= high
    for name, count in covered.items():
        assert 0.93 <= count / experiments <= 0.97, (name, count / experiments)


def test_simulated_pairs_are_those_of_the_definition() -> None:
    probed = simulate_run(np.random.default_rng(1), 0)
    ages = [
        int(pair.other.removeprefix("visit-")) - int(pair.state.removeprefix("visit-"))
        for pair in probed.memory.forgetting
    ]
    assert ages == [2, 2, 2, 2, 1]
