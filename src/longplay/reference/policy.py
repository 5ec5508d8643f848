"""A game's fixed policy, ε-greedy with a frozen network, and its value function.

One 64-bit draw of PCG64 per timestep decides both whether the policy explores and which
action it takes then. Raw draws are used because NumPy guarantees their stream across
versions, unlike that of its distributions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longplay.console.base import ACTION_NAMES
from longplay.errors import DocumentError
from longplay.reference.network import Arrays, ExactNetwork
from longplay.reference.ram import INPUT_BITS, RamPair

_HALF = 2**32


class FixedPolicy:
    """Network, actions (global indices) and exploration rate, all frozen."""

    def __init__(
        self,
        arrays: Arrays,
        actions: Sequence[int],
        exploration: float,
        where: str = "policy",
        input_bits: int = INPUT_BITS,
    ) -> None:
        self._network = ExactNetwork(arrays, where, input_bits)
        self.actions = tuple(actions)
        self.exploration = exploration
        outputs = arrays["weight3"].shape[1]
        known = all(0 <= action < len(ACTION_NAMES) for action in self.actions)
        if len(self.actions) != outputs or not known:
            raise DocumentError(
                f"{where} actions: expected {outputs} global indices, "
                f"found {self.actions}"
            )
        self._explores_below = round(exploration * _HALF)

    def choose_greedily(self, pair: RamPair) -> int:
        """The action with the highest output; the first one in a tie."""
        return self.actions[int(self._network.evaluate(pair).argmax())]

    def choose(self, pair: RamPair, draw: int) -> int:
        """The action for a memory pair and 64 random bits."""
        if draw >> 32 < self._explores_below:
            return self.actions[(draw % _HALF) * len(self.actions) >> 32]
        return self.choose_greedily(pair)


class Chooser:
    """A policy with its own generator, for the actions of one visit."""

    def __init__(self, policy: FixedPolicy, seed: int) -> None:
        self._policy = policy
        self._bits = np.random.PCG64(seed)

    def choose(self, pair: RamPair) -> int:
        """The next timestep's action."""
        return self._policy.choose(pair, int(self._bits.random_raw()))

    def skip(self) -> None:
        """Consumes the draw of a timestep whose action is known."""
        self._bits.random_raw()


class ValueFunction:
    """RAM -> expected discounted reward, as float32: a network with one output."""

    def __init__(self, arrays: Arrays, where: str = "values") -> None:
        self._network = ExactNetwork(arrays, where)
        if arrays["weight3"].shape[1] != 1:
            raise DocumentError(
                f"{where} weight3: expected one output, "
                f"found {arrays['weight3'].shape[1]}"
            )

    def evaluate(self, pair: RamPair) -> np.float32:
        """The value of the state with this current and previous memory."""
        return np.float32(self._network.evaluate(pair)[0])
