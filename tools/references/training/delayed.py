"""A console under a suite's control rules: one step is one decision.

A decision is held for `decision_interval` steps of the machine and applied `delay`
steps late, as in `longplay.stream`; a reset restarts the control rules. What follows
then depends on the decisions that are still in the queue, and without them the game
is not Markov. So the memory of this console has one more byte for each of them, with
one bit per part of the action (up, right, left, down, fire).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from longplay.console.base import ACTION_NAMES, Console, ConsoleStep, Observation
from longplay.reference.ram import RAM_BYTES
from longplay.stream import Mechanics

_PARTS = ("UP", "RIGHT", "LEFT", "DOWN", "FIRE")
_CODES = tuple(
    sum(1 << place for place, part in enumerate(_PARTS) if part in name)
    for name in ACTION_NAMES
)


class PendingDecisions:
    """The decisions that wait in the queue on a decision frame, oldest first."""

    def __init__(self, mechanics: Mechanics) -> None:
        self._default = mechanics.default_action_idx
        self._count = -(-mechanics.delay // mechanics.decision_interval)
        self.restart()

    def restart(self) -> None:
        """After a reset all of them are the default action."""
        self._decisions = deque([self._default] * self._count, maxlen=self._count)

    def add(self, decision: int) -> None:
        """Adds a decision; the oldest one has been applied."""
        self._decisions.append(decision)

    def extend(self, ram: memoryview) -> bytes:
        """The machine's memory, followed by the decisions."""
        codes = bytes(_CODES[decision] for decision in self._decisions)
        return bytes(ram).ljust(RAM_BYTES, b"\0") + codes


class DelayedConsole:
    """Plays decisions instead of actions; game over ends a step early."""

    def __init__(self, machine: Console, mechanics: Mechanics) -> None:
        self._machine, self._mechanics = machine, mechanics
        self._pending = PendingDecisions(mechanics)
        self._restart_control()

    def _restart_control(self) -> None:
        self._pending.restart()
        default = self._mechanics.default_action_idx
        self._queue = deque([default] * self._mechanics.delay)
        self.emulator_frames = 0

    @property
    def actions(self) -> Sequence[int]:
        """The ALE actions of the current game."""
        return self._machine.actions

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        """Starts a new machine."""
        self._machine.start_visit(game_id, emulator_seed)
        self._restart_control()

    def reset(self) -> None:
        """Restarts the game and the control rules."""
        self._machine.reset()
        self._restart_control()

    def step(self, action: int) -> ConsoleStep:
        """Plays the steps of one decision."""
        reward, is_over, lives = 0.0, False, 0
        self.emulator_frames = 0
        for _ in range(self._mechanics.decision_interval):
            self._queue.append(action)
            gained, is_over, lives = self._machine.step(self._queue.popleft())
            reward += gained
            self.emulator_frames += self._machine.emulator_frames
            if is_over:
                break
        self._pending.add(action)
        return reward, is_over, lives

    def lives(self) -> int:
        """Lives left."""
        return self._machine.lives()

    def observation(self) -> Observation:
        """The current frame."""
        return self._machine.observation()

    def ram(self) -> memoryview:
        """The machine's memory, followed by the pending decisions."""
        return memoryview(self._pending.extend(self._machine.ram()))
