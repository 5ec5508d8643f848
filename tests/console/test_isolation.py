"""Nothing carries over between visits: a visit in a chain equals the visit alone.

One emulator object that is used again carries settings from game to game: after
blackjack or backgammon the paddle games play differently. So chains of games are
played by one console in one process, and each of their visits alone in a fresh one.

Run as a script, this file plays the visits given as JSON and prints what they did.
"""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

import ale_py
import numpy as np
import pytest
from ale_py import roms

from longplay.console.ale import AleConsole
from longplay.console.games import GAMES

CHAIN_VISITS = 5
# Chains that `make test` plays: each of their visits costs a process of its own.
FEW = range(3)
VISIT_FRAMES = 300
STICKY = 0.25

SETTING_CARRIERS = ("blackjack", "backgammon")
PADDLE_GAMES = ("breakout", "pong", "kaboom", "video_pinball")

Visit = tuple[str, int]  # game, emulator seed
Trace = list[float | str]  # sum of rewards, game overs, rolled CRC-32 of RAM


def play_visit(console: AleConsole, game_id: str, seed: int) -> Trace:
    """Plays pseudo-random actions, the same ones for the same seed."""
    console.start_visit(game_id, seed)
    choices = np.random.default_rng(seed).integers(
        len(console.actions), size=VISIT_FRAMES
    )
    reward_sum, game_overs, crc = 0.0, 0, 0
    for choice in choices.tolist():
        reward, is_over, _ = console.step(console.actions[choice])
        reward_sum += reward
        crc = zlib.crc32(console.ram(), crc)
        if is_over:
            game_overs += 1
            console.reset()
    return [reward_sum, game_overs, f"{crc:08x}"]


def play_chain(visits: list[Visit]) -> list[Trace]:
    console = AleConsole(sticky=STICKY, full_action_space=True)
    return [play_visit(console, game_id, seed) for game_id, seed in visits]


def play_in_fresh_process(visits: list[Visit]) -> list[Trace]:
    done = subprocess.run(
        [sys.executable, __file__, json.dumps(visits)],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return json.loads(done.stdout)


def draw_chain(number: int) -> list[Visit]:
    """Five games; in every even chain a setting carrier comes before a paddle game."""
    rng = np.random.default_rng(number)
    games = rng.choice(sorted(GAMES), CHAIN_VISITS, replace=False).tolist()
    if number % 2 == 0:
        first, second = sorted(rng.choice(CHAIN_VISITS, 2, replace=False).tolist())
        games[first] = SETTING_CARRIERS[number // 2 % len(SETTING_CARRIERS)]
        games[second] = PADDLE_GAMES[number // 4 % len(PADDLE_GAMES)]
    return [(game_id, int(rng.integers(2**31))) for game_id in games]


def find_differences(chains: list[list[Visit]]) -> list[str]:
    """Plays every chain at once and visit by visit; says where that differs."""
    alone = [[visit] for chain in chains for visit in chain]
    with ThreadPoolExecutor(2) as pool:  # two processes at a time
        in_chains = list(pool.map(play_in_fresh_process, chains))
        alone_traces = list(pool.map(play_in_fresh_process, alone))
    chained = [trace for traces in in_chains for trace in traces]
    return [
        f"{visit} in its chain {trace}, alone {expected}"
        for [visit], trace, [expected] in zip(alone, chained, alone_traces, strict=True)
        if trace != expected
    ]


def test_chains_contain_the_intended_games() -> None:
    chains = [[game_id for game_id, _ in draw_chain(number)] for number in FEW]
    pairs = {
        (before, after)
        for chain in chains
        for k, before in enumerate(chain)
        for after in chain[k + 1 :]
    }
    assert all(len(chain) == CHAIN_VISITS for chain in chains)
    assert len({game_id for chain in chains for game_id in chain}) > 10
    for carrier in SETTING_CARRIERS:
        assert any((carrier, paddle) in pairs for paddle in PADDLE_GAMES)


@pytest.mark.exhaustive
def test_three_chains_carry_nothing_over() -> None:
    assert find_differences([draw_chain(number) for number in FEW]) == []


@pytest.mark.exhaustive
def test_two_hundred_chains_carry_nothing_over() -> None:
    assert find_differences([draw_chain(number) for number in range(200)]) == []


@pytest.mark.exhaustive
def test_console_used_before_in_this_process_plays_the_same() -> None:
    visits = [("backgammon", 3), ("kaboom", 4), ("blackjack", 5), ("breakout", 6)]
    assert play_chain(visits) == play_in_fresh_process(visits)
    assert play_chain(visits)[3:] == play_in_fresh_process(visits[3:])


class ReusedEmulator(AleConsole):
    """The mistake these tests look for: one emulator object for all visits."""

    def start_visit(self, game_id: str, emulator_seed: int) -> None:
        ale = getattr(self, "_shared", None) or ale_py.ALEInterface()
        ale.setInt("random_seed", emulator_seed)
        ale.setFloat("repeat_action_probability", STICKY)
        ale.loadROM(roms.get_rom_path(game_id))
        ale.reset_game()
        self._ale = self._shared = ale
        self._actions = tuple(range(18))
        self._action_set = frozenset(self._actions)


@pytest.mark.parametrize("carrier", SETTING_CARRIERS)
def test_reused_emulator_would_be_noticed(carrier: str) -> None:
    reused = ReusedEmulator(sticky=STICKY, full_action_space=True)
    first = play_visit(reused, "breakout", 6)
    play_visit(reused, carrier, 5)
    assert first == play_chain([("breakout", 6)])[0]
    assert play_visit(reused, "breakout", 6) != first


if __name__ == "__main__":
    print(json.dumps(play_chain(json.loads(sys.argv[1]))))  # noqa: T201
