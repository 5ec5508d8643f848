"""A saved state of ALE -> the random draws that decide which actions it repeats next.

ALE draws twice per emulator frame from one Mersenne Twister, once for each player's
action, and repeats the previous action where the draw is below the probability. A
state saved with its generator ends with the generator as text, in the format of the
C++ standard: four bytes of length, then 624 words and a position. So the future draws
of a sticky emulator can be read exactly.
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
    """Draws from [0, 1), one per emulator frame; a low draw repeats the action."""

    def random(self) -> float:
        """The draw of the next emulator frame."""


class AleDraws:
    """The draws that ALE itself will make for the first player."""

    def __init__(self, state: bytes) -> None:
        words = _find_twister(state)
        self._twister = np.random.MT19937()
        self._twister.state = {
            "bit_generator": "MT19937",
            "state": {"key": words[:_WORDS], "pos": int(words[_WORDS])},
        }

    def random(self) -> float:
        """The draw for the first player; skips the second player's."""
        draw = int(self._twister.random_raw())
        self._twister.random_raw()
        return draw / 2**32


def _find_twister(state: bytes) -> np.ndarray[tuple[int], np.dtype[np.uint32]]:
    found = [match.start() for match in _TWISTER.finditer(state)]
    if not found:
        raise ConsoleError(
            "the emulator's saved state: expected its random generator as 624 words, "
            "found none; this version of ale-py uses another format"
        )
    start = found[-1]
    length = int.from_bytes(state[start - _LENGTH_BYTES : start], "little")
    words = state[start : start + length].split()
    return np.array([int(word) for word in words], np.uint32)
