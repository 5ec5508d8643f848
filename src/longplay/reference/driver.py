"""The driver of the prediction track: a fixed policy plays, answers are predictions.

The order within a timestep is a rule of the track: the answer is read first, and only
then does the guide give the action and the target, so that no agent can know them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from longplay.console.base import Console
from longplay.contract.config import RunConfig, ScheduledVisit
from longplay.contract.rows import LARGEST_VALUE, EventRow, PredictionRow
from longplay.driver import unwrap_number
from longplay.errors import AgentError, ConfigError, describe_value
from longplay.reference.guide import Guide, open_branch_guides, open_guides
from longplay.reference.library import hash_references


class ReferenceDriver:
    """A guide decides; rows contain the agent's prediction and the target."""

    row_type: type[EventRow] = PredictionRow

    def __init__(self, guides: Mapping[int, Guide]) -> None:
        self._guides = guides
        self._prediction = self._target = 0.0

    @classmethod
    def from_config(cls, config: RunConfig) -> ReferenceDriver:
        """The driver of a run.

        Raises:
            ConfigError: The installed references are missing or not the run's.
            DocumentError: Their files are damaged.
        """
        return cls(_find_guides(config))

    def start_visit(self, visit: ScheduledVisit, console: Console) -> None:
        """Selects the guide of the visit."""
        self._guide = self._guides[visit.visit_idx]
        self._ram = console.ram

    def decide(self, answer: object, is_first: bool) -> int:
        """Reads the prediction, then gets action and target from the guide."""
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
        """Shows the guide the memory, as in `decide`."""
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
    """A finite number as a float; None for anything else."""
    try:
        answer = unwrap_number(answer)
        if isinstance(answer, bool | str | bytes):
            return None
        number = float(answer)  # type: ignore[arg-type]
    except Exception:  # its __float__ is the agent's code
        return None
    return number if isfinite(number) else None


def _find_guides(config: RunConfig) -> dict[int, Guide]:
    """Visit -> its guide, for a prediction run."""
    found = hash_references(config.games)
    if found != config.reference_sha256:
        raise ConfigError(
            f"reference_sha256: expected {config.reference_sha256}, which the run was "
            f"made with, found {found} installed; install the version of longplay that "
            "made the run"
        )
    if config.seed is None:
        raise ConfigError("config.json seed: expected the run's seed, found none")
    if config.probe is not None:
        return open_branch_guides(config.schedule, config.seed, config.games)
    return open_guides(config.schedule, config.seed)
