"""A stream of each track on the scripted console, to try an agent on.

    events = CONTROL_TRIAL.play(agent)

The streams contain every kind of boundary. No ROM and no reference is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from longplay.agents.protocol import StreamingAgent
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EventRow, PredictionRow, TimestepRow
from longplay.driver import ActionDriver, Driver
from longplay.reference.driver import ReferenceDriver
from longplay.reference.guide import Guidance
from longplay.stream import Mechanics, Stream
from longplay.tracks.base import Track
from longplay.tracks.control import CONTROL
from longplay.tracks.participant import Participant
from longplay.tracks.prediction import PREDICTION
from longplay.tracks.streaming import STREAMING

_VISIT_FRAMES = (300, 170, 240)


@dataclass(frozen=True)
class Trial:
    """A track, and how its streams are made."""

    track: Track
    mechanics: Mechanics
    frame_skip: int
    make_driver: Callable[[Sequence[ScheduledVisit]], Driver]

    def make_stream(self, visit_frames: Sequence[int] = _VISIT_FRAMES) -> Stream:
        """A stream of visits of these lengths, each of another game."""
        schedule = [
            ScheduledVisit(
                visit_idx=k, cycle_idx=0, game_id=f"game-{k}", visit_frames=frames
            )
            for k, frames in enumerate(visit_frames)
        ]
        console = ScriptedConsole(frame_skip=self.frame_skip)
        seeds, driver = range(len(schedule)), self.make_driver(schedule)
        return Stream(schedule, seeds, console, self.mechanics, driver)

    def play(self, agent: StreamingAgent) -> list[EventRow]:
        """Plays a short stream to its end."""
        events, stream, participant = [], self.make_stream(), self.track.join(agent)
        while not stream.done:
            events.append(play_frame(stream, participant))
        return events


def play_frame(stream: Stream, participant: Participant) -> EventRow:
    """Plays one frame."""
    percept = stream.percept(participant.looks_between_decisions)
    return stream.advance(participant.answer(percept))


def read_answer(event: EventRow) -> float:
    """The answer that a row records: a prediction, or else an action."""
    if isinstance(event, PredictionRow):
        return event.prediction
    return event.decided_action_idx


class _SimpleGuide:
    """A policy for the scripted console, which needs no file."""

    def decide(self, ram: memoryview, is_first: bool) -> Guidance:
        return Guidance(ram[0] % 18, 0.0)

    def skip(self, ram: memoryview, is_first: bool) -> None:
        """Does nothing: the policy has no state."""

    def check_reward(self, reward: float) -> None:
        """Accepts every reward."""


def _drive_by_guide(schedule: Sequence[ScheduledVisit]) -> ReferenceDriver:
    return ReferenceDriver({visit.visit_idx: _SimpleGuide() for visit in schedule})


STREAMING_TRIAL = Trial(
    STREAMING,
    Mechanics(decision_interval=4, delay=2),
    frame_skip=1,
    make_driver=lambda schedule: ActionDriver(),
)
CONTROL_TRIAL = Trial(
    CONTROL,
    Mechanics(reward="sign"),
    frame_skip=4,
    make_driver=lambda schedule: ActionDriver(TimestepRow),
)
PREDICTION_TRIAL = Trial(
    PREDICTION, Mechanics(reward="sign"), frame_skip=4, make_driver=_drive_by_guide
)
