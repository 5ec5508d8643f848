"""Intervals on numbers worked out by hand, and how often they are right."""

from __future__ import annotations

import math

import numpy as np
import pytest

from longplay.lab.analysis.intervals import (
    Estimate,
    bootstrap_interval,
    estimate_difference,
    estimate_mean,
    standard_error,
    t_quantile,
    welch_half_width,
)


def t_tail(t: float, degrees: int) -> float:
    """P(|T| > t), by the substitution t = √ν tan θ and Simpson's rule."""
    theta = np.linspace(math.atan(t / math.sqrt(degrees)), math.pi / 2, 20_001)
    density = np.cos(theta) ** (degrees - 1)
    weights = np.ones(20_001)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    area = float(density @ weights) * (theta[1] - theta[0]) / 3
    log_beta = math.lgamma(0.5) + math.lgamma(degrees / 2)
    return 2 * area / math.exp(log_beta - math.lgamma((degrees + 1) / 2))


@pytest.mark.parametrize("degrees", range(1, 31))
def test_table_is_student_t(degrees):
    assert t_tail(t_quantile(degrees), degrees) == pytest.approx(0.05, abs=1e-8)


@pytest.mark.parametrize(
    ("degrees", "exact", "error"),
    [
        (2.5, 3.5746548, 0.06),
        (3.5, 2.9400886, 0.011),
        (8.5, 2.2826049, 0.001),
        (12.25, 2.1738914, 0.001),
        (40, 2.0210754, 0.001),
        (100, 1.9839715, 0.001),
        (1e9, 1.9599640, 1e-6),
    ],
)
def test_quantile_between_and_beyond_the_table_errs_to_the_wide_side(
    degrees, exact, error
):
    assert exact - 1e-7 <= t_quantile(degrees) < exact + error


def test_less_than_one_degree_of_freedom_is_refused():
    with pytest.raises(ValueError, match=r"expected at least 1, found 0\.5"):
        t_quantile(0.5)


def test_interval_of_three_runs_by_hand():
    """Mean 2, standard deviation 1, so 2 ± 4.3027 / √3."""
    estimate = estimate_mean([1.0, 2.0, 3.0])
    assert estimate is not None
    assert (estimate.mean, estimate.n, estimate.method) == (2.0, 3, "t")
    assert estimate.low == pytest.approx(2 - 2.484138, abs=1e-5)
    assert estimate.high == pytest.approx(2 + 2.484138, abs=1e-5)
    assert estimate.half_width == pytest.approx(2.484138, abs=1e-5)


@pytest.mark.parametrize("values", [[4.0], [4.0, 4.0]])
def test_fewer_than_three_runs_have_no_interval(values):
    assert estimate_mean(values) == Estimate(mean=4.0, n=len(values))
    assert not Estimate(mean=4.0, n=2).excludes_zero


def test_nothing_has_no_mean():
    assert estimate_mean([]) is None
    assert standard_error([1.0]) is None


def test_thirty_runs_are_resampled():
    values = np.random.default_rng(1).exponential(size=30)
    estimate, before = estimate_mean(values), estimate_mean(values[:29])
    assert estimate is not None
    assert before is not None
    assert (estimate.method, before.method) == ("bootstrap", "t")
    assert (estimate.low, estimate.high) == bootstrap_interval(values.tolist())


def test_paired_difference_by_hand():
    """Differences on the shared seeds 1, 2, 3: 1, 2, 3; seeds 0 and 4 do not count."""
    ours = {0: 99.0, 1: 2.0, 2: 4.0, 3: 6.0}
    theirs = {1: 1.0, 2: 2.0, 3: 3.0, 4: -50.0}
    found = estimate_difference(ours, theirs)
    assert found is not None
    assert (found.mean, found.n, found.method) == (2.0, 3, "paired t")
    assert found.low == pytest.approx(2 - 2.484138, abs=1e-5)
    assert not found.excludes_zero


def test_pairing_detects_differences_that_two_samples_cannot():
    ours = {seed: 10.0 * seed + 1 + 0.01 * seed for seed in range(5)}
    theirs = {seed: 10.0 * seed for seed in range(5)}
    paired = estimate_difference(ours, theirs)
    unpaired = estimate_difference({s + 10: v for s, v in ours.items()}, theirs)
    assert paired is not None
    assert unpaired is not None
    assert paired.mean == pytest.approx(unpaired.mean)
    assert (paired.excludes_zero, unpaired.excludes_zero) == (True, False)
    assert unpaired.method == "Welch t"


def test_thirty_pairs_are_resampled():
    ours = {seed: float(seed % 7) for seed in range(30)}
    theirs = {seed: float(seed % 5) for seed in range(30)}
    found = estimate_difference(ours, theirs)
    assert found is not None
    assert found.method == "paired bootstrap"
    differences = [ours[s] - theirs[s] for s in range(30)]
    assert (found.low, found.high) == bootstrap_interval(differences)


def test_welch_by_hand():
    """(1, 2, 3) and (2, 4, 6): variances 1/3 and 4/3, ν = (5/3)² / (1/18 + 16/18)."""
    degrees = (5 / 3) ** 2 / (1 / 18 + 16 / 18)
    expected = t_quantile(degrees) * math.sqrt(5 / 3)
    found = estimate_difference({1: 1.0, 2: 2.0, 3: 3.0}, {4: 2.0, 5: 4.0, 6: 6.0})
    assert found is not None
    assert found.mean == -2.0
    assert found.half_width == pytest.approx(expected)
    assert welch_half_width([1.0, 1.0], [2.0, 2.0]) == 0.0


def test_difference_with_too_few_runs_is_a_number_alone():
    assert estimate_difference({0: 3.0}, {1: 1.0}) == Estimate(mean=2.0, n=1)
    assert estimate_difference({}, {1: 1.0}) is None


def coverage(draw, truth: float, runs: int, trials: int = 4_000) -> float:
    """Share of intervals around the mean of some runs that hold the truth."""
    rng = np.random.default_rng(runs)
    held = 0
    for _ in range(trials):
        found = estimate_mean(draw(rng, runs))
        held += found.low <= truth <= found.high
    return held / trials


@pytest.mark.exhaustive
@pytest.mark.parametrize("runs", [5, 10])
def test_coverage_on_normal_data(runs):
    share = coverage(lambda rng, n: rng.normal(3.0, 2.0, n), 3.0, runs)
    assert 0.93 <= share <= 0.97


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("runs", "printed"), [(3, 0.88), (5, 0.87), (10, 0.90), (40, 0.92)]
)
def test_coverage_on_skewed_data_is_as_printed(runs, printed):
    """Exponential data; the shares stand in docs/analysis.md."""
    trials = 1_000 if runs >= 30 else 4_000
    share = coverage(lambda rng, n: rng.exponential(1.0, n), 1.0, runs, trials)
    assert share == pytest.approx(printed, abs=0.02)


def test_many_unpaired_runs_are_resampled():
    rng = np.random.default_rng(1)
    ours = {seed: float(v) for seed, v in enumerate(rng.normal(1, 1, 40))}
    theirs = {seed + 100: float(v) for seed, v in enumerate(rng.normal(0, 1, 60))}
    found = estimate_difference(ours, theirs)
    assert found is not None
    assert (found.method, found.n) == ("unpaired bootstrap", 40)
    # Close to Welch's, which is exact here.
    welch = welch_half_width(list(ours.values()), list(theirs.values()))
    assert found.half_width == pytest.approx(welch, rel=0.05)
    assert found.low is not None
    assert (
        found.low
        < found.mean
        == pytest.approx(np.mean(list(ours.values())) - np.mean(list(theirs.values())))
    )


def test_one_shared_seed_is_compared_on_that_seed():
    found = estimate_difference({0: 5.0, 1: 9.0}, {1: 9.0, 2: 1.0, 3: 2.0})
    assert found is not None
    assert (found.mean, found.n, found.method) == (0.0, 1, "none")
