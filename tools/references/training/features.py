"""RAM -> the inputs of a network in training.

Most bits of a game's memory never change. Only those that were seen both as 0 and 1 are
inputs, so a network starts small and grows as more of the game is seen. Bytes as
numbers help learning and cost nothing later: a number is a weighted sum of its bits, so
freezing folds its weights into theirs.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longplay.reference.ram import RAM_BYTES, RamPair

# Largest byte input: a few times a bit's, because a byte is more informative.
NUMBER_SCALE = 4.0


class LiveInputs:
    """The inputs that have been seen to change, and how to read them.

    Ids: 0 … 2047 are bits (current memory, then previous), 2048 … 2303 are bytes; more
    of both if the memory includes pending decisions (`delayed.py`).
    """

    def __init__(
        self,
        always: NDArray[np.uint8] | None = None,
        ever: NDArray[np.uint8] | None = None,
        memory_bytes: int = RAM_BYTES,
    ) -> None:
        self.always = np.full(memory_bytes, 255, np.uint8) if always is None else always
        self.ever = np.zeros(memory_bytes, np.uint8) if ever is None else ever
        self.memory_bytes = len(self.always)
        self._select()

    def _select(self) -> None:
        changing = self.ever & ~self.always
        self._bits = np.flatnonzero(np.unpackbits(changing))
        self._bytes = np.flatnonzero(changing)
        half = self.memory_bytes
        self._pair_bits = np.concatenate([self._bits, 8 * half + self._bits])
        self._pair_bytes = np.concatenate([self._bytes, half + self._bytes])

    @property
    def ids(self) -> NDArray[np.int64]:
        """The live inputs, ascending."""
        return np.concatenate([self._pair_bits, self.input_bits + self._pair_bytes])

    @property
    def input_bits(self) -> int:
        """Bits of a memory pair; the ids of bytes start here."""
        return 2 * 8 * self.memory_bytes

    @property
    def bit_count(self) -> int:
        """Number of live inputs that are bits."""
        return len(self._pair_bits)

    def update(self, pairs: RamPair) -> bool:
        """Adds inputs that change in this memory; returns whether there are any."""
        half = self.memory_bytes
        current = pairs.reshape(-1, 2 * half)[:, :half]
        before = len(self._bits)
        self.always = self.always & np.bitwise_and.reduce(current, axis=0)
        self.ever = self.ever | np.bitwise_or.reduce(current, axis=0)
        self._select()
        return len(self._bits) > before

    def read(self, pairs: RamPair) -> NDArray[np.float32]:
        """The live inputs of memory pairs (n, bytes), as (n, ids)."""
        bits = np.unpackbits(pairs, axis=1)[:, self._pair_bits]
        numbers = pairs[:, self._pair_bytes]
        inputs = np.empty((len(pairs), bits.shape[1] + numbers.shape[1]), np.float32)
        inputs[:, : bits.shape[1]] = bits
        np.multiply(
            numbers,
            NUMBER_SCALE / 255,
            out=inputs[:, bits.shape[1] :],
            casting="unsafe",
        )
        return inputs
