"""Agents, suites, tracks and metrics of another package, found by entry points."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longplay import plugins
from longplay.errors import ConfigError, UnknownNameError
from longplay.lab.analysis.metrics import list_metrics
from longplay.suites import SUITES, find_suite, get_suite, list_suites
from toy_track import AGENT

KIT = Path(__file__).parent / "kit"
ENTRY_POINTS = """
[longplay.agents]
counter = toy_package:Agent

[longplay.suites]
guessing-toy-v1 = toy_package:GUESS_SUITE

[longplay.tracks]
guessing = toy_package:GUESSING

[longplay.metrics]
worst_visit = toy_package:WORST_VISIT
shortest = toy_package:SHORTEST
"""
PACKAGE = f"""
from longplay.console.machines import add_machine
from toy_track import GUESS_SUITE, GUESSING, TOY_MACHINE

add_machine(TOY_MACHINE)
{AGENT}

from longplay.lab.analysis.metrics import Metric

def measure_worst(run):
    return float((run.totals.rewards / run.totals.frames).min())

WORST_VISIT = Metric("worst_visit", "worst visit", measure_worst)
SHORTEST = Metric("shortest", "shortest episode", lambda run: None)
"""

Command = Callable[..., subprocess.CompletedProcess[str]]


def install(folder: Path, entry_points: str, source: str) -> None:
    """Lays out a package as pip does."""
    (folder / "toy_package.py").write_text(source)
    info = folder / "toy_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: toy-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entry_points)


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """The command line, in a process where the package is installed."""
    folder = tmp_path_factory.mktemp("installed")
    install(folder, ENTRY_POINTS, PACKAGE)

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "longplay", *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{KIT}"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.fixture(scope="module")
def played(command: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("played") / "experiment"
    done = command(
        "run", "guessing-toy-v1", "--agent", "counter", "--out", out, "--quiet"
    )
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("validate", "valid: 600 rows checked"),
        ("score", "guessing-toy-v1"),
        ("show", "guessing-toy-v1"),
        ("verify", "600 rows replayed"),
        ("status", "600/600"),
    ],
)
def test_commands_know_the_run_by_its_track(
    command: Command, played: Path, name: str, words: str
) -> None:
    done = command(name, played)
    assert done.returncode == 0, done.stderr
    assert words in done.stdout


def test_they_are_listed(command: Command) -> None:
    suites = json.loads(command("suites", "--json").stdout)
    assert [row["suite"] for row in suites] == [*SUITES, "guessing-toy-v1"]
    agents = json.loads(command("agents", "--json").stdout)
    assert {"agent": "counter", "location": "toy_package:Agent", "summary": ""} in (
        agents
    )


def test_its_metrics_are_compared(command: Command, played: Path) -> None:
    (suite,) = json.loads(command("compare", played, "--json").stdout)["suites"]
    (agent,) = suite["agents"]
    (events,) = played.glob("episodes/*/events.jsonl")
    rewards = [json.loads(line)["reward"] for line in events.read_text().splitlines()]
    worst = min(sum(rewards[:300]), sum(rewards[300:])) / 300
    assert agent["numbers"]["worst_visit"]["mean"] == pytest.approx(worst)
    assert agent["absent"]["shortest"] == "a run has none"
    assert "worst visit" in command("compare", played).stdout


def test_where_the_package_is_missing_the_run_is_refused(
    played: Path, invoke: Callable[..., Any]
) -> None:
    refused = invoke("score", played)
    assert refused.exit_code == 1
    assert "a package that adds a track" in " ".join(refused.stderr.split())


# --- in this process --------------------------------------------------------------

SUITE = """
from longplay.suites import get_suite

SUITE = get_suite("control-smoke-v1").model_copy(update={"suite_id": "toy-v1"})
"""


@pytest.fixture
def installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    """Installs a package that offers suites, until the end of the test."""

    def offer(entry_points: str, source: str) -> None:
        install(tmp_path, f"[longplay.suites]\n{entry_points}\n", source)
        monkeypatch.syspath_prepend(str(tmp_path))
        plugins.list_entry_points.cache_clear()

    monkeypatch.setattr("longplay.suites.SUITES", dict(SUITES))
    yield offer  # type: ignore[misc]
    sys.modules.pop("toy_package", None)
    monkeypatch.undo()
    plugins.list_entry_points.cache_clear()


def test_a_suite_is_imported_when_it_is_asked_for(
    installed: Callable[[str, str], None],
) -> None:
    installed("toy-v1 = toy_package:SUITE", SUITE)
    assert find_suite("toy-v2") is None
    assert "toy_package" not in sys.modules
    assert get_suite("toy-v1").suite_id == "toy-v1"
    assert get_suite("toy-v1") is get_suite("toy-v1")
    assert [*list_suites()] == [*SUITES, "toy-v1"]


def test_an_unknown_suite_is_told_of_installed_ones(
    installed: Callable[[str, str], None],
) -> None:
    installed("my-toy-v1 = toy_package:SUITE", SUITE)
    with pytest.raises(UnknownNameError, match="did you mean 'my-toy-v1'"):
        get_suite("my-toy-v2")


@pytest.mark.parametrize(
    ("entry_point", "source", "message"),
    [
        (
            "toy-v1 = toy_package:SUITE",
            "raise OSError('no disk')",
            r"entry point 'toy-v1' of longplay.suites: importing toy_package:SUITE "
            r"raised OSError: no disk .*; repair or uninstall its package",
        ),
        (
            "toy-v1 = toy_package:SUITE",
            "SUITE = 3",
            "expected toy_package:SUITE to be a Suite, found int",
        ),
        (
            "other-v1 = toy_package:SUITE",
            SUITE,
            "entry point 'other-v1' of .*: expected a suite of this id, found 'toy-v1'",
        ),
    ],
)
def test_a_broken_package_is_named(
    installed: Callable[[str, str], None], entry_point: str, source: str, message: str
) -> None:
    installed(entry_point, source)
    with pytest.raises(ConfigError, match=message):
        get_suite(entry_point.partition(" ")[0])


def test_a_package_cannot_replace_a_suite(
    installed: Callable[[str, str], None],
) -> None:
    installed("control-v1 = toy_package:SUITE", "SUITE = 3")
    assert get_suite("control-v1") is SUITES["control-v1"]


def test_a_metric_cannot_take_the_name_of_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
from longplay.lab.analysis.metrics import Metric
RETENTION = Metric("retention", "better retention", lambda run: 1.0)
"""
    points = "[longplay.metrics]\nretention = toy_package:RETENTION\n"
    install(tmp_path, points, source)
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.list_entry_points.cache_clear()
    try:
        with pytest.raises(ConfigError, match=r"'retention' .* taken by 'retention'"):
            list_metrics()
    finally:
        sys.modules.pop("toy_package", None)
        monkeypatch.undo()
        plugins.list_entry_points.cache_clear()
