"""Games on a scripted console whose optimum is known, and a way to play them.

    levers      the screen shows which of two directions pays, at random each timestep
    corridor    five places; RIGHT leads on, anything else back; the last one pays
    countdown   nothing to decide: nine screens, then a reward of 1

A game called `levers-swapped` has the directions of `levers` swapped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from longplay.agents.source.loading import load_agent
from longplay.console.base import ConsoleStep, Observation
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EventRow, TimestepRow
from longplay.driver import ActionDriver
from longplay.stream import Mechanics, Stream
from longplay.tracks.control import CONTROL

UP, RIGHT, DOWN = {2, 10}, {3, 11}, {5, 13}  # with the fire button and without
PLACES = 5


class LearnableConsole(ScriptedConsole):
    """Plays any of the games; a square on the screen shows all there is to know."""

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        self._game = game_id
        self._draws = np.random.default_rng(emulator_seed)
        self.reset()

    def reset(self) -> None:
        self._place = 0
        if self._game.startswith("levers"):
            self._place = 2 * int(self._draws.integers(2))

    def step(self, action: int) -> ConsoleStep:
        self.emulator_frames = 1
        if self._game.startswith("levers"):
            return self._pull(action)
        if self._game == "corridor":
            self._place = max(self._place + (1 if action in RIGHT else -1), 0)
            is_over = self._place == PLACES - 1
        else:
            self._place += 1
            is_over = self._place == 9
        return float(is_over), is_over, 1

    def _pull(self, action: int) -> ConsoleStep:
        pays = (UP, DOWN)[self._place // 2]
        if self._game.endswith("swapped"):
            pays = (DOWN, UP)[self._place // 2]
        self.reset()
        return float(action in pays), False, 1

    def lives(self) -> int:
        return 1

    def observation(self) -> Observation:
        frame = np.zeros((210, 160, 3), np.uint8)
        left = 10 + (15 if self._game == "countdown" else 30) * self._place
        frame[60:100, left : left + 25] = 255
        return frame


def play(
    agent: str, games: Sequence[tuple[str, int]], **agent_args: Any
) -> list[float]:
    """The rewards of every timestep of (game, timesteps) after (game, timesteps)."""
    loaded = load_agent(agent, agent_args)
    rows = _play(games, CONTROL.build(loaded, 7).answer)
    return [row.reward for row in rows]


def predict(agent: str, timesteps: int, **agent_args: Any) -> list[float]:
    """The predictions of every timestep of `countdown`."""
    predictor = load_agent(agent, agent_args).build_predictor(7)
    found: list[float] = []

    participant = CONTROL.join(predictor)

    def answer(percept: Any) -> int:
        found.append(float(participant.answer(percept)))
        return 0

    _play([("countdown", timesteps)], answer)
    return found


def _play(
    games: Sequence[tuple[str, int]], answer: Callable[[Any], Any]
) -> list[EventRow]:
    schedule = [
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=game, visit_frames=timesteps)
        for k, (game, timesteps) in enumerate(games)
    ]
    console, mechanics = LearnableConsole(), Mechanics(reward="sign")
    stream = Stream(
        schedule, range(len(schedule)), console, mechanics, ActionDriver(TimestepRow)
    )
    rows = []
    while not stream.done:
        rows.append(stream.advance(answer(stream.percept())))
    return rows
