"""A study on a console that pays for one action."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import paying_console
import pytest

from longplay.console.machines import add_machine, remove_machine
from longplay.suites import SUITES, add_suite


@pytest.fixture(scope="module")
def paying_suite() -> Iterator[str]:
    add_machine(paying_console.MACHINE)
    add_suite(paying_console.SUITE)
    yield paying_console.SUITE.suite_id
    del SUITES[paying_console.SUITE.suite_id]
    remove_machine(paying_console.MACHINE)


@pytest.fixture
def study_file(paying_suite: str, tmp_path: Path) -> Path:
    """A study of two agents; one has three candidates, of which 5 is the best."""
    (tmp_path / "button.py").write_text(paying_console.AGENT)
    path = tmp_path / "study.toml"
    path.write_text(paying_console.STUDY)
    return path
