"""As `tests/learners/test_revisions.py`, for learners that need numba."""

from __future__ import annotations

import pytest

from all_learners import WITH_NUMBA
from learner_revisions import describe, find_change, read_pins


@pytest.mark.parametrize("name", WITH_NUMBA)
def test_a_learner_plays_as_its_revision_did(name: str) -> None:
    assert find_change(describe(name), read_pins()[name]) is None
