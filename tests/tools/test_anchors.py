"""anchors-1 is what the packs of results/ give, and frozen."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest

import anchors
from longplay.contract.files import write_document
from longplay.scoring.anchors import read_anchors, shipped_anchors

# SHA-256 of an entry as JSON. New numbers need a new name, not a new line here.
FROZEN = {
    "control-6x3-v1": "74d5a74f4d35ed1940d3927d57197e43"
    "4d460be1dc2af38a318118ab048f32be",
    "control-v1": "3ae2b23941a90fa825f0805c6d96daccc575e0f1e4336c23786e2ac9813d1a5e",
    "stream-3x2-v1": "433f4fc32c83955a3f211220279043ccb4b2cd71700a7c3ade35073829bd700d",
    "stream-8x3-v1": "942cd2f18c757e9242887b47f2fde640534ffe32bb3d20cef32b38d4b529e74e",
}


@pytest.mark.parametrize("suite", shipped_anchors().suites)
def test_anchors_are_those_of_the_packs(suite: str) -> None:
    assert anchors.measure_packs(suite) == shipped_anchors().suites[suite]


def test_anchors_are_frozen() -> None:
    found = {
        suite: hashlib.sha256(entry.model_dump_json().encode()).hexdigest()
        for suite, entry in shipped_anchors().suites.items()
    }
    assert found == FROZEN


def test_other_numbers_of_a_frozen_suite_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = shipped_anchors()
    entry = shipped.suites["control-v1"].model_copy(update={"upper_seeds": (0,)})
    suites = {**shipped.suites, "control-v1": entry}
    changed = tmp_path / "anchors.json"
    write_document(changed, shipped.model_copy(update={"suites": suites}))
    before = changed.read_bytes()
    monkeypatch.setattr(anchors, "SHIPPED", changed)
    monkeypatch.setattr(sys, "argv", ["anchors.py", "control-v1"])
    with pytest.raises(SystemExit, match="control-v1 has other numbers in anchors-1"):
        anchors.main()
    assert changed.read_bytes() == before
    monkeypatch.setattr(sys, "argv", ["anchors.py", "control-6x3-v1"])
    anchors.main()
    assert read_anchors(changed).suites["control-v1"] == entry
