"""Who plays on the prediction track: a visit's actions and values, one by one.

A guide is asked once per timestep, with the memory at that moment, for the action that
the fixed policy takes and for the value of the state it takes it in. Two kinds give the
same answers: one evaluates the policy live, the other has them recorded. Memory reaches
guides alone; no percept holds it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from longplay.contract.records import ScheduledVisit
from longplay.errors import ConsoleError
from longplay.reference.library import Reference, load_reference
from longplay.reference.policy import Chooser
from longplay.reference.ram import RAM_BYTES
from longplay.reference.streams import RecordedVisit, find_recorded_visit
from longplay.seeds import policy_seed


class Guidance(NamedTuple):
    """The policy's action, and the value of the observation it is taken in."""

    action: int
    value: float


class Guide(Protocol):
    """A fixed policy and its values, for one visit."""

    def decide(self, ram: memoryview, is_first: bool) -> Guidance:
        """The next timestep's action and value.

        Args:
            ram: The memory now; it is not kept.
            is_first: Whether a game has just begun.
        """

    def skip(self, ram: memoryview, is_first: bool) -> None:
        """As `decide`, for a timestep that is already decided."""

    def check_reward(self, reward: float) -> None:
        """Is told what the timestep delivered.

        Raises:
            ConsoleError: It is not what the policy got when it was recorded.
        """


class LiveGuide:
    """Evaluates the networks on every timestep."""

    def __init__(self, reference: Reference, seed: int) -> None:
        self._chooser = Chooser(reference.policy, seed)
        self._values = reference.values
        self._pair = np.zeros(2 * RAM_BYTES, np.uint8)

    def decide(self, ram: memoryview, is_first: bool) -> Guidance:
        """The policy's choice, and the value network's output."""
        self._see(ram, is_first)
        action = self._chooser.choose(self._pair)
        return Guidance(action, float(self._values.evaluate(self._pair)))

    def skip(self, ram: memoryview, is_first: bool) -> None:
        """Sees the memory and spends the timestep's draw."""
        self._see(ram, is_first)
        self._chooser.skip()

    def _see(self, ram: memoryview, is_first: bool) -> None:
        now, before = self._pair[:RAM_BYTES], self._pair[RAM_BYTES:]
        before[:] = now
        now[: len(ram)] = np.frombuffer(ram, np.uint8)
        if is_first:
            before[:] = now

    def check_reward(self, reward: float) -> None:
        """A live policy takes what comes."""


class RecordedGuide:
    """Knows the visit by heart; needs neither memory nor networks."""

    def __init__(self, visit: RecordedVisit, place: str) -> None:
        self._actions = visit.actions.tolist()
        self._values = visit.values.tolist()
        self._rewards = visit.rewards.tolist()
        self._place = place
        self._timestep = 0

    def decide(self, ram: memoryview, is_first: bool) -> Guidance:
        """What was recorded for this timestep."""
        at = self._timestep
        return Guidance(self._actions[at], self._values[at])

    def skip(self, ram: memoryview, is_first: bool) -> None:
        """Goes on by one timestep."""
        self._timestep += 1

    def check_reward(self, reward: float) -> None:
        """Holds the reward against the recorded one, and goes on."""
        expected = self._rewards[self._timestep]
        if reward != expected:
            raise ConsoleError(
                f"{self._place}, timestep {self._timestep}: expected the recorded "
                f"reward {expected}, found {reward:g}: this is not the emulator that "
                "the reference was recorded on; `longplay doctor` says more"
            )
        self._timestep += 1


def open_guides(
    schedule: Sequence[ScheduledVisit], seed: int, data: Path | None = None
) -> dict[int, Guide]:
    """Visit -> its guide: recorded where the whole visit is, live otherwise.

    Raises:
        ConfigError: A game has no reference.
        DocumentError: A file is missing or damaged.
    """
    return {visit.visit_idx: _open_guide(visit, seed, data) for visit in schedule}


def _open_guide(visit: ScheduledVisit, seed: int, data: Path | None) -> Guide:
    recorded = find_recorded_visit(visit.game_id, seed, visit.visit_idx, data)
    if recorded is not None and len(recorded) >= visit.visit_frames:
        return RecordedGuide(recorded, f"visit {visit.visit_idx} of {visit.game_id}")
    reference = load_reference(visit.game_id, data)
    return LiveGuide(reference, policy_seed(seed, visit.visit_idx))
