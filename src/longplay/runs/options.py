"""How a run is played, apart from what it plays; no recorded row depends on it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from longplay.contract.layout import KeepAgent, RunRequest

CHECKPOINT_S = 60.0
# States of agents beyond these sizes are not kept unless asked for.
KEPT_AGENT_BYTES = 100_000_000
KEPT_VISITS_BYTES = 10_000_000_000

Tracker = Literal["tensorboard", "wandb"]


@dataclass(frozen=True)
class RunOptions:
    """How a run is played.

    Attributes:
        checkpoint_s: Seconds between two checkpoints; every visit ends with one too.
        keep_agent: Which states of the agent are kept: `none`, `final` or `visits`
            (one per visit, and the final one); None for the final one if it is small.
        kept_agent_bytes: Nothing is kept beyond these bytes; None for the default of
            `keep_agent`.
        tracker: `tensorboard` or `wandb`, which gets summaries of the progress.
    """

    checkpoint_s: float = CHECKPOINT_S
    keep_agent: KeepAgent | None = None
    kept_agent_bytes: int | None = None
    tracker: Tracker | None = None

    @property
    def limit_bytes(self) -> int | None:
        """The bytes beyond which nothing is kept; None for no limit."""
        if self.kept_agent_bytes is not None:
            return self.kept_agent_bytes
        limits = {None: KEPT_AGENT_BYTES, "visits": KEPT_VISITS_BYTES}
        return limits.get(self.keep_agent)

    def continue_request(self, request: RunRequest) -> RunOptions:
        """These options, with the states that a stopped run was asked to keep."""
        if self.keep_agent is not None or self.kept_agent_bytes is not None:
            return self
        kept = request.keep_agent, request.kept_agent_bytes
        return replace(self, keep_agent=kept[0], kept_agent_bytes=kept[1])


DEFAULT_OPTIONS = RunOptions()
