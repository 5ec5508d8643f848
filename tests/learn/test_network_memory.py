"""`memory = carry | reset | library`, with learners that need numba."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from all_learners import LEARNERS, SMALL, WITH_NUMBA, choose
from longplay.learners import dqn
from made_up_visits import Player, show
from memory_rules import RULES

DQN = choose("dqn", SMALL)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", WITH_NUMBA)
def test_rule(name: str, rule: Any, tmp_path: Path) -> None:
    rule(LEARNERS[name], choose(name, SMALL), tmp_path)


def test_a_replay_has_no_transition_across_the_gap() -> None:
    player = Player(dqn, **DQN, memory="library")
    player.visit(1, 30)
    player.visit(2, 20)
    player.visit(1, 25)
    replay = player.state.current.replay
    # One per timestep: none of the other game, none twice.
    assert replay.added == 55
    frames = {
        place: np.rint(255 * player.state.current.shrink(show(1, place)))
        for place in range(20)
    }
    shown = [
        next(place for place, frame in frames.items() if (frame == stored).all())
        for stored in replay.frames[:55]
    ]
    assert shown[30:] == shown[:25]
    assert np.flatnonzero(replay.is_first[:55]).tolist() == [0, 30]
    assert np.flatnonzero(replay.is_over[:54]).tolist() == [29]
    assert replay.rewards[29] != 0.0


def test_no_set_of_dqn_is_larger_than_its_replay() -> None:
    """Not even where frames are noise, which cannot be compressed."""
    player = Player(dqn, memory="library")
    rng = np.random.default_rng(0)
    replay = player.state.current.replay
    replay.frames[:] = rng.integers(0, 256, replay.frames.shape, np.uint8)
    player.visit(1, 2)
    player.visit(2, 2)
    assert player.state.shelf_bytes.nbytes < 20_000_000


def test_memory_does_not_grow_with_the_number_of_visits() -> None:
    player = Player(dqn, hidden=16, memory="library")
    tracemalloc.start()
    in_use = []
    for _ in range(4):
        for game in (1, 2, 3):
            player.visit(game, 2)
        in_use.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    # A state that is not freed would have 18 MB.
    assert in_use[-1] - in_use[0] < 1_000_000
