"""What a learner keeps when the game changes: `memory = carry | reset | library`.

    carry     everything; the default
    reset     nothing: all that was learned and estimated is as on the first frame
    library   one set of it per game; a game that was not seen before starts fresh

`reset` and `library` are controls: a method that keeps what it learned and transfers
it must beat both. Generators go on in all three. A switch is what `info["truncated"]`
says; the game is recognised by the colours of the first frame of its visit, which any
agent may look at. The old set learns the last transition of its visit, as the end of an
episode and without seeing the next game. Then the new set chooses the first action; if
it has come back, it learns no transition across the gap.

A learner takes part with an argument, two decorators and one function:

    @with_memory
    def init(observation_shape, num_actions, seed, *, …, memory="carry"):
        arguments = dict(locals())                # `memory` is one of them

    def restart(state):                           # nothing precedes the next frame

    @switch_memory(restart)
    def step(state, previous_observation, observation, reward, info):

and saves and loads with `save_state` and `load_state`. The next `step` after `restart`
must learn no transition, and show the observation as the first of an episode: traces,
stacks of frames and held actions are cleared. All else in `SAVED` is part of the set.

A set that is not in use is kept as the bytes that `save_state` would write: that of
`dqn` with a full replay takes 1 to 2 MB, not 30.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.limits import MEMORIES
from longplay.learners.parts.state_files import (
    LearnerState,
    copy_generators,
    pack_state,
    unpack_state,
)

CARRY, _, LIBRARY = MEMORIES

Colours = np.ndarray[Any, np.dtype[np.float32]]
Init = Callable[..., Any]
Step = Callable[..., Any]
Restart = Callable[[Any], None]

# Red, green and blue have 8 levels each.
_LEVELS = 8
# Largest distance (0 … 2) between the colours of two first frames of one game. It is at
# most 0.008 over seeds, and at least 0.08 between two games of the suites.
_SAME_GAME = 0.02
# No suite has more games. One more replaces the set that was used longest ago.
MOST_SETS = 32

_NOTHING: Mapping[str, bool] = {"terminated": False, "truncated": False}
_END: Mapping[str, bool] = {"terminated": True, "truncated": False}


def with_memory(init: Init) -> Init:
    """Decorates a learner's `init`: its argument `memory` takes effect."""

    @wraps(init)
    def build(*args: Any, **named: Any) -> Any:
        state = init(*args, **named)
        if state.arguments["memory"] == CARRY:
            return state
        return SwitchedState(init, state)

    return build


def switch_memory(restart: Restart) -> Callable[[Step], Step]:
    """Decorates a learner's `step`: sets are switched where games change."""

    def decorate(step: Step) -> Step:
        @wraps(step)
        def play(
            state: Any,
            previous_observation: Any,
            observation: Any,
            reward: float,
            info: Mapping[str, bool],
        ) -> Any:
            if not isinstance(state, SwitchedState):
                return step(state, previous_observation, observation, reward, info)
            if info["truncated"]:
                state.learn_end(step, previous_observation, reward)
                state.switch(observation, restart)
                previous_observation, reward, info = observation, 0.0, _NOTHING
            elif not len(state.colours):
                state.find_slot(observation)
            answer = step(
                state.current, previous_observation, observation, reward, info
            )
            state.current, action, metrics = answer
            return state, action, metrics | state.measure()

        return play

    return decorate


class SwitchedState:
    """The state of a learner whose memory is `reset` or `library`."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "current",
        "slot",
        "colours",
        "used",
        "shelf_sizes",
        "shelf_bytes",
    )

    def __init__(self, init: Init, state: LearnerState) -> None:
        self._init = init
        # The set in use.
        self.current = state
        self.arguments = state.arguments
        self.slot = 0
        # By slot: the colours of its game, when it was used last, and the set as bytes;
        # none of the one in use.
        self.colours: Colours = np.zeros((0, _LEVELS**3), np.float32)
        self.used: list[int] = []
        self.shelf: list[bytes] = []
        # Only while a state is loaded: `shelf_sizes` comes before `shelf_bytes`.
        self._sizes: list[int] = []

    @property
    def is_library(self) -> bool:
        """Whether sets are kept."""
        return bool(self.arguments["memory"] == LIBRARY)

    def learn_end(self, step: Step, last_observation: Any, reward: float) -> None:
        """Lets the old set learn its last transition; what is erased need not."""
        if self.is_library:
            before = (self.current, last_observation, last_observation)
            self.current, *_ = step(*before, reward, _END)

    def switch(self, observation: Any, restart: Restart) -> None:
        """Puts the old set away and takes the set of this first frame's game."""
        old, kept = self.current, b""
        if self.is_library:
            self.shelf[self.slot] = pack_state(old)
            self.find_slot(observation)
            kept, self.shelf[self.slot] = self.shelf[self.slot], b""
        if kept:
            self.current = unpack_state(self._init, kept)
            restart(self.current)
        else:
            self.current = self._init(**self.arguments)
        copy_generators(old, self.current)

    def find_slot(self, observation: Any) -> None:
        """Finds the slot of a first frame's game, or makes one."""
        if not self.is_library:
            return
        seen = find_colours(observation)
        distances = np.abs(self.colours - seen).sum(axis=1)
        if len(distances) and distances.min() <= _SAME_GAME:
            self.slot = int(distances.argmin())
        else:
            self.slot = self._make_slot(seen)
        self.used[self.slot] = max(self.used) + 1

    def _make_slot(self, seen: Colours) -> int:
        if len(self.used) < MOST_SETS:
            self.colours = np.append(self.colours, seen[None], axis=0)
            self.used.append(0)
            self.shelf.append(b"")
            return len(self.used) - 1
        slot = int(np.argmin(self.used))
        self.colours[slot], self.shelf[slot] = seen, b""
        return slot

    def measure(self) -> dict[str, float]:
        """The slot in use and the number of slots."""
        if not self.is_library:
            return {}
        return {"memory_slot": float(self.slot), "memory_slots": float(len(self.used))}

    @property
    def shelf_sizes(self) -> list[int]:
        """The number of bytes of each set on the shelf."""
        return [len(kept) for kept in self.shelf]

    @shelf_sizes.setter
    def shelf_sizes(self, sizes: list[int]) -> None:
        self._sizes = sizes

    @property
    def shelf_bytes(self) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """All sets on the shelf, one after the other."""
        return np.frombuffer(b"".join(self.shelf), np.uint8)

    @shelf_bytes.setter
    def shelf_bytes(self, joined: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
        ends = np.cumsum(self._sizes)
        self.shelf = [
            joined[end - size : end].tobytes()
            for size, end in zip(self._sizes, ends, strict=True)
        ]


def find_colours(observation: Any) -> Colours:
    """The share of each of 512 colours in a frame."""
    levels = (observation >> 5).astype(np.int64)
    codes = (levels[..., 0] * _LEVELS + levels[..., 1]) * _LEVELS + levels[..., 2]
    counts = np.bincount(codes.ravel(), minlength=_LEVELS**3)
    shares: Colours = (counts / codes.size).astype(np.float32)
    return shares
