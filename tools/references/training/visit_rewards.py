"""Frozen policies and the random agent -> delivered rewards of the track's visits.

The visit of a seed starts as it does in a run: same emulator seed, same policy seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from longplay.contract.files import write_document
from longplay.reference.library import REFERENCE_GAMES
from longplay.reference.policy import Chooser
from longplay.seeds import emulator_seed, policy_seed
from references.continuations import Player
from references.delivered import (
    RANDOM_SEEDS,
    RANDOM_VISITS,
    VISIT_TIMESTEPS,
    DeliveredLead,
    RandomVisits,
    Rewards,
    VisitRewards,
    count_rewards,
    read_random_visits,
)
from references.training.frozen_play import Choose, random_chooser
from references.training.play import MakeConsole
from references.training.stages import (
    make_console,
    read_policy,
    require_stage,
)
from references.workspace import Workspace

MakeChooser = Callable[[int], Choose]


def play_visits(
    game_id: str,
    make_chooser: MakeChooser,
    seeds: Sequence[int],
    timesteps: int,
    make_console: MakeConsole,
) -> VisitRewards:
    """Plays the game's visit of `prediction-v1` once per run seed."""
    visit_idx = REFERENCE_GAMES.index(game_id)
    visits = {}
    for seed in seeds:
        player = Player(make_console(), game_id, emulator_seed(seed, visit_idx))
        choose = make_chooser(policy_seed(seed, visit_idx))
        visits[seed] = _play_rewards(player, choose, timesteps)
    return count_rewards(visits)


def _play_rewards(player: Player, choose: Choose, timesteps: int) -> Rewards:
    rewards = np.empty(timesteps, np.int8)
    for t in range(timesteps):
        game_reward, _ = player.play(choose(player.pair))
        rewards[t] = np.sign(game_reward)
    return rewards


def measure_policy(
    workspace: Workspace,
    seeds: Sequence[int],
    timesteps: int = VISIT_TIMESTEPS,
    make_console: MakeConsole = make_console,
) -> DeliveredLead:
    """Plays a workspace's frozen policy and the random agent on the same visits.

    Raises:
        ConfigError: There is no frozen policy yet.
    """
    require_stage(workspace, "freeze", "visits")
    policy, _ = read_policy(workspace)
    choosers: tuple[MakeChooser, ...] = (
        lambda seed: Chooser(policy, seed).choose,
        random_chooser,
    )
    own, random = (
        play_visits(workspace.game_id, choose, seeds, timesteps, make_console)
        for choose in choosers
    )
    lead = DeliveredLead(game=workspace.game_id, policy=own, random=random)
    write_document(workspace.path("visits.json"), lead)
    return lead


def add_random_visits(
    data: Path,
    game_id: str,
    timesteps: int = VISIT_TIMESTEPS,
    make_console: MakeConsole = make_console,
) -> VisitRewards:
    """Measures the random agent on one game and adds it to the file of all games."""
    seeds = RANDOM_SEEDS
    played = play_visits(game_id, random_chooser, seeds, timesteps, make_console)
    known = read_random_visits(data).games if (data / RANDOM_VISITS).exists() else {}
    known = known | {game_id: played}
    games = {game: known[game] for game in REFERENCE_GAMES if game in known}
    write_document(data / RANDOM_VISITS, RandomVisits(timesteps=timesteps, games=games))
    return played
