"""An experiment that all tests of records share."""

from __future__ import annotations

from pathlib import Path

import pytest

from generated_runs import make_experiment


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """Three runs that have ended; their rewards are 0.25, 1.25 and 2.25."""
    return make_experiment(tmp_path / "experiment", range(3))
