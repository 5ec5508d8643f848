"""How a run is played, apart from what it plays; no recorded row depends on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

CHECKPOINT_S = 60.0
# Larger states of agents are not kept unless asked for.
KEPT_AGENT_BYTES = 100_000_000

Tracker = Literal["tensorboard", "wandb"]


@dataclass(frozen=True)
class RunOptions:
    """How a run is played.

    Attributes:
        checkpoint_s: Seconds between two checkpoints; every visit ends with one too.
        kept_agent_bytes: The final state of the agent is kept if it is not larger; 0
            keeps none, None any.
        tracker: `tensorboard` or `wandb`, which gets summaries of the progress.
    """

    checkpoint_s: float = CHECKPOINT_S
    kept_agent_bytes: int | None = KEPT_AGENT_BYTES
    tracker: Tracker | None = None


DEFAULT_OPTIONS = RunOptions()
