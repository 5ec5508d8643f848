"""Plays a frozen policy: visits of the prediction track, and whole games for scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longplay.console.base import ACTION_NAMES
from longplay.reference.policy import Chooser, FixedPolicy
from longplay.reference.ram import RAM_BYTES, RamPair
from references.continuations import Player
from references.training.array_file import read_arrays, write_arrays
from references.training.play import MakeConsole

# After half an hour of game time, a game is scored as it stands.
MAX_GAME_TIMESTEPS = 27_000

_MAX_SEED = 2**31

Choose = Callable[[RamPair], int]


def draw_seeds(purpose: int, index: int, count: int) -> list[int]:
    """Seeds for emulators and policies, distinct from those of runs and purposes."""
    sequence = np.random.SeedSequence(purpose, spawn_key=(3, index))
    return [int(word) % _MAX_SEED for word in sequence.generate_state(count)]


class PlayedVisit(NamedTuple):
    """A visit: `ram` is (timesteps, 128), each before the action of its row."""

    ram: NDArray[np.uint8]
    actions: NDArray[np.uint8]
    game_rewards: NDArray[np.float64]
    is_over: NDArray[np.bool_]

    def pairs(self) -> RamPair:
        """Current and previous memory, (timesteps, 256)."""
        before = np.roll(self.ram, 1, axis=0)
        is_first = np.concatenate([[True], self.is_over[:-1]])
        before[is_first] = self.ram[is_first]
        return np.concatenate([self.ram, before], axis=1)


def play_visit(
    player: Player, policy: FixedPolicy, policy_seed: int, timesteps: int
) -> PlayedVisit:
    """Plays a visit of the prediction track."""
    chooser = Chooser(policy, policy_seed)
    visit = PlayedVisit(
        np.empty((timesteps, RAM_BYTES), np.uint8),
        np.empty(timesteps, np.uint8),
        np.empty(timesteps, np.float64),
        np.empty(timesteps, np.bool_),
    )
    for t in range(timesteps):
        action = chooser.choose(player.pair)
        visit.ram[t], visit.actions[t] = player.pair[:RAM_BYTES], action
        visit.game_rewards[t], visit.is_over[t] = player.play(action)
    return visit


def write_visit(path: Path, visit: PlayedVisit) -> None:
    """Writes a visit as one file."""
    write_arrays(path, visit._asdict(), {})


def read_visit(path: Path) -> PlayedVisit:
    """Reads what `write_visit` wrote."""
    return PlayedVisit(**read_arrays(path)[0])


def measure_scores(
    game_id: str, make_console: MakeConsole, choosers: Sequence[Choose], purpose: int
) -> list[float]:
    """The game score of one whole game for every chooser, on its own emulator."""
    seeds = draw_seeds(purpose, 0, len(choosers))
    return [
        _measure_score(Player(make_console(), game_id, seed), choose)
        for seed, choose in zip(seeds, choosers, strict=True)
    ]


def _measure_score(player: Player, choose: Choose) -> float:
    score = 0.0
    for _ in range(MAX_GAME_TIMESTEPS):
        game_reward, is_over = player.play(choose(player.pair))
        score += game_reward
        if is_over:
            break
    return score


def random_chooser(seed: int) -> Choose:
    """Chooses uniformly among all 18 actions, like longplay's random agent."""
    rng = np.random.default_rng(seed)
    return lambda pair: int(rng.integers(len(ACTION_NAMES)))
