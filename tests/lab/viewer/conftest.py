"""A viewer of a played run, and one of agents whose numbers are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from compared_runs import Compared, make_compared
from viewer_requests import Viewer, open_viewer


@pytest.fixture(scope="session")
def played(finished_run: Path) -> Viewer:
    """A viewer of one experiment with one run, played by the emulator."""
    return open_viewer(finished_run.parent.parent)


@pytest.fixture(scope="session")
def three_agents(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    names = {"alpha": 2.0, "<b>beta</b> & co": 0.5, "gamma": 1.0}
    return make_compared(tmp_path_factory.mktemp("three"), names)


@pytest.fixture(scope="session")
def agents(three_agents: Compared) -> Viewer:
    """A viewer of three agents with three runs each, which have z."""
    return open_viewer(three_agents.path, anchors=three_agents.anchors)
