"""How a policy is trained: one recipe for all games."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

ReturnsEnd = Literal["life", "game", "never"]
TrainingReward = Literal["sign", "scaled", "root"]


class Recipe(BaseModel):
    """Parallel Q-learning with λ-returns and layer normalisation, without replay.

    Training uses the signs of rewards, or with `reward` "scaled" the game's own
    rewards less their mean, divided by the standard deviation that their discounted sum
    would have if they were independent: one learning rate then suits every game.
    Subtracting the mean does not change which policy is best if returns never end.
    With "root" the square roots of the game's rewards (with their signs) are scaled:
    where a few large rewards hide many small ones, these are then learned, too.
    Scores use the game's own rewards. A return
    ends where `returns_end` says: when a life is lost, when the game is over, or never,
    as in a visit, where the next game starts at once. Exploration decreases linearly
    from 1. With
    `exploration_hold` above 1, every second emulator holds a random action for 1 to
    that many timesteps, because single random timesteps hardly ever cross the screen
    (temporally extended exploration, Dabney et al. 2021).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    timesteps: int = Field(default=1_500_000, ge=1)
    emulators: int = Field(default=32, ge=1)
    rollout_timesteps: int = Field(default=32, ge=1)
    discount: float = Field(default=0.99, gt=0, lt=1)
    trace_decay: float = Field(default=0.9, ge=0, le=1)
    returns_end: ReturnsEnd = "life"
    epochs: int = Field(default=4, ge=1)
    minibatches: int = Field(default=8, ge=1)
    learning_rate: float = Field(default=5e-4, gt=0)
    gradient_norm: float = Field(default=10.0, gt=0)
    exploration: float = Field(default=0.02, ge=0, le=1)
    exploration_share: float = Field(default=0.1, gt=0, le=1)
    exploration_hold: int = Field(default=1, ge=1)
    reward: TrainingReward = "sign"
    # After so many timesteps an emulator starts anew, so that resuming replays at most
    # these. None for never.
    restart_timesteps: int | None = Field(default=None, ge=1)
    seed: int = Field(default=0, ge=0)

    def learning_rate_at(self, timestep: int) -> float:
        """Decreases linearly to zero."""
        return self.learning_rate * max(0.0, 1 - timestep / self.timesteps)

    def exploration_at(self, timestep: int) -> float:
        """Decreases linearly from 1 over the first share of training, then constant."""
        done = timestep / (self.exploration_share * self.timesteps)
        return max(self.exploration, 1 - (1 - self.exploration) * done)
