"""A study on a cluster of several nodes, killed again and again.

The cluster is a head and two nodes, as processes of this machine. Its token is made for
the test.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from processes import is_alive

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(os.name == "nt", reason="signals of POSIX"),
]

KILLS = int(os.environ.get("LONGPLAY_TEST_KILLS", "20"))
ROWS = ("events.jsonl", "episodes.jsonl", "segments.jsonl", "digests.jsonl")

STUDY = """
name = "killed"
seeds = [0, 1]

[[agents]]
ref = "random"

[[agents]]
ref = "repeat"

[[agents]]
ref = "button.py"
gpus = 0.5

[[suites]]
id = "control-smoke-v1"
set = { games = ["breakout"], base_visit_frames = 200 }

[[suites]]
id = "stream-smoke-v1"
set = { games = ["qbert"], base_visit_frames = 200 }

[tuning]
fraction = 0.5
seeds = [1000]
metric = "reward_rate"

[tuning.grid.button]
action = [0, 1, 2, 3]
"""

# While the file `slow` lies in the folder, a run takes long enough to be killed.
AGENT = """
import time
from pathlib import Path

class Agent:
    def __init__(self, num_actions, seed, action):
        self.action = action

    def step(self, obs_rgb, reward, terminated, truncated, info):
        time.sleep(0.2 if Path("{folder}/slow").exists() else 0.0)
        return self.action

    def save(self, directory):
        pass

    def load(self, directory):
        pass
"""


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(0.2)
    pytest.fail(f"{what}: not within {seconds} s")


def session_pids(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = subprocess.run(
        ["ps", "-eo", "pid=,sess=,stat="], capture_output=True, text=True, check=True
    )
    rows = (line.split() for line in found.stdout.splitlines())
    return [int(p) for p, s, state in rows if int(s) == session and state[0] != "Z"]


class Cluster:
    """A head without processors, and nodes with one each."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._logs: list[Path] = []
        self.environment = {
            **os.environ,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(32),
        }
        import ray

        with socket.create_server(("", 0)) as server:
            port = server.getsockname()[1]
        self.address = f"{ray.util.get_node_ip_address()}:{port}"
        ports = ("--min-worker-port=0", "--max-worker-port=0")
        self._processes = [
            self._start("--head", f"--port={port}", "--num-cpus=0", *ports)
        ]
        wait_for(self._answers, 120, "the head answers")
        self.nodes = [self._join(), self._join()]

    def _answers(self) -> bool:
        host, _, port = self.address.rpartition(":")
        with socket.socket() as client:
            return client.connect_ex((host, int(port))) == 0

    def _join(self) -> subprocess.Popen[bytes]:
        """A node that is ready; a busy machine may need more than one attempt."""
        for _ in range(3):
            node = self.add_node()
            log = self._logs[-1]

            def is_ready(node: Any = node, log: Path = log) -> bool:
                return b"Ray runtime started" in log.read_bytes() or bool(node.poll())

            wait_for(is_ready, 120, "a node starts or gives up")
            if node.poll() is None:
                return node
        pytest.fail("no node could be started")

    def add_node(self) -> subprocess.Popen[bytes]:
        # No GPU is needed to test that one is asked for.
        node = self._start(f"--address={self.address}", "--num-cpus=1", "--num-gpus=1")
        self._processes.append(node)
        return node

    def _start(self, *options: str) -> subprocess.Popen[bytes]:
        command = [str(Path(sys.executable).with_name("ray")), "start", *options]
        self._logs.append(self._folder / f"ray-{len(self._logs)}.txt")
        with self._logs[-1].open("wb") as output:
            return subprocess.Popen(
                [*command, "--block", "--disable-usage-stats"],
                stdout=output,
                stderr=output,
                env=self.environment,
                start_new_session=True,
            )

    def replace_node(self, number: int) -> None:
        """Kills all processes of a node at once, and starts another one."""
        kill_session(self.nodes[number])
        self.nodes[number] = self.add_node()

    def stop(self) -> None:
        for process in reversed(self._processes):
            kill_session(process)


def kill_session(process: subprocess.Popen[Any]) -> None:
    for pid in session_pids(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "ray").mkdir()
    cluster = Cluster(tmp_path / "ray")
    yield cluster
    cluster.stop()


def start_study(folder: Path, out: str, *options: str, **more: Any) -> Any:
    command = [sys.executable, "-m", "longplay", "study", "run", "study.toml"]
    with (folder / f"{out}.txt").open("ab") as output:
        return subprocess.Popen(
            [*command, "--out", out, "--quiet", *options],
            cwd=folder,
            stdout=output,
            stderr=output,
            start_new_session=True,
            **more,
        )


def running_pids(out: Path) -> list[int]:
    """The processes of the runs in progress."""
    found = []
    for path in out.glob("*/*/episodes/*/status.json"):
        status = json.loads(path.read_text())
        if status["state"] == "RUNNING" and is_alive(status["pid"]):
            found.append(status["pid"])
    return found


def read_rows(out: Path) -> dict[str, list[bytes]]:
    runs = out.glob("*/*/episodes/*")
    return {
        str(run.relative_to(out)): [(run / name).read_bytes() for name in ROWS]
        for run in sorted(runs)
    }


def kill_something(kind: str, study: Any, cluster: Cluster, out: Path) -> bool:
    """Kills a driver, a worker or a node; returns whether a run was in progress."""
    running = running_pids(out)
    if kind == "driver":
        study.kill()
        study.wait()
        return bool(running)
    if kind == "node":
        number = random.randrange(2)
        on_node = set(session_pids(cluster.nodes[number].pid))
        cluster.replace_node(number)
        return bool(on_node & set(running))
    for pid in running[:1]:
        os.kill(pid, signal.SIGKILL)
    return bool(running)


def test_a_study_that_is_killed_ends_as_if_it_were_not(cluster, tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "button.py").write_text(AGENT.format(folder=tmp_path))
    whole = start_study(tmp_path, "whole")
    assert whole.wait(600) == 0, (tmp_path / "whole.txt").read_text()
    (tmp_path / "slow").touch()
    chance = random.Random(0)
    options = ("--ray-address", cluster.address, "--retries", "99")
    options += ("--checkpoint-every", "2s")
    out = tmp_path / "out"

    def start() -> Any:
        return start_study(tmp_path, "out", *options, env=cluster.environment)

    study = start()
    hits = 0
    while hits < KILLS:
        wait_for(lambda s=study: running_pids(out) or s.poll() is not None, 180, "run")
        time.sleep(chance.uniform(0.0, 3.0))
        assert study.poll() is None, (tmp_path / "out.txt").read_text()[-3000:]
        # Only kills that hit a run in progress count.
        kind = ("driver", "worker", "node")[hits % 3]
        hits += kill_something(kind, study, cluster, out)
        if study.poll() is not None:
            study = start()
    (tmp_path / "slow").unlink()
    for _ in range(3):
        if study.wait(900) == 0:
            break
        study = start()
    assert study.wait(900) == 0, (tmp_path / "out.txt").read_text()[-3000:]
    assert read_rows(out) == read_rows(tmp_path / "whole")
    records = list(out.glob("*/*/episodes/*/episode_record.json"))
    assert len(records) == 3 * 2 * 2 + 2 * 4
    assert {json.loads(path.read_text())["error_type"] for path in records} == {None}
    assert "raylet" not in (tmp_path / "out.txt").read_text()


def test_no_process_is_left_of_a_killed_driver(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY.replace("gpus = 0.5", ""))
    (tmp_path / "button.py").write_text(AGENT.format(folder=tmp_path))
    (tmp_path / "slow").touch()
    study = start_study(tmp_path, "out", "--ray", "2")
    wait_for(lambda: len(running_pids(tmp_path / "out")) == 2, 120, "two runs")
    assert len(session_pids(study.pid)) > 3
    study.kill()
    study.wait()
    wait_for(lambda: not session_pids(study.pid), 10, "all processes end")


DQN = (
    *("run", "control-smoke-v1", "--agent", "dqn", "--seed", "1000", "--quiet"),
    *("--set", 'games=["breakout"]', "--set", "base_visit_frames=1500"),
    *("--agent-arg", "hidden=16", "--agent-arg", "batch_size=4"),
    *("--agent-arg", "capacity=200", "--agent-arg", "first_update=40"),
    *("--checkpoint-every", "1s"),
)


def test_dqn_continues_on_another_node(cluster, tmp_path):
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "longplay", *DQN]
    subprocess.run([*command, "--out", tmp_path / "whole"], check=True, timeout=600)
    run = subprocess.Popen(
        [*command, "--out", tmp_path / "out", "--ray-address", cluster.address],
        env=cluster.environment,
    )

    def is_saved() -> bool:
        return any((tmp_path / "out").glob("episodes/*/checkpoint/current.json"))

    try:
        wait_for(is_saved, 180, "a checkpoint")
        (path,) = (tmp_path / "out").glob("episodes/*/status.json")
        first = json.loads(path.read_text())["pid"]
        (node,) = [n for n in cluster.nodes if first in session_pids(n.pid)]
        kill_session(node)
        assert run.wait(600) == 0
    finally:
        run.kill()
        run.wait()
    status = json.loads(path.read_text())
    assert (status["state"], status["retries"]) == ("COMPLETED", 1)
    assert status["pid"] != first
    assert not (tmp_path / "out/archive").exists()
    (whole,) = (tmp_path / "whole").glob("episodes/*")
    for name in ROWS:
        assert (path.parent / name).read_bytes() == (whole / name).read_bytes()
