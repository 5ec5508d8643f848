"""Exceptions of user code are described with the line to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from longplay.errors import describe_exception

HERE = Path(__file__).name


def fail_in_numpy() -> None:
    np.random.default_rng(0).choice(3, p=[0.5, 0.1, 0.1])


def fail_in_the_standard_library() -> None:
    json.loads("{")


def fail_in_an_import() -> None:
    __import__("no_such_package")


def fail_here() -> None:
    raise ValueError("no")


@pytest.mark.parametrize(
    "fail",
    [fail_in_numpy, fail_in_the_standard_library, fail_in_an_import, fail_here],
)
def test_place_is_the_innermost_line_outside_of_libraries(
    fail: Callable[[], None],
) -> None:
    with pytest.raises(Exception) as caught:
        fail()
    line = fail.__code__.co_firstlineno + 1
    assert describe_exception(caught.value).endswith(f" ({HERE}:{line})")


def test_place_is_in_a_library_where_nothing_else_is_known() -> None:
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    error = caught.value
    assert error.__traceback__ is not None
    inner = error.with_traceback(error.__traceback__.tb_next)
    assert "(decoder.py:" in describe_exception(inner)


def test_exception_that_was_never_raised_has_no_place() -> None:
    assert describe_exception(ValueError("no")) == "ValueError: no"
