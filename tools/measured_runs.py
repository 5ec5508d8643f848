"""Runs for measuring baselines: jobs -> complete run directories.

Each run uses `longplay run --resume`: it is played unless it is complete, resumed if it
was started, and refused if the folder has another agent's run. So measuring can be
stopped and restarted.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from longplay.contract.rundir import RunDirectory, find_runs

ROOT = Path(__file__).resolve().parent.parent
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Job:
    """One agent on one suite with one seed, and where its run is kept.

    Attributes:
        suite_id: The suite.
        agent: The agent's name.
        seed: The run seed.
        out: Its experiment directory.
        settings: Changes of the suite, as `--set` takes them.
        agent_args: Arguments of the agent.
        keeps_states: Whether the agent's state is kept at the end of every visit.
        name: The agent's name in tables, if it has another than its own.
        tuning_frames: Declared frames of tuning; None declares nothing.
    """

    suite_id: str
    agent: str
    seed: int
    out: Path
    settings: tuple[str, ...] = ()
    agent_args: Mapping[str, Any] = field(default_factory=dict)
    keeps_states: bool = False
    name: str | None = None
    tuning_frames: int | None = None

    @property
    def command(self) -> list[str]:
        """The words after `longplay` that play it, or the rest of it."""
        words = ["run", self.suite_id, "--agent", self.agent, "--seed", str(self.seed)]
        for setting in self.settings:
            words += ["--set", setting]
        for name, value in self.agent_args.items():
            words += ["--agent-arg", f"{name}={json.dumps(value)}"]
        if self.keeps_states:
            words += ["--keep-agent", "visits"]
        if self.name is not None:
            words += ["--name", self.name]
        if self.tuning_frames is not None:
            words += ["--tuning-frames", str(self.tuning_frames)]
        return [*words, "--out", str(self.out.absolute()), "--resume", "--quiet"]


def measure(job: Job) -> RunDirectory:
    """Plays one run unless it is complete; returns it."""
    # One write, so that lines of two threads do not mix.
    name = job.name or job.agent
    print(f"{job.suite_id}, {name}, seed {job.seed}\n", end="", flush=True)
    run_longplay(*job.command)
    (run_dir,) = find_runs(job.out)
    return RunDirectory(run_dir)


def run_longplay(*words: str) -> None:
    """Runs a command of longplay, and ends with its error if it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "longplay", *words],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,  # a run records the git state of the working directory
    )
    if done.returncode:
        sys.exit(f"`longplay {' '.join(words)}` failed: {done.stderr.strip()}")


def measure_all(jobs: Sequence[Job], workers: int) -> list[RunDirectory]:
    """The runs of the jobs, in their order, a few at a time."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(measure, jobs))
