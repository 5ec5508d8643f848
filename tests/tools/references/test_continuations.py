"""Branching from recorded visits: in the recorded state, with any draws."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from longplay.reference.library import DATA, REFERENCE_GAMES, load_reference
from longplay.reference.streams import RecordedVisit, find_recorded_visit
from longplay.seeds import emulator_seed
from references.continuations import (
    ReplayedVisit,
    continuation_seeds,
    make_draws,
)
from references.stickiness import AleDraws, StickyDraws

WHOLE = pytest.mark.exhaustive


def retrace(game: str, seed: int = 0) -> tuple[ReplayedVisit, RecordedVisit]:
    visit_idx = REFERENCE_GAMES.index(game)
    recorded = find_recorded_visit(game, seed, visit_idx, DATA)
    assert recorded is not None
    played = ReplayedVisit(
        game,
        emulator_seed(seed, visit_idx),
        sticky=0.25,
        frame_skip=4,
    )
    return played, recorded


def play_recorded(
    visit: ReplayedVisit, recorded: RecordedVisit, until: int
) -> Iterator[int]:
    """Plays up to a timestep; yields what the memory was before each."""
    while visit.timestep < until:
        yield zlib.crc32(visit.player.pair)
        game_reward = visit.play(int(recorded.actions[visit.timestep]))
        assert np.sign(game_reward) == recorded.rewards[visit.timestep - 1]


def continue_recorded(
    visit: ReplayedVisit, recorded: RecordedVisit, timesteps: int, draws: StickyDraws
) -> list[int]:
    """The memory of a branch that is given the recorded actions, to a game over."""
    console, player, start = visit.console, visit.player, visit.timestep
    branch, memory, sticky_rng = console.save(), player.save(), console.sticky_rng
    console.sticky_rng = draws
    seen, is_over = [], False
    for timestep in range(start, start + timesteps):
        if is_over:
            break
        seen.append(zlib.crc32(player.pair))
        _, is_over = player.play_to_end(int(recorded.actions[timestep]))
    console.restore(branch)
    player.restore(memory)
    console.sticky_rng = sticky_rng
    return seen


def check_exactness(
    game: str, *, seed: int, states: int, timesteps: int, until: int
) -> int:
    """A continuation with the draws of the recording is the recording.

    Returns:
        At how many states other draws made a difference. It need not at all of them: a
        game may not look at an action for a while, or be about to end.
    """
    visit, recorded = retrace(game, seed)
    policy = load_reference(game, DATA).policy
    places = np.random.default_rng([seed, len(game)]).choice(until, states, False)
    expected: dict[int, list[int]] = {}
    seen: list[int] = []
    changed = 0
    for place in sorted(map(int, places)):
        seen += play_recorded(visit, recorded, place)
        visit.check_state()
        draws = AleDraws(visit.console.serialize_state())
        expected[place] = continue_recorded(visit, recorded, timesteps, draws)
        once, again, other = (
            (played.discounted_reward, zlib.crc32(played.pair))
            for played in visit.branch_off(
                [
                    make_draws(policy, continuation_seeds(seed, 0, place, k))
                    for k in (5, 5, 6)
                ],
                timesteps,
                discount=0.99,
            )
        )
        assert once == again
        changed += once != other
    seen += play_recorded(visit, recorded, max(expected) + timesteps)
    for place, continued in expected.items():
        assert continued == seen[place : place + len(continued)]
    visit.check_state()
    return changed


@pytest.mark.exhaustive
@pytest.mark.parametrize(("game", "changed"), [("qbert", 0), ("fishing_derby", 3)])
def test_some_recorded_states_are_reached_exactly(game: str, changed: int) -> None:
    """Qbert ends games often; Fishing Derby starts one from ALE's generator."""
    found = check_exactness(game, seed=0, states=4, timesteps=60, until=1500)
    assert found >= changed


@WHOLE
@pytest.mark.parametrize("game", REFERENCE_GAMES)
def test_a_continuation_with_the_recorded_draws_is_the_recording(
    game: str,
) -> None:
    assert check_exactness(game, seed=0, states=10, timesteps=200, until=4000) >= 5


def test_continuations_have_different_seeds():
    places = itertools.product(range(3), range(3), (0, 40, 80), range(4))
    seeds = [seed for place in places for seed in continuation_seeds(*place)]
    assert len(set(seeds)) == 2 * 3 * 3 * 3 * 4


def test_the_seeds_of_a_continuation_are_pinned():
    """Shipped rollout values were measured with it."""
    pinned = (5551029653656548341, 3148717608979179412)
    assert continuation_seeds(0, 0, 40, 1) == pinned
