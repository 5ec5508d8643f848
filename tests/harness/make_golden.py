"""Plays the golden runs that do not exist yet, one per track, and lists their hashes.

    python tests/harness/make_golden.py

A run that exists is never played again. It refuses to keep a run that lacks one of
`NEEDED`. Afterwards run `make record`, and commit both together: `test_golden.py` and
the recorded commands find the new runs by themselves.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import longplay

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SUMS = "SHA256SUMS"
NEEDED = ("digests.jsonl", "curves.jsonl")
_DOCUMENTS = ("config.json", "run_summary.json", "score.json")


@dataclass(frozen=True)
class GoldenRun:
    """A run to play: which agent plays what."""

    suite: str
    agent: str
    seed: int
    overrides: dict[str, Any]


# Agents that compute with integers, or with Python's own floats: every processor gets
# the same answers. Visits are no multiples of 60, the number of windows of a curve, and
# those of the first run are partly shorter than that, so that windows are empty.
RUNS = {
    "streaming-curves": GoldenRun(
        "stream-smoke-v1",
        "random",
        2,
        {
            "games": ["breakout", "centipede"],
            "base_visit_frames": 100,
            "jitter_pct": 0.6,
        },
    ),
    "control-curves": GoldenRun(
        "control-smoke-v1",
        "random",
        3,
        {"games": ["breakout", "asterix"], "num_cycles": 2, "base_visit_frames": 170},
    ),
    "prediction-curves": GoldenRun(
        "prediction-smoke-v1",
        str(GOLDEN / "predictor.py"),
        4,
        {"games": ["breakout", "ms_pacman"], "base_visit_frames": 250},
    ),
}


def make_golden(name: str, golden: Path) -> None:
    """Plays a run and keeps its rows and documents.

    Clocks of the documents stay as they were: only rows are compared with another play.
    """
    run = RUNS[name]
    # Played outside the repository, whose commit is not part of the run.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        (result,) = longplay.run(
            run.suite,
            run.agent,
            seeds=[run.seed],
            out="experiment",
            overrides=run.overrides,
        ).runs
        rows = sorted(path.name for path in result.run_dir.glob("*.jsonl"))
        missing = [file for file in NEEDED if file not in rows]
        if missing:
            sys.exit(f"{name}: expected {', '.join(missing)} among its rows, {rows}")
        (golden / name).mkdir()
        for file in (*_DOCUMENTS, *rows):
            shutil.copy(result.run_dir / file, golden / name)


def list_hashes(folder: Path) -> list[str]:
    """The lines of SHA256SUMS for the files of a golden run."""
    return [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {folder.name}/{path.name}"
        for path in sorted(folder.iterdir())
    ]


def main() -> None:
    for name in RUNS:
        if (GOLDEN / name).exists():
            print(f"{name} exists")
            continue
        make_golden(name, GOLDEN)
        with (GOLDEN / SUMS).open("a", encoding="utf-8") as sums:
            sums.writelines(f"{line}\n" for line in list_hashes(GOLDEN / name))
        print(f"{name} is made")


if __name__ == "__main__":
    main()
