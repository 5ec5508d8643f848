"""A replay of single frames, which are stacked when they are drawn.

    replay = Replay(ReplayShape(capacity=10_000, size=42, frames=4, returns=3))
    replay.add(frame, is_first)                   # the current frame
    replay.complete(action, reward, is_over)      # the action there, and its reward
    batch = replay.draw(rng, 32, discount)        # n-step transitions

A frame is stored once, as bytes: 10,000 frames of 42 × 42 take 18 MB, and a tenth of
that when they are saved. A transition never crosses the end of a game.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from longplay.errors import ConfigError
from longplay.learners.parts.kernels import Floats, compiled

Integers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class ReplayShape:
    """The capacity of a replay, and the shape of a transition."""

    capacity: int
    size: int
    frames: int = 4
    # Number of rewards summed before bootstrapping (n-step returns).
    returns: int = 3

    @property
    def transitions(self) -> int:
        """How many transitions a full replay has.

        The oldest frames lack those before them, the newest what follows.
        """
        return self.capacity - (self.frames - 1) - self.returns


class Batch(NamedTuple):
    """Transitions: images (sample, row, column, frame), and what lies between them."""

    images: Floats
    actions: Integers
    # Discounted sums of up to `returns` rewards.
    rewards: Floats
    # What the value of the next image is multiplied by; 0 where a game ended.
    discounts: Floats
    next_images: Floats


class Replay:
    """The last `capacity` frames, actions, rewards and ends, in a ring."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "frames",
        "is_first",
        "actions",
        "rewards",
        "is_over",
        "added",
        "is_cut",
    )
    ADDED: ClassVar[tuple[str, ...]] = ("is_cut",)

    def __init__(self, shape: ReplayShape) -> None:
        if shape.capacity <= shape.frames + shape.returns:
            raise ConfigError(
                f"capacity: expected more than {shape.frames + shape.returns} frames, "
                f"found {shape.capacity}"
            )
        self.shape = shape
        capacity = shape.capacity
        self.frames = np.zeros((capacity, shape.size, shape.size), np.uint8)
        self.is_first = np.zeros(capacity, np.bool_)
        self.actions = np.zeros(capacity, np.int64)
        self.rewards = np.zeros(capacity, np.float32)
        self.is_over = np.zeros(capacity, np.bool_)
        self.added = 0
        # Whether the newest frame is complete, as after `restart`.
        self.is_cut = False

    def __len__(self) -> int:
        """The number of transitions that can be drawn."""
        shape = self.shape
        if self.added > shape.capacity:
            return shape.transitions
        return max(self.added - shape.returns, 0)

    @property
    def is_open(self) -> bool:
        """Whether the newest frame waits for its action and reward."""
        return self.added > 0 and not self.is_cut

    def restart(self) -> None:
        """Drops the newest frame if no action follows it: the next one is a first."""
        self.added -= self.is_open
        self.is_cut = True

    def add(self, frame: np.ndarray[Any, Any], is_first: bool) -> None:
        """Stores the current frame (0 … 1), replacing the oldest."""
        place = self.added % self.shape.capacity
        self.frames[place] = np.rint(frame * 255.0)
        self.is_first[place] = is_first or not self.is_open
        self.added += 1
        self.is_cut = False

    def complete(self, action: int, reward: float, is_over: bool) -> None:
        """Stores the action at the newest frame, and its reward."""
        place = (self.added - 1) % self.shape.capacity
        self.actions[place] = action
        self.rewards[place] = reward
        self.is_over[place] = is_over

    def draw(self, rng: np.random.Generator, count: int, discount: float) -> Batch:
        """Draws transitions uniformly, with replacement."""
        starts = self.newest_start - rng.integers(len(self), size=count)
        return self.take(starts, discount)

    @property
    def newest_start(self) -> int:
        """The number of the frame that the newest transition starts with."""
        return self.added - 1 - self.shape.returns

    @property
    def oldest_start(self) -> int:
        """The number of the frame that the oldest transition starts with."""
        return self.newest_start - len(self) + 1

    def take(self, starts: Integers, discount: float) -> Batch:
        """Transitions that start with frames of these numbers."""
        rewards, discounts = self._add_up(starts, discount)
        return Batch(
            images=self.stack(starts),
            actions=self.actions[starts % self.shape.capacity],
            rewards=rewards,
            discounts=discounts,
            next_images=self.stack(starts + self.shape.returns),
        )

    def newest_image(self) -> Floats:
        """The stack that ends with the newest frame: (1, row, column, frame)."""
        return self.stack(np.array([self.added - 1]))

    def stack(self, numbers: Integers) -> Floats:
        """Stacks that end with frames of these numbers, counted since the first.

        A stack at the start of a game repeats its first frame.
        """
        shape = self.shape
        chosen = np.empty((len(numbers), shape.frames), np.int64)
        current = numbers.copy()
        for depth in range(shape.frames - 1, -1, -1):
            chosen[:, depth] = current
            current -= ~self.is_first[current % shape.capacity]
        image = (len(numbers), shape.size, shape.size, shape.frames)
        images = np.empty(image, np.float32)
        _stack_frames(self.frames, chosen % shape.capacity, images)
        return images

    def _add_up(self, starts: Integers, discount: float) -> tuple[Floats, Floats]:
        total = np.zeros(len(starts))
        factor = np.ones(len(starts))
        for k in range(self.shape.returns):
            place = (starts + k) % self.shape.capacity
            total += factor * self.rewards[place]
            factor *= discount * ~self.is_over[place]
        return total.astype(np.float32), factor.astype(np.float32)


@compiled
def _stack_frames(frames: Any, chosen: Integers, images: Floats) -> None:
    """Bytes of the chosen frames -> images (sample, row, column, frame), 0 … 1."""
    samples, rows, columns, depth = images.shape
    scale = np.float32(1 / 255)
    for sample in range(samples):
        for k in range(depth):
            frame = frames[chosen[sample, k]]
            for y in range(rows):
                for x in range(columns):
                    images[sample, y, x, k] = scale * np.float32(frame[y, x])
