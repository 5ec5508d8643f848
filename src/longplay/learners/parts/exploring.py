"""A bandit over exploration rates: how much to explore is learned too.

Nearly greedy play is best once the agent has learned something, and worse than random
play before: an agent stuck on a passive action earns nothing. So time is divided into
blocks, each played with one exploration rate, and a bandit picks the rate of the next
block from the rewards of earlier blocks. It forgets, because the agent learns and games
change. The idea is Agent57's (Badia et al., 2020, arXiv 2003.13350);
the bandit is Thompson sampling with normal posteriors of one common variance, at half
their width, so that it explores less: a slightly wrong rate costs less than many blocks
spent finding the best one.

Within a block, actions are ε-greedy; an exploring action is repeated for a while, since
many games reward only sustained actions (Dabney et al., 2021, "Temporally-Extended
ε-Greedy Exploration", arXiv 2006.01782).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.limits import check_arguments

LONGEST_HOLD = 50
_HOLD_EXPONENT = 2.0
# Older blocks count less, by this factor per block; a rate's own count as this many.
_MEMORY = 0.98
_MOST_BLOCKS = 20.0
# A rate that was not played for so many blocks is tried again: the agent has learned.
_LONGEST_IDLE = 25
_POSTERIOR_WIDTH = 0.5


class RateBandit:
    """Picks one of a few rates for each block of decisions."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "arm",
        "decisions",
        "earned",
        "weights",
        "sums",
        "squares",
        "idle",
    )

    def __init__(
        self,
        rates: Sequence[float],
        rng: np.random.Generator,
        block_decisions: int,
    ) -> None:
        check_arguments({"epsilons": rates, "block_decisions": block_decisions})
        self._rates = tuple(rates)
        self._rng = rng
        self._block_decisions = block_decisions
        self.arm = 0
        self.decisions = 0
        self.earned = 0.0
        # Per rate: number of blocks, sums of their rewards and squares, all decayed.
        self.weights = np.zeros(len(rates))
        self.sums = np.zeros(len(rates))
        self.squares = np.zeros(len(rates))
        # Blocks since a rate was last played.
        self.idle = np.full(len(rates), _LONGEST_IDLE)

    @property
    def rate(self) -> float:
        """The rate of this block."""
        return self._rates[self.arm]

    def observe(self, reward: float) -> None:
        """Adds the reward of one decision; starts a new block when this one ends."""
        self.earned += reward
        self.decisions += 1
        if self.decisions >= self._block_decisions:
            self._close_block()
            self._start_block()

    def restart(self) -> None:
        """Forgets the rewards of all rates: another game begins."""
        self.weights[:] = self.sums[:] = self.squares[:] = 0.0
        self.idle[:] = _LONGEST_IDLE
        self._start_block()

    def _close_block(self) -> None:
        arm, kept = self.arm, (self.weights, self.sums, self.squares)
        for numbers, new in zip(kept, (1.0, self.earned, self.earned**2), strict=True):
            numbers *= _MEMORY
            numbers[arm] += new
        excess = max(self.weights[arm] / _MOST_BLOCKS, 1.0)
        for numbers in kept:
            numbers[arm] /= excess
        self.idle += 1
        self.idle[arm] = 0

    def _start_block(self) -> None:
        self.decisions, self.earned = 0, 0.0
        longest = int(self.idle.argmax())
        is_due = self.idle[longest] >= _LONGEST_IDLE
        self.arm = longest if is_due else self._sample()

    def _sample(self) -> int:
        """Thompson sampling: the best rate according to one draw from the posterior."""
        means = self.sums / self.weights
        scatter = float((self.squares - self.sums * means).sum())
        freedom = max(float(self.weights.sum()) - len(means), 1.0)
        deviation = math.sqrt(max(scatter, 0.0) / freedom)
        draws = self._rng.standard_normal(len(means))
        if deviation == 0.0 and means.min() == means.max():
            return int(draws.argmax())  # no evidence for any rate yet
        widths = _POSTERIOR_WIDTH * deviation / np.sqrt(self.weights)
        return int((means + widths * draws).argmax())


class Explorer:
    """ε-greedy choices with held exploring actions, at the rate of a bandit."""

    SAVED: ClassVar[tuple[str, ...]] = ("action", "hold", "is_greedy", "rng", "bandit")

    def __init__(
        self,
        num_actions: int,
        rng: np.random.Generator,
        epsilons: Sequence[float],
        block_decisions: int,
    ) -> None:
        self._num_actions = num_actions
        self.rng = rng
        self.bandit = RateBandit(epsilons, rng, block_decisions)
        self._least_epsilon = min(epsilons)
        self.action = 0
        self.hold = 0
        self.is_greedy = True

    def observe(self, reward: float, is_switch: bool) -> None:
        """Adds the reward of the last action; `is_switch`: another game begins."""
        if is_switch:
            self.bandit.restart()
            self.restart()
        else:
            self.bandit.observe(reward)

    def restart(self) -> None:
        """Lets go of the action that is held."""
        self.hold = 0

    def choose(self, values: np.ndarray[Any, Any]) -> int:
        """The next action; `is_greedy` then says whether it has the highest value."""
        self.action = self._choose(values)
        self.is_greedy = bool(values[self.action] == values.max())
        return self.action

    def expect(self, values: np.ndarray[Any, Any]) -> float:
        """The expected value of a choice at the lowest of the rates."""
        mean, highest = float(values.mean()), float(values.max())
        return highest + self._least_epsilon * (mean - highest)

    def _choose(self, values: np.ndarray[Any, Any]) -> int:
        if self.hold > 0:
            self.hold -= 1
            return self.action
        epsilon = self.bandit.rate
        if self.rng.random() < epsilon:
            # Held only where exploring is rare: held random play is mostly worse.
            if epsilon < 0.5:
                length = int(self.rng.zipf(_HOLD_EXPONENT))
                self.hold = min(length, LONGEST_HOLD) - 1
            return int(self.rng.integers(self._num_actions))
        if values[self.action] == values.max():
            return self.action
        return int(values.argmax())
