"""Fixtures for the tests of resuming: uninterrupted runs, and a killed one."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from scenarios import SCENARIOS, Reference, Stopped

from killing import Fault
from longplay.contract.rundir import ROW_FILES


@pytest.fixture(scope="session")
def reference_of(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[str], Reference]:
    """A scenario's run, uninterrupted; played once."""
    played: dict[str, Reference] = {}

    def reference_of(name: str) -> Reference:
        if name not in played:
            folder = tmp_path_factory.mktemp("reference")
            played[name] = Reference.play(SCENARIOS[name], folder)
        return played[name]

    return reference_of


@pytest.fixture(scope="session")
def killed(
    reference_of: Callable[[str], Reference], tmp_path_factory: pytest.TempPathFactory
) -> Stopped:
    """Not to be changed: `stopped` is a copy of it."""
    stopped = Stopped(
        reference_of("every frame"), tmp_path_factory.mktemp("killed") / "out"
    )
    ended = stopped.reference.scenario.run(stopped.out, fault=Fault("save", 12))
    assert ended.exit_code == -signal.SIGKILL, ended.output
    for name in ROW_FILES:  # rows before the checkpoint in each file, and after it
        size = (stopped.run_dir / name).stat().st_size
        assert 0 < stopped.kept_bytes[name] < size, name
    return stopped


@pytest.fixture
def stopped(killed: Stopped, tmp_path: Path) -> Stopped:
    """A killed run that a test may damage and resume."""
    out = Path(shutil.copytree(killed.out, tmp_path / "out"))
    return Stopped(killed.reference, out)
