"""A learner that changes gets another `REVISION`: its results are another agent's.

What is pinned here was recorded with the revision beside it. If a test fails because
defaults or behaviour were changed on purpose, raise the learner's REVISION, then pin
the new revision and values here. `tests/learn/test_network_revisions.py` pins the
behaviour of learners that need numba.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import json
from typing import Any

import pytest

from longplay.agents.source.loading import BUILT_IN_AGENTS
from longplay.learners import blind, explore_only, linear_sarsa, linear_td, stream_q
from made_up_squares import play_squares

MODULES = {
    name: importlib.import_module(where.partition(":")[0])
    for name, where in BUILT_IN_AGENTS.items()
    if where.endswith(":module")
}
# Learner -> revision, and the beginning of the SHA-256 of its defaults.
DEFAULTS = {
    "explore-only": (1, "9ac91e372c9194cd"),
    "blind": (1, "6a3750dc5f3511b2"),
    "linear-sarsa": (1, "46a467140f159b60"),
    "linear-prost": (1, "9dc0fedd0a6e100c"),
    "stream-q": (1, "e4aab79e9c32317f"),
    "stream-q-l2init": (1, "2768a0c51e45e978"),
    "dqn": (1, "05119776beb435a6"),
    "linear-td": (2, "084e609738d9449e"),
    "lstd-td": (1, "b078c0e11a23091d"),
    "stream-td": (1, "83decda2d3d88980"),
}
# Added since, with what was there before as the default: not in the hashes above.
ADDED = {"memory": "carry", "method": "none", "strength": None}
CHANGED = "changed: raise REVISION, then pin the new revision and values here"


def shorten_hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_defaults(name: str) -> dict[str, Any]:
    """Hyper-parameter -> default."""
    # What the variant does not name itself it hands on.
    modules = [stream_q] if name == "stream-q-l2init" else []
    found: dict[str, Any] = {}
    for module in [*modules, MODULES[name]]:
        found |= inspect.unwrap(module.init).__kwdefaults__
    return {k: v for k, v in found.items() if k not in ADDED or v != ADDED[k]}


@pytest.mark.parametrize("name", MODULES)
def test_defaults(name: str) -> None:
    found = MODULES[name].REVISION, shorten_hash(read_defaults(name))
    assert found == DEFAULTS[name], CHANGED


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (explore_only, (1, "09974b9ba4049d16")),
        (linear_sarsa, (1, "f83006985e0c3710")),
        (blind, (1, "9b15db0661e9878b")),
    ],
    ids=["explore-only", "linear-sarsa", "blind"],
)
def test_actions(module: Any, expected: tuple[int, str]) -> None:
    # Short blocks: the bandit has many of them in each game.
    short = {} if module is blind else {"block_decisions": 10}
    played = play_squares(module, 1000, **short)
    actions = [int(action) for action, _ in played]
    assert len(set(actions)) == 18
    assert (module.REVISION, shorten_hash(actions)) == expected, CHANGED


def test_predictions() -> None:
    predictions = [answer for answer, _ in play_squares(linear_td, 300)]
    assert linear_td.REVISION == 2, CHANGED
    expected = [-0.4413045514, -0.4427791730, -0.4579568293]
    # Not to the last bit: sums may differ between processors.
    assert predictions[-3:] == pytest.approx(expected, rel=1e-6), CHANGED
