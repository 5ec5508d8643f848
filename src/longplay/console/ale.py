"""The Arcade Learning Environment, one fresh emulator per visit.

This is the only module that imports ale_py. ale-py exits the process on bad input and
hangs on a damaged ROM, so all input is checked here first. One emulator object carries
settings over from game to game, so every visit gets a new one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import ale_py
import numpy as np
from ale_py import roms

from longplay.console.base import (
    ACTION_NAMES,
    ConsoleStep,
    Observation,
    Rom,
    check_frame_skip,
)
from longplay.console.games import check_game
from longplay.contract.config import RunConfig
from longplay.errors import ConfigError, ConsoleError

ALE_VERSION: str = ale_py.__version__

_MAX_EMULATOR_SEED = 2**31 - 1
_RAM_BYTES = 128


def read_rom(game_id: str) -> Rom:
    """Finds a game's ROM and checks it against ale-py's own MD5 list.

    Raises:
        ConfigError: The game cannot be played, or its file is missing or damaged.
    """
    check_game(game_id)
    packaged = Path(roms.__file__).parent
    path = Path(os.environ.get("ALE_ROMS_DIR") or packaged) / f"{game_id}.bin"
    expected = json.loads((packaged / "md5.json").read_bytes())[path.name]
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"ROM of {game_id}: cannot read {path}: {error.strerror}; "
            "reinstall ale-py or fix ALE_ROMS_DIR"
        ) from error
    found = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if found != expected:
        raise ConfigError(
            f"ROM of {game_id}: expected MD5 {expected}, found {found} in {path}; "
            "reinstall ale-py or fix ALE_ROMS_DIR"
        )
    return Rom(path, found, hashlib.sha256(content).hexdigest())


class _NoGame:
    """Placeholder for the emulator before the first visit: every access raises."""

    def __getattr__(self, name: str) -> Any:
        raise ConsoleError("the console has no game yet; call start_visit first")


class AleConsole:
    """Plays Atari 2600 games; a step repeats one action for `frame_skip` frames."""

    def __init__(
        self, *, sticky: float, full_action_space: bool, frame_skip: int = 1
    ) -> None:
        if not 0 <= sticky < 1:  # NaN fails too
            raise ConfigError(f"sticky: expected a number in [0, 1), found {sticky}")
        self._sticky = float(sticky)
        self._full_action_space = full_action_space
        self._frame_skip = check_frame_skip(frame_skip)
        self.emulator_frames = 1
        self._ale: ale_py.ALEInterface = cast(ale_py.ALEInterface, _NoGame())
        self._actions: tuple[int, ...] = ()
        self._action_set: frozenset[int] = frozenset()
        memory = bytearray(_RAM_BYTES)
        self._ram = np.frombuffer(memory, np.uint8)
        self._ram_view = memoryview(memory)

    @classmethod
    def from_config(cls, config: RunConfig) -> AleConsole:
        """The console of a run."""
        return cls(
            sticky=config.sticky,
            full_action_space=config.full_action_space,
            frame_skip=config.frame_skip or 1,
        )

    @property
    def actions(self) -> Sequence[int]:
        """The ALE actions of the current game."""
        return self._actions

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        """Replaces the emulator with a new one that runs this game."""
        rom = read_rom(game_id)
        if not 0 <= emulator_seed <= _MAX_EMULATOR_SEED:
            raise ConfigError(
                f"emulator seed: expected 0 … {_MAX_EMULATOR_SEED}, "
                f"found {emulator_seed}"
            )
        ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
        ale = ale_py.ALEInterface()
        ale.setInt("random_seed", emulator_seed)
        ale.setFloat("repeat_action_probability", self._sticky)
        ale.setInt("frame_skip", 1)
        ale.setInt("max_num_frames_per_episode", 0)
        ale.loadROM(rom.path)
        self._ale = ale
        self._actions = tuple(
            int(action.value)
            for action in (
                ale.getLegalActionSet()
                if self._full_action_space
                else ale.getMinimalActionSet()
            )
        )
        self._action_set = frozenset(self._actions)
        # 18 games play differently without this one reset after loading.
        self.reset()

    def reset(self) -> None:
        """Restarts the game on the same emulator."""
        self._ale.reset_game()

    def step(self, action: int) -> ConsoleStep:
        """Plays one emulator frame, or `frame_skip` of them."""
        ale = self._ale
        if action not in self._action_set:
            raise ConsoleError(self._describe_invalid(action))
        if self._frame_skip > 1:
            return self._repeat(ale, action)
        reward = ale.act(action)
        return float(reward) if reward else 0.0, ale.game_over(), ale.lives()

    def _repeat(self, ale: ale_py.ALEInterface, action: int) -> ConsoleStep:
        """Plays frame by frame instead of with ALE's own skip, to count the frames."""
        act, game_over = ale.act, ale.game_over
        reward, is_over, frames = 0.0, False, 0
        while frames < self._frame_skip and not is_over:
            reward += act(action)
            is_over = game_over()
            frames += 1
        self.emulator_frames = frames
        return reward, is_over, ale.lives()

    def _describe_invalid(self, action: object) -> str:
        self._ale.lives()  # raises if there is no game yet
        names = ", ".join(ACTION_NAMES[known] for known in self._actions)
        return f"action: expected one of {self._actions} ({names}), found {action!r}"

    def lives(self) -> int:
        """Lives left."""
        return self._ale.lives()

    def observation(self) -> Observation:
        """The current frame; ale-py makes a new array for every call."""
        return self._ale.getScreenRGB()

    def draw(self, canvas: Observation) -> None:
        """Draws the current frame into an array."""
        self._ale.getScreenRGB(canvas)

    def ram(self) -> memoryview:
        """The 128 bytes of memory."""
        self._ale.getRAM(self._ram)
        return self._ram_view

    def serialize_state(self) -> bytes:
        """The emulator's state and generator, without the action sticky may repeat."""
        return self._ale.cloneState(include_rng=True).serialize()
