"""anchors-1 is what the packs of results/ give."""

from __future__ import annotations

import pytest

import anchors
from longplay.analysis.anchors import shipped_anchors


@pytest.mark.parametrize("suite", shipped_anchors().suites)
def test_anchors_are_those_of_the_packs(suite: str) -> None:
    assert anchors.measure_packs(suite) == shipped_anchors().suites[suite]
