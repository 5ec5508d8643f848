"""The shipped figures of the random agent are those of its packs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import random_baselines

SUITES = json.loads(random_baselines.DATA.read_text(encoding="utf-8"))["suites"]
# Figures of the others come from runs that are not packed.
PACKED = [name for name in SUITES if (random_baselines.RESULTS / name).exists()]


@pytest.mark.parametrize("suite", PACKED)
def test_shipped_figures_are_those_of_the_packs(suite: str) -> None:
    shipped = SUITES[suite]
    runs = random_baselines.find_runs(suite, Path("unused"), 1)
    found = random_baselines.summarise(runs, shipped["us_per_frame"])
    assert json.loads(json.dumps(found)) == shipped
