"""The bytes of a run depend neither on the isolation level nor on kills."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scenarios import EXAMPLES, Reference, Scenario

from killing import Fault, find_run_dir, read_result, read_status
from longplay.contract.rundir import ROW_FILES

TWO_GAMES = {"games": ["breakout", "pong"], "base_visit_frames": 120}
# All of them save and load; a checkpoint is made every few decisions.
SCENARIOS = {
    "streaming": Scenario(
        "streaming",
        str(EXAMPLES / "streaming_bandit.py"),
        {**TWO_GAMES, "num_cycles": 1, "jitter_pct": 0, "base_visit_frames": 300},
    ),
    "control": Scenario(
        "control", str(EXAMPLES / "control_linear_q.py"), TWO_GAMES, "control-smoke-v1"
    ),
    "prediction": Scenario("prediction", "linear-td", TWO_GAMES, "prediction-smoke-v1"),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("track", "level"),
    [
        ("streaming", "sandbox"),
        pytest.param("streaming", "process", marks=pytest.mark.exhaustive),
        pytest.param("control", "sandbox", marks=pytest.mark.exhaustive),
        ("control", "process"),
        ("prediction", "sandbox"),
        pytest.param("prediction", "process", marks=pytest.mark.exhaustive),
    ],
)
def test_isolated_run_is_killed_and_resumed_to_the_same_bytes(
    track: str, level: str, tmp_path: Path
) -> None:
    scenario = SCENARIOS[track]
    reference = Reference.play(scenario, tmp_path)
    out = tmp_path / "killed"
    isolate = ("--isolate", level)
    killed = scenario.run(out, *isolate, fault=Fault("frame", 170))
    assert killed.exit_code == -signal.SIGKILL, killed.output
    run_dir = find_run_dir(out)
    assert run_dir is not None
    other = scenario.run(out)
    assert other.exit_code == 2
    assert f"agent_isolation.level: {out} was started with" in other.words
    resumed = scenario.run(out, *isolate)
    assert resumed.exit_code == 0, resumed.output
    assert "checkpoint at frame" in resumed.words
    result = read_result(run_dir)
    for name, expected in reference.result.items():
        assert result[name] == expected, name


# --- agents of several files --------------------------------------------------------

MAIN = """
from pathlib import Path
import numpy as np
from neighbour import choose
WEIGHTS = np.load(Path(__file__).parent / "weights" / "first.npy")

class Agent:
    def __init__(self, num_actions, seed):
        self.rng = np.random.default_rng(seed)
    def step(self, obs_rgb, reward, terminated, truncated, info):
        return choose(obs_rgb, WEIGHTS, self.rng)
"""
NEIGHBOUR = """
def choose(observation, weights, rng):
    return int(observation[::7, ::7].sum() * weights[3] + rng.integers(9)) % 18
"""
TORCH = """
import torch
def choose(observation, weights, rng):
    pixels = torch.from_numpy(observation[::7, ::7].astype("float32"))
    layer = torch.ones(pixels.numel()) * float(weights[3])
    noise = int(torch.randint(9, ()))
    return (int((pixels.flatten() * layer).sum()) + noise) % 18
"""
NUMBA = """
import numba
@numba.njit(cache=True)
def total(pixels):
    s = 0
    for row in pixels:
        for cell in row:
            s += cell[0] * 3 + cell[1]
    return s
def choose(observation, weights, rng):
    return int(total(observation[::7, ::7]) + rng.integers(9)) % 18
"""


@pytest.fixture
def play(tmp_path: Path, spawn: Callable[..., Any]) -> Callable[..., dict[str, bytes]]:
    """Plays an agent of two modules and a file of weights; returns the rows."""
    folder = tmp_path / "agent"
    (folder / "weights").mkdir(parents=True)
    (folder / "main.py").write_text(MAIN)
    np.save(folder / "weights" / "first.npy", np.arange(5.0))

    def play(neighbour: str, level: str, *options: object) -> dict[str, bytes]:
        (folder / "neighbour.py").write_text(neighbour)
        out = tmp_path / level
        command = ("run", "control-smoke-v1", "--agent", folder / "main.py")
        files = ("--agent-files", "weights/*.npy", "--isolate", level, "--out", out)
        settings = ("--set", 'games=["pong"]', "--set", "base_visit_frames=60")
        answer = spawn(*command, *files, *settings, *options, "--quiet")
        assert answer.exit_code == 0, answer.stderr
        run_dir = find_run_dir(out)
        assert run_dir is not None
        assert read_status(run_dir)["state"] == "COMPLETED"
        return {name: (run_dir / name).read_bytes() for name in ROW_FILES}

    return play


@pytest.mark.exhaustive
def test_agent_with_a_neighbour_and_weights(play: Callable[..., Any]) -> None:
    assert play(NEIGHBOUR, "sandbox") == play(NEIGHBOUR, "none")


@pytest.mark.exhaustive
@pytest.mark.parametrize("library", ["torch", "numba"])
def test_agent_with_a_library(library: str, play: Callable[..., Any]) -> None:
    pytest.importorskip(library)
    source = {"torch": TORCH, "numba": NUMBA}[library]
    rows = play(source, "none")
    assert play(source, "process") == rows
    assert play(source, "sandbox") == rows


@pytest.mark.exhaustive
def test_isolated_on_ray(play: Callable[..., Any]) -> None:
    pytest.importorskip("ray")
    rows = play(NEIGHBOUR, "none")
    assert play(NEIGHBOUR, "sandbox", "--ray", 1) == rows


@pytest.mark.exhaustive
def test_isolated_from_site_packages(tmp_path: Path) -> None:
    """As a wheel installs it, not from the checkout: other paths, the same bytes."""
    source = Path(__file__).parents[2] / "src"
    site = tmp_path / "lib" / "site-packages"
    shutil.copytree(source / "longplay", site / "longplay")
    rows = []
    for name, path in (("wheel", site), ("checkout", source)):
        out = tmp_path / name
        command = [sys.executable, "-m", "longplay", "run", "control-smoke-v1"]
        command += ["--agent", "linear-sarsa", "--isolate", "sandbox", "--quiet"]
        command += ["--set", "base_visit_frames=60", "--out", str(out)]
        environment = {**os.environ, "PYTHONPATH": str(path)}
        subprocess.run(command, check=True, env=environment, cwd=tmp_path)
        (run_dir,) = (out / "episodes").iterdir()
        rows.append([(run_dir / name).read_bytes() for name in ROW_FILES])
    assert rows[0] == rows[1]
