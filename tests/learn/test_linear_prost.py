"""linear-prost: pairs by hand, updates against plain NumPy, gaps in the replay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longplay.errors import ConfigError
from longplay.learners import linear_prost
from longplay.learners.parts.action_parts import ActionParts
from longplay.learners.parts.features import BLOCKS, COLOURS, COLUMNS, FEATURES
from longplay.learners.parts.offsets import PAIR_FEATURES, OffsetFeatures
from longplay.learners.parts.sparse_replay import (
    Rule,
    SparseReplay,
    find_outputs,
    learn,
)

SHAPE = (210, 160, 3)
NOT_OVER = {"terminated": False, "truncated": False}
OVER = {"terminated": True, "truncated": False}
RED, BLUE = 4, 1


def place(row: int, column: int, colour: int) -> int:
    """The feature of a colour in a block."""
    return (row * COLUMNS + column) * COLOURS + colour


def find_pairs(*screens: list[int]) -> set[int]:
    """The pairs of the last of some screens, where all colours are rare."""
    find = OffsetFeatures(512)
    for screen in screens:
        found = find(np.array(screen, np.int64), np.ones(len(screen), np.float32))
    assert len(set(found.tolist())) == len(found)
    return set(found.tolist())


# --- pairs ----------------------------------------------------------------------------


def test_a_pair_is_the_same_wherever_it_is() -> None:
    pair = find_pairs([place(3, 4, RED), place(5, 1, BLUE)])
    assert len(pair) == 1
    assert pair == find_pairs([place(8, 15, RED), place(10, 12, BLUE)])
    assert pair == find_pairs([place(10, 12, BLUE), place(8, 15, RED)])
    other = [
        find_pairs([place(3, 4, RED), place(5, 2, BLUE)]),
        find_pairs([place(3, 4, BLUE), place(5, 1, RED)]),
        find_pairs([place(3, 4, RED), place(5, 1, RED)]),
    ]
    assert all(pair.isdisjoint(each) for each in other)


def test_pairs_of_one_colour_have_no_order() -> None:
    pair = find_pairs([place(3, 4, RED), place(5, 1, RED)])
    assert pair == find_pairs([place(5, 1, RED), place(3, 4, RED)])
    # Three in a row: one block apart twice, which counts once, and two blocks apart.
    assert len(find_pairs([place(0, k, RED) for k in range(3)])) == 2


def test_pairs_in_time_know_what_came_first() -> None:
    right = find_pairs([place(3, 4, RED)], [place(3, 5, RED)])
    left = find_pairs([place(3, 5, RED)], [place(3, 4, RED)])
    assert len(right) == len(left) == 1
    assert right.isdisjoint(left)
    assert right == find_pairs([place(9, 0, RED)], [place(9, 1, RED)])
    assert not find_pairs([place(3, 4, RED)], [])


def test_all_pairs_have_different_indices() -> None:
    corners = [(0, 0), (0, 15), (13, 0), (13, 15)]
    found = [
        find_pairs([place(*corner, a)], [place(*other, b)])
        for a in range(COLOURS)
        for b in range(COLOURS)
        for corner, other in ((corners[0], corners[3]), (corners[2], corners[1]))
    ] + [
        find_pairs([place(*corners[0], a), place(*corners[3], b)])
        for a in range(COLOURS)
        for b in range(COLOURS)
    ]
    indices = set().union(*found)
    # Within a screen one colour of both corners is one pair, and two colours are two.
    assert len(indices) == len(found) == 2 * COLOURS**2 + COLOURS**2
    assert FEATURES <= min(indices) <= max(indices) < PAIR_FEATURES


def test_only_rare_colours_form_pairs() -> None:
    active = np.array([place(0, 0, RED), place(0, 1, RED), place(0, 2, RED)])
    find = OffsetFeatures(512)
    assert len(find(active, np.array([0.9, 0.6, 0.4], np.float32))) == 1
    moving = np.array([BLOCKS * COLOURS, BLOCKS * COLOURS + 1])
    assert not len(OffsetFeatures(512)(moving, np.ones(2, np.float32)))


def test_pairs_are_limited_and_the_rarest_stay() -> None:
    screen = [place(k % 14, k % 16, k % COLOURS) for k in range(24)]
    ones = np.ones(24, np.float32)
    everything = OffsetFeatures(512)(np.array(screen), ones).tolist()
    assert len(everything) > 50
    assert OffsetFeatures(50)(np.array(screen), ones).tolist() == everything[:50]


# --- the replay -----------------------------------------------------------------------


# Features and their sizes; action, reward, end.
Row = tuple[dict[int, float], int, float, bool]


def fill(replay: SparseReplay, rows: list[Row]) -> None:
    for features, action, reward, is_over in rows:
        sizes = np.array(list(features.values()), np.float32)
        replay.add(np.array(list(features), np.int64), sizes)
        replay.complete(action, reward, is_over)


def make_rows(count: int) -> list[Row]:
    rng = np.random.default_rng(1)
    return [
        (
            {int(f): int(rng.integers(1, 256)) / 255 for f in rng.permutation(20)[:6]},
            int(rng.integers(18)),
            float(rng.normal()),
            bool(k % 7 == 6),
        )
        for k in range(count)
    ]


def make_dense(features: dict[int, float], bias: float) -> np.ndarray[Any, Any]:
    dense = np.zeros(21)
    dense[list(features)] = list(features.values())
    dense[-1] = bias
    return dense


def test_updates_are_those_of_plain_numpy() -> None:
    rule, parts = Rule(0.3, 0.9, 3, 2.0), ActionParts(18)
    rng = np.random.default_rng(2)
    weights, target = rng.normal(size=(2, 21, parts.count)).astype(np.float32)
    rows = make_rows(30)
    replay = SparseReplay(30, 8, rule.returns)
    fill(replay, rows)
    starts = np.array([26, 4, 11, 5, 4])
    expected, squares = weights.astype(np.float64), []
    for start in starts:
        total, factor = 0.0, 1.0
        for k in range(rule.returns):
            total += factor * rows[start + k][2]
            factor *= 0.0 if rows[start + k][3] else rule.discount
            if not factor:
                break
        if factor:
            x = make_dense(rows[start + rule.returns][0], rule.bias)
            picked = (x @ expected)[parts.of_action].sum(axis=1).argmax()
            total += factor * (x @ target)[parts.of_action[picked]].sum()
        x, own = make_dense(rows[start][0], rule.bias), parts.of_action[rows[start][1]]
        error = total - (x @ expected)[own].sum()
        expected[:, own] += rule.step_size * error / (4 * (x @ x)) * x[:, None]
        squares.append(error**2)
    found = learn(weights, target, replay.rows, starts, parts.of_action, rule)
    assert found == pytest.approx(np.mean(squares), rel=1e-4)
    assert weights == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_a_step_size_of_one_reaches_the_target() -> None:
    rule, parts = Rule(1.0, 0.9, 1, 2.0), ActionParts(18)
    weights = np.zeros((21, parts.count), np.float32)
    replay = SparseReplay(5, 8, 1)
    fill(replay, [({3: 0.4, 7: 1.0}, 5, 1.5, True)] * 2)
    learn(weights, weights, replay.rows, np.array([0]), parts.of_action, rule)
    values = parts.add_up(find_outputs(weights, replay.rows, 1, rule.bias))
    assert values[5] == pytest.approx(1.5, rel=1e-5)


def test_draws_reach_from_the_oldest_to_the_newest_complete_transition() -> None:
    replay = SparseReplay(10, 8, returns=3)
    assert len(replay) == 0
    fill(replay, make_rows(14))
    replay.add(np.array([1]), np.array([1.0], np.float32))
    # Rows 5 … 14 are there; 14 is open, and three steps after 11.
    starts = replay.draw(np.random.default_rng(0), 300)
    assert starts[0] == 11 % 10
    assert set(starts.tolist()) == {row % 10 for row in range(5, 12)}
    assert len(replay) == 7


def test_replay_that_never_has_a_transition_is_refused() -> None:
    message = "capacity: expected more than 5 observations, .*, found 5"
    with pytest.raises(ConfigError, match=message):
        linear_prost.init(SHAPE, 18, 0, capacity=5)


# --- the agent ------------------------------------------------------------------------


def show(row: int, column: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    screen = np.zeros(SHAPE, np.uint8)
    screen[15 * row : 15 * row + 15, 10 * column : 10 * column + 10] = (255, 0, 0)
    return screen


def play(state: linear_prost.State, steps: range) -> None:
    for k in steps:
        before, now = show(k % 14, k % 16), show((k + 1) % 14, (k + 1) % 16)
        linear_prost.step(state, before, now, float(k % 5 == 0), NOT_OVER)


def test_features_are_the_rarest_and_their_pairs() -> None:
    state = linear_prost.init(SHAPE, 18, 0, pair_size=0.25)
    play(state, range(30))
    features, sizes = linear_prost.describe(state, show(3, 3), show(3, 4))
    blocks = features < FEATURES
    assert set(features[:3]) >= {place(3, 4, RED)}
    assert (np.diff(sizes[blocks]) <= 0).all()
    assert sizes[blocks].min() >= 0.05
    # The square then and now; black is in nearly every observation.
    assert (sizes[~blocks] == 0.25).all()
    assert (~blocks).sum() == 1


def test_a_set_that_comes_back_learns_nothing_across_the_gap() -> None:
    state = linear_prost.init(SHAPE, 18, 0, first_update=1, returns=1)
    play(state, range(20))
    linear_prost.step(state, show(1, 1), show(1, 1), 1.0, OVER)
    completed = state.replay.added - 1
    kept = [state.replay.actions.copy(), state.replay.rewards.copy()]
    scale, ends = state.rewards.count, state.replay.is_over.copy()
    linear_prost.restart(state)
    linear_prost.step(state, show(7, 7), show(7, 7), 5.0, NOT_OVER)
    assert state.replay.added == completed + 1
    assert state.rewards.count == scale
    assert (state.replay.actions == kept[0]).all()
    assert (state.replay.rewards == kept[1]).all()
    assert (state.replay.is_over == ends).all()
    assert ends[completed - 1]


def test_pairs_do_not_reach_over_the_end_of_a_game() -> None:
    state = linear_prost.init(SHAPE, 18, 0)
    play(state, range(30))
    linear_prost.step(state, show(3, 3), show(9, 9), 0.0, OVER)
    newest = state.replay.newest
    found = state.replay.features[newest, : state.replay.counts[newest]]
    assert (found < FEATURES).all()
    linear_prost.step(state, show(9, 9), show(9, 10), 0.0, NOT_OVER)
    newest = state.replay.newest
    found = state.replay.features[newest, : state.replay.counts[newest]]
    assert (found >= FEATURES).any()


def test_target_weights_are_copied_now_and_then() -> None:
    state = linear_prost.init(
        SHAPE, 18, 0, first_update=1, returns=1, decisions_per_copy=10
    )
    play(state, range(19))
    assert not np.array_equal(state.weights, state.target_weights)
    play(state, range(19, 20))
    assert np.array_equal(state.weights, state.target_weights)


def save(state: linear_prost.State, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    linear_prost.save(state, folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_pairs_and_replay_are_saved(tmp_path: Path) -> None:
    """The streams of other tests have no rare colours, so no pairs."""
    state = linear_prost.init(SHAPE, 18, 0, first_update=5, capacity=20)
    play(state, range(33))
    assert state.replay.features.max() >= FEATURES
    save(state, tmp_path / "saved")
    loaded = linear_prost.load(tmp_path / "saved")
    for each in (state, loaded):
        play(each, range(33, 60))
    assert save(loaded, tmp_path / "loaded") == save(state, tmp_path / "straight")
