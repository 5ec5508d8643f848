"""A saved state of ALE -> the draws that decide which actions it repeats next.

ALE draws twice per emulator frame from one Mersenne Twister, once for each player's
action, and repeats the previous action where the draw is below the probability. A
state that is saved with its generator ends with it as text, as the C++ standard writes
it: 624 words and a position, behind their length in four bytes. So the luck that a
sticky emulator is about to have can be read, and nothing has to be guessed.
"""

from __future__ import annotations

import re
from typing import Protocol

import numpy as np

from longplay.errors import ConsoleError

_WORDS = 624
_TWISTER = re.compile(rb"(?:\d+ ){%d}" % _WORDS)
_LENGTH_BYTES = 4


class StickyDraws(Protocol):
    """Draws of [0, 1), one per emulator frame; a low one repeats the action."""

    def random(self) -> float:
        """The next emulator frame's draw."""


class AleDraws:
    """What ALE itself is about to draw for the first player."""

    def __init__(self, state: bytes) -> None:
        words = _find_twister(state)
        self._twister = np.random.MT19937()
        self._twister.state = {
            "bit_generator": "MT19937",
            "state": {"key": words[:_WORDS], "pos": int(words[_WORDS])},
        }

    def random(self) -> float:
        """The draw for the first player; the second player's is passed over."""
        draw = int(self._twister.random_raw())
        self._twister.random_raw()
        return draw / 2**32


def _find_twister(state: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    found = [match.start() for match in _TWISTER.finditer(state)]
    if not found:
        raise ConsoleError(
            "the emulator's saved state: expected its random generator as 624 words, "
            "found none; this version of ale-py keeps it in another way"
        )
    start = found[-1]
    length = int.from_bytes(state[start - _LENGTH_BYTES : start], "little")
    words = state[start : start + length].split()
    return np.array([int(word) for word in words], np.uint32)
