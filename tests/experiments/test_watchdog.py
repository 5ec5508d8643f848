"""The helper that ends what a killed driver has started."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longplay.experiments.watchdog import kill_marked
from processes import is_alive

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="reads /proc"
)

# Starts a process before the helper and one after it, each with a child, and says
# which they are; then it waits to be killed.
DRIVER = """
import subprocess, sys, time
from longplay.experiments.watchdog import end_with_this_process

def start():
    command = ["sh", "-c", "sleep 60 & echo $!; wait"]
    shell = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    return shell.pid, int(shell.stdout.readline())

before = start()
with end_with_this_process():
    inside = start()
    print(*before, *inside, flush=True)
    if "ends" not in sys.argv:
        time.sleep(60)
"""


@pytest.fixture
def pids(request: pytest.FixtureRequest) -> Iterator[list[int]]:
    """The processes of a driver that was killed, or that ended."""
    words = request.param.split()
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, *words], stdout=subprocess.PIPE, text=True
    )
    pids = [int(word) for word in driver.stdout.readline().split()]
    assert len(pids) == 4
    if "ends" not in words:
        driver.kill()
    driver.wait(20)
    driver.stdout.close()
    yield pids
    for pid in pids:
        if is_alive(pid):
            subprocess.run(["kill", "-9", str(pid)], check=False)


@pytest.mark.parametrize("pids", ["waits"], indirect=True)
def test_what_a_killed_driver_started_ends(pids):
    deadline = time.monotonic() + 10
    while any(map(is_alive, pids[2:])) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert [is_alive(pid) for pid in pids] == [True, True, False, False]


@pytest.mark.parametrize("pids", ["ends"], indirect=True)
def test_nothing_is_killed_after_a_normal_end(pids):
    time.sleep(4)  # longer than the helper would wait
    assert all(map(is_alive, pids))


def test_only_processes_with_the_mark_are_killed():
    marked = subprocess.Popen(["sleep", "60"], env={"LONGPLAY_RAY_DRIVER": "this"})
    other = subprocess.Popen(["sleep", "60"], env={"LONGPLAY_RAY_DRIVER": "another"})
    try:
        kill_marked("this")
        assert marked.wait(10) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (marked, other):
            process.kill()
            process.wait()
