"""Visits of a frozen policy -> its value function, fitted with early stopping.

The network starts from the policy's own, to use its features. The first epoch fits
Monte Carlo returns, every later one λ-returns that are recomputed before it, because
they have much less noise. Whenever the error on held-out visits does not decrease, the
fit returns to the best network so far and halves the learning rate. It ends after a few
halvings. The held-out error is always measured against Monte Carlo returns.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from torch import nn

from longplay.errors import ConfigError
from longplay.reference.ram import RAM_BYTES, RamPair
from references.training.array_file import read_arrays, write_arrays
from references.training.checkpoint import (
    load_network,
    network_arrays,
)
from references.training.frozen_play import PlayedVisit
from references.training.network import RamNetwork
from references.training.qlearning import lambda_returns
from references.training.returns import (
    HORIZON_TIMESTEPS,
    discounted_returns,
    known_returns,
)

Floats = NDArray[np.float32]

_EVALUATION_ROWS = 8192


class FitRecipe(BaseModel):
    """How values are fitted: one recipe for all games."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    discount: float = Field(default=0.99, gt=0, lt=1)
    trace_decay: float = Field(default=0.9, ge=0, le=1)
    learning_rate: float = Field(default=5e-4, gt=0)
    weight_decay: float = Field(default=1e-2, ge=0)
    batch_rows: int = Field(default=1024, ge=1)
    halvings: int = Field(default=3, ge=0)
    max_epochs: int = Field(default=16, ge=1)
    seed: int = Field(default=0, ge=0)


class Corpus:
    """Visits of equal length side by side: arrays are (timesteps, visits, …)."""

    def __init__(self, visits: Sequence[PlayedVisit], discount: float) -> None:
        pairs = [visit.pairs() for visit in visits]
        self.pairs: RamPair = np.stack(pairs, axis=1)
        self.ends = np.stack([visit.is_over for visit in visits], axis=1)
        game_rewards = np.stack([visit.game_rewards for visit in visits], axis=1)
        self.rewards = np.sign(game_rewards).astype(np.float32)
        self.returns = discounted_returns(self.rewards, self.ends, discount)
        self.is_known = known_returns(self.ends)
        if not self.is_known.any():
            raise ConfigError(
                f"visits: expected a game's end or {HORIZON_TIMESTEPS} timesteps, "
                f"found neither in visits of {len(self.ends)}; play longer visits"
            )

    def rows(self) -> RamPair:
        """All memory pairs (timesteps × visits, 256)."""
        return self.pairs.reshape(-1, 2 * RAM_BYTES)


def start_values(policy: RamNetwork, seed: int) -> RamNetwork:
    """A network with one output, the policy's features and its mean action value."""
    network = RamNetwork(1, copy.deepcopy(policy.live), seed)
    for name in ("weight1", "bias1", "norm1", "layer2", "norm2"):
        setattr(network, name, copy.deepcopy(getattr(policy, name)))
    with torch.no_grad():
        network.layer3.weight[:] = policy.layer3.weight.mean(0)
        network.layer3.bias[:] = policy.layer3.bias.mean()
    return network


@torch.no_grad()
def evaluate_rows(network: RamNetwork, rows: RamPair) -> Floats:
    """Values of memory pairs (n, 256), as (n,)."""
    values = [
        network(network.read(rows[start : start + _EVALUATION_ROWS]))[:, 0].numpy()
        for start in range(0, len(rows), _EVALUATION_ROWS)
    ]
    return np.concatenate(values)


def held_out_error(network: RamNetwork, held_out: Corpus) -> float:
    """Mean squared error against Monte Carlo returns."""
    values = evaluate_rows(network, held_out.rows()).reshape(held_out.returns.shape)
    errors = (values - held_out.returns)[held_out.is_known]
    return float(np.mean(errors.astype(np.float64) ** 2))


class ValueFit:
    """One fit; `advance` runs an epoch."""

    def __init__(
        self, network: RamNetwork, corpus: Corpus, held_out: Corpus, recipe: FitRecipe
    ) -> None:
        self._corpus, self._held_out, self._recipe = corpus, held_out, recipe
        self.best = network
        self.errors = [held_out_error(network, held_out)]
        self._halvings = 0
        self._restore_best()

    def _restore_best(self) -> None:
        self._network = copy.deepcopy(self.best)
        self._optimiser = torch.optim.AdamW(
            self._network.parameters(),
            lr=self._recipe.learning_rate / 2**self._halvings,
            weight_decay=self._recipe.weight_decay,
            foreach=True,
        )

    @property
    def is_done(self) -> bool:
        """Whether the held-out error stopped decreasing, or the epochs are used up."""
        epochs = len(self.errors) - 1
        recipe = self._recipe
        return self._halvings > recipe.halvings or epochs >= recipe.max_epochs

    def advance(self) -> None:
        """Runs an epoch and measures the held-out error."""
        is_first = len(self.errors) == 1
        trace_decay = 1.0 if is_first else self._recipe.trace_decay
        self._run_epoch(self._targets(trace_decay))
        error = held_out_error(self._network, self._held_out)
        if error < min(self.errors):
            self.best = copy.deepcopy(self._network)
        else:
            self._halvings += 1
            self._restore_best()
        self.errors.append(error)

    def _targets(self, trace_decay: float) -> Floats:
        """λ-returns, bootstrapped with a value where a visit is truncated."""
        corpus = self._corpus
        values = evaluate_rows(self._network, corpus.rows())
        values = values.reshape(corpus.returns.shape)
        # The last row has no next state in the visit; its own value is used instead.
        next_values = np.concatenate([values[1:], values[-1:]])
        return lambda_returns(
            corpus.rewards,
            corpus.ends,
            next_values,
            self._recipe.discount,
            trace_decay,
        ).reshape(-1, 1)

    def _run_epoch(self, targets: Floats) -> None:
        rows, batch_rows = self._corpus.rows(), self._recipe.batch_rows
        rng = np.random.default_rng([self._recipe.seed, len(self.errors)])
        order = rng.permutation(len(rows))
        for start in range(0, len(order), batch_rows):
            chosen = order[start : start + batch_rows]
            estimates = self._network(self._network.read(rows[chosen]))
            loss = nn.functional.mse_loss(estimates, torch.from_numpy(targets[chosen]))
            self._optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._optimiser.step()

    def save(self, path: Path) -> None:
        """Writes the best network so far and the state of the fit."""
        facts = {"errors": self.errors, "halvings": self._halvings}
        write_arrays(path, network_arrays(self.best), facts)

    def restore(self, path: Path) -> None:
        """Resumes from the best network that was saved."""
        arrays, facts = read_arrays(path)
        load_network(self.best, arrays)
        self.errors, self._halvings = facts["errors"], facts["halvings"]
        self._restore_best()
