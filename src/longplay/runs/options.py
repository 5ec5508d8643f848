"""How a run is played, apart from what it plays; no recorded row depends on it."""

from __future__ import annotations

from dataclasses import dataclass

CHECKPOINT_S = 60.0
# Larger states of agents are not kept unless asked for.
KEPT_AGENT_BYTES = 100_000_000


@dataclass(frozen=True)
class RunOptions:
    """How a run is played.

    Attributes:
        checkpoint_s: Seconds between two checkpoints; every visit ends with one too.
        kept_agent_bytes: The final state of the agent is kept if it is not larger; 0
            keeps none, None any.
    """

    checkpoint_s: float = CHECKPOINT_S
    kept_agent_bytes: int | None = KEPT_AGENT_BYTES


DEFAULT_OPTIONS = RunOptions()
