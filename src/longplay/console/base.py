"""The interface between a stream and a machine.

A console plays one visit at a time. A visit is a pure function of game, emulator seed
and actions: `start_visit` starts a machine without any state of the previous one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from longplay.errors import ConfigError

Observation = NDArray[np.uint8]

OBSERVATION_SHAPE = (210, 160, 3)

# Global action index == ALE action number == position here.
ACTION_NAMES = tuple(
    """
    NOOP FIRE UP RIGHT LEFT DOWN UPRIGHT UPLEFT DOWNRIGHT DOWNLEFT UPFIRE RIGHTFIRE
    LEFTFIRE DOWNFIRE UPRIGHTFIRE UPLEFTFIRE DOWNRIGHTFIRE DOWNLEFTFIRE
    """.split()
)


@dataclass(frozen=True)
class Rom:
    """A ROM file whose hash was checked."""

    path: Path
    md5: str
    sha256: str


# Result of one console step: reward, game over, lives left. A plain tuple, because it
# is created on every frame.
ConsoleStep = tuple[float, bool, int]


def check_frame_skip(frame_skip: int) -> int:
    """Returns the number of emulator frames per step if it is valid."""
    if isinstance(frame_skip, bool) or frame_skip < 1:
        raise ConfigError(f"frame_skip: expected at least 1, found {frame_skip!r}")
    return frame_skip


class Console(Protocol):
    """A machine that plays visits, one after the other.

    A step repeats one action for up to `frame_skip` emulator frames and sums their
    rewards; it ends early if the game ends.

    A console may also have a method `draw(canvas)`, which does the same as
    `canvas[...] = self.observation()` without a new array.

    Attributes:
        emulator_frames: Emulator frames that the last step played.
    """

    emulator_frames: int

    @property
    def actions(self) -> Sequence[int]:
        """The ALE actions of the current game, in the game's order."""

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        """Replaces the machine with a new one that is ready to play this game."""

    def reset(self) -> None:
        """Restarts the game on the same machine."""

    def step(self, action: int) -> ConsoleStep:
        """Plays one step with one of `actions`."""

    def lives(self) -> int:
        """Lives left."""

    def observation(self) -> Observation:
        """The current frame, RGB, as a new array."""

    def ram(self) -> memoryview:
        """The machine's memory: for verification, never for an agent.

        It is a view of the console's own copy, valid until the next call.
        """
