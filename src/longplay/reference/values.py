"""A fixed policy's value function: RAM -> expected discounted reward, as float32."""

from __future__ import annotations

import numpy as np

from longplay.errors import DocumentError
from longplay.reference.network import Arrays, ExactNetwork
from longplay.reference.ram import RamPair


class ValueFunction:
    """A frozen network with one output."""

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
