"""Anchors are what the packs of results/ give, and frozen."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

import anchors
from longplay.contract.files import read_document, write_document
from longplay.scoring.anchors import Anchors, shipped_anchors

# SHA-256 of a file. New numbers need a new name, not another hash here.
FROZEN = {
    "anchors-1": "72bc1ba63a5aa8d0162e62f741fd8bc9040f4b4c051f075822852dfc007d2d26",
}
DATA = anchors.SHIPPED.parent


@pytest.mark.parametrize("suite", shipped_anchors("anchors-1").suites)
def test_first_anchors_are_those_of_the_packs(suite: str) -> None:
    expected = shipped_anchors("anchors-1").suites[suite]
    assert anchors.measure_first_packs(suite) == expected


def test_anchors_are_frozen() -> None:
    found = {
        path.stem: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in DATA.glob("anchors-*.json")
    }
    assert found == FROZEN


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
