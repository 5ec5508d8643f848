"""One run seed -> one seed for each purpose."""

from __future__ import annotations

import pytest

from longplay.errors import ConfigError
from longplay.seeds import agent_seed, check_seed, emulator_seed

GOLDEN_EMULATOR_SEEDS = [
    2044266242,
    1790637272,
    504456060,
    2011874460,
    191692056,
    440481839,
]


def test_golden_emulator_seeds():
    assert [emulator_seed(0, visit) for visit in range(6)] == GOLDEN_EMULATOR_SEEDS


def test_golden_agent_seed():
    assert agent_seed(0) == 336614359


def test_seeds_are_plain_ints_that_ale_takes():
    for run_seed in (0, 1, 2**31 - 1):
        for seed in (agent_seed(run_seed), emulator_seed(run_seed, 23)):
            assert type(seed) is int
            assert 0 <= seed < 2**31


def test_purposes_visits_and_runs_do_not_share_seeds():
    seeds = [emulator_seed(run, visit) for run in range(20) for visit in range(24)]
    seeds += [agent_seed(run) for run in range(20)]
    assert len(set(seeds)) == 20 * 25


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 1])
def test_check_seed_returns_what_is_in_range(seed):
    assert check_seed(seed) == seed


@pytest.mark.parametrize(
    ("seed", "message"),
    [
        (-1, "seed: expected 0 … 2147483647, found -1"),
        (2**31, "seed: expected 0 … 2147483647, found 2147483648"),
        (True, "seed: expected an int, found True"),
        (1.0, "seed: expected an int, found 1.0"),
        ("1", "seed: expected an int, found '1'"),
        (None, "seed: expected an int, found None"),
    ],
)
def test_check_seed_refuses(seed, message):
    with pytest.raises(ConfigError) as caught:
        check_seed(seed)
    assert str(caught.value) == message
