"""The committed studies that choose settings: small, and never on an official seed."""

from __future__ import annotations

import pytest

import results
from longplay.agents.source.loading import load_agent
from longplay.lab.studies.file import StudyFile, read_study_file
from longplay.lab.studies.plan import StudyAgents
from longplay.lab.studies.tuning import expand_grid
from longplay.suites import FIRST_TUNING_SEED, get_suite
from longplay.tracks.catalogue import get_track

FOLDER = results.ROOT / "tools/tuning"
STUDIES = sorted(path.name for path in FOLDER.glob("*.toml"))
MOST_SETTINGS, MOST_SEEDS = 6, 2
each_study = pytest.mark.parametrize("name", STUDIES)


def read(name: str) -> StudyFile:
    return read_study_file(FOLDER / name)[0]


@each_study
def test_no_official_seed_is_played(name: str) -> None:
    study = read(name)
    assert study.tuning is not None and study.seeds is not None
    assert len(study.tuning.seeds) == MOST_SEEDS
    assert min(*study.tuning.seeds, *study.seeds) >= FIRST_TUNING_SEED


@each_study
def test_few_settings_are_tried_and_each_can_be_built(name: str) -> None:
    study = read(name)
    assert study.tuning is not None
    (suite,) = study.suites
    track = get_track(get_suite(suite.id).track)
    for agent, (given, _) in StudyAgents.load(study, FOLDER).by_name.items():
        points = expand_grid(study.tuning.grid_of(agent))
        assert 2 <= len(points) <= MOST_SETTINGS
        for point in points:
            track.build_agent(load_agent(given.ref, {**given.args, **point}), 0)


def test_every_planned_learner_with_settings_is_tuned() -> None:
    """Those that were played before have the settings that they had."""
    tuned = {
        (given.ref, given.args.get("method", "none"))
        for name in STUDIES
        for given in read(name).agents
    }
    planned = {
        (run.variant.agent, run.variant.method)
        for run in results.plan()
        if run.suite_id in ("control-3x3-v1", "prediction-6x3-v1")
    }
    before = {(agent, "none") for agent in ("random", "explore-only", "linear-td")}
    assert planned - tuned == before | {("blind", "none")}
    assert set(results.TUNED) <= tuned
