"""A batch of emulators: one action each -> rewards, ends and the next RAM.

The consoles repeat an action for a whole timestep, as in a stream, and an emulator is
reset immediately after a game over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longplay.console.base import Console, ConsoleStep
from longplay.reference.ram import RAM_BYTES, RamPair

# Emulator frames per timestep; `MakeConsole` must make consoles with it.
FRAME_SKIP = 4

MakeConsole = Callable[[], Console]


class Outcomes(NamedTuple):
    """The results of one timestep in every emulator."""

    game_rewards: NDArray[np.float64]
    is_over: NDArray[np.bool_]
    life_lost: NDArray[np.bool_]


class Emulators:
    """Several emulators of one game, each with its own seed.

    ALE cannot save an emulator exactly. But its play is a function of its seed and
    actions, so both are kept, and `replay` rebuilds the emulators from them.
    """

    def __init__(
        self, game_id: str, make_console: MakeConsole, seeds: Sequence[int]
    ) -> None:
        self._game_id = game_id
        self._consoles = [make_console() for _ in seeds]
        for console, seed in zip(self._consoles, seeds, strict=True):
            console.start_visit(game_id, seed)
        self.seeds = list(seeds)
        self.actions = [bytearray() for _ in seeds]
        self.memory_bytes = max(RAM_BYTES, len(self._consoles[0].ram()))
        self.ram: RamPair = np.zeros((len(seeds), 2 * self.memory_bytes), np.uint8)
        for index in range(len(seeds)):
            self._read_first_ram(index)
        self._lives = [console.lives() for console in self._consoles]
        self._scores = [0.0] * len(seeds)
        self.finished_scores: list[float] = []

    def __len__(self) -> int:
        return len(self._consoles)

    def _read_first_ram(self, index: int) -> None:
        memory = np.frombuffer(self._consoles[index].ram(), np.uint8)
        self.ram[index, : len(memory)] = memory
        half = self.memory_bytes
        self.ram[index, half:] = self.ram[index, :half]

    def _read_next_ram(self, index: int) -> None:
        half = self.memory_bytes
        self.ram[index, half:] = self.ram[index, :half]
        memory = np.frombuffer(self._consoles[index].ram(), np.uint8)
        self.ram[index, : len(memory)] = memory

    def play(self, actions: Sequence[int]) -> Outcomes:
        """Plays a timestep in each emulator and updates `ram` for the next one."""
        count = len(self)
        game_rewards = np.zeros(count)
        is_over, life_lost = np.zeros(count, np.bool_), np.zeros(count, np.bool_)
        for index, action in enumerate(actions):
            lives_before = self._lives[index]
            reward, over, lives = self._play_one(index, action)
            game_rewards[index], is_over[index] = reward, over
            life_lost[index] = lives < lives_before
        return Outcomes(game_rewards, is_over, life_lost)

    def _play_one(self, index: int, action: int) -> ConsoleStep:
        self.actions[index].append(action)
        step = reward, over, lives = self._consoles[index].step(action)
        self._scores[index] += reward
        if over:
            self._finish_game(index)
        else:
            self._lives[index] = lives
            self._read_next_ram(index)
        return step

    def restart(self, index: int, seed: int) -> None:
        """Replaces an emulator with a new one, which ends its game."""
        self._consoles[index].start_visit(self._game_id, seed)
        self.seeds[index], self.actions[index] = seed, bytearray()
        self._start_game(index)

    def replay(self, index: int, actions: bytes) -> None:
        """Plays the actions of an emulator since its start again."""
        for action in actions:
            self._play_one(index, action)
        self.finished_scores.clear()

    def _finish_game(self, index: int) -> None:
        self.finished_scores.append(self._scores[index])
        self._consoles[index].reset()
        self._start_game(index)

    def _start_game(self, index: int) -> None:
        self._scores[index] = 0.0
        self._lives[index] = self._consoles[index].lives()
        self._read_first_ram(index)
