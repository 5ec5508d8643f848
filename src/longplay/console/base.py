"""What a stream needs of a machine.

A console plays one visit at a time. A visit is a pure function of game, emulator seed
and actions: `start_visit` brings up a machine that remembers nothing of the last one.
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
ACTION_NAMES = (
    "NOOP",
    "FIRE",
    "UP",
    "RIGHT",
    "LEFT",
    "DOWN",
    "UPRIGHT",
    "UPLEFT",
    "DOWNRIGHT",
    "DOWNLEFT",
    "UPFIRE",
    "RIGHTFIRE",
    "LEFTFIRE",
    "DOWNFIRE",
    "UPRIGHTFIRE",
    "UPLEFTFIRE",
    "DOWNRIGHTFIRE",
    "DOWNLEFTFIRE",
)


@dataclass(frozen=True)
class Rom:
    """A ROM file that was checked: the one its machine expects."""

    path: Path
    md5: str
    sha256: str


# What one console step did: reward, game over, lives left. A plain tuple, because one
# is made on every frame.
ConsoleStep = tuple[float, bool, int]


def check_frame_skip(frame_skip: int) -> int:
    """Returns the number of emulator frames per step if it is one."""
    if isinstance(frame_skip, bool) or frame_skip < 1:
        raise ConfigError(f"frame_skip: expected at least 1, found {frame_skip!r}")
    return frame_skip


class Console(Protocol):
    """A machine that plays visits, one after the other.

    A step holds one action for up to `frame_skip` emulator frames and adds up their
    rewards; the frame that ends the game is its last.

    Attributes:
        emulator_frames: Emulator frames that the last step played.
    """

    emulator_frames: int

    @property
    def actions(self) -> Sequence[int]:
        """ALE actions the current game takes, in its own order."""

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        """Replaces the machine by a new one with this game, ready to be played."""

    def reset(self) -> None:
        """Starts the game again on the same machine."""

    def step(self, action: int) -> ConsoleStep:
        """Plays one step with one of `actions`."""

    def lives(self) -> int:
        """Lives left at this moment."""

    def observation(self) -> Observation:
        """The current frame, RGB, in an array that nobody else holds."""

    def ram(self) -> memoryview:
        """The machine's memory: for the referee, never for an agent.

        It is a view of the console's own copy, and holds until the next call.
        """
