"""Memory of a whole run of each learner with its default settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from all_learners import LEARNERS, is_predictor

# Of 200,000 timesteps. The replay of dqn is full before the second half.
STOP_AFTER, TIMESTEPS = 0.12, 24_000
SAMPLED_EVERY = 500

WATCHED = """
from pathlib import Path

from {module} import init, load, save, step as learn

timesteps = 0


def step(state, previous_observation, observation, reward, info):
    global timesteps
    timesteps += 1
    if timesteps % {every} == 0:
        status = Path("/proc/self/status").read_text()
        sizes = [status.split(key)[1].split()[0] for key in ("VmRSS:", "VmHWM:")]
        with open({log!r}, "a") as log:
            print(*sizes, file=log)
    return learn(state, previous_observation, observation, reward, info)
"""


class Memory(NamedTuple):
    """Samples of the process that plays, in MB."""

    resident: list[float]
    peak: float


def measure(name: str, folder: Path) -> Memory:
    """Plays the first games of a suite in a process of its own."""
    agent, log = folder / "watched.py", folder / "memory.txt"
    agent.write_text(
        WATCHED.format(
            module=LEARNERS[name].__name__, every=SAMPLED_EVERY, log=str(log)
        )
    )
    suite = "prediction-v1" if is_predictor(name) else "control-v1"
    command = [sys.executable, "-m", "longplay", "run", suite, "--agent", str(agent)]
    command += ["--seed", "1000", "--stop-after", str(STOP_AFTER), "--quiet"]
    subprocess.run([*command, "--out", str(folder / "out")], check=True)
    samples = [line.split() for line in log.read_text().splitlines()]
    resident = [int(size) / 1024 for size, _ in samples]
    return Memory(resident, peak=int(samples[-1][1]) / 1024)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LEARNERS)
def test_memory_of_a_run(name: str, tmp_path: Path) -> None:
    memory = measure(name, tmp_path)
    second_half = memory.resident[len(memory.resident) // 2 :]
    assert len(memory.resident) == TIMESTEPS // SAMPLED_EVERY
    # 5 MB over 12,000 decisions: less than half a kilobyte for each.
    assert max(second_half) - second_half[0] < 5.0
    assert memory.peak < 1000.0
