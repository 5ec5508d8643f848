"""The linear learners: updates by hand, and what they learn within a second."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from longplay.learners import explore_only, linear_sarsa, linear_td
from longplay.learners.parts.features import BLOCKS, COLOURS, FEATURES

SHAPE = (210, 160, 3)
NOT_OVER = {"terminated": False, "truncated": False}
OVER = {"terminated": True, "truncated": False}
SWITCH = {"terminated": False, "truncated": True}


def show(k: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A screen with one bright square at place k."""
    screen = np.zeros(SHAPE, np.uint8)
    screen[60:90, 20 + 40 * k : 50 + 40 * k] = 255
    return screen


def test_one_update_of_linear_sarsa_by_hand() -> None:
    state = linear_sarsa.init(SHAPE, 18, 0, step_size=0.5, bias=2.0, epsilons=(0.0,))
    black, white = show(0) * 0, show(0) * 0 + 255
    linear_sarsa.step(state, black, black, 0.0, NOT_OVER)
    linear_sarsa.step(state, white, white, 0.0, NOT_OVER)
    # White in every block, seen in one of two observations: 224 features of size ½.
    assert state.sizes.tolist() == [0.5] * 224
    _, action, metrics = linear_sarsa.step(state, black, black, 1.0, NOT_OVER)
    scaled = 1.0 / state.rewards.deviation
    assert metrics["squared_td_error"] == pytest.approx(scaled**2)
    # Four parts share the step, each 224 · ¼ + 2² long; the older trace, of the black
    # screen, is fainter by 0.9 · 0.8.
    own_part = state.parts.of_action[0, 3]
    expected = 0.5 * scaled / (4 * (224 / 4 + 4))
    features = state.weights[own_part]
    assert features[7:8] == pytest.approx(0.5 * expected, rel=1e-5)  # white
    assert features[-1] == pytest.approx(2.0 * expected, rel=1e-5)
    assert features[0] == 0.0  # black was in all observations then: of size 0
    assert action == 0


def test_one_update_of_linear_td_by_hand() -> None:
    state = linear_td.init(SHAPE, step_size=0.5, discount=0.9, trace_decay=0.8)
    black = show(0) * 0
    linear_td.step(state, black, black, 0.0, NOT_OVER)
    _, prediction, metrics = linear_td.step(state, black, black, 1.0, NOT_OVER)
    # 225 active features (black everywhere, the bias), all with trace 1.
    assert metrics["squared_td_error"] == 1.0
    assert prediction == pytest.approx(0.5)
    assert state.weights[FEATURES] == pytest.approx(0.5 / 225)
    # Then: value 0.5, next value 0.5, error 0 + 0.45 - 0.5; old value 0, by the weights
    # before. The trace is 0.72 + 1 - 0.5/225 · 0.72 · 225 = 1.36.
    linear_td.step(state, black, black, 0.0, NOT_OVER)
    moved = 0.5 / 225 * ((-0.05 + 0.5) * 1.36 - 0.5)
    assert state.weights[FEATURES] == pytest.approx(0.5 / 225 + moved)


@pytest.mark.parametrize("learner", [linear_sarsa, linear_td])
def test_the_end_of_a_game_cuts_traces(learner: ModuleType) -> None:
    named = {"num_actions": 18, "seed": 0} if learner is linear_sarsa else {}
    state = learner.init(observation_shape=SHAPE, **named)
    learner.step(state, show(0), show(0), 0.0, NOT_OVER)
    learner.step(state, show(0), show(1), 0.0, NOT_OVER)
    assert state.traces.any()
    learner.step(state, show(1), show(0), 1.0, OVER)
    assert not state.traces.any()


def count_moving(active: Any) -> int:
    return sum(BLOCKS * COLOURS <= k < FEATURES for k in active)


@pytest.mark.parametrize("info", [OVER, SWITCH])
def test_motion_across_two_games(info: dict[str, bool]) -> None:
    """As `features` says: linear-sarsa takes it for motion, linear-td does not."""
    sarsa, td = linear_sarsa.init(SHAPE, 18, 0), linear_td.init(SHAPE)
    black, white = show(0) * 0, show(0) * 0 + 255
    linear_sarsa.step(sarsa, black, white, 0.0, info)
    linear_td.step(td, black, white, 0.0, info)
    assert count_moving(sarsa.active) == BLOCKS
    assert count_moving(td.active) == 0


def test_linear_sarsa_reads_the_screen() -> None:
    """Which of two directions pays is shown; 2 of 18 actions go there."""
    state = linear_sarsa.init(
        SHAPE, 18, seed=1, step_size=0.3, epsilons=(0.1, 1.0), block_decisions=25
    )
    rng, shown, reward, earned = np.random.default_rng(0), 0, 0.0, []
    screens = [show(0), show(2)]
    for _ in range(1500):
        _, action, _ = linear_sarsa.step(
            state, screens[shown], screens[shown], reward, NOT_OVER
        )
        pays = ((2, 10), (5, 13))[shown]  # UP or DOWN, with the button or without
        reward = float(action in pays)
        earned.append(reward)
        shown = int(rng.integers(2))
    # A blind agent earns at most 0.5; exploring actions are held for about 3 decisions.
    assert np.mean(earned[:100]) < 0.4
    assert np.mean(earned[-300:]) > 0.65


def test_explore_only_is_linear_sarsa_without_learning() -> None:
    rng = np.random.default_rng(3)
    rewards = rng.normal(size=1000)
    played = []
    for agent, args in ((explore_only, {}), (linear_sarsa, {"step_size": 0.0})):
        state = agent.init(SHAPE, 18, seed=1, block_decisions=20, **args)
        actions = []
        for k, reward in enumerate(rewards):
            info = {"terminated": k % 90 == 89, "truncated": k % 300 == 299}
            state, action, _ = agent.step(state, show(0), show(1), reward, info)
            actions.append(action)
        played.append(actions)
    assert played[0] == played[1]
    assert len(set(played[0])) == 18


def test_linear_td_learns_known_values() -> None:
    """Ten screens in a row, a reward at the end: a value is 0.99 ** (screens left)."""
    state = linear_td.init(SHAPE, step_size=0.1)
    screens = [np.roll(show(0), 9 * k, axis=1) for k in range(10)]
    errors = []
    for k in range(1500):
        place = k % 10
        info = OVER if place == 0 and k else NOT_OVER
        reward = float(place == 0 and k > 0)
        before = screens[(k - 1) % 10]
        _, value, _ = linear_td.step(state, before, screens[place], reward, info)
        errors.append(value - 0.99 ** (9 - place))
    assert np.abs(errors[:10]).min() > 0.5
    assert np.sqrt(np.mean(np.square(errors[-200:]))) < 0.05
