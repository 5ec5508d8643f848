"""What the tests share: a finished run, copies of it, and the command line."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from generated_runs import make_experiment
from longplay.cli.app import app
from longplay.reference.library import REFERENCE_GAMES
from made_up_references import write_references
from playing import play_run

pytest_plugins = ("failing_runs",)

# A shell that puts a job into the background has it ignore Ctrl-C, and processes hand
# that on. The commands under test are to hear it however the tests were started.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Three games, two cycles, short visits: every kind of boundary in a second of play.
TINY = {"base_visit_frames": 700, "jitter_pct": 0.1}


def _mark_all_but_few(items: list[pytest.Item]) -> None:
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") and not item.get_closest_marker("exhaustive"):
            function = getattr(item, "originalname", item.name)
            cases.setdefault((item.path, function), []).append(item)
    for same in cases.values():
        (number,) = same[0].get_closest_marker("few").args
        kept = {round(k * len(same) / number) for k in range(number)}
        for index, item in enumerate(same):
            if index not in kept:
                item.add_marker("exhaustive")


# The files that take longest, with few tests each.
SLOW_FILES = (
    "test_ray.py",
    "test_console_blocks.py",
    "test_attacks.py",
    "test_same_bytes.py",
    "test_full_disk.py",
    "test_kill.py",
    "test_hostile.py",
    "test_atlas_scale.py",
    "test_specification.py",
    "test_isolation.py",
)


@pytest.hookimpl(tryfirst=True)  # before pytest looks at the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts slow and large files first: workers take files, and end together.

    Of the cases of a test marked `few(n)`, all but n evenly spread ones become
    exhaustive.
    """
    _mark_all_but_few(items)
    tests = Counter(item.path for item in items)
    items.sort(
        key=lambda item: (
            item.path.name not in SLOW_FILES,
            -tests[item.path],
            item.path,
        )
    )


@dataclass(frozen=True)
class Answer:
    """What a command answered."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


@pytest.fixture
def invoke() -> Callable[..., Answer]:
    """Runs a command in this process: `invoke("run", "stream-smoke-v1", …)`."""

    return partial(_invoke, app)


@pytest.fixture
def tool() -> Callable[..., Answer]:
    """Runs a command that makes references: `tool("train", "--game", …)`."""
    from references.commands import reference_app

    return partial(_invoke, reference_app)


def _invoke(app: Typer, *args: object) -> Answer:
    result = CliRunner().invoke(app, [str(arg) for arg in args])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def spawn() -> Callable[..., Answer]:
    """Runs a command in a process of its own."""

    def spawn(*args: object, **options: Any) -> Answer:
        command = [sys.executable, "-m", "longplay", *(str(arg) for arg in args)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, **options
        )
        return Answer(done.returncode, done.stdout, done.stderr)

    return spawn


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run directory of a tiny, valid, scored run. Not to be changed: copy it."""
    out = tmp_path_factory.mktemp("finished") / "experiment"
    return play_run("stream-smoke-v1", "random", out=out, overrides=TINY).run_dir


@pytest.fixture(scope="session")
def life_loss_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `finished_run`, with life-loss termination, a delay of 6 and small sets."""
    settings = {
        **TINY,
        "base_visit_frames": 1500,
        "life_loss_termination": True,
        "delay": 6,
        "full_action_space": False,
        "sticky": 0.0,
    }
    out = tmp_path_factory.mktemp("life-loss") / "experiment"
    return play_run(
        "stream-smoke-v1", "random", seed=3, out=out, overrides=settings
    ).run_dir


@pytest.fixture(scope="session")
def control_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A valid, scored run of the control track, with game overs in both games."""
    out = tmp_path_factory.mktemp("control") / "experiment"
    settings = {"games": ["breakout", "asterix"], "base_visit_frames": 450}
    return play_run(
        "control-smoke-v1", "random", seed=1, out=out, overrides=settings
    ).run_dir


@pytest.fixture
def references(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of made-up references for all games of the prediction track, in use."""
    folder = tmp_path / "references"
    folder.mkdir()
    monkeypatch.setenv("LONGPLAY_REFERENCES", str(folder))
    return write_references(folder, REFERENCE_GAMES)


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    """Three runs that have ended; their rewards are 0.25, 1.25 and 2.25."""
    return make_experiment(tmp_path / "experiment", range(3))


@pytest.fixture
def copy_of(tmp_path: Path) -> Callable[[Path], Path]:
    """Copies a run directory so that a test may damage it."""

    def copy_of(run_dir: Path) -> Path:
        return Path(shutil.copytree(run_dir, tmp_path / "copy"))

    return copy_of
