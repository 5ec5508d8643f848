"""`blind`: the agent of the README, by name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from longplay.learners import blind
from made_up_visits import Player, build, show

README = Path(__file__).parents[2] / "README.md"


def read_agent() -> dict[str, Any]:
    """The functions of the README's first agent."""
    text = README.read_text(encoding="utf-8")
    code, *_ = re.findall(r"```python\n(# my_agent\.py\n.*?)```", text, re.S)
    names: dict[str, Any] = {}
    exec(code, names)
    return names


def test_it_plays_what_the_agent_of_the_readme_plays() -> None:
    agent, rng, screen = read_agent(), np.random.default_rng(0), show(1)
    state, ours = agent["init"](screen.shape, 18, 5), build(blind)
    expected, found = [], []
    for k in range(3000):
        reward = float(rng.integers(-1, 2)) if k else 0.0
        state, action = agent["step"](state, screen, screen, reward)
        expected.append(action)
        # The end of a visit means nothing to it.
        info = {"terminated": k % 7 == 6, "truncated": k % 100 == 99}
        ours, action, _ = blind.step(ours, screen, screen, reward, info)
        found.append(action)
    assert found == expected
    assert len(set(found)) == 18


def test_it_learns_which_action_pays() -> None:
    state, screen, reward = build(blind), show(1), 0.0
    actions = []
    for _ in range(2000):
        info = {"terminated": False, "truncated": False}
        state, action, _ = blind.step(state, screen, screen, reward, info)
        reward = float(action == 7)
        actions.append(action)
    assert actions[-500:].count(7) > 400


def test_raw_rewards_of_any_size_do_no_harm() -> None:
    player = Player(blind)
    for _ in range(1000):
        player.see(show(1), reward=10_000.0 * (player.answers[-1:] == [3]))
    assert np.isfinite(player.state.preferences).all()
    assert player.metrics["highest_chance"] > 0.5


def test_it_sees_nothing() -> None:
    one, two = Player(blind), Player(blind)
    for k in range(50):
        one.see(show(1, k % 20), reward=float(k % 3))
        two.see(show(5), reward=float(k % 3))
    assert one.answers == two.answers
