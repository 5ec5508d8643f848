"""An emulator that can restore earlier states, to sample the futures of a policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from longplay.console.ale import AleConsole
from longplay.console.base import ConsoleStep
from longplay.errors import ConsoleError
from references.stickiness import StickyDraws


@dataclass(frozen=True)
class Branch:
    """A state of a `BranchingAleConsole` that it can restore.

    Attributes:
        state: The emulator's state; that before the reset if the game was just reset.
        previous_action: The action that sticky actions repeat.
        is_before_reset: Whether a reset follows.
    """

    state: Any
    previous_action: int
    is_before_reset: bool


class BranchingAleConsole(AleConsole):
    """Plays like `AleConsole` and can restore earlier states, to sample futures.

    ALE's saved states lack the action that sticky actions repeat. So ALE itself plays
    without sticky actions here; they are drawn in Python per emulator frame, and the
    previous action is saved. So is ALE's generator, which some games use at the start.
    Restoring is exact only in the same emulator object. Saved states also lack a part
    of the video chip, which matters right after a reset (in qbert the next frame is one
    frame ahead); such a state is saved before the reset, which is then repeated.
    """

    def __init__(
        self, *, sticky: float, full_action_space: bool, frame_skip: int = 1
    ) -> None:
        super().__init__(
            sticky=sticky, full_action_space=full_action_space, frame_skip=frame_skip
        )
        self._repeat_probability, self._sticky = self._sticky, 0.0
        self._previous_action = 0
        self._before_reset: Any = None
        self.sticky_rng: StickyDraws = np.random.default_rng(0)

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        """Replaces the emulator; sticky actions are drawn with the same seed."""
        super().start_visit(game_id, emulator_seed)
        self.sticky_rng = np.random.default_rng(emulator_seed)

    def reset(self) -> None:
        """Restarts the game; as in ALE, there is no previous action to repeat."""
        self._before_reset = self._ale.cloneState(include_rng=True)
        super().reset()
        self._previous_action = 0

    def step(self, action: int) -> ConsoleStep:
        """Repeats an action; any frame may play the previous action instead."""
        ale, reward, is_over, frames = self._ale, 0.0, False, 0
        if action not in self._action_set:
            raise ConsoleError(self._describe_invalid(action))
        self._before_reset = None
        while frames < self._frame_skip and not is_over:
            if self.sticky_rng.random() >= self._repeat_probability:
                self._previous_action = action
            reward += ale.act(self._previous_action)
            is_over = ale.game_over()
            frames += 1
        self.emulator_frames = frames
        return reward, is_over, ale.lives()

    def save(self) -> Branch:
        """The current state, for `restore`."""
        is_before_reset = self._before_reset is not None
        state = self._before_reset or self._ale.cloneState(include_rng=True)
        return Branch(state, self._previous_action, is_before_reset)

    def restore(self, branch: Branch) -> None:
        """Restores a saved state, but not `sticky_rng`."""
        self._ale.restoreState(branch.state)
        if branch.is_before_reset:
            self.reset()
        else:
            self._before_reset = None
        self._previous_action = branch.previous_action
