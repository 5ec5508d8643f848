"""A console whose every step is written down in the test, and streams on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from longplay.contract.config import ScheduledVisit
from longplay.stream import Mechanics, Stream

QUIET = (0.0, False, 3)
LIFE_LOST = (0.0, False, 2)
GAME_OVER = (0.0, True, 0)


@dataclass
class TapeConsole:
    """Plays outcomes from a list, then empty ones, and records its calls."""

    tape: Sequence[tuple[float, bool, int]] = ()
    actions: Sequence[int] = tuple(range(18))
    calls: list[Any] = field(default_factory=list)
    screen: int = 0
    steps: int = 0
    emulator_frames: int = 1
    lives_left: int = 3

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        self._begin(("start", game_id, emulator_seed))

    def reset(self) -> None:
        self._begin("reset")

    def _begin(self, call: Any) -> None:
        self.calls.append(call)
        self.screen += 100
        self.lives_left = 3

    def step(self, action: int) -> tuple[float, bool, int]:
        self.calls.append(action)
        outcome = self.tape[self.steps] if self.steps < len(self.tape) else QUIET
        self.steps += 1
        self.screen += 1
        self.lives_left = outcome[2]
        return outcome

    def lives(self) -> int:
        return self.lives_left

    def observation(self) -> Any:
        return np.array([self.screen])

    def ram(self) -> bytes:
        return b""


def make_visits(*blocks: tuple[str, int]) -> list[ScheduledVisit]:
    return [
        ScheduledVisit(visit_idx=i, cycle_idx=0, game_id=game, visit_frames=frames)
        for i, (game, frames) in enumerate(blocks)
    ]


def make_stream(console: Any, *blocks: tuple[str, int], **mechanics: Any) -> Stream:
    visits = make_visits(*blocks)
    seeds = range(100, 100 + len(visits))
    return Stream(visits, list(seeds), console, Mechanics(**mechanics))
