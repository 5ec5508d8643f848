"""Anchors are what the packs of results/ give, and frozen."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

import pytest

import anchors
from longplay.contract.files import read_document, write_document
from longplay.scoring.anchors import Anchors, shipped_anchors

# First 16 digits of the SHA-256 of each entry. New numbers need a new name, not another
# hash here.
FROZEN = {
    "anchors-1": {
        "control-v1": "ebc8bbf72ab32663",
        "stream-3x2-v1": "1880d7e41d1b2dc9",
        "control-6x3-v1": "dadca4a3779a2b41",
        "stream-8x3-v1": "c9fa285e81f80119",
    },
    "anchors-2": {
        "control-v1": "136c812f7efc52ab",
        "control-6x3-v1": "e161363539fbef66",
        "control-3x3-v1": "4ec3e17f99fac739",
        # Until 0.2.0 they change once more, when all of their games have policies.
        "stream-3x2-v1": "3253efcf440dd5ea",
        "stream-8x3-v1": "cfb37b0731483a12",
    },
}
DATA = anchors.SHIPPED.parent


@pytest.mark.parametrize("suite", shipped_anchors("anchors-1").suites)
def test_first_anchors_are_those_of_the_packs(suite: str) -> None:
    expected = shipped_anchors("anchors-1").suites[suite]
    assert anchors.measure_first_packs(suite) == expected


@pytest.mark.parametrize("suite", shipped_anchors("anchors-2").suites)
def test_anchors_are_those_of_packs_and_policies(suite: str) -> None:
    expected = shipped_anchors("anchors-2").suites[suite]
    assert anchors.measure_packs(suite) == expected


def test_anchors_are_frozen() -> None:
    found = {path.stem: hash_entries(path) for path in DATA.glob("anchors-*.json")}
    assert found == FROZEN


def hash_entries(path: Path) -> dict[str, str]:
    entries = json.loads(path.read_bytes())["suites"]
    texts = {suite: json.dumps(entry).encode() for suite, entry in entries.items()}
    return {suite: hashlib.sha256(t).hexdigest()[:16] for suite, t in texts.items()}


def test_other_numbers_of_a_frozen_suite_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = shipped_anchors("anchors-1").model_copy(update={"name": "anchors-2"})
    entry = shipped.suites["control-v1"].model_copy(update={"upper_seeds": (0,)})
    suites = {"control-v1": entry}
    changed = tmp_path / "anchors.json"
    write_document(changed, shipped.model_copy(update={"suites": suites}))
    before = changed.read_bytes()
    monkeypatch.setattr(anchors, "SHIPPED", changed)
    monkeypatch.setattr(sys, "argv", ["anchors.py", "control-v1"])
    with pytest.raises(SystemExit, match="control-v1 has other numbers in anchors-2"):
        anchors.main()
    assert changed.read_bytes() == before
    monkeypatch.setattr(sys, "argv", ["anchors.py", "control-6x3-v1"])
    anchors.main()
    suites = read_document(changed, Anchors).suites
    assert suites["control-v1"] == entry
    added, first = suites["control-6x3-v1"], shipped.suites["control-6x3-v1"]
    numbers = added.games["qbert"]
    assert numbers.explore_only is not None
    assert numbers.model_copy(update={"explore_only": None}) == first.games["qbert"]
