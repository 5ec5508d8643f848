"""As `tests/learners/test_revisions.py`, for learners that need numba.

Their sums differ in the last bits between processors, and one different action would be
another run. So every action explores, and values are compared, not actions.
"""

from __future__ import annotations

from typing import Any

import pytest

from longplay.learners import (
    dqn,
    linear_prost,
    lstd_td,
    stream_q,
    stream_q_l2init,
    stream_td,
)
from made_up_squares import play_squares

EXPLORING = {"epsilons": (1.0,)}
# Stronger, and earlier, than by default: it must show within 60 decisions.
PULLING = {**EXPLORING, "pull": 1e-3}
TRAINING = {**EXPLORING, "first_update": 20}
CHANGED = "changed: raise REVISION, then pin the new revision and values here"


@pytest.mark.parametrize(
    ("module", "revision", "agent_args", "expected"),
    [
        (linear_prost, 1, TRAINING, [0.62581, -0.43823, 0.46012]),
        (stream_q, 1, EXPLORING, [1.42709, 0.94548, 0.84726]),
        (stream_q_l2init, 1, PULLING, [1.37836, 0.90884, 0.81407]),
        (dqn, 1, TRAINING, [0.37781, 0.71182, 0.98755]),
        (lstd_td, 1, {}, [2.68633, 3.77859, 3.55738]),
        (stream_td, 1, {}, [0.73180, 0.28244, -0.00216]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_values(
    module: Any, revision: int, agent_args: dict[str, Any], expected: list[float]
) -> None:
    played = list(play_squares(module, 60, **agent_args))
    # A predictor's answer is the value.
    values = [metrics.get("value", answer) for answer, metrics in played]
    assert revision == module.REVISION, CHANGED
    assert values[-3:] == pytest.approx(expected, rel=1e-3, abs=1e-4), CHANGED
