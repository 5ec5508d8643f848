"""What `memory` promises: functions of a learner, its arguments and an empty folder.

Tests call them with every learner.
"""

from __future__ import annotations

import copy
import inspect
import random
from pathlib import Path
from typing import Any

from longplay.learners.parts.memory import SwitchedState
from longplay.learners.parts.state_files import copy_generators, unpack_state
from made_up_visits import Player, describe

# Long enough to learn something, and to train a small network.
TIMESTEPS = 60

Arguments = dict[str, Any]


def carry_is_the_plain_learner(learner: Any, small: Arguments, folder: Path) -> None:
    plain, carry = Player(learner, **small), Player(learner, **small, memory="carry")
    for game in (1, 2, 1):
        assert plain.visit(game, TIMESTEPS) == carry.visit(game, TIMESTEPS)
    assert not isinstance(carry.state, SwitchedState)
    assert describe(plain.state) == describe(carry.state)
    assert "memory_slot" not in carry.metrics


def reset_plays_as_a_new_agent(learner: Any, small: Arguments, folder: Path) -> None:
    player = Player(learner, **small, memory="reset")
    player.visit(1, TIMESTEPS)
    fresh = Player(learner, **small, memory="reset")
    copy_generators(player.state.current, fresh.state.current)
    assert player.visit(2, TIMESTEPS) == fresh.visit(2, TIMESTEPS)
    assert describe(player.state.current) == describe(fresh.state.current)


def library_knows_nothing_of_a_new_game(
    learner: Any, small: Arguments, folder: Path
) -> None:
    player, fresh = (Player(learner, **small, memory="library") for _ in range(2))
    player.visit(1, TIMESTEPS)
    last, old = copy.deepcopy(player.state), player.last
    last.learn_end(inspect.unwrap(learner.step), old, 1.0)
    copy_generators(last.current, fresh.state.current)
    assert player.visit(2, TIMESTEPS) == fresh.visit(2, TIMESTEPS)
    assert describe(player.state.current) == describe(fresh.state.current)


def the_last_transition_is_the_old_set_s(
    learner: Any, small: Arguments, folder: Path
) -> None:
    players = [Player(learner, **small, memory="library") for _ in range(2)]
    for player, pending in zip(players, (1.0, -1.0), strict=True):
        player.visit(1, TIMESTEPS)
        player.visit(2, 1, pending)
    one, two = (player.state for player in players)
    assert one.shelf[0] != two.shelf[0]
    assert describe(one.current) == describe(two.current)


def a_game_that_comes_back_is_as_it_was_left(
    learner: Any, small: Arguments, folder: Path
) -> None:
    player, alone = (Player(learner, **small, memory="library") for _ in range(2))
    player.visit(1, TIMESTEPS)
    player.visit(2, TIMESTEPS)
    kept = player.state.shelf[0]
    player.visit(3, TIMESTEPS)
    assert player.state.shelf[0] == kept
    last, old = copy.deepcopy(player.state), player.last
    last.learn_end(inspect.unwrap(learner.step), old, 1.0)
    alone.state.current = unpack_state(inspect.unwrap(learner.init), kept)
    learner.restart(alone.state.current)
    copy_generators(last.current, alone.state.current)
    assert player.visit(1, TIMESTEPS) == alone.visit(1, TIMESTEPS)
    assert describe(player.state.current) == describe(alone.state.current)
    assert player.metrics["memory_slot"] == 0.0
    assert player.metrics["memory_slots"] == 3.0


def nothing_is_learned_across_the_gap(
    learner: Any, small: Arguments, folder: Path
) -> None:
    players = [Player(learner, **small, memory="library") for _ in range(2)]
    for player, pending in zip(players, (1.0, -1.0), strict=True):
        player.visit(1, TIMESTEPS)
        player.visit(2, TIMESTEPS)
        player.visit(1, 1, pending)
        # A replay also learns from older transitions there.
        if not hasattr(player.state.current, "replay"):
            assert player.metrics.get("squared_td_error", 0.0) == 0.0
    one, two = (player.state.current for player in players)
    assert describe(one) == describe(two)


def it_resumes_bit_for_bit(learner: Any, small: Arguments, folder: Path) -> None:
    for memory in ("reset", "library"):
        straight, resumed = (Player(learner, **small, memory=memory) for _ in range(2))
        moments = random.Random(memory).sample(range(4 * TIMESTEPS), 3)
        for visit, game in enumerate((1, 2, 1, 3)):
            straight.visit(game, TIMESTEPS)
            start = visit * TIMESTEPS
            # At random moments and at the end of each visit, where probes begin.
            stops = {
                k - start: folder / f"{memory}-{k}"
                for k in [*moments, start + TIMESTEPS - 1]
            }
            resumed.visit(game, TIMESTEPS, stops=stops)
        assert resumed.answers == straight.answers
        assert resumed.save(folder / f"{memory}-resumed") == straight.save(
            folder / f"{memory}-straight"
        )


RULES = [
    carry_is_the_plain_learner,
    reset_plays_as_a_new_agent,
    library_knows_nothing_of_a_new_game,
    the_last_transition_is_the_old_set_s,
    a_game_that_comes_back_is_as_it_was_left,
    nothing_is_learned_across_the_gap,
    it_resumes_bit_for_bit,
]
