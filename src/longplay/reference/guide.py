"""Actions and values of a visit of the prediction track, timestep by timestep.

On every timestep a guide gets the current memory and returns the fixed policy's action
and the value of the state. There are two kinds with the same results: one evaluates the
networks live, the other reads a recording. Only guides see the memory; it is never part
of a percept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np

from longplay.contract.config import ScheduledVisit
from longplay.errors import ConsoleError
from longplay.reference.library import Reference, load_reference
from longplay.reference.policy import Chooser
from longplay.reference.ram import RAM_BYTES
from longplay.reference.streams import RecordedVisit, find_recorded_visit
from longplay.seeds import branch_policy_seed, policy_seed


class Guidance(NamedTuple):
    """The policy's action and the value of the current state."""

    action: int
    value: float


class Guide(Protocol):
    """A fixed policy and its values, for one visit."""

    def decide(self, ram: memoryview, is_first: bool) -> Guidance:
        """The next timestep's action and value.

        Args:
            ram: The current memory; the guide keeps no reference to it.
            is_first: Whether a game has just started.
        """

    def skip(self, ram: memoryview, is_first: bool) -> None:
        """Like `decide`, for a timestep whose action is already known."""

    def check_reward(self, reward: float) -> None:
        """Checks the delivered reward of the timestep and advances to the next one.

        Raises:
            ConsoleError: It differs from the recorded reward.
        """


class LiveGuide:
    """Evaluates the networks on every timestep."""

    def __init__(self, reference: Reference, seed: int) -> None:
        self._chooser = Chooser(reference.policy, seed)
        self._values = reference.values
        self._pair = np.zeros(2 * RAM_BYTES, np.uint8)

    def decide(self, ram: memoryview, is_first: bool) -> Guidance:
        """The policy's choice, and the value network's output."""
        self._read_memory(ram, is_first)
        action = self._chooser.choose(self._pair)
        return Guidance(action, float(self._values.evaluate(self._pair)))

    def skip(self, ram: memoryview, is_first: bool) -> None:
        """Reads the memory and consumes the timestep's draw."""
        self._read_memory(ram, is_first)
        self._chooser.skip()

    def _read_memory(self, ram: memoryview, is_first: bool) -> None:
        now, before = self._pair[:RAM_BYTES], self._pair[RAM_BYTES:]
        before[:] = now
        now[: len(ram)] = np.frombuffer(ram, np.uint8)
        if is_first:
            before[:] = now

    def check_reward(self, reward: float) -> None:
        """Does nothing: there is no recorded reward to compare with."""


class RecordedGuide:
    """Reads actions and values from a recording; needs neither memory nor networks."""

    def __init__(self, visit: RecordedVisit, place: str) -> None:
        self._actions = visit.actions.tolist()
        self._values = visit.values.tolist()
        self._rewards = visit.rewards.tolist()
        self._place = place
        self._timestep = 0

    def decide(self, ram: memoryview, is_first: bool) -> Guidance:
        """The recorded action and value of this timestep."""
        at = self._timestep
        return Guidance(self._actions[at], self._values[at])

    def skip(self, ram: memoryview, is_first: bool) -> None:
        """Advances by one timestep."""
        self._timestep += 1

    def check_reward(self, reward: float) -> None:
        """Checks the reward against the recorded one, and advances."""
        expected = self._rewards[self._timestep]
        if reward != expected:
            raise ConsoleError(
                f"{self._place}, timestep {self._timestep}: expected the recorded "
                f"reward {expected}, found {reward:g}; the reference was recorded with "
                "another emulator version, run `longplay doctor` for details"
            )
        self._timestep += 1


def open_guides(schedule: Sequence[ScheduledVisit], seed: int) -> dict[int, Guide]:
    """Visit -> its guide: recorded if the whole visit was recorded, live otherwise.

    Raises:
        ConfigError: A game has no reference.
        DocumentError: A file is missing or damaged.
    """
    return {visit.visit_idx: _open_guide(visit, seed) for visit in schedule}


def open_branch_guides(
    schedule: Sequence[ScheduledVisit], seed: int, games: Sequence[str]
) -> dict[int, Guide]:
    """Branch of a probe -> its guide, always live.

    Args:
        schedule: The branches; the cycle of a visit is the number of its branch.
        seed: The seed of the run that is probed.
        games: The suite's games.

    Raises:
        ConfigError, DocumentError: As `open_guides`.
    """
    references = {visit.game_id: load_reference(visit.game_id) for visit in schedule}
    return {
        visit.visit_idx: LiveGuide(
            references[visit.game_id],
            branch_policy_seed(seed, games.index(visit.game_id), visit.cycle_idx),
        )
        for visit in schedule
    }


def _open_guide(visit: ScheduledVisit, seed: int) -> Guide:
    recorded = find_recorded_visit(visit.game_id, seed, visit.visit_idx)
    if recorded is not None and len(recorded) >= visit.visit_frames:
        return RecordedGuide(recorded, f"visit {visit.visit_idx} of {visit.game_id}")
    reference = load_reference(visit.game_id)
    return LiveGuide(reference, policy_seed(seed, visit.visit_idx))
