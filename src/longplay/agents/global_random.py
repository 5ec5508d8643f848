"""The global generators of `random`, `numpy.random` and torch, seeded for an agent.

    randomness = GlobalRandom(seed)
    with randomness.in_use():      # the global generators have the agent's states
        ...                        # on exit, the caller's states are restored

An agent whose `init` has no `seed` parameter may draw from these. To make its runs
reproducible, they are seeded with `IMPORT_SEED` while an agent is imported and with the
agent's own seed before it is built. (One import may serve runs of many seeds, and a run
must not depend on the other runs in its process.) Their states are part of a
checkpoint: plain values, nothing pickled.

torch's generator is included if torch has been imported by then. If the agent's file
imports torch, that covers everything that `init` and `step` draw.
"""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

IMPORT_SEED = 0


# Of a Mersenne Twister.
_WORDS = 624


@dataclass(frozen=True)
class TwisterState:
    """The state of a Mersenne Twister, used by both Python and NumPy."""

    # 624 words of 32 bits, little-endian, as hex.
    words: str
    position: int
    # The second of a pair of normal draws, not returned yet.
    spare_normal: float | None

    @classmethod
    def read_python(cls) -> Self:
        """The state of `random`."""
        _, (*words, position), spare = random.getstate()
        return cls(np.array(words, "<u4").tobytes().hex(), position, spare)

    @classmethod
    def read_numpy(cls) -> Self:
        """The state of `numpy.random`."""
        state: Any = np.random.get_state()  # noqa: NPY002 - what agents draw from
        _, words, position, has_spare, spare = state
        text = words.astype("<u4").tobytes().hex()
        return cls(text, position, spare if has_spare else None)

    def restore_python(self) -> None:
        """Puts `random` into this state."""
        words = (int(word) for word in self._words())
        random.setstate((3, (*words, self.position), self.spare_normal))

    def restore_numpy(self) -> None:
        """Puts `numpy.random` into this state."""
        has_spare = self.spare_normal is not None
        spare = self.spare_normal or 0.0
        state = ("MT19937", self._words(), self.position, int(has_spare), spare)
        np.random.set_state(state)  # noqa: NPY002

    def _words(self) -> np.ndarray[Any, np.dtype[np.uint32]]:
        # NumPy would read beyond the words.
        if len(self.words) != 8 * _WORDS or not 0 <= self.position <= _WORDS:
            raise ValueError(
                f"expected {_WORDS} words and a position in them, found "
                f"{len(self.words) // 8} and {self.position}"
            )
        return np.frombuffer(bytes.fromhex(self.words), "<u4").astype(np.uint32)


@dataclass(frozen=True)
class GlobalRandomState:
    """The states of all global generators, as plain values."""

    python: TwisterState
    numpy: TwisterState
    # The state of torch's CPU generator, as hex; None where torch is not imported.
    torch: str | None = None

    @classmethod
    def read(cls) -> Self:
        """The states as they are now."""
        torch = sys.modules.get("torch")
        return cls(
            TwisterState.read_python(),
            TwisterState.read_numpy(),
            None if torch is None else bytes(torch.get_rng_state().numpy()).hex(),
        )

    def restore(self) -> None:
        """Puts the generators into these states."""
        self.python.restore_python()
        self.numpy.restore_numpy()
        torch = sys.modules.get("torch")
        if torch is not None and self.torch is not None:
            words = bytearray.fromhex(self.torch)
            torch.set_rng_state(torch.frombuffer(words, dtype=torch.uint8))


def seed_generators(seed: int) -> None:
    """Seeds the global generators, as before an agent is built."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


class GlobalRandom:
    """One agent's states of the global generators, kept between calls."""

    def __init__(self, seed: int) -> None:
        callers = GlobalRandomState.read()
        seed_generators(seed)
        # The agent's states while the process has the caller's, and the reverse.
        self._kept = GlobalRandomState.read()
        callers.restore()

    def in_use(self) -> contextlib.AbstractContextManager[None]:
        """Gives the global generators the agent's states."""
        return self._exchange()

    def released(self) -> contextlib.AbstractContextManager[None]:
        """Within `in_use`: gives the generators the caller's states back."""
        return self._exchange()

    @contextlib.contextmanager
    def _exchange(self) -> Iterator[None]:
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def _swap(self) -> None:
        found = GlobalRandomState.read()
        self._kept.restore()
        self._kept = found
