"""The pilot of the probes: noise worked out by hand, and probes that are cut short."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pilot
from longplay.lab.probes.memory import Memory, Pair

ROOT = Path(__file__).parents[2]
KEEPER = ROOT / "results" / "control-3x3-v1" / "linear-prost-library"


def make_pair(game: str, state: str, *difference: float) -> Pair:
    return Pair(game, state, "other", np.array(difference))


def test_noise_of_a_run_is_what_its_pairs_would_add_up_to() -> None:
    """Pairs of 3 and -4 in mean; learned 8 and 12; transfer does not count."""
    memory = Memory(
        learned=(make_pair("a", "visit-0", 7, 9), make_pair("b", "visit-1", 12, 12)),
        forgetting=(make_pair("a", "visit-0", 2, 4), make_pair("b", "visit-1", -4, -4)),
        transfer=(make_pair("b", "visit-0", 100, 100),),
    )
    assert pilot.measure_noise(memory) == pytest.approx(5 / 20)


def test_half_width_is_that_of_the_mean_over_runs() -> None:
    """Root mean square of 0.1 and 0.7: 0.5; t of four degrees of freedom: 2.776."""
    width = pilot.predict_half_width([0.1, 0.7], 5)
    assert width == pytest.approx(2.776 * 0.5 / 5**0.5, rel=1e-3)


def test_whole_probes_are_the_recorded_results_and_cut_ones_their_beginnings() -> None:
    (_, probes), *others = pilot.read_runs([KEEPER], "control-3x3-v1")
    assert len(others) == 4
    whole = pilot.cut_probes(probes, probes.branches, 60)
    assert whole.keys() == probes.matrix.keys()
    for cell, values in probes.matrix.items():
        assert whole[cell] == pytest.approx(values, abs=1e-12)
    for cell, values in pilot.cut_probes(probes, 1, 60).items():
        assert values == pytest.approx(whole[cell][:1])
    early = pilot.cut_probes(probes, 1, 15)
    assert any(early[cell] != pytest.approx(whole[cell][:1]) for cell in early)


def test_runs_without_probes_are_refused() -> None:
    explorer = ROOT / "results" / "control-3x3-v1" / "explore-only"
    runs = pilot.read_runs([explorer], "control-3x3-v1")
    with pytest.raises(SystemExit, match="expected probes of one size, found none"):
        pilot.tabulate(runs, "control-3x3-v1", 5)
