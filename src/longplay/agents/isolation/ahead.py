"""Plays frames on the console while an agent in its own process still computes.

Where decisions are delayed, the actions up to the next decision are known before the
agent has answered. The console plays them meanwhile; the stream then gets the frames
one by one, and the errors too, as if nothing had been played ahead. Frames are drawn
straight into the memory that is shared with the agent, except for those ahead: the
agent must not see them before it has decided.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from longplay.console.base import (
    OBSERVATION_SHAPE,
    Console,
    ConsoleStep,
    Observation,
)

# The most frames that are played ahead of a decision.
LONGEST_AHEAD = 16


class _Played(NamedTuple):
    """A frame that the console played before the agent had decided.

    Attributes:
        step: Reward, game over, lives left.
        ram: The memory after it.
        emulator_frames: Emulator frames that it took.
        observation: The pixels after it, if the agent is to see them.
        error: What the console raised instead.
    """

    step: ConsoleStep = (0.0, False, 0)
    ram: bytes = b""
    emulator_frames: int = 0
    observation: Observation | None = None
    error: Exception | None = None


class AheadConsole:
    """A console that can play frames before the stream asks for them.

    Args:
        console: The console that plays.
        next_canvas: Returns the array for the observation of the next frame.
        shown_after: After how many frames from a decision on the agent is shown one:
            1, or the decision interval if it does not look between decisions.
    """

    def __init__(
        self,
        console: Console,
        next_canvas: Callable[[], Observation],
        shown_after: int,
    ) -> None:
        self._console = console
        self._next_canvas = next_canvas
        self._shown_after = shown_after
        self._draw: Callable[[Observation], None] | None
        self._draw = getattr(console, "draw", None)
        # Valid until the next time that frames are played ahead. The first ones are
        # used again and again, so they stay in the processor's cache.
        self._hidden = list(np.empty((LONGEST_AHEAD, *OBSERVATION_SHAPE), np.uint8))
        self._ahead: deque[_Played] = deque()
        # The stream's current frame, if it was played ahead.
        self._current: _Played | None = None
        self.emulator_frames = console.emulator_frames

    def play_ahead(self, actions: Sequence[int]) -> None:
        """Plays the frames from a decision on with these actions, up to a game over."""
        console = self._console
        for index, action in enumerate(actions[:LONGEST_AHEAD]):
            try:
                step = console.step(action)
                observation = None
                if index + 1 >= self._shown_after and not step[1]:
                    observation = self._observe_hidden(index)
                ram, frames = bytes(console.ram()), console.emulator_frames
            except Exception as error:  # `step` raises it
                self._ahead.append(_Played(error=error))
                return
            self._ahead.append(_Played(step, ram, frames, observation))
            if step[1]:
                return

    def _observe_hidden(self, index: int) -> Observation:
        if self._draw is None:
            return self._console.observation()
        canvas = self._hidden[index]
        self._draw(canvas)
        return canvas

    def step(self, action: int) -> ConsoleStep:
        """Plays one step, or returns the one that was played ahead."""
        if not self._ahead:
            self._current = None
            step = self._console.step(action)
            self.emulator_frames = self._console.emulator_frames
            return step
        self._current = played = self._ahead.popleft()
        if played.error is not None:
            raise played.error
        self.emulator_frames = played.emulator_frames
        return played.step

    def observation(self) -> Observation:
        """The current frame, in shared memory if the console can draw there."""
        if self._current is not None and self._current.observation is not None:
            return self._current.observation
        assert not self._ahead  # the console would show a later frame
        if self._draw is None:
            return self._console.observation()
        canvas = self._next_canvas()
        self._draw(canvas)
        return canvas

    def ram(self) -> memoryview:
        """The machine's memory after the current frame."""
        current = self._current
        return self._console.ram() if current is None else memoryview(current.ram)

    @property
    def actions(self) -> Sequence[int]:
        """The ALE actions of the current game, in the game's order."""
        return self._console.actions

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        """Replaces the machine; nothing is played ahead of a visit's end."""
        self._current = None
        self._console.start_visit(game_id, emulator_seed)

    def reset(self) -> None:
        """Restarts the game; nothing is played ahead of a game over."""
        self._current = None
        self._console.reset()

    def lives(self) -> int:
        """Lives left."""
        return self._console.lives()
