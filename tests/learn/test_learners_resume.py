"""Every learner continues bit for bit from what it saved, and does not grow."""

from __future__ import annotations

import importlib
import inspect
import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import longplay
from longplay.agents.loading import BUILT_IN_AGENTS, load_agent
from longplay.contract.rundir import ROW_FILES
from longplay.runs.continuation import Continuation, find_differences
from longplay.runs.trial import CONTROL_TRIAL

SHAPE = (210, 160, 3)
# As small as they can be: every line of code still runs.
SMALL: dict[str, dict[str, Any]] = {
    "explore-only": {"block_decisions": 7},
    "linear-sarsa": {"block_decisions": 7},
    "stream-q": {"size": 42, "hidden": 16, "block_decisions": 7},
    "stream-q-l2init": {
        **{"size": 42, "hidden": 16, "block_decisions": 7},
        **{"pull": 1e-3, "renewal": 0.5},
    },
    "dqn": {
        **{"hidden": 16, "block_decisions": 7, "batch_size": 4, "capacity": 60},
        **{"first_update": 20},
    },
    "linear-td": {},
    "stream-td": {"size": 42, "hidden": 16},
}
each_learner = pytest.mark.parametrize("name", SMALL)


def module_of(name: str) -> ModuleType:
    return importlib.import_module(BUILT_IN_AGENTS[name].partition(":")[0])


def build(name: str) -> Any:
    offered = {"observation_shape": SHAPE, "num_actions": 18, "seed": 5}
    init = module_of(name).init
    named = inspect.signature(init).parameters
    return init(**{k: v for k, v in offered.items() if k in named}, **SMALL[name])


class Life:
    """A made-up stream of pixels and rewards, the same for every agent."""

    def __init__(self, timesteps: int) -> None:
        rng = np.random.default_rng(9)
        self.frames = [rng.integers(0, 256, SHAPE, np.uint8) for _ in range(8)]
        self.shown = rng.integers(8, size=timesteps + 1)
        self.rewards = rng.integers(-1, 2, size=timesteps).astype(float)
        self.infos = [
            {"terminated": bool(k % 37 == 36), "truncated": bool(k % 101 == 100)}
            for k in range(timesteps)
        ]

    def live(
        self, name: str, state: Any, start: int, stop: int
    ) -> tuple[Any, list[Any]]:
        step, answers = module_of(name).step, []
        for k in range(start, stop):
            before, now = (self.frames[self.shown[j]] for j in (k, k + 1))
            state, *answer = step(state, before, now, self.rewards[k], self.infos[k])
            answers.append(answer)
        return state, answers


def save(name: str, state: Any, folder: Path) -> dict[str, bytes]:
    folder.mkdir()
    module_of(name).save(state, folder)
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@each_learner
def test_saved_and_loaded_at_random_moments(name: str, tmp_path: Path) -> None:
    life = Life(220)
    state, answers = life.live(name, build(name), 0, 220)
    expected = save(name, state, tmp_path / "straight")
    moments = sorted(random.Random(name).sample(range(220), 3))
    again, start, found = build(name), 0, []
    for moment in [*moments, 220]:
        again, more = life.live(name, again, start, moment)
        found += more
        save(name, again, tmp_path / str(moment))
        again, start = module_of(name).load(tmp_path / str(moment)), moment
    assert found == answers
    assert save(name, again, tmp_path / "resumed") == expected


@pytest.mark.parametrize("name", ["dqn", "stream-q"])
def test_check_agent_notices_lost_state(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, state = load_agent(name, SMALL[name]), module_of(name).State
    continuation = Continuation(CONTROL_TRIAL, lambda: loaded.build(5), 5)
    played, saved = continuation.play(tmp_path), state.SAVED
    assert not any(find_differences(played, continuation.resume(tmp_path)))
    # The generator of DQN is the explorer's, too.
    for lost in set(saved) - {"rng"}:
        monkeypatch.setattr(state, "SAVED", [n for n in saved if n != lost])
        resumed = continuation.resume(tmp_path)
        assert any(find_differences(played, resumed)), lost


@each_learner
def test_nothing_is_pickled(name: str, tmp_path: Path) -> None:
    files = save(name, build(name), tmp_path / "saved")
    assert set(files) == {"state.json", "arrays.safetensors.zst"}
    json.loads(files["state.json"])


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@each_learner
def test_memory_is_flat(name: str) -> None:
    life = Life(300)
    state, _ = life.live(name, build(name), 0, 300)
    before = resident_bytes()
    for _ in range(3):
        state, _ = life.live(name, state, 0, 300)
    assert resident_bytes() - before < 3_000_000


def test_dqn_stays_far_below_a_gigabyte() -> None:
    state = module_of("dqn").init(SHAPE, 18, 0)
    kept = [state.network.weights, state.target_weights, *vars(state.replay).values()]
    arrays = [value for value in kept if isinstance(value, np.ndarray)]
    assert sum(array.nbytes for array in arrays) < 100_000_000


# --- real runs, killed --------------------------------------------------------------


def run_command(name: str, out: Path) -> list[str]:
    suite = "prediction-smoke-v1" if name.endswith("-td") else "control-smoke-v1"
    command = [sys.executable, "-m", "longplay", "run", suite, "--agent", name]
    for key, value in SMALL[name].items():
        command += ["--agent-arg", f"{key}={json.dumps(value)}"]
    return [*command, "--seed", "1000", "--out", str(out), "--quiet"]


def play_and_kill(name: str, out: Path, rng: random.Random) -> int:
    """Plays to the end in spite of signals at random moments; how many there were."""
    kills, command = 0, run_command(name, out)
    while True:
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        if kills < 3:
            time.sleep(rng.uniform(1.0, 4.0))
            process.send_signal(rng.choice([signal.SIGTERM, signal.SIGKILL]))
        _, error = process.communicate()
        if process.returncode == 0:
            return kills
        assert process.returncode in {75, -signal.SIGTERM, -signal.SIGKILL}, error
        kills += 1
        if list(out.glob("episodes/*/config.json")):
            command = [sys.executable, "-m", "longplay", "resume", str(out), "--quiet"]
        elif out.exists():  # killed before there was anything to resume
            command = [*run_command(name, out), "--resume"]


def kill_and_compare(name: str, folder: Path, seed: str) -> None:
    subprocess.run(run_command(name, folder / "straight"), check=True)
    kills = play_and_kill(name, folder / "killed", random.Random(seed))
    runs = [longplay.read_run(folder / each) for each in ("straight", "killed")]
    for file in ROW_FILES:
        straight, killed = (run.path / file for run in runs)
        assert straight.read_bytes() == killed.read_bytes(), (name, file, kills)


def test_a_killed_run_ends_with_the_same_bytes(tmp_path: Path) -> None:
    kill_and_compare("stream-q", tmp_path, "brief")


@pytest.mark.exhaustive
@each_learner
@pytest.mark.parametrize("trial", range(3))
def test_killed_runs_end_with_the_same_bytes(
    name: str, trial: int, tmp_path: Path
) -> None:
    kill_and_compare(name, tmp_path, f"{name} {trial}")
