"""How a policy is trained: one recipe for all games."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Recipe(BaseModel):
    """Parallel Q-learning with λ-returns and layer normalisation, without replay.

    Rewards are the delivered ones (signs), and a lost life ends a return while
    learning; game scores are the game's own. Exploration falls linearly from 1. With
    `exploration_hold` above 1, every second emulator holds a random action for 1 to
    that many timesteps, because single ones hardly ever lead across the screen
    (temporally extended exploration, Dabney et al. 2021).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    timesteps: int = Field(default=1_500_000, ge=1)
    emulators: int = Field(default=32, ge=1)
    rollout_timesteps: int = Field(default=32, ge=1)
    discount: float = Field(default=0.99, gt=0, lt=1)
    trace_decay: float = Field(default=0.9, ge=0, le=1)
    epochs: int = Field(default=4, ge=1)
    minibatches: int = Field(default=8, ge=1)
    learning_rate: float = Field(default=5e-4, gt=0)
    gradient_norm: float = Field(default=10.0, gt=0)
    exploration: float = Field(default=0.02, ge=0, le=1)
    exploration_share: float = Field(default=0.1, gt=0, le=1)
    exploration_hold: int = Field(default=1, ge=1)
    seed: int = Field(default=0, ge=0)

    def learning_rate_at(self, timestep: int) -> float:
        """Falls linearly to nothing."""
        return self.learning_rate * max(0.0, 1 - timestep / self.timesteps)

    def exploration_at(self, timestep: int) -> float:
        """Falls linearly from 1 over the first share of the training, then stays."""
        done = timestep / (self.exploration_share * self.timesteps)
        return max(self.exploration, 1 - (1 - self.exploration) * done)
