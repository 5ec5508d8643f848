"""A suite on a console that pays for one action: its best agent is known."""

from __future__ import annotations

from pathlib import Path

from longplay.console.base import ConsoleStep, Rom
from longplay.console.machines import Machine
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import RunConfig, ScoringDefaults
from longplay.suites import ControlSuite

PAYING_ACTION = 5


class PayingConsole(ScriptedConsole):
    """1 point for every frame of the paying action, 0 for any other."""

    def step(self, action: int) -> ConsoleStep:
        _, is_over, lives = super().step(action)
        return float(action == PAYING_ACTION), is_over, lives


def make_console(config: RunConfig) -> PayingConsole:
    return PayingConsole(life_frames=9, frame_skip=config.frame_skip or 1)


MACHINE = Machine(
    name="paying_emulator",
    games=frozenset({"paying_one", "paying_two"}),
    make_console=make_console,
    read_version=lambda: "1.0",
    read_rom=lambda game_id: Rom(Path(game_id), "a" * 32, "b" * 64),
)

SUITE = ControlSuite(
    suite_id="paying-v1",
    purpose="one action pays",
    games=("paying_one", "paying_two"),
    base_visit_frames=20,
    scoring_defaults=ScoringDefaults(
        window_frames=10,
        bottom_k_frac=0.5,
        revisit_frames=5,
        final_score_weights=(0.5, 0.5),
    ),
)

# Answers with its argument; raises if that is negative.
AGENT = """
class Agent:
    def __init__(self, num_actions, seed, action=0):
        self.action = action

    def step(self, obs_rgb, reward, terminated, truncated, info):
        if self.action < 0:
            raise ValueError("no such button")
        return self.action
"""

STUDY = """
name = "paying"
seeds = [0, 1]

[[agents]]
ref = "random"

[[agents]]
ref = "button.py"

[[suites]]
id = "paying-v1"

[tuning]
fraction = 0.25
seeds = [1000, 1001]
metric = "reward_rate"

[tuning.grid.button]
action = [3, 5, 7]
"""
