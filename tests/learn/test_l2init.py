"""The pull and the renewal of `stream-q-l2init`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from longplay.learners import stream_q, stream_q_l2init

SHAPE = (210, 160, 3)
NOT_OVER = {"terminated": False, "truncated": False}
SWITCH = {"terminated": False, "truncated": True}
SMALL = {"size": 42, "hidden": 16, "epsilons": (0.0,)}


def play(learner: Any, state: Any, infos: list[dict[str, bool]]) -> int:
    """The last action after random frames, each with a reward of its own."""
    rng, action = np.random.default_rng(0), 0
    for k, info in enumerate(infos):
        frame = rng.integers(0, 256, SHAPE, np.uint8)
        _, action, _ = learner.step(state, frame, frame, float(k % 3), info)
    return action


def test_value_and_trace_of_a_new_game_are_of_the_renewed_weights() -> None:
    state = stream_q_l2init.init(SHAPE, 18, 1, pull=0.0, renewal=0.8, **SMALL)
    action = play(stream_q_l2init, state, [*[NOT_OVER] * 40, SWITCH])
    values = stream_q.find_values(state, state.vision.stack.image)
    assert state.value == pytest.approx(float(values[action]), rel=1e-5)
    gradient = np.zeros_like(state.network.weights)
    d_outputs = state.parts.spread(np.array([action]), np.ones(1, np.float32))
    state.network.add_gradient(d_outputs, gradient)
    assert np.abs(state.traces.vector - gradient).max() < 1e-6


def test_renewal_keeps_a_fifth_of_what_was_learned() -> None:
    infos = [*[NOT_OVER] * 40, SWITCH]
    plain = stream_q.init(SHAPE, 18, 1, **SMALL)
    first = plain.network.weights.copy()
    renewed = stream_q_l2init.init(SHAPE, 18, 1, pull=0.0, renewal=0.8, **SMALL)
    play(stream_q, plain, infos)
    play(stream_q_l2init, renewed, infos)
    learned = plain.network.weights - first
    assert np.abs(learned).max() > 1e-3
    assert renewed.network.weights - first == pytest.approx(0.2 * learned, abs=1e-6)


def test_the_pull_skips_the_first_decision_of_a_game() -> None:
    plain = stream_q.init(SHAPE, 18, 1, **SMALL)
    pulled = stream_q_l2init.init(SHAPE, 18, 1, pull=0.5, **SMALL)
    for learner, state in ((stream_q, plain), (stream_q_l2init, pulled)):
        play(learner, state, [NOT_OVER, SWITCH])
    # The only weights that were pulled had not moved yet.
    assert np.array_equal(pulled.network.weights, plain.network.weights)
    play(stream_q, plain, [NOT_OVER])
    play(stream_q_l2init, pulled, [NOT_OVER])
    assert not np.array_equal(pulled.network.weights, plain.network.weights)
