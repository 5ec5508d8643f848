"""Ctrl-C, once and twice."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from failing_runs import (
    Left,
)

pytestmark = pytest.mark.usefixtures("working_dir")


@pytest.fixture
def start_run(left: Left) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a long run in its own process and waits for its first rows."""
    started: list[subprocess.Popen[str]] = []

    def start_run(agent: object, *args: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "longplay", "run", "stream-3x2-v1"]
        command += ["--agent", str(agent), "--out", str(left.out), *map(str, args)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start_run
    for process in started:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited for a minute"
        time.sleep(0.02)


def has_rows(left: Left) -> bool:
    return any(path.stat().st_size for path in left.out.rglob("events.jsonl"))


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_ctrl_c(
    as_json: bool,
    start_run: Callable[..., subprocess.Popen[str]],
    left: Left,
    invoke: Callable[..., Any],
) -> None:
    process = start_run("random", *(["--json"] if as_json else []))
    wait_for(lambda: has_rows(left))
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    frames = left.check_rows()
    assert 0 < frames < left.status["frames_total"]
    assert left.status["state"] == "CANCELLED"
    assert left.status["frame"] == frames
    assert left.document("run_summary.json")["frames"] == frames
    left.check_no_scraps()
    told = json.loads(stdout)["error"]["message"] if as_json else stderr
    assert f"stopped before frame {frames}" in told
    continuing = f"longplay resume {left.out}"
    if as_json:
        assert json.loads(stdout)["error"]["continue_with"] == continuing
    else:
        assert stderr.endswith(f"continue with: {continuing}\n")
    assert "Traceback" not in stderr
    assert invoke("score", left.out).exit_code == 1


def test_second_ctrl_c_stops_an_agent_that_hangs(
    start_run: Callable[..., subprocess.Popen[str]],
    write_agent: Callable[..., Path],
    left: Left,
    tmp_path: Path,
) -> None:
    mark = tmp_path / "hangs"
    agent = write_agent(
        f"if frame == 50: open({str(mark)!r}, 'w').close(); time.sleep(600)\n"
        "        return 0"
    )
    process = start_run(agent)
    wait_for(mark.exists)
    assert left.status["state"] == "RUNNING"
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert left.status["state"] == "CANCELLED"
    assert left.check_rows() == 50
