"""Runs for measuring baselines: jobs -> complete run directories.

Each run uses `longplay run --resume`: it is played unless it is complete, resumed if it
was started, and refused if the folder has another agent's run. So measuring can be
stopped and restarted.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from longplay.contract.rundir import RunDirectory, find_runs

ROOT = Path(__file__).resolve().parent.parent
SEEDS = (0, 1, 2)


@dataclass(frozen=True)
class Job:
    """One agent on one suite with one seed, and where its run is kept.

    `settings` are changes of the suite, as `--set` takes them.
    """

    suite_id: str
    agent: str
    seed: int
    out: Path
    settings: tuple[str, ...] = ()


def measure(job: Job) -> RunDirectory:
    """Plays one run unless it is complete; returns it."""
    # One write, so that lines of two threads do not mix.
    print(f"{job.suite_id}, {job.agent}, seed {job.seed}\n", end="", flush=True)
    command = [sys.executable, "-m", "longplay", "run", job.suite_id, "--quiet"]
    out = str(job.out.absolute())
    options = ["--agent", job.agent, "--seed", str(job.seed), "--out", out]
    changes = [word for setting in job.settings for word in ("--set", setting)]
    played = subprocess.run(
        [*command, *options, *changes, "--resume"],
        check=False,
        capture_output=True,
        text=True,
        cwd=ROOT,  # a run records the git state of the working directory
    )
    if played.returncode:
        sys.exit(f"{job.out} was not played: {played.stderr.strip()}")
    (run_dir,) = find_runs(job.out)
    return RunDirectory(run_dir)


def measure_all(jobs: Sequence[Job], workers: int) -> list[RunDirectory]:
    """The runs of the jobs, in their order, a few at a time."""
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(measure, jobs))
