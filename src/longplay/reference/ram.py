"""The input of a reference network: the RAM now and one timestep ago, as bits.

An input is 256 bytes: the 128 at this timestep's end, then the 128 at the previous
one's. On a first observation both halves are equal. Unpacked, most significant bit
first, they are 2,048 inputs. The value of a byte is a weighted sum of its bits, so a
network whose first layer is linear needs no other input.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

RAM_BYTES = 128
INPUT_BITS = 2 * 8 * RAM_BYTES

RamPair = NDArray[np.uint8]


def pair_ram(current: bytes, previous: bytes | None) -> RamPair:
    """Current and previous memory as one input; the current one twice on a first frame.

    For a machine with less memory than ALE's, the rest is zeros.
    """
    pair = np.zeros(2 * RAM_BYTES, np.uint8)
    before = current if previous is None else previous
    pair[: len(current)] = np.frombuffer(current, np.uint8)
    pair[RAM_BYTES : RAM_BYTES + len(before)] = np.frombuffer(before, np.uint8)
    return pair
