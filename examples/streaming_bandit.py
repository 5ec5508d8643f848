"""A learning agent in one file: a bandit over actions.

    longplay run stream-smoke-v1 --agent examples/streaming_bandit.py

It does not look at the screen. It draws actions from a softmax over one preference per
action and updates the preferences by policy gradient: a reward raises the preference
for the actions of the last seconds, and a time without reward lowers it slightly. It
collects about as much as the random agent, so learning needs the screen.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Agent:
    """Draws actions from a softmax and learns its preferences from rewards."""

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
