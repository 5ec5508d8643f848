"""The prediction track: pixels and the reward, and a number for an answer.

The agent is a module with `init(observation_shape)` and `step`, which is never told of
an action, a target or the game. What the answer is compared with, the stream asks its
guide for afterwards.
"""

from __future__ import annotations

from typing import Any, Self

from longplay.agents.loading import LoadedAgent
from longplay.stream import Percept
from longplay.tracks.streaming import StreamingTrack


class PredictionTrack(StreamingTrack):
    """One predictor on the prediction track."""

    @classmethod
    def build(cls, agent: LoadedAgent, seed: int) -> Self:
        """Builds the agent as a predictor."""
        return cls(agent.build_predictor(seed))

    def answer(self, percept: Percept) -> Any:
        """The agent's prediction for one observation."""
        percept.info = {"is_decision_frame": True}
        return super().answer(percept)
