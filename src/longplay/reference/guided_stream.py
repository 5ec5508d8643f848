"""A stream that a fixed policy plays: answers are predictions, not actions.

Whoever asks a stream for percepts and answers them cannot tell the difference; the
runner, the recorder and replay are the same. The order within a timestep is the rule
of the track: the answer is read first, and only then is the guide asked for the action
and for the target, so that no agent can have heard of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

import msgspec

from longplay.console.base import Console
from longplay.contract.records import LARGEST_VALUE, EventRow, RunConfig
from longplay.errors import AgentError, ConfigError, describe_value
from longplay.reference.guide import Guide, open_guides
from longplay.reference.library import hash_references
from longplay.stream import Stream, unwrap_number


class GuidedStream(Stream):
    """One agent lifetime of predictions."""

    def __init__(self, *parts: Any, guides: Mapping[int, Guide]) -> None:
        super().__init__(*parts)
        self._guides = guides
        self._guide: Guide
        self._prediction = self._target = 0.0

    def _start_visit(self) -> None:
        super()._start_visit()
        self._guide = self._guides[self._visit.visit_idx]

    def advance(self, answer: object) -> EventRow:
        """Plays one timestep of the policy; the answer is the agent's prediction.

        Raises:
            AgentError: The answer is not a finite number.
            ConsoleError: The emulator is not the one of the recorded reference.
        """
        if self._visit_is_due:
            self.begin_visit()
        self._prediction = self._read_prediction(answer)
        is_first = not self._state.has_prev_applied
        action, self._target = self._guide.decide(self._ram(), is_first)
        event = super().advance(action)
        self._guide.confirm(event.reward)
        return event

    def _extend(self, event: EventRow, game_reward: float) -> EventRow:
        common = msgspec.structs.astuple(event)
        frames = self.console.emulator_frames
        return self._make_row(
            *common, game_reward, frames, self._prediction, self._target
        )

    def _read_prediction(self, answer: object) -> float:
        prediction = read_number(answer)
        if prediction is not None and abs(prediction) <= LARGEST_VALUE:
            return prediction
        raise AgentError(
            f"the agent's answer is no prediction: expected a finite number of at most "
            f"{LARGEST_VALUE:g}, found {describe_value(answer)} at frame "
            f"{self.global_frame_idx} of {self._visit.game_id}"
        )

    def _pass_frame(self, is_first: bool) -> None:
        self._guide.pass_by(self._ram(), is_first)


def read_number(answer: object) -> float | None:
    """A finite number as a float; None if it is something else."""
    try:
        answer = unwrap_number(answer)
        if isinstance(answer, bool | str | bytes):
            return None
        number = float(answer)  # type: ignore[arg-type]
    except Exception:  # its __float__ is the agent's code
        return None
    return number if isfinite(number) else None


def find_guides(config: RunConfig) -> dict[int, Guide]:
    """Visit -> who plays it, of a prediction run.

    Raises:
        ConfigError: The policies and values here are not the run's, or missing.
        DocumentError: Their files are damaged.
    """
    found = hash_references(config.games)
    if found != config.reference_sha256:
        raise ConfigError(
            f"reference_sha256: the run has {config.reference_sha256}, the references "
            f"here are {found}; its policies are those of another version of longplay"
        )
    if config.seed is None:
        raise ConfigError("config.json seed: expected the run's seed, found none")
    return open_guides(config.schedule, config.seed)


def make_stream(config: RunConfig, console: Console) -> Stream:
    """The stream of a run of any track, on a console made with the same config.

    Raises:
        ConfigError, DocumentError: The reference of a prediction run is not there.
    """
    if config.track != "prediction":
        return Stream.from_config(config, console)
    return GuidedStream.from_config(config, console, guides=find_guides(config))
