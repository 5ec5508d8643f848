"""Runs and commands that fail: agents to write, and what a failure leaves behind.

A plugin of `conftest`, because tests of several rooms share its fixtures.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SUITE = "stream-smoke-v1"
CONTROL_SUITE = "control-smoke-v1"
ROW_FILES = ("events.jsonl", "episodes.jsonl", "segments.jsonl")

# One visit of 60 frames, and three of 100: what most tests here play.
ONE_VISIT = (
    *("--set", 'games=["pong"]', "--set", "num_cycles=1"),
    *("--set", "base_visit_frames=60", "--set", "jitter_pct=0"),
)
THREE_VISITS = (
    *("--set", "num_cycles=1", "--set", "base_visit_frames=100"),
    *("--set", "jitter_pct=0"),
)

AGENT = """\
import math, os, sys, time
import numpy as np

class Agent:
    def __init__(self, num_actions, seed):
        {init}
    def step(self, obs_rgb, reward, terminated, truncated, info):
        frame, is_decision = info["global_frame_idx"], info["is_decision_frame"]
        {step}
    {more}
"""


@pytest.fixture
def working_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, in which default output folders would appear."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    working_dir = tmp_path / "working_dir"
    working_dir.mkdir()
    monkeypatch.chdir(working_dir)
    return working_dir


@pytest.fixture
def write_agent(tmp_path: Path) -> Callable[..., Path]:
    def write_agent(
        step: str = "return 3", init: str = "pass", more: str = "pass"
    ) -> Path:
        path = tmp_path / "some_agent.py"
        path.write_text(AGENT.format(step=step, init=init, more=more))
        return path

    return write_agent


@pytest.fixture
def refuse(
    invoke: Callable[..., Any], working_dir: Path, tmp_path: Path
) -> Callable[..., str]:
    """Runs a command that must be refused (exit 2) and must write nothing."""

    def refuse(*args: object) -> str:
        before = sorted(tmp_path.rglob("*"))
        answer = invoke(*args)
        assert answer.exit_code == 2, answer.stdout + answer.stderr
        assert answer.stdout == ""
        assert answer.stderr.startswith("error: ")
        assert [p for p in sorted(tmp_path.rglob("*")) if p not in before] == []
        return str(answer.stderr)

    return refuse


class Left:
    """What a run left behind under `--out`, complete or not."""

    def __init__(self, out: Path) -> None:
        self.out = out

    @property
    def run_dir(self) -> Path:
        (run_dir,) = (self.out / "episodes").iterdir()
        return run_dir

    def document(self, name: str) -> Any:
        return json.loads((self.run_dir / name).read_bytes())

    @property
    def status(self) -> Any:
        return self.document("status.json")

    def rows(self, name: str = "events.jsonl") -> list[dict[str, Any]]:
        """All rows; fails if the file does not end with a whole one."""
        content = (self.run_dir / name).read_bytes()
        assert content == b"" or content.endswith(b"\n")
        return [json.loads(line) for line in content.splitlines()]

    def check_rows(self) -> int:
        """All files hold whole rows that agree; returns the number of frames."""
        frames = [row["global_frame_idx"] for row in self.rows()]
        assert frames == list(range(len(frames)))
        for name in ROW_FILES[1:]:
            for row in self.rows(name):
                assert row["end_global_frame_idx"] < len(frames)
        return len(frames)

    def check_no_scraps(self) -> None:
        """No temporary file and no reserved space is left; the lock file stays."""
        assert {p.name for p in self.out.rglob(".*")} <= {".lock"}


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path / "out")


@pytest.fixture
def run_to_failure(invoke: Callable[..., Any], left: Left) -> Callable[..., str]:
    """Runs an agent that fails on the way: exit 1, FAILED, whole rows."""

    def run_to_failure(agent: Path, *args: object) -> str:
        answer = invoke("run", SUITE, "--agent", agent, "--out", left.out, *args)
        assert answer.exit_code == 1, answer.stdout + answer.stderr
        assert answer.stdout == ""
        assert left.status["state"] == "FAILED"
        left.check_rows()
        left.check_no_scraps()
        return str(answer.stderr)

    return run_to_failure


def play(invoke: Callable[..., Any], agent: object, out: Path, *args: object) -> Left:
    answer = invoke("run", SUITE, "--agent", agent, "--out", out, *ONE_VISIT, *args)
    assert answer.exit_code == 0, answer.stderr
    return Left(out)
