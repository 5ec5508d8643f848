"""Visits of made-up games, each with a colour of its own, and a player of them.

    player = Player(linear_sarsa, memory="library")
    player.visit(game=1, timesteps=50)
    player.visit(game=2, timesteps=50)          # the switch is its first timestep

Screens and rewards are the same in every visit of a game, whatever the agent answers.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from longplay.learners.parts.state_files import pack_state

SHAPE = (210, 160, 3)
NOTHING = {"terminated": False, "truncated": False}
SWITCH = {"terminated": False, "truncated": True}

Stops = dict[int, Path] | None


def build(learner: ModuleType, **agent_args: Any) -> Any:
    """The state of a learner, with what its `init` asks for."""
    offered = {"observation_shape": SHAPE, "num_actions": 18, "seed": 5}
    named = inspect.signature(learner.init).parameters
    given = {key: value for key, value in offered.items() if key in named}
    return learner.init(**given, **agent_args)


def show(game: int, place: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """A game's colour everywhere, and a small square in one of 20 places."""
    screen = np.full(SHAPE, 40 * game, np.uint8)
    screen[10 * place : 10 * place + 8, 20:28] = 255
    return screen


def describe(state: Any) -> Any:
    """Everything in a state but its generators, to be compared."""
    values, _, arrays = pack_state(state).partition(b"\n")
    kept = {
        key: value
        for key, value in json.loads(values).items()
        if not isinstance(value, dict) or "bit_generator" not in value
    }
    return kept, arrays


class Player:
    """Plays one visit after the other."""

    def __init__(self, learner: ModuleType, **agent_args: Any) -> None:
        self.learner = learner
        self.state = build(learner, **agent_args)
        self.last: Any = None
        self.answers: list[Any] = []
        self.metrics: dict[str, float] = {}

    def see(
        self, screen: Any, reward: float = 0.0, info: dict[str, bool] | None = None
    ) -> None:
        """One timestep."""
        last = screen if self.last is None else self.last
        answer = self.learner.step(self.state, last, screen, reward, info or NOTHING)
        self.state, action, self.metrics = answer
        self.answers.append(action)
        self.last = screen

    def visit(
        self, game: int, timesteps: int, pending: float = 1.0, stops: Stops = None
    ) -> list[Any]:
        """One visit.

        Args:
            game: Which of the games.
            timesteps: Its length.
            pending: The reward that comes with its first frame.
            stops: Timestep -> where the state is saved after it, and loaded from.
        """
        rng, first = np.random.default_rng(game), len(self.answers)
        info = NOTHING if self.last is None else SWITCH
        for k in range(timesteps):
            if k == 0:
                self.see(show(game), 0.0 if self.last is None else pending, info)
            else:
                self.see(show(game, rng.integers(20)), float(rng.integers(-1, 2)))
            if stops and k in stops:
                self.save(stops[k])
                self.state = self.learner.load(stops[k])
        return self.answers[first:]

    def save(self, folder: Path) -> dict[str, bytes]:
        """Saves the state; returns the files."""
        folder.mkdir()
        self.learner.save(self.state, folder)
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
