"""A study of four short runs: two of tuning, and the results of two agents."""

from __future__ import annotations

STUDY = """
name = "small"
seeds = [0]

[[agents]]
ref = "repeat"

[[agents]]
ref = "button.py"

[[suites]]
id = "control-smoke-v1"
set = { games = ["breakout"], base_visit_frames = 40 }

[tuning]
fraction = 0.5
seeds = [1000]
metric = "reward_rate"

[tuning.grid.button]
action = [0, 1]
"""

# button.py; while `slow` lies in the working directory, a run takes seconds.
AGENT = """
import time
from pathlib import Path

class Agent:
    def __init__(self, num_actions, seed, action):
        self.action = action

    def step(self, obs_rgb, reward, terminated, truncated, info):
        time.sleep(0.1 * Path("slow").exists())
        return self.action

    def save(self, directory):
        pass

    def load(self, directory):
        pass
"""
