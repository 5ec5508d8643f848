"""Experiments as processes: on a real local Ray, killed, interrupted, finished later.

An agent in a file does as the flags beside it say, so that a test decides when a run is
slow, hangs or fails, and when it no longer does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kill_counts import KillCounts
from rows import read_rows

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")

FILES = ("events.jsonl", "episodes.jsonl", "segments.jsonl", "digests.jsonl")
SHORT = ("--set", "base_visit_frames=40", "--set", "jitter_pct=0.1")
RAY = ("--ray", "2", "--cpus", "0.9", "--memory-gb", "0.25")
CLOCKS_AND_IDS = {"experiment_id", "timestamp", "wall_time_s"}

# `slow`: every frame takes 0.1 s; `raise-<seed>`: raises; `hang-<seed>`: stands still.
AGENT = """
import time
from pathlib import Path
from longplay.seeds import agent_seed

FLAGS = Path(__file__).parent
SEEDS = {agent_seed(seed): seed for seed in range(10)}

class Agent:
    def __init__(self, num_actions, seed):
        self.num_actions, self.seed = num_actions, SEEDS[seed]

    def step(self, obs, reward, terminated, truncated, info):
        frame = info["global_frame_idx"]
        if frame == 7 and (FLAGS / f"raise-{self.seed}").exists():
            raise ValueError("no more")
        while frame == 7 and (FLAGS / f"hang-{self.seed}").exists():
            time.sleep(0.05)
        if (FLAGS / "slow").exists():
            time.sleep(0.1)
        return (frame + self.seed) % self.num_actions
"""
SAVING = """
    def save(self, directory):
        (directory / "seed.txt").write_text(str(self.seed))

    def load(self, directory):
        assert int((directory / "seed.txt").read_text()) == self.seed
"""


# --- helpers --------------------------------------------------------------------


def wait_for(condition: Callable[[], Any], seconds: float, what: str) -> Any:
    """What `condition` answers once that is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := condition():
            return answer
        time.sleep(0.05)
    pytest.fail(f"{what}: not within {seconds} s")


def is_alive(pid: int) -> bool:
    """Whether there is such a process; one that only waits to be buried is none."""
    command = ["ps", "-o", "stat=", "-p", str(pid)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()[:1] not in ("", "Z")


def read(path: Path) -> Any:
    return json.loads(path.read_text())


@dataclass
class Lab:
    """A folder with the agent, its flags and an experiment."""

    folder: Path

    @property
    def agent(self) -> Path:
        return self.folder / "flagged_agent.py"

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def errors(self) -> str:
        return (self.folder / "stderr.txt").read_text()

    def raise_flag(self, name: str) -> None:
        (self.folder / name).touch()

    def lower_flag(self, name: str) -> None:
        (self.folder / name).unlink(missing_ok=True)

    def start(self, seeds: str, *options: str) -> subprocess.Popen[str]:
        """Starts an experiment as a process with a session of its own."""
        return self._spawn(
            *("run", "stream-smoke-v1", "--agent", str(self.agent), *SHORT),
            *("--seeds", seeds, "--out", str(self.out), *options),
        )

    def retry(self, *options: str) -> subprocess.Popen[str]:
        return self._spawn("retry", str(self.out), "--agent", str(self.agent), *options)

    def _spawn(self, *args: str) -> subprocess.Popen[str]:
        with (
            (self.folder / "stdout.txt").open("w") as stdout,
            (self.folder / "stderr.txt").open("w") as stderr,
        ):
            return subprocess.Popen(
                [sys.executable, "-m", "longplay", *args, "--quiet", "--json"],
                stdout=stdout,
                stderr=stderr,
                text=True,
                start_new_session=True,
            )

    def answer(self) -> Any:
        return read(self.folder / "stdout.txt")

    def run_dir(self, seed: int) -> Path:
        (found,) = (self.out / "episodes").glob(f"*_seed-{seed}")
        return found

    def archives(self, seed: int) -> list[Path]:
        return list((self.out / "archive").glob(f"*_seed-{seed}/*"))

    def statuses(self) -> dict[int, dict[str, Any]]:
        """The status files there are, by seed."""
        paths = (self.out / "episodes").glob("*/status.json")
        return {int(path.parent.name.rpartition("-")[2]): read(path) for path in paths}

    def running(self, n: int = 1) -> dict[int, int]:
        """Seed -> process of the runs under way, once there are `n`."""
        found = {
            seed: status["pid"]
            for seed, status in self.statuses().items()
            if status["state"] == "RUNNING"
        }
        return found if len(found) >= n else {}

    def shown(self) -> dict[int, dict[str, Any]]:
        """What `longplay status` says, by seed."""
        command = [sys.executable, "-m", "longplay", "status", str(self.out), "--json"]
        rows = json.loads(subprocess.check_output(command, text=True))
        return {row["seed"]: row for row in rows}

    def check_whole(self, seeds: range) -> None:
        """Every run is complete, valid and has one record."""
        states = {seed: row["state"] for seed, row in self.shown().items()}
        assert states == dict.fromkeys(seeds, "COMPLETED")
        command = [sys.executable, "-m", "longplay", "validate", str(self.out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        records = [read(self.run_dir(s) / "episode_record.json") for s in seeds]
        assert [record["seed"] for record in records] == list(seeds)
        assert {record["error_type"] for record in records} == {None}


def wait_end(lab: Lab, process: subprocess.Popen[str], seconds: float) -> int:
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        pytest.fail(f"still running after {seconds} s: {lab.errors}")


def make_lab(folder: Path, *flags: str) -> Lab:
    lab = Lab(folder)
    lab.agent.write_text(AGENT)
    for flag in flags:
        lab.raise_flag(flag)
    return lab


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A slow agent; whatever a test leaves behind ends by itself."""
    lab = make_lab(tmp_path, "slow")
    yield lab
    lab.lower_flag("slow")


# --- the same bytes -------------------------------------------------------------


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, Lab]:
    """The same four seeds, one by one and on Ray."""
    labs = []
    for options in ((), RAY):
        lab = make_lab(tmp_path_factory.mktemp("both"))
        assert wait_end(lab, lab.start("0-3", *options), 180) == 0, lab.errors
        labs.append(lab)
    return labs[0], labs[1]


@pytest.mark.parametrize("seed", range(4))
def test_ray_gives_the_same_bytes(both, seed):
    one, other = (lab.run_dir(seed) for lab in both)
    for name in FILES:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    assert one.name == other.name


@pytest.mark.seed("001", "integration-4")
@pytest.mark.parametrize("seed", range(4))
def test_ray_gives_equal_records(both, seed):
    one, other = (read(lab.run_dir(seed) / "episode_record.json") for lab in both)
    for record in (one, other):
        for key in CLOCKS_AND_IDS:
            del record[key]
        del record["evidence"]["score_sha256"]  # score.json has the speed in it
    assert one == other


def test_ray_gives_equal_experiments(both):
    one, other = (read(lab.out / "experiment_record.json") for lab in both)
    for key in ("experiment_id", "timestamp"):
        del one[key], other[key]
    assert one == other


def test_ray_gives_the_same_answer(both):
    one, other = (lab.answer() for lab in both)
    assert one["aggregate"] == other["aggregate"]
    for answer in (one, other):
        rows = [(r["seed"], r["state"], r["valid"]) for r in answer["runs"]]
        assert rows == [(seed, "COMPLETED", True) for seed in range(4)]


def test_ray_gives_the_same_files(both):
    one, other = (
        {path.relative_to(lab.out) for path in lab.out.rglob("*")} for lab in both
    )
    assert one == other


def test_runs_on_ray_are_whole(both):
    both[1].check_whole(range(4))


# --- workers that are lost, hang or fail ------------------------------------------


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lab, int]:
    """The worker of seed 0 is killed, seed 1 raises, seed 2 hangs, seed 3 is well."""
    lab = make_lab(tmp_path_factory.mktemp("troubled"), "slow", "raise-1", "hang-2")
    process = lab.start("0-3", *RAY, "--retries", "1", "--stall-timeout", "8")
    try:
        pid = wait_for(lambda: lab.running().get(0), 120, "seed 0 runs")
        os.kill(pid, signal.SIGKILL)
        lab.lower_flag("slow")
        wait_for(lambda: lab.archives(2), 60, "seed 2 is started again")
        lab.lower_flag("hang-2")
        return lab, wait_end(lab, process, 180)
    finally:
        lab.lower_flag("slow")
        lab.lower_flag("hang-2")
        process.kill()
        process.wait()


@pytest.mark.exhaustive
def test_one_failed_run_is_reported(troubled):
    lab, exit_code = troubled
    assert exit_code == 1, lab.errors
    states = {row["seed"]: row["state"] for row in lab.answer()["runs"]}
    assert states == {0: "COMPLETED", 1: "FAILED", 2: "COMPLETED", 3: "COMPLETED"}
    assert lab.answer()["aggregate"]["n"] == 3


@pytest.mark.exhaustive
def test_agent_that_raises_has_a_record(troubled):
    lab, _ = troubled
    record = read(lab.run_dir(1) / "episode_record.json")
    assert (record["error_type"], record["n_steps"]) == ("ValueError", 7)
    assert (record["reward"], record["success"]) == (0.0, False)
    assert "no more" in json.dumps(lab.shown()[1]["error"])


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, 2], ids=["killed", "hanging"])
def test_lost_worker_is_noticed_and_its_run_started_again(troubled, seed):
    lab, _ = troubled
    status = read(lab.run_dir(seed) / "status.json")
    assert (status["state"], status["retries"]) == ("COMPLETED", 1)
    (archived,) = lab.archives(seed)
    assert read(archived / "status.json")["pid"] != status["pid"]
    assert read(archived / "status.json")["state"] != "COMPLETED"


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", [0, 2, 3])
def test_started_again_means_the_same_bytes(troubled, both, seed):
    lab, _ = troubled
    for name in FILES:
        expected = (both[0].run_dir(seed) / name).read_bytes()
        assert (lab.run_dir(seed) / name).read_bytes() == expected, name


@pytest.mark.exhaustive
def test_lost_run_resumes_from_a_checkpoint(both, tmp_path):
    lab = make_lab(tmp_path, "slow")
    lab.agent.write_text(AGENT + SAVING)
    process = lab.start("0", *RAY, "--retries", "1")
    try:
        pid = wait_for(lambda: lab.running().get(0), 120, "seed 0 runs")
        made = lambda: list(lab.run_dir(0).glob("checkpoint/current.json"))  # noqa: E731
        wait_for(made, 60, "a checkpoint counts")
        os.kill(pid, signal.SIGKILL)
        lab.lower_flag("slow")
        assert wait_end(lab, process, 180) == 0, lab.errors
    finally:
        lab.lower_flag("slow")
        process.kill()
        process.wait()
    assert lab.archives(0) == []
    assert read(lab.run_dir(0) / "status.json")["retries"] == 1
    assert read(lab.run_dir(0) / "run_summary.json")["tries"] == 2
    for name in FILES:
        expected = (both[0].run_dir(0) / name).read_bytes()
        assert (lab.run_dir(0) / name).read_bytes() == expected, name


@pytest.mark.kills
@pytest.mark.exhaustive
def test_thirty_lost_workers_change_nothing(both, tmp_path):
    """Isolated agents that save; every run loses its worker several times."""
    counts = KillCounts("run, process, on Ray")
    for trial in counts.trials(30):
        seeds = kill_workers(tmp_path / str(trial), both[0], 10)
        counts.add(trial, len(seeds), resumed=len(seeds) - len(set(seeds)))


def kill_workers(folder: Path, expected: Lab, due: int) -> list[int]:
    """Kills workers of four runs; returns the seed of each."""
    folder.mkdir()
    lab = make_lab(folder, "slow")
    # The agent's process gets a copy of its file, in another folder.
    source = AGENT.replace("Path(__file__).parent", f"Path({str(folder)!r})")
    lab.agent.write_text(source + SAVING)
    options = ("--retries", due, "--isolate", "process")
    process = lab.start("0-3", *RAY, *map(str, options))
    killed: dict[int, int] = {}
    try:
        while len(killed) < due:
            running = lambda: {  # noqa: E731
                pid: seed for seed, pid in lab.running().items() if pid not in killed
            }
            pid, seed = min(wait_for(running, 90, "another run plays").items())
            os.kill(pid, signal.SIGKILL)
            killed[pid] = seed
        lab.lower_flag("slow")
        assert wait_end(lab, process, 180) == 0, lab.errors
    finally:
        lab.lower_flag("slow")
        process.kill()
        process.wait()
    for seed in range(4):
        for name in FILES:
            rows = (expected.run_dir(seed) / name).read_bytes()
            assert (lab.run_dir(seed) / name).read_bytes() == rows, name
    return list(killed.values())


@pytest.mark.seed("001", "purpose-3")
def test_log_holds_one_record_for_each_run(troubled, tmp_path):
    lab, _ = troubled
    lines = tmp_path / "runs.jsonl"
    command = [sys.executable, "-m", "longplay", "export", str(lab.out)]
    subprocess.run([*command, "--jsonl", str(lines)], check=True, capture_output=True)
    records = read_rows(lines)
    records.sort(key=lambda record: record["seed"])
    assert [record["seed"] for record in records] == [0, 1, 2, 3]
    assert [r["error_type"] for r in records] == [None, "ValueError", None, None]


def test_no_worker_is_left(troubled):
    lab, _ = troubled
    pids = [status["pid"] for status in lab.statuses().values()]
    pids += [read(p / "status.json")["pid"] for s in (0, 2) for p in lab.archives(s)]
    wait_for(lambda: not any(map(is_alive, pids)), 15, "the workers end")


# --- drivers that are killed, interrupted, or not alone ---------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("options", [(), RAY], ids=["sequential", "ray"])
def test_retry_finishes_the_runs_of_a_killed_driver(lab, options):
    process = lab.start("0-2", *options)
    running = wait_for(lambda: lab.running(2 if options else 1), 120, "runs begin")
    process.kill()
    process.wait()
    wait_for(lambda: not any(map(is_alive, running.values())), 30, "workers end")
    shown = {seed: row["state"] for seed, row in lab.shown().items()}
    assert shown == {s: "STALE" if s in running else "QUEUED" for s in range(3)}
    lab.lower_flag("slow")
    assert wait_end(lab, lab.retry(), 180) == 0, lab.errors
    lab.check_whole(range(3))
    for seed in range(3):
        assert len(lab.archives(seed)) == (seed in running)
        assert lab.shown()[seed]["retries"] == (seed in running)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("options", "number", "exit_code", "state"),
    [
        ((), signal.SIGINT, 130, "CANCELLED"),
        (RAY, signal.SIGTERM, 75, "QUEUED"),
        pytest.param(
            *(RAY, signal.SIGINT, 130, "CANCELLED"), marks=pytest.mark.exhaustive
        ),
        pytest.param(
            *(RAY, signal.SIGUSR1, 75, "QUEUED"), marks=pytest.mark.exhaustive
        ),
    ],
)
def test_a_signal_stops_every_worker(lab, options, number, exit_code, state):
    lab.agent.write_text(AGENT + SAVING)
    process = lab.start("0-2", *options)
    running = wait_for(lambda: lab.running(2 if options else 1), 120, "runs begin")
    rows = [lab.run_dir(seed) / "events.jsonl" for seed in running]
    wait_for(lambda: all(p.exists() and p.stat().st_size for p in rows), 60, "rows")
    process.send_signal(number)
    assert wait_end(lab, process, 60) == exit_code, lab.errors
    wait_for(lambda: not any(map(is_alive, running.values())), 15, "workers end")
    assert "Traceback" not in lab.errors
    assert "SIG" not in lab.errors
    command = lab.answer()["error"]["continue_with"]
    verb = "retry" if options else "resume"
    words = ("longplay", verb, str(lab.out), "--agent", str(lab.agent), *options)
    assert command == " ".join(words)
    for seed in running:
        assert (lab.run_dir(seed) / "checkpoint/current.json").exists()
    shown = {seed: row["state"] for seed, row in lab.shown().items()}
    assert set(shown) == {0, 1, 2}
    assert set(shown.values()) <= {state, "QUEUED"}
    assert {shown[seed] for seed in running} == {state}
    lab.lower_flag("slow")
    assert wait_end(lab, lab.retry(*options), 180) == 0, lab.errors
    lab.check_whole(range(3))


def listening_addresses(pids: set[int]) -> set[str]:
    """Hexadecimal addresses on which these processes listen."""
    inodes = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for link in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    name = str(link.readlink())
                    inodes.add(name.removeprefix("socket:[").rstrip("]"))
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            cells = line.split()
            if cells[3] == "0A" and cells[9] in inodes:
                addresses.add(cells[1].partition(":")[0])
    return addresses


def session_pids(session: int) -> set[int]:
    """The processes of a session."""
    pids = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session:
                pids.add(int(entry.name))
    return pids


@pytest.mark.exhaustive
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads /proc")
def test_ray_listens_on_loopback_alone(lab):
    process = lab.start("0-1", *RAY)
    try:
        wait_for(lambda: lab.running(2), 60, "both seeds run")
        addresses = listening_addresses(session_pids(process.pid))
    finally:
        lab.lower_flag("slow")
        assert wait_end(lab, process, 90) == 0, lab.errors
    loopback = {"0100007F", "00000000000000000000000001000000"}
    assert addresses
    assert addresses <= loopback | {"0000000000000000FFFF00000100007F"}


@pytest.mark.exhaustive
def test_second_driver_is_refused_while_the_first_runs(lab):
    first = lab.start("0-1")
    wait_for(lab.running, 30, "a run begins")
    before = lab.running()
    command = [sys.executable, "-m", "longplay", "retry", str(lab.out)]
    second = subprocess.run(
        [*command, "--agent", str(lab.agent)],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert second.returncode == 2
    assert "Traceback" not in second.stderr
    assert lab.running() == before
    assert not (lab.out / "archive").exists()
    lab.lower_flag("slow")
    assert wait_end(lab, first, 60) == 0
    lab.check_whole(range(2))
