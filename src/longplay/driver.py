"""An agent's answer -> the action that is played.

A stream calls its driver on decision frames. `ActionDriver` takes the answer as the
action. The reference's driver (`reference.driver`) takes it as a prediction and gets
the action from a fixed policy. A driver may read the console's memory, which is never
part of a percept, and it adds its own columns to the rows.
"""

from __future__ import annotations

import operator
from typing import Any, Protocol

from longplay.console.base import Console
from longplay.contract.config import GLOBAL_ACTION_SET, ScheduledVisit
from longplay.contract.rows import EventRow
from longplay.errors import AgentError, describe_value

_NUM_ACTIONS = len(GLOBAL_ACTION_SET)


def unwrap_number(answer: object) -> object:
    """The number in a one-element array of any library; other objects unchanged."""
    item = getattr(answer, "item", None) if hasattr(answer, "shape") else None
    return answer if item is None else item()


class Driver(Protocol):
    """Turns answers into actions for a stream.

    Attributes:
        row_type: The type of the stream's rows in events.jsonl.
    """

    row_type: type[EventRow]

    def start_visit(self, visit: ScheduledVisit, console: Console) -> None:
        """Prepares for a visit that the console has just started."""

    def decide(self, answer: object, is_first: bool) -> int:
        """The global index of the action for a decision frame.

        Args:
            answer: The agent's answer.
            is_first: Whether a game has just started.

        Raises:
            AgentError: The answer is not valid on this track.
        """

    def finish_frame(self, reward: float) -> tuple[Any, ...]:
        """The columns to add to the row of a frame that delivered this reward.

        Called only if `row_type` has more columns than `EventRow`.
        """

    def skip(self, is_first: bool) -> None:
        """Skips a frame that is replayed with its recorded action."""


class ActionDriver:
    """The agent decides: its answer is the action."""

    def __init__(self, row_type: type[EventRow] = EventRow) -> None:
        self.row_type = row_type

    def start_visit(self, visit: ScheduledVisit, console: Console) -> None:
        """Does nothing."""

    def decide(self, answer: object, is_first: bool) -> int:
        """The answer, if it is an int in range; a bool is not an action."""
        try:
            number = unwrap_number(answer)
            action = -1 if isinstance(number, bool) else operator.index(number)  # type: ignore[arg-type]
        except Exception:  # its __index__ is the agent's code
            action = -1
        if 0 <= action < _NUM_ACTIONS:
            return action
        raise AgentError(
            f"the agent's answer is not a valid action: expected an int in 0 … "
            f"{_NUM_ACTIONS - 1}, found {describe_value(answer)}"
        )

    def finish_frame(self, reward: float) -> tuple[Any, ...]:
        """Adds nothing."""
        return ()

    def skip(self, is_first: bool) -> None:
        """Does nothing: there is no state between frames."""
