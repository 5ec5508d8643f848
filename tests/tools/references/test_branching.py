"""Restoring the emulator is exact, and sticky actions have the right frequency."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from longplay.console.ale import AleConsole
from references.branching import BranchingAleConsole


def make_console(game: str) -> BranchingAleConsole:
    console = BranchingAleConsole(sticky=0.25, full_action_space=True)
    console.start_visit(game, 11)
    return console


def play(console: BranchingAleConsole, frames: int, shift: int = 0) -> int:
    """Plays pseudo-random actions; the CRC-32 of all memory seen."""
    digest = 0
    for frame in range(frames):
        _, is_over, _ = console.step((frame // 3 * 7 + shift) % 18)
        digest = zlib.crc32(console.ram(), digest)
        if is_over:
            console.reset()
    return digest


def play_to_the_end(console: BranchingAleConsole) -> None:
    while not console.step(1)[1]:
        pass


@pytest.mark.few(1)
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("game", ["qbert", "fishing_derby"])
def test_a_game_that_was_just_reset_is_restored(game: str, is_first: bool) -> None:
    """Without repeating the reset, Qbert would be one frame ahead."""
    consoles = make_console(game), make_console(game)
    for console in consoles:
        if not is_first:
            play_to_the_end(console)
            console.reset()
        console.sticky_rng = np.random.default_rng(0)
    straight, branching = consoles
    branch = branching.save()
    for _ in range(2):
        play(branching, 30)
        branching.restore(branch)
    branching.sticky_rng = np.random.default_rng(0)
    assert branching.serialize_state() == straight.serialize_state()
    assert play(branching, 100) == play(straight, 100)


@pytest.mark.few(1)
@pytest.mark.parametrize("game", ["pong", "breakout", "ms_pacman", "road_runner"])
def test_play_after_restoring_is_unchanged(game: str) -> None:
    straight, branching = make_console(game), make_console(game)
    play(straight, 400)
    play(branching, 400)
    sticky_rng, branch = branching.sticky_rng, branching.save()
    for luck in range(3):
        branching.sticky_rng = np.random.default_rng(luck)
        play(branching, 700, shift=luck)
        branching.restore(branch)
    branching.sticky_rng = sticky_rng
    assert play(branching, 400) == play(straight, 400)


def test_other_draws_give_another_continuation() -> None:
    console = make_console("pong")
    play(console, 200)
    branch, digests = console.save(), []
    for luck in (1, 2, 1):
        console.sticky_rng = np.random.default_rng(luck)
        digests.append(play(console, 300))
        console.restore(branch)
    assert digests[0] == digests[2] != digests[1]


def test_a_quarter_of_the_frames_repeat_the_previous_action() -> None:
    console = make_console("pong")
    repeated = 0
    for frame in range(2000):
        before = console.save().previous_action
        console.step(frame % 18)
        repeated += console.save().previous_action == before
    # 500 ± 19 (one standard deviation)
    assert 420 < repeated < 580


@pytest.mark.parametrize("console_class", [AleConsole, BranchingAleConsole])
def test_a_reset_clears_the_previous_action(
    console_class: type[AleConsole],
) -> None:
    console = console_class(sticky=0.99, full_action_space=True)
    console.start_visit("breakout", 5)
    right, paddle = 3, 72
    for _ in range(1500):
        console.step(right)
    assert console.ram()[paddle] == 191  # at the wall
    console.reset()
    start = console.ram()[paddle]
    for _ in range(20):
        console.step(0)
    assert console.ram()[paddle] == start
