"""Two agents on three games, one with a name that is HTML."""

from __future__ import annotations

import pytest

from compared_runs import Compared, make_compared


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    names = {"alpha": 2.0, "<b>beta</b> & co": 0.5}
    return make_compared(tmp_path_factory.mktemp("compared"), names)
