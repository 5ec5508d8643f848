"""A part of many similar cases for `make test`; `make test-all` has them all."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(cases: Iterable[Any], every: int) -> list[Any]:
    """Cases to parametrize with; only every n-th is not marked as exhaustive."""
    return [
        pytest.param(
            *(case if isinstance(case, tuple) else (case,)),
            marks=pytest.mark.exhaustive if index % every else (),
        )
        for index, case in enumerate(cases)
    ]
