"""Frozen networks give the same bits whatever the order, the batch and the machine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from frozen_networks import (
    evaluate_with_integers,
    make_arrays,
    make_pairs,
)
from longplay.errors import DocumentError
from longplay.reference.network import ExactNetwork


def evaluate(arrays: dict[str, NDArray], pairs: NDArray[np.uint8]) -> bytes:
    network = ExactNetwork(arrays)
    return np.array([network.evaluate(pair) for pair in pairs]).tobytes()


def test_outputs_are_those_of_unbounded_integers() -> None:
    arrays = make_arrays()
    network = ExactNetwork(arrays)
    for pair in make_pairs(5):
        assert network.evaluate(pair).tolist() == evaluate_with_integers(arrays, pair)


def test_largest_sums_are_exact() -> None:
    arrays = make_arrays(inputs=2048, units=(256, 256))
    arrays["weight1"][:] = 127
    arrays["weight1"][::2, 0] = -127
    arrays["weight2"][:] = 32767
    arrays["weight3"][:] = -32767
    arrays["gain1"][:] = 1000  # hidden inputs at their limit, where not at zero
    pair = np.full(256, 255, np.uint8)
    found = ExactNetwork(arrays).evaluate(pair).tolist()
    assert found == evaluate_with_integers(arrays, pair)


def test_order_of_inputs_and_units_does_not_matter() -> None:
    arrays, pairs = make_arrays(), make_pairs(20)
    rng = np.random.default_rng(5)
    inputs, units = rng.permutation(600), rng.permutation(256)
    shuffled = dict(arrays)
    shuffled["input_bits"] = arrays["input_bits"][inputs]
    shuffled["weight1"] = arrays["weight1"][inputs][:, units]
    shuffled["weight2"] = arrays["weight2"][units]
    for name in ("scale1", "bias1", "gain1", "offset1"):
        shuffled[name] = arrays[name][units]
    assert evaluate(shuffled, pairs) == evaluate(arrays, pairs)


def test_what_was_evaluated_before_does_not_matter() -> None:
    arrays, pairs = make_arrays(), make_pairs(20)
    alone = b"".join(evaluate(arrays, pairs[i : i + 1]) for i in range(20))
    assert evaluate(arrays, pairs) == alone
    backwards = evaluate(arrays, pairs[::-1])
    row_bytes = len(alone) // 20
    assert backwards[-row_bytes:] == alone[:row_bytes]


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_sums_do_not_depend_on_the_batch(rows: int) -> None:
    weights = make_arrays()["weight2"].astype(np.float64)
    hidden = np.random.default_rng(2).integers(0, 2**15, (64, 256)).astype(np.float64)
    batches = [hidden[i : i + rows] @ weights for i in range(0, 64, rows)]
    one_by_one = np.stack([row @ weights for row in hidden])
    assert np.concatenate(batches).tobytes() == one_by_one.tobytes()


_DIGEST = """
import hashlib, sys
import numpy as np
sys.path.insert(0, {folder!r})
from frozen_networks import make_arrays, make_pairs
from longplay.reference.network import ExactNetwork
network = ExactNetwork(make_arrays())
outputs = np.array([network.evaluate(pair) for pair in make_pairs(200)])
print(hashlib.sha256(outputs.tobytes()).hexdigest())
"""


def digest(**environment: str) -> str:
    folder = str(Path(__file__).parents[1] / "kit")
    return subprocess.run(
        [sys.executable, "-c", _DIGEST.format(folder=folder)],
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_kernels_of_other_processors_give_the_same_bits() -> None:
    kernels = ["Prescott", "Nehalem", "Sandybridge", "Haswell", "Zen"]
    digests = {kernel: digest(OPENBLAS_CORETYPE=kernel) for kernel in kernels}
    assert set(digests.values()) == {digest()}
    # pinned, so that other machines are compared with this one
    assert digest() == (
        "ac896cabb618b6ba158a2fc7feabb842bcd57a5e88d8ce326fd38ab6c76e48cc"
    )


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("weight1", None, "weight1: expected an array, found none"),
        ("bias3", np.zeros(6), "bias3: expected 1 dimension.* int64, found 1 of float"),
        ("weight3", np.zeros(6, np.int16), "weight3: expected 2 dimension"),
        ("gain2", np.ones(7, np.float32), "shapes do not fit together"),
        ("input_bits", np.full(600, 2048, np.int16), "input_bits: expected 0 … 2047"),
    ],
)
def test_arrays_of_another_kind_are_refused(
    name: str, value: NDArray | None, message: str
) -> None:
    arrays = make_arrays()
    if value is None:
        del arrays[name]
    else:
        arrays[name] = value
    with pytest.raises(DocumentError, match=f"pong {message}|pong: {message}"):
        ExactNetwork(arrays, "pong")
