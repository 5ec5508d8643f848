"""A deterministic machine without ROMs, for tests, examples and `check-agent`.

Any name is a game. As on ALE, a visit is a pure function of game, emulator seed and
actions: every action updates a 64-bit state, which determines rewards, lost lives and
game overs. A game has two lives of about `life_frames` frames each, so short streams
cover every kind of boundary.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np

from longplay.console.base import (
    ACTION_NAMES,
    ConsoleStep,
    Observation,
    check_frame_skip,
)

_MASK = 2**64 - 1
_START_LIVES = 2


class ScriptedConsole:
    """A fake game in a few lines of arithmetic."""

    def __init__(
        self,
        *,
        life_frames: int = 40,
        actions: Sequence[int] = tuple(range(len(ACTION_NAMES))),
        frame_skip: int = 1,
    ) -> None:
        self._life_frames = life_frames
        self._actions = tuple(actions)
        self._frame_skip = check_frame_skip(frame_skip)
        self.emulator_frames = 1
        self._state = 0
        self._lives = 0
        self._life_ends_in = 0

    @property
    def actions(self) -> Sequence[int]:
        """The ALE actions of the fake game."""
        return self._actions

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        """Resets the whole state and starts the game."""
        self._state = zlib.crc32(game_id.encode()) << 32 | emulator_seed
        self.reset()

    def reset(self) -> None:
        """Restarts the game; the random state continues, as on ALE."""
        self._lives = _START_LIVES
        self._update_state(0)
        self._start_life()

    def _update_state(self, action: int) -> None:
        # Knuth's MMIX generator, with the action folded in.
        self._state = (
            (self._state ^ action) * 6364136223846793005 + 1442695040888963407
        ) & _MASK

    def _start_life(self) -> None:
        spread = self._life_frames // 2 + 1
        self._life_ends_in = self._life_frames + (self._state >> 33) % spread

    def step(self, action: int) -> ConsoleStep:
        """Plays `frame_skip` frames, or fewer if the game ends."""
        if action not in self._actions:
            raise ValueError(f"action: expected one of {self._actions}, found {action}")
        reward = self._play_frame(action)
        self.emulator_frames = 1
        while self._lives and self.emulator_frames < self._frame_skip:
            reward += self._play_frame(action)
            self.emulator_frames += 1
        return reward, self._lives == 0, self._lives

    def _play_frame(self, action: int) -> float:
        """Plays one frame; returns its reward."""
        self._update_state(action)
        self._life_ends_in -= 1
        if self._life_ends_in == 0:
            self._lives -= 1
            self._start_life()
        return {0: 1.0, 1: 10.0, 2: -0.5}.get(self._state >> 60, 0.0)

    def lives(self) -> int:
        """Lives left."""
        return self._lives

    def observation(self) -> Observation:
        """A frame whose first line shows the state."""
        frame = np.zeros((210, 160, 3), np.uint8)
        frame[0, :8, 0] = list(self.ram()[:8])
        return frame

    def ram(self) -> memoryview:
        """The state and the lives."""
        memory = self._state.to_bytes(8, "little") + bytes([self._lives])
        return memoryview(memory)
