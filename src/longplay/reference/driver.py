"""The driver of the prediction track: a fixed policy plays, answers are predictions.

The order within a timestep is the rule of the track: the answer is read first. Only
then is the guide asked for the action and the target, so no agent can know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from longplay.console.base import Console
from longplay.contract.records import (
    LARGEST_VALUE,
    EventRow,
    PredictionRow,
    RunConfig,
    ScheduledVisit,
)
from longplay.driver import unwrap_number
from longplay.errors import AgentError, ConfigError, describe_value
from longplay.reference.guide import Guide, open_guides
from longplay.reference.library import hash_references


class ReferenceDriver:
    """A guide decides; the agent's prediction and the target go into the row."""

    row_type: type[EventRow] = PredictionRow

    def __init__(self, guides: Mapping[int, Guide]) -> None:
        self._guides = guides
        self._prediction = self._target = 0.0

    @classmethod
    def from_config(cls, config: RunConfig) -> ReferenceDriver:
        """The driver of a run.

        Raises:
            ConfigError: The policies and values here are not the run's, or missing.
            DocumentError: Their files are damaged.
        """
        return cls(_find_guides(config))

    def start_visit(self, visit: ScheduledVisit, console: Console) -> None:
        """Takes the guide of the visit."""
        self._guide = self._guides[visit.visit_idx]
        self._ram = console.ram

    def decide(self, answer: object, is_first: bool) -> int:
        """Reads the prediction, then asks the guide for action and target."""
        self._prediction = _read_prediction(answer)
        action, self._target = self._guide.decide(self._ram(), is_first)
        return action

    def finish_frame(self, reward: float) -> tuple[float, float]:
        """Prediction and target of the timestep.

        Raises:
            ConsoleError: The emulator is not the one the reference was recorded on.
        """
        self._guide.check_reward(reward)
        return self._prediction, self._target

    def skip(self, is_first: bool) -> None:
        """Lets the guide see the memory, as when it decided."""
        self._guide.skip(self._ram(), is_first)


def _read_prediction(answer: object) -> float:
    prediction = read_number(answer)
    if prediction is not None and abs(prediction) <= LARGEST_VALUE:
        return prediction
    raise AgentError(
        f"the agent's answer is not a valid prediction: expected a finite number of at "
        f"most {LARGEST_VALUE:g}, found {describe_value(answer)}"
    )


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


def _find_guides(config: RunConfig) -> dict[int, Guide]:
    """Visit -> its guide, of a prediction run."""
    found = hash_references(config.games)
    if found != config.reference_sha256:
        raise ConfigError(
            f"reference_sha256: the run has {config.reference_sha256}, the references "
            f"here are {found}; its policies are those of another version of longplay"
        )
    if config.seed is None:
        raise ConfigError("config.json seed: expected the run's seed, found none")
    return open_guides(config.schedule, config.seed)
