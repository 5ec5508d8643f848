"""A learning agent in one file: which actions have paid off lately?

    longplay run stream-smoke-v1 --agent examples/streaming_bandit.py

It never looks at the screen. It draws actions from a softmax over one preference per
action and moves the preferences by policy gradient: up for what was chosen in the last
seconds before a reward, down a little while nothing comes. It earns about what the
random agent earns, which tells how far one gets without looking.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Agent:
    """Draws actions by preference, and learns the preferences from the stream."""

    def __init__(self, num_actions: int, seed: int, step_size: float = 0.2) -> None:
        self.rng = np.random.default_rng(seed)
        self.step_size = step_size
        self.preference = np.zeros(num_actions)
        self.trace = np.zeros(num_actions)
        self.reward_rate = 0.0
        self.action = 0

    def step(
        self,
        obs_rgb: NDArray[np.uint8],
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> int:
        surprise = np.sign(reward) - self.reward_rate
        self.reward_rate += 0.001 * surprise
        if terminated or truncated:
            self.trace[:] = 0.0
        if info["is_decision_frame"] or reward:
            self.preference += self.step_size * surprise * self.trace
            self.preference *= 0.999
        if info["is_decision_frame"]:
            odds = np.exp(self.preference - self.preference.max())
            odds /= odds.sum()
            self.action = int(self.rng.choice(len(odds), p=odds))
            self.trace = 0.9 * self.trace - 0.1 * odds
            self.trace[self.action] += 0.1
        return self.action

    def save(self, directory: Path) -> None:
        np.savez(directory / "bandit.npz", preference=self.preference, trace=self.trace)
        state = {
            "rng": self.rng.bit_generator.state,
            "reward_rate": float(self.reward_rate),
            "action": self.action,
        }
        (directory / "bandit.json").write_text(json.dumps(state))

    def load(self, directory: Path) -> None:
        with np.load(directory / "bandit.npz") as arrays:
            self.preference, self.trace = arrays["preference"], arrays["trace"]
        state = json.loads((directory / "bandit.json").read_text())
        self.rng.bit_generator.state = state["rng"]
        self.reward_rate, self.action = state["reward_rate"], state["action"]

    def metrics(self) -> dict[str, float]:
        return {"reward_rate": self.reward_rate, "top": float(self.preference.max())}
