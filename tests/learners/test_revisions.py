"""A learner that changes gets another `REVISION`: its results are another agent's.

`tests/learn/test_network_revisions.py` has the learners that need numba.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import learner_revisions
from all_learners import LEARNERS, WITHOUT_NUMBA
from learner_revisions import describe, find_change, read_pins

PINS = read_pins()


def test_every_learner_is_pinned() -> None:
    assert list(PINS) == list(LEARNERS), "run `make record`"


@pytest.mark.parametrize("name", WITHOUT_NUMBA)
def test_a_learner_plays_as_its_revision_did(name: str) -> None:
    assert find_change(describe(name), PINS[name]) is None


def test_actions_that_are_pinned_are_not_all_the_same() -> None:
    pinned = [pins["actions"] for pins in PINS.values() if "actions" in pins]
    assert len(set(pinned)) == len(pinned) > 1


def test_changed_behaviour_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    linear_td = LEARNERS["linear-td"]
    init = linear_td.init

    def build(observation_shape: tuple[int, int, int]) -> object:
        return init(observation_shape, step_size=0.02)

    monkeypatch.setattr(linear_td, "init", build)
    found = {**describe("linear-td"), "defaults": PINS["linear-td"]["defaults"]}
    change = find_change(found, PINS["linear-td"])
    assert change is not None and change.startswith("values were [-0.44")


def test_a_changed_default_is_found() -> None:
    found = {**PINS["blind"], "defaults": "0123"}
    change = find_change(found, PINS["blind"])
    assert change is not None and "are 0123: raise REVISION" in change


def test_only_a_raised_revision_is_pinned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blind = LEARNERS["blind"]
    monkeypatch.setattr(learner_revisions, "PINNED", tmp_path / "pins.json")
    monkeypatch.setattr(learner_revisions, "LEARNERS", {"blind": blind})
    learner_revisions.main()
    assert read_pins() == {"blind": PINS["blind"]}
    monkeypatch.setattr(learner_revisions, "describe", lambda name: {"revision": 2})
    learner_revisions.main()
    assert read_pins() == {"blind": PINS["blind"]}
    monkeypatch.setattr(blind, "REVISION", 2)
    learner_revisions.main()
    assert read_pins() == {"blind": {"revision": 2}}
