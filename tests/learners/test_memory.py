"""`memory = carry | reset | library`, with learners that need NumPy alone.

`tests/learn/test_network_memory.py` has the same for learners that need numba.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import longplay
from all_learners import LEARNERS, SMALL, WITHOUT_NUMBA, choose
from longplay.agents.source.loading import load_agent
from longplay.console.ale import AleConsole
from longplay.errors import ConfigError
from longplay.learners import explore_only, linear_sarsa
from longplay.learners.parts.memory import MOST_SETS, find_colours
from longplay.suites import SUITES
from made_up_visits import Player, build, describe, show
from memory_rules import RULES
from playing import play_run


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("name", WITHOUT_NUMBA)
def test_rule(name: str, rule: Any, tmp_path: Path) -> None:
    rule(LEARNERS[name], choose(name, SMALL), tmp_path)


# --- which game it is ---------------------------------------------------------------

GAMES = sorted({game for suite in SUITES.values() for game in suite.games})


@pytest.fixture(scope="module")
def first_frames() -> list[dict[str, Any]]:
    """For two seeds: the first frame of a visit of every game."""

    def see(game: str, seed: int) -> Any:
        console = AleConsole(sticky=0.25, full_action_space=True, frame_skip=4)
        console.start_visit(game, seed)
        return console.observation()

    return [{game: see(game, seed) for game in GAMES} for seed in (3, 2_044_266_242)]


@pytest.mark.exhaustive
def test_every_game_of_every_suite_is_recognised(
    first_frames: list[dict[str, Any]],
) -> None:
    player = Player(explore_only, memory="library")
    slots = []
    for frames in first_frames:
        for frame in frames.values():
            player.see(frame, info={"terminated": False, "truncated": bool(slots)})
            slots.append(player.metrics["memory_slot"])
    assert slots == 2 * list(range(len(GAMES)))
    assert player.metrics["memory_slots"] == len(GAMES) <= MOST_SETS


@pytest.mark.exhaustive
def test_games_are_far_apart(first_frames: list[dict[str, Any]]) -> None:
    colours = [np.stack([*map(find_colours, seen.values())]) for seen in first_frames]
    distances = np.abs(colours[0][:, None] - colours[1][None]).sum(axis=2)
    assert distances.diagonal().max() < 0.005
    np.fill_diagonal(distances, 2.0)
    # A distance of 0.02 is still taken for the same game.
    assert distances.min() > 0.08


def test_colours_by_hand() -> None:
    frame = np.zeros((210, 160, 3), np.uint8)
    frame[:105] = (255, 32, 31)
    shares = find_colours(frame)
    assert shares[0] == shares[7 * 64 + 1 * 8 + 0] == 0.5
    assert shares.sum() == 1.0


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("suite", "agent", "overrides"),
    [
        ("stream-smoke-v1", "linear-sarsa", {}),
        ("control-6x3-v1", "linear-sarsa", {"games": ["breakout", "qbert"]}),
        ("prediction-smoke-v1", "linear-td", {}),
    ],
)
def test_each_visit_of_a_run_has_the_slot_of_its_game(
    suite: str, agent: str, overrides: dict[str, Any], tmp_path: Path
) -> None:
    run = play_run(
        suite,
        agent,
        seed=1000,
        out=tmp_path / "out",
        agent_args={"memory": "library"},
        overrides={"base_visit_frames": 60, **overrides},
    )
    slots: dict[str, float] = {}
    for visit in longplay.read_run(run.run_dir).summary.visits:
        slot = slots.setdefault(visit.game_id, float(len(slots)))
        assert visit.metrics["memory_slot"] == slot
        assert visit.metrics["memory_slots"] == len(slots)
    assert len(slots) > 1


# --- the library --------------------------------------------------------------------


def test_a_full_library_forgets_the_game_of_longest_ago() -> None:
    player = Player(explore_only, memory="library")
    screens = []
    for k in range(MOST_SETS + 1):
        screen = show(1)
        screen[:, : 4 * (k + 1)] = 200
        screens.append(screen)
    for k, screen in enumerate(screens[:MOST_SETS]):
        player.see(screen, info={"terminated": False, "truncated": k > 0})
    switch = {"terminated": False, "truncated": True}
    player.see(screens[0], info=switch)
    player.see(screens[-1], info=switch)
    assert player.metrics == {
        "epsilon": 0.03,
        "memory_slot": 1.0,
        "memory_slots": float(MOST_SETS),
    }
    player.see(screens[0], info=switch)
    assert player.metrics["memory_slot"] == 0.0


def test_a_set_takes_few_bytes() -> None:
    player = Player(linear_sarsa, memory="library")
    player.visit(1, 50)
    player.visit(2, 2)
    assert 0 < player.state.shelf_bytes.nbytes < 1_000_000


# --- arguments ----------------------------------------------------------------------


@pytest.mark.parametrize("name", LEARNERS)
def test_unknown_memory_is_refused(name: str) -> None:
    message = "memory: expected one of carry, reset, library, found 'libary'"
    with pytest.raises(ConfigError, match=message):
        build(LEARNERS[name], memory="libary")


def test_memory_is_part_of_the_agent_id_only_if_given() -> None:
    plain, reset = (
        load_agent("linear-sarsa", args).entry for args in ({}, {"memory": "reset"})
    )
    assert plain.config["args"] == {}
    # As in the results that were played before there was a choice.
    assert plain.agent_id.startswith("b5399980d0a979cd")
    assert reset.agent_id != plain.agent_id


def test_a_state_saved_before_there_was_a_choice_is_loaded(tmp_path: Path) -> None:
    player = Player(linear_sarsa)
    player.visit(1, 20)
    linear_sarsa.save(player.state, tmp_path)
    text = (tmp_path / "state.json").read_text()
    assert ', "memory": "carry"' in text
    (tmp_path / "state.json").write_text(text.replace(', "memory": "carry"', ""))
    assert describe(linear_sarsa.load(tmp_path)) == describe(player.state)
