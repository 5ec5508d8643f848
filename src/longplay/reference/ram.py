"""What a reference network sees: the RAM now and one timestep ago, as bits.

An input is 256 bytes: the 128 at this timestep's end, then the 128 at the previous
one's. On a first observation both halves are the same. Unpacked, most significant bit
first, they are 2,048 inputs; a byte as a number is a weighted sum of its bits, so a
network that is linear in them first needs no other input.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RAM_BYTES = 128
INPUT_BITS = 2 * 8 * RAM_BYTES

RamPair = NDArray[np.uint8]


def pair_ram(current: bytes, previous: bytes | None) -> RamPair:
    """Two readings of the memory as one input; without a previous one, the same twice.

    A machine with less memory than ALE's fills the rest with zeros.
    """
    pair = np.zeros(2 * RAM_BYTES, np.uint8)
    before = current if previous is None else previous
    pair[: len(current)] = np.frombuffer(current, np.uint8)
    pair[RAM_BYTES : RAM_BYTES + len(before)] = np.frombuffer(before, np.uint8)
    return pair
