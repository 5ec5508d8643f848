"""A game and a recipe -> a network of action values.

The emulators play a rollout, its λ-returns are computed with the current network, and
the network is fitted to them for a few epochs: parallel Q-learning (PQN, Gallici et
al. 2024). All randomness comes from one generator, which is part of a checkpoint; so
are the actions of emulators that restart now and then, which are replayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from longplay.reference.ram import RamPair
from references.training.array_file import (
    Arrays,
    read_arrays,
    write_arrays,
)
from references.training.checkpoint import (
    load_network,
    load_optimiser,
    network_arrays,
    optimiser_arrays,
)
from references.training.features import LiveInputs
from references.training.network import RamNetwork
from references.training.play import Emulators, MakeConsole, Outcomes
from references.training.recipe import Recipe, ReturnsEnd
from references.training.reward_scale import RewardScale

_RECENT_GAMES = 30
_MAX_SEED = 2**31

Floats = NDArray[np.float32]


class Rollout(NamedTuple):
    """A rollout; arrays are (timesteps, emulators, …), RAM has one timestep more."""

    ram: RamPair
    actions: NDArray[np.int64]
    rewards: Floats
    ends: NDArray[np.bool_]


def lambda_returns(
    rewards: Floats,
    ends: NDArray[np.bool_],
    next_values: Floats,
    discount: float,
    trace_decay: float,
) -> Floats:
    """λ-returns (timesteps, emulators); `next_values[t]` is the value after t."""
    returns = np.empty_like(rewards)
    following = next_values[-1]
    for t in reversed(range(len(rewards))):
        mixed = trace_decay * following + (1 - trace_decay) * next_values[t]
        following = rewards[t] + discount * np.where(ends[t], 0, mixed)
        returns[t] = following
    return returns


def find_ends(outcomes: Outcomes, returns_end: ReturnsEnd) -> NDArray[np.bool_]:
    """In which emulators (emulators,) a return ends with this timestep."""
    match returns_end:
        case "life":
            return outcomes.is_over | outcomes.life_lost
        case "game":
            return outcomes.is_over
        case "never":
            return np.zeros_like(outcomes.is_over)


class QTraining:
    """One training run; `advance` plays one rollout and learns from it."""

    def __init__(
        self,
        game_id: str,
        make_console: MakeConsole,
        actions: Sequence[int],
        recipe: Recipe,
    ) -> None:
        self.game_id, self.recipe, self.actions = game_id, recipe, tuple(actions)
        self.timestep = 0
        self.recent_scores: list[float] = []
        self._make_console = make_console
        self._rng = np.random.default_rng(recipe.seed)
        self._action_numbers = np.array(self.actions)
        self.reward_scale = RewardScale()
        self._start_emulators()
        live = LiveInputs(memory_bytes=self._emulators.memory_bytes)
        self.network = RamNetwork(len(self.actions), live, recipe.seed)
        self._optimiser = self._make_optimiser()
        self._track_inputs(self._emulators.ram)

    def _make_optimiser(self) -> torch.optim.RAdam:
        parameters = self.network.parameters()
        return torch.optim.RAdam(parameters, lr=self.recipe.learning_rate, foreach=True)

    def _start_emulators(self) -> None:
        seeds = self._draw_seeds(self.recipe.emulators)
        self._emulators = Emulators(self.game_id, self._make_console, seeds)
        self._held = np.zeros(self.recipe.emulators, np.int64)
        self._held_timesteps = np.zeros(self.recipe.emulators, np.int64)

    def _draw_seeds(self, count: int, *key: int) -> list[int]:
        """Seeds of emulators that start at this timestep."""
        spawn_key = (self.timestep, *key)
        seeds = np.random.SeedSequence(self.recipe.seed, spawn_key=spawn_key)
        drawn: list[int] = (seeds.generate_state(count) % _MAX_SEED).tolist()
        return drawn

    def _restart_emulators(self) -> None:
        """Restarts the emulators whose time is over, a few at a time."""
        period, count = self.recipe.restart_timesteps, len(self._emulators)
        if period is None or self.timestep == 0:
            return
        for index in range(count):
            played = self.timestep // count + index * period // count
            if played % period < self.recipe.rollout_timesteps:
                self._emulators.restart(index, self._draw_seeds(1, index)[0])

    @property
    def emulator_seeds(self) -> list[int]:
        """The seeds of the emulators that are playing now."""
        return list(self._emulators.seeds)

    @property
    def is_done(self) -> bool:
        """Whether all timesteps of the recipe were played."""
        return self.timestep >= self.recipe.timesteps

    def advance(self) -> None:
        """Plays one rollout and learns from it."""
        self._restart_emulators()
        rollout = self._play_rollout()
        self._track_inputs(rollout.ram)
        self._learn(rollout)
        self.timestep += rollout.rewards.size
        finished = self._emulators.finished_scores
        self.recent_scores = (self.recent_scores + finished)[-_RECENT_GAMES:]
        finished.clear()

    def sample_pairs(self, rollouts: int) -> RamPair:
        """Memory pairs (n, 256) of a few rollouts with the current network."""
        played = [self._play_rollout().ram for _ in range(rollouts)]
        return np.concatenate(played).reshape(-1, played[0].shape[-1])

    def _track_inputs(self, ram: RamPair) -> None:
        if self.network.live.update(ram):
            self.network.grow(self._optimiser)

    @torch.no_grad()
    def _evaluate(self, ram: RamPair) -> Floats:
        flat = ram.reshape(-1, ram.shape[-1])
        values: Floats = self.network(self.network.read(flat)).numpy()
        return values.reshape(*ram.shape[:-1], -1)

    def _choose(self, ram: RamPair, exploration: float) -> NDArray[np.int64]:
        choices = self._evaluate(ram).argmax(axis=1)
        begins = self._rng.random(len(choices)) < exploration
        random_choices = self._rng.integers(0, len(self.actions), len(choices))
        begins &= self._held_timesteps == 0
        self._held[begins] = random_choices[begins]
        self._held_timesteps[begins] = self._draw_holds()[begins]
        explores = self._held_timesteps > 0
        self._held_timesteps[explores] -= 1
        return np.where(explores, self._held, choices)

    def _draw_holds(self) -> NDArray[np.int64]:
        """Timesteps for which each emulator would hold a new random action."""
        holds = np.ones(len(self._emulators), np.int64)
        if (longest := self.recipe.exploration_hold) > 1:
            holds[1::2] = self._rng.integers(1, longest + 1, len(holds[1::2]))
        return holds

    def _play_rollout(self) -> Rollout:
        length, emulators = self.recipe.rollout_timesteps, self._emulators
        shape = (length, len(emulators))
        ram = np.empty((length + 1, *emulators.ram.shape), np.uint8)
        actions = np.empty(shape, np.int64)
        rewards, ends = np.empty(shape, np.float64), np.empty(shape, np.bool_)
        exploration = self.recipe.exploration_at(self.timestep)
        for t in range(length):
            ram[t] = emulators.ram
            actions[t] = self._choose(ram[t], exploration)
            outcomes = emulators.play(self._action_numbers[actions[t]].tolist())
            rewards[t] = outcomes.game_rewards
            ends[t] = find_ends(outcomes, self.recipe.returns_end)
        ram[length] = emulators.ram
        return Rollout(ram, actions, self._scale_rewards(rewards), ends)

    def _scale_rewards(self, rewards: NDArray[np.float64]) -> Floats:
        if self.recipe.reward == "sign":
            return np.sign(rewards).astype(np.float32)
        if self.recipe.reward == "root":
            rewards = np.sign(rewards) * np.sqrt(np.abs(rewards))
        self.reward_scale.add(rewards)
        return self.reward_scale.apply(rewards, self.recipe.discount)

    def _learn(self, rollout: Rollout) -> None:
        recipe = self.recipe
        next_values = self._evaluate(rollout.ram[1:]).max(axis=2)
        returns = lambda_returns(
            rollout.rewards,
            rollout.ends,
            next_values,
            recipe.discount,
            recipe.trace_decay,
        )
        for group in self._optimiser.param_groups:
            group["lr"] = recipe.learning_rate_at(self.timestep)
        inputs = self.network.read(rollout.ram[:-1].reshape(returns.size, -1))
        actions = torch.from_numpy(rollout.actions.reshape(-1, 1))
        targets = torch.from_numpy(returns.reshape(-1, 1))
        for _ in range(recipe.epochs):
            order = torch.from_numpy(self._rng.permutation(returns.size))
            for rows in order.chunk(recipe.minibatches):
                self._fit(inputs[rows], actions[rows], targets[rows])

    def _fit(
        self, inputs: torch.Tensor, actions: torch.Tensor, targets: torch.Tensor
    ) -> None:
        estimates = self.network(inputs).gather(1, actions)
        loss = 0.5 * nn.functional.mse_loss(estimates, targets)
        self._optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        parameters = self.network.parameters()
        nn.utils.clip_grad_norm_(parameters, self.recipe.gradient_norm)
        self._optimiser.step()

    def save(self, path: Path) -> None:
        """Writes a checkpoint."""
        facts: dict[str, Any] = {
            "game": self.game_id,
            "actions": self.actions,
            "recipe": self.recipe.model_dump(),
            "timestep": self.timestep,
            "recent_scores": self.recent_scores,
            "generator": self._rng.bit_generator.state,
            "reward_scale": self.reward_scale.facts(),
            "emulator_seeds": self.emulator_seeds,
        }
        arrays = network_arrays(self.network) | optimiser_arrays(self._optimiser)
        if self.recipe.restart_timesteps is not None:
            arrays |= self._play_arrays()
        write_arrays(path, arrays, facts)

    def restore(self, path: Path) -> None:
        """Restores a checkpoint.

        Emulators that restart now and then are replayed, so that training continues as
        if it had not stopped. Otherwise new ones start.
        """
        arrays, facts = read_arrays(path)
        live = LiveInputs(arrays["always"], arrays["ever"])
        self.network = RamNetwork(len(self.actions), live, self.recipe.seed)
        load_network(self.network, arrays)
        self._optimiser = self._make_optimiser()
        load_optimiser(self._optimiser, arrays)
        self.timestep = facts["timestep"]
        self.recent_scores = facts["recent_scores"]
        self._rng.bit_generator.state = facts["generator"]
        self.reward_scale = RewardScale(**facts["reward_scale"])
        if self.recipe.restart_timesteps is None:
            self._start_emulators()
            self._track_inputs(self._emulators.ram)
        else:
            self._replay(facts["emulator_seeds"], arrays)

    def _play_arrays(self) -> Arrays:
        """What `_replay` needs, except for the seeds."""
        actions = {
            f"actions.{index}": np.frombuffer(bytes(played), np.uint8)
            for index, played in enumerate(self._emulators.actions)
        }
        return {**actions, "held": self._held, "held_for": self._held_timesteps}

    def _replay(self, seeds: Sequence[int], arrays: Arrays) -> None:
        self._emulators = Emulators(self.game_id, self._make_console, seeds)
        for index in range(len(seeds)):
            self._emulators.replay(index, arrays[f"actions.{index}"].tobytes())
        self._held, self._held_timesteps = arrays["held"], arrays["held_for"]
