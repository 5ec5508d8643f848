"""An agent class: `step` is called on every frame and decides on decision frames.

    longplay check-agent my_agent.py
    longplay run stream-smoke-v1 --agent my_agent.py --seed 1000
    longplay run stream-3x2-v1 --agent my_agent.py --seed 1000 --agent-arg epsilon=0.2

Seeds from 1000 on are for development, a suite's official seeds for results.

It remembers which action was worth most lately; make it look at the screen. `step` is
described in docs/agents.md, "The streaming track", at
https://github.com/longplay/longplay/tree/main/docs.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np


class Agent:
    """Repeats the best recent action, and sometimes tries another one."""

    def __init__(self, num_actions: int, seed: int, epsilon: float = 0.1) -> None:
        self.rng = np.random.default_rng(seed)
        self.epsilon = epsilon
        self.worth = np.zeros(num_actions)
        self.action = 0

    def step(
        self,
        obs_rgb: np.ndarray[Any, np.dtype[np.uint8]],
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> int:
        """Learns on every frame, and answers it."""
        self.worth[self.action] += 0.01 * (np.sign(reward) - self.worth[self.action])
        if info["is_decision_frame"]:
            if self.rng.random() < self.epsilon:
                self.action = int(self.rng.integers(len(self.worth)))
            else:
                self.action = int(self.worth.argmax())
        return self.action

    def metrics(self) -> dict[str, float]:
        """Numbers to record for each visit."""
        return {"worth": float(self.worth.max())}

    def save(self, directory: Path) -> None:
        """Writes all that `step` changes, so that a run can be resumed."""
        np.save(directory / "worth.npy", self.worth)
        state = {"rng": self.rng.bit_generator.state, "action": self.action}
        (directory / "state.json").write_text(json.dumps(state))

    def load(self, directory: Path) -> None:
        """Restores the saved state."""
        self.worth = np.load(directory / "worth.npy")
        state = json.loads((directory / "state.json").read_text())
        self.rng.bit_generator.state = state["rng"]
        self.action = state["action"]
