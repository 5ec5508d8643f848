"""Delivered rewards of visits: recorded ones replayed, and those of a workspace."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from longplay.console.scripted import ScriptedConsole
from longplay.reference.library import DATA, load_reference
from longplay.reference.policy import Chooser
from longplay.reference.streams import find_recorded_visit
from references.delivered import (
    RANDOM_SEEDS,
    count_rewards,
    read_random_visits,
)
from references.training import stages
from references.training.play import FRAME_SKIP
from references.training.recipe import Recipe
from references.training.visit_rewards import (
    add_random_visits,
    measure_policy,
    play_visits,
)
from references.workspace import Workspace


def make_console() -> ScriptedConsole:
    return ScriptedConsole(frame_skip=FRAME_SKIP)


def test_a_policy_plays_the_visits_of_runs() -> None:
    policy, seeds, timesteps = load_reference("breakout", DATA).policy, (0, 1), 400
    recorded = {seed: find_recorded_visit("breakout", seed, 1, DATA) for seed in seeds}
    expected = count_rewards(
        {s: visit.rewards[:timesteps] for s, visit in recorded.items() if visit}
    )
    played = play_visits(
        "breakout",
        lambda seed: Chooser(policy, seed).choose,
        seeds,
        timesteps,
        stages.make_console,
    )
    assert played == expected
    assert np.all(played.rewards)


def test_a_workspace_keeps_the_comparison_with_random(tmp_path: Path) -> None:
    place = Workspace(tmp_path, "pong")
    recipe = Recipe(timesteps=512, emulators=4, rollout_timesteps=16)
    stages.train(place, recipe, make_console, (0, 1, 2))
    stages.freeze(place, stages.PlayPlan(games=2), make_console)
    lead = measure_policy(place, (1000, 1001), 60, make_console)
    assert lead.policy.seeds == lead.random.seeds == (1000, 1001)
    assert lead.policy.rewards != lead.random.rewards
    kept = type(lead).model_validate_json(place.path("visits.json").read_bytes())
    assert kept == lead


def test_random_play_is_kept_game_by_game(tmp_path: Path) -> None:
    qbert = add_random_visits(tmp_path, "qbert", 30, make_console)
    pong = add_random_visits(tmp_path, "pong", 30, make_console)
    random = read_random_visits(tmp_path)
    assert random.timesteps == 30
    assert list(random.games.items()) == [("pong", pong), ("qbert", qbert)]
    assert pong.seeds == tuple(RANDOM_SEEDS)
    assert add_random_visits(tmp_path, "pong", 30, make_console) == pong
