"""An answer -> an action: what the agent's driver takes, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from longplay.contract.rows import EventRow, TimestepRow
from longplay.driver import ActionDriver
from longplay.errors import AgentError


@pytest.mark.parametrize("answer", [0, 17, np.int64(17), np.uint8(3), np.array(4)])
def test_integers_in_range_are_actions(answer: Any):
    action = ActionDriver().decide(answer, is_first=False)
    assert type(action) is int
    assert action == int(answer)


@pytest.mark.parametrize("answer", [-1, 18, 1.0, True, "3", None, [3], float("nan")])
def test_other_answers_are_refused(answer: Any):
    message = "not a valid action: expected an int in 0 … 17, found"
    with pytest.raises(AgentError, match=message):
        ActionDriver().decide(answer, is_first=True)


@pytest.mark.parametrize("row_type", [EventRow, TimestepRow])
def test_rows_are_of_the_given_type_without_columns_of_its_own(row_type: Any):
    driver = ActionDriver(row_type)
    assert driver.row_type is row_type
    assert driver.finish_frame(1.0) == ()
