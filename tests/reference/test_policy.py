"""Fixed policies: greedy, sometimes anything, the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from frozen_networks import (
    evaluate_with_integers,
    make_arrays,
    make_pairs,
)
from longplay.errors import DocumentError
from longplay.reference.policy import Chooser, FixedPolicy, ValueFunction
from longplay.reference.ram import pair_ram
from longplay.seeds import policy_seed

ACTIONS = (0, 1, 3, 4, 11, 12)


def make_policy(exploration: float = 0.02) -> FixedPolicy:
    return FixedPolicy(make_arrays(), ACTIONS, exploration)


def test_greedy_action_has_the_highest_output() -> None:
    policy = make_policy()
    for pair in make_pairs(3):
        outputs = evaluate_with_integers(make_arrays(), pair)
        assert policy.choose_greedily(pair) == ACTIONS[int(np.argmax(outputs))]


def test_first_of_equals_is_chosen() -> None:
    arrays = make_arrays()
    arrays["weight3"][:], arrays["bias3"][:] = 0, (1, 5, 5, 2, 5, 0)
    policy = FixedPolicy(arrays, ACTIONS, 0.0)
    assert policy.choose_greedily(make_pairs(1)[0]) == ACTIONS[1]


@pytest.mark.parametrize(
    ("high", "low", "explored"),
    [
        (0, 0, ACTIONS[0]),
        (0, 2**32 - 1, ACTIONS[5]),
        (2**30 - 1, 2**31, ACTIONS[3]),  # a quarter of 2**32 explores; half of 6 is 3
        (2**30, 0, None),
        (2**32 - 1, 2**32 - 1, None),
    ],
)
def test_one_draw_decides_whether_and_where_to(
    high: int, low: int, explored: int | None
) -> None:
    policy, pair = make_policy(exploration=0.25), make_pairs(1)[0]
    expected = policy.choose_greedily(pair) if explored is None else explored
    assert policy.choose(pair, high << 32 | low) == expected


def test_exploration_rate_is_met() -> None:
    arrays = make_arrays()
    arrays["weight3"][:], arrays["bias3"][:] = 0, (1, 0, 0, 0, 0, 0)
    chooser = Chooser(FixedPolicy(arrays, ACTIONS, 0.3), 7)
    pair = make_pairs(1)[0]
    others = sum(chooser.choose(pair) != ACTIONS[0] for _ in range(4000))
    # 5 of 6 explored actions are others: 1000 ± 27 (one standard deviation)
    assert 900 < others < 1100


def test_actions_of_a_seed_are_pinned() -> None:
    chooser = Chooser(make_policy(exploration=0.5), policy_seed(0, 0))
    chosen = [chooser.choose(pair) for pair in make_pairs(16)]
    assert chosen == [4, 4, 3, 12, 3, 1, 4, 4, 3, 4, 4, 4, 3, 3, 4, 0]


def test_policy_seeds_are_apart_from_the_others() -> None:
    expected = np.random.SeedSequence(3, spawn_key=(2, 5)).generate_state(1)[0] >> 1
    assert policy_seed(3, 5) == expected


@pytest.mark.parametrize("actions", [(0, 1), (0, 1, 2, 3, 4, 18)])
def test_actions_that_do_not_fit_are_refused(actions: tuple[int, ...]) -> None:
    with pytest.raises(DocumentError, match="actions: expected 6 global indices"):
        FixedPolicy(make_arrays(), actions, 0.0)


def test_first_observation_has_the_same_memory_twice() -> None:
    now, before = bytes(range(128)), bytes(128)
    assert pair_ram(now, None).tobytes() == now + now
    assert pair_ram(now, before).tobytes() == now + before
    assert pair_ram(b"\7", None)[[0, 1, 128]].tolist() == [7, 0, 7]


def test_value_is_the_output_in_float32() -> None:
    arrays, pair = make_arrays(outputs=1), make_pairs(1)[0]
    value = ValueFunction(arrays).evaluate(pair)
    assert value.dtype == np.float32
    assert value == np.float32(evaluate_with_integers(arrays, pair)[0])


def test_value_function_has_one_output() -> None:
    with pytest.raises(DocumentError, match="weight3: expected one output, found 6"):
        ValueFunction(make_arrays())
