"""Pieces of learners that need NumPy alone: parts, features, rewards, state files."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from longplay.console.base import ACTION_NAMES
from longplay.errors import AgentError
from longplay.learners.parts.action_parts import ActionParts
from longplay.learners.parts.features import (
    BLOCKS,
    COLOURS,
    COLUMNS,
    BlockFeatures,
    Rarity,
)
from longplay.learners.parts.reward_scale import RewardScale
from longplay.learners.parts.state_files import load_state, save_state

SHAPE = (210, 160, 3)

# --- parts of an action's value -----------------------------------------------------


def parts_of(name: str) -> list[int]:
    return ActionParts(18).of_action[ACTION_NAMES.index(name)].tolist()


def test_actions_share_state_direction_and_button() -> None:
    parts = ActionParts(18)
    assert parts.count == 1 + 9 + 2 + 18
    assert len({tuple(row) for row in parts.of_action.tolist()}) == 18
    assert [
        a == b for a, b in zip(parts_of("UPFIRE"), parts_of("UP"), strict=True)
    ] == [
        True,
        True,
        False,
        False,
    ]
    assert parts_of("FIRE")[1] == parts_of("NOOP")[1]
    assert parts_of("FIRE")[2] == parts_of("DOWNLEFTFIRE")[2]


def test_other_numbers_of_actions_share_the_state_alone() -> None:
    assert ActionParts(3).of_action.tolist() == [[0, 1], [0, 2], [0, 3]]
    assert ActionParts(3, is_shared=False).of_action.tolist() == [[0], [1], [2]]


def test_values_are_sums_of_parts() -> None:
    outputs = np.array([[10.0, 1.0, 2.0, 3.0], [0.0, 5.0, 6.0, 7.0]], np.float32)
    values = ActionParts(3).add_up(outputs)
    assert values.tolist() == [[11.0, 12.0, 13.0], [5.0, 6.0, 7.0]]


def test_spreading_is_the_gradient_of_adding_up() -> None:
    d_outputs = ActionParts(3).spread(
        np.array([2, 0]), np.array([4.0, 5.0], np.float32)
    )
    assert d_outputs.tolist() == [[4.0, 0.0, 0.0, 4.0], [5.0, 5.0, 0.0, 0.0]]


# --- features -----------------------------------------------------------------------


def test_features_of_a_screen_by_hand() -> None:
    black = np.zeros(SHAPE, np.uint8)
    screen = black.copy()
    screen[:15, :10] = (0, 255, 0)  # all of block (0, 0): colour 2
    screen[31:45, 10:20] = (255, 0, 0)  # nearly all of block (2, 1): colour 4
    active = BlockFeatures(SHAPE)(black, screen)
    block = 2 * COLUMNS + 1
    assert 0 * COLOURS + 2 in active
    assert 0 * COLOURS + 0 not in active
    assert block * COLOURS + 4 in active
    moving = [k for k in active if k >= BLOCKS * COLOURS]
    # Red and black have the same green: only the first block is seen to change.
    assert moving == [BLOCKS * COLOURS]
    assert len(active) == BLOCKS + 1


def test_a_feature_counts_by_its_rarity() -> None:
    rarity = Rarity(horizon=4)
    everywhere, sometimes = np.array([0]), np.array([0, 5])
    assert rarity.weigh(sometimes).tolist() == [0.0, 0.0]
    assert rarity.weigh(everywhere).tolist() == [0.0]
    assert rarity.weigh(sometimes) == pytest.approx([0.0, 1 / 3])
    rarity.weigh(everywhere)
    # From here on a new observation weighs 1/4: 2/4 · 3/4 = 3/8 of them have it.
    rarity.weigh(everywhere)
    assert rarity.shares[5] == pytest.approx(3 / 8)
    rarity.restart()
    assert rarity.weigh(np.array([7])).tolist() == [0.0]
    assert rarity.shares[0] == 0.0


# --- rewards ------------------------------------------------------------------------


def test_reward_scale_by_hand() -> None:
    scale = RewardScale(discount=0.5, horizon=100)
    assert scale(0.0, is_over=False) == 0.0
    # sums 0, 4: variance 4
    assert scale(4.0, is_over=False) == pytest.approx(4.0 / 2.0)
    # sums 0, 4, 2: variance 8/3
    assert scale(0.0, is_over=True) == 0.0
    assert scale.deviation == pytest.approx((8 / 3) ** 0.5)
    assert scale.total == 0.0


@pytest.mark.parametrize("size", [1.0, 1000.0])
def test_scaled_rewards_do_not_depend_on_their_size(size: float) -> None:
    rng, scale = np.random.default_rng(0), RewardScale(0.9, 100)
    scaled = [scale(size * (rng.random() < 0.1), False) for _ in range(300)]
    rng, unit = np.random.default_rng(0), RewardScale(0.9, 100)
    expected = [unit(float(rng.random() < 0.1), False) for _ in range(300)]
    assert scaled == pytest.approx(expected)


def test_reward_scale_follows_the_stream() -> None:
    scale = RewardScale(0.0, horizon=50)
    for k in range(200):
        scale(float(k % 2), False)
    for k in range(400):
        scale(100.0 * (k % 2), False)
    assert scale.deviation == pytest.approx(50.0, rel=0.05)


def test_reward_scale_is_kept_where_games_change() -> None:
    """The known weakness in docs/learners.md, with its numbers."""

    def scale_ten_after(*sizes: float) -> float:
        scale = RewardScale(0.95, horizon=10_000)
        for size in sizes:
            for k in range(50_000):
                scale(size * (k % 100 == 0), is_over=k == 49_999)
        return 10.0 / scale.deviation

    assert scale_ten_after(1000.0) == pytest.approx(0.04, abs=0.005)
    assert scale_ten_after(1000.0, 10.0) == pytest.approx(0.38, abs=0.005)
    assert scale_ten_after(10.0) == pytest.approx(3.96, abs=0.005)


# --- state files --------------------------------------------------------------------


class Counter:
    SAVED: ClassVar[tuple[str, ...]] = ("count", "seen")

    def __init__(self) -> None:
        self.count, self.seen = 0, np.zeros(2)


@dataclass
class State:
    SAVED: ClassVar[tuple[str, ...]] = ("rng", "third", "inner", "names")

    arguments: dict[str, Any]
    rng: np.random.Generator
    third: float = 0.0
    names: list[str] = field(default_factory=list)
    inner: Counter = field(default_factory=Counter)
    not_saved: int = 0


def make_state(seed: int) -> State:
    return State({"seed": seed}, np.random.default_rng(seed))


def test_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    state = make_state(3)
    state.third, state.names, state.not_saved = 1 / 3, ["a"], 9
    state.inner.count, state.inner.seen = 7, np.array([0.1, 0.2, 0.3])
    state.rng.random(5)
    save_state(state, tmp_path)
    again = load_state(make_state, tmp_path)
    assert (again.third, again.names, again.not_saved) == (1 / 3, ["a"], 0)
    assert (again.inner.count, again.inner.seen.tolist()) == (7, [0.1, 0.2, 0.3])
    assert again.rng.random() == state.rng.random()
    assert json.loads((tmp_path / "state.json").read_text())["arguments"] == {"seed": 3}


def test_an_array_may_replace_another_value(tmp_path: Path) -> None:
    state = make_state(0)
    state.third = np.ones(2)  # type: ignore[assignment]
    save_state(state, tmp_path)
    assert load_state(make_state, tmp_path).third.tolist() == [1.0, 1.0]  # type: ignore[attr-defined]


def test_the_bytes_of_a_state(tmp_path: Path) -> None:
    state = make_state(3)
    state.arguments["epsilons"] = (0.5, np.float64(1.0))
    state.third, state.names = np.float64(0.25), ["a", {"b": [None, True, 2]}]  # type: ignore[list-item]
    save_state(state, tmp_path)
    text = (tmp_path / "state.json").read_text()
    assert text.startswith('{"arguments": {"seed": 3, "epsilons": [0.5, 1.0]}, "rng"')
    assert text.endswith(
        '"third": 0.25, "inner.count": 0, "names": ["a", {"b": [null, true, 2]}]}'
    )


def count_of(value: Any) -> Counter:
    counter = Counter()
    counter.count = value
    return counter


PLAIN = "expected None, a bool, finite number or string, or a list or dict of these"
NOT_SAVED = [
    ("third", float("nan"), rf"third: {PLAIN}, found nan \(float\)"),
    ("third", np.float32(1), rf"third: {PLAIN}, found .* \(float32\)"),
    ("third", (1, 2), rf"third: {PLAIN}, found \(1, 2\) \(tuple\)"),
    ("third", {"a"}, rf"third: {PLAIN}, found .* \(set\)"),
    ("third", {1: 2}, r"third: expected strings as keys of a dict, found 1 \(int\)"),
    ("third", [{"a": {2: 3}}], r"third\[0\]\['a'\]: expected strings .* found 2"),
    ("third", [0, np.ones(2)], rf"third\[1\]: {PLAIN}, found array.*of their own"),
    ("third", defaultdict(int), rf"third: {PLAIN}, found .* \(defaultdict\)"),
    ("third", np.array(["a"]), "third: expected an array of numbers .* dtype <U1"),
    ("third", np.array(1.0), r"third: .* at least one dimension, found .* shape \(\)"),
    ("inner", count_of([1j]), rf"inner.count\[0\]: {PLAIN}, found 1j \(complex\)"),
    ("arguments", {"sizes": {8: 1}}, r"arguments\['sizes'\]: expected strings as keys"),
    ("rng", np.random.Generator(np.random.MT19937(0)), r"rng\['state'\]\['key'\]: "),
]


@pytest.mark.parametrize(("name", "value", "message"), NOT_SAVED)
def test_what_would_not_come_back_is_refused(
    name: str, value: Any, message: str, tmp_path: Path
) -> None:
    state = make_state(0)
    setattr(state, name, value)
    with pytest.raises(AgentError, match=f"save_state: {message}"):
        save_state(state, tmp_path)
    assert list(tmp_path.iterdir()) == []
