"""The references that are shipped: what was promised of them, and their recordings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from longplay.console.ale import AleConsole
from longplay.plan import plan_run
from longplay.reference.library import (
    DATA,
    hash_references,
    list_references,
    read_facts,
)
from longplay.reference.streams import find_recorded_visit
from longplay.suites import get_suite
from references.auditing import summarise
from references.recording import record_visit

GAMES = list_references(DATA)
# What comes from the start of a visit is the same whatever its length.
TIMESTEPS = 250
WHOLE = pytest.mark.exhaustive
SEEDS = range(5)


@pytest.mark.seed("003", "prediction-11")
@pytest.mark.parametrize("game", GAMES)
def test_policies_and_values_are_what_was_promised(game: str) -> None:
    facts = read_facts(game, DATA)
    assert facts.policy.recipe["timesteps"] >= 1_500_000
    assert min(facts.policy.score.games, facts.policy.random_score.games) >= 30
    assert facts.values.timesteps >= 500_000
    assert facts.audit.summary.states >= 50
    assert facts.audit.summary.continuations >= 32
    assert facts.audit.summary == summarise(list(facts.audit.audited))


def test_most_policies_are_better_than_random_play() -> None:
    leads = [read_facts(game, DATA).policy.lead_in_errors for game in GAMES]
    assert sum(lead >= 2 for lead in leads) >= 16


@pytest.mark.parametrize("suite_id", ["prediction-smoke-v1", "prediction-v1"])
def test_suites_mean_the_shipped_references(suite_id: str) -> None:
    suite = get_suite(suite_id)
    assert suite.references == hash_references(suite.games, DATA)
    assert plan_run(suite_id).suite_name == suite_id


def test_every_game_of_the_track_has_a_reference() -> None:
    assert sorted(GAMES) == sorted(get_suite("prediction-v1").games)


@pytest.mark.few(4)
@pytest.mark.seed("003", "prediction-8")
@pytest.mark.parametrize(("game", "seed"), [*itertools.product(GAMES, SEEDS)])
@pytest.mark.parametrize("timesteps", [TIMESTEPS, pytest.param(10_000, marks=WHOLE)])
def test_recording_is_what_the_policy_does_live(
    game: str, seed: int, timesteps: int
) -> None:
    visits = plan_run("control-v1", seed).config.schedule
    visit = next(visit for visit in visits if visit.game_id == game)
    recorded = find_recorded_visit(game, seed, visit.visit_idx, DATA)
    assert recorded is not None
    assert len(recorded) == visit.visit_frames
    console = AleConsole(sticky=0.25, full_action_space=True, frame_skip=4)
    shorter = visit.model_copy(update={"visit_frames": timesteps})
    live = record_visit(shorter, seed, console, DATA)
    for name in ("actions", "rewards", "values"):
        expected = getattr(recorded, name)[:timesteps]
        np.testing.assert_array_equal(getattr(live, name), expected)


def test_all_of_it_is_small() -> None:
    assert sum(path.stat().st_size for path in DATA.iterdir()) <= 24_000_000
