"""A full disk at every write: whole rows remain, and a status if there is room."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failing_runs import (
    ONE_VISIT,
    ROW_FILES,
    SUITE,
    THREE_VISITS,
    Left,
)
from longplay.contract import files

pytestmark = pytest.mark.usefixtures("working_dir")


class Sabotage:
    """Makes the n-th call of a writing function fail, after half of its work."""

    def __init__(self, name: str, n: int) -> None:
        self._name, self._n, self.calls = name, n, 0
        self._real = getattr(os, name.removeprefix("os_"))

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls != self._n:
            return self._real(*args)
        if self._name == "os_write":
            fd, data = args
            os.write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# Before its first frame a run writes experiment_record.json, experiment_config.json,
# episode_config.json and the first status.json, then the reserve and config.json; after
# its last frame experiment_summary.json and the two records. Before the first status
# no file can record the failure.
WRITES_BEFORE_STATUS = 4
WRITES_AFTER_RUN = 3


@pytest.fixture
def sabotage(
    invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[Sabotage, Any, Left]]:
    def sabotage(name: str, n: int) -> tuple[Sabotage, Any, Left]:
        saboteur = Sabotage(name, n)
        monkeypatch.setattr(files, name, saboteur)
        # Makes the number of writes independent of the clock: one heartbeat per hour.
        monkeypatch.setattr("longplay.runs.status.HEARTBEAT_S", 3600.0)
        monkeypatch.setattr("longplay.runs.loop._TICK_S", 3600.0)
        left = Left(tmp_path / f"{name}-{n}")
        args = ("--agent", "random", "--out", left.out, *THREE_VISITS, "--quiet")
        return saboteur, invoke("run", SUITE, *args), left

    return sabotage


OPERATIONS = ("os_write", "os_fsync", "os_replace")


@pytest.mark.few(1)
@pytest.mark.parametrize("stride", (6, pytest.param(1, marks=pytest.mark.exhaustive)))
@pytest.mark.parametrize("name", OPERATIONS)
def test_full_disk_at_every_write(
    name: str, stride: int, sabotage: Callable[..., tuple[Sabotage, Any, Left]]
) -> None:
    counter, answer, _ = sabotage(name, -1)
    assert answer.exit_code == 0
    assert counter.calls > 6
    last_of_run = counter.calls - WRITES_AFTER_RUN
    for n in range(WRITES_BEFORE_STATUS + 1, last_of_run + 1, stride):
        _, answer, left = sabotage(name, n)
        check_full_disk(answer, left, f"{name} {n} of {counter.calls}")


def check_full_disk(answer: Any, left: Left, where: str) -> None:
    assert answer.exit_code == 1, where
    assert "No space left on device" in answer.stderr, where
    assert left.status["state"] == "FAILED", where
    assert left.status["error"]["type"] == "RecordingError", where
    assert "No space left on device" in left.status["error"]["message"], where
    left.check_no_scraps()
    for file_name in ROW_FILES:
        if (left.run_dir / file_name).exists():
            left.rows(file_name)
    if (left.run_dir / "events.jsonl").exists():
        left.check_rows()


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("n", range(1, WRITES_BEFORE_STATUS + 1))
def test_full_disk_before_the_run_starts(
    n: int, name: str, sabotage: Callable[..., tuple[Sabotage, Any, Left]]
) -> None:
    _, answer, left = sabotage(name, n)
    assert answer.exit_code == 1
    assert "No space left on device" in answer.stderr
    left.check_no_scraps()
    assert not list(left.out.rglob("status.json"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "name",
    [
        "os_write",
        pytest.param("os_fsync", marks=pytest.mark.exhaustive),
        pytest.param("os_replace", marks=pytest.mark.exhaustive),
    ],
)
def test_full_disk_after_the_run_does_not_affect_the_run(
    name: str,
    sabotage: Callable[..., tuple[Sabotage, Any, Left]],
    invoke: Callable[..., Any],
) -> None:
    total = sabotage(name, -1)[0].calls
    for n in range(total - WRITES_AFTER_RUN + 1, total + 1):
        _, answer, left = sabotage(name, n)
        assert answer.exit_code == 1, n
        assert "No space left on device" in answer.stderr
        assert left.status["state"] == "COMPLETED"
        assert left.check_rows() == 300
        left.check_no_scraps()
        assert invoke("score", left.out).exit_code == 0
        assert invoke("validate", left.out).exit_code == 0


class SmallDisk:
    """A disk of limited size: deleting and truncating files frees space."""

    def __init__(self, root: Path, size_bytes: int) -> None:
        self._root, self._size_bytes = root, size_bytes

    def write(self, fd: int, data: bytes) -> int:
        used = sum(p.stat().st_size for p in self._root.rglob("*") if p.is_file())
        room = max(0, self._size_bytes - used)
        if room == 0 and len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(fd, data[:room])


@pytest.mark.parametrize("size_bytes", [75_000, 80_000, 100_000, 120_000, 140_000])
def test_disk_that_fills_up(
    size_bytes: int,
    invoke: Callable[..., Any],
    left: Left,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SmallDisk(left.out, size_bytes)
    monkeypatch.setattr(files, "os_write", disk.write)
    args = ("--agent", "random", "--out", left.out, *THREE_VISITS)
    check_full_disk(invoke("run", SUITE, *args), left, f"{size_bytes}")


def test_agent_output_that_does_not_fit_is_a_full_disk(
    invoke: Callable[..., Any],
    write_agent: Callable[..., Path],
    left: Left,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "os_write", SmallDisk(left.out, 200_000).write)
    agent = write_agent("print('x' * 10_000); return 0")
    args = ("--agent", agent, "--out", left.out, *ONE_VISIT)
    check_full_disk(invoke("run", SUITE, *args), left, "agent_output.txt")


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_real_limit_on_the_size_of_a_file(
    spawn: Callable[..., Any], left: Left, invoke: Callable[..., Any]
) -> None:
    args = ("--agent", "random", "--out", left.out, "--set", "base_visit_frames=300")
    answer = spawn("run", SUITE, *args, preexec_fn=limit_file_size)
    assert answer.exit_code == 1
    assert "cannot write" in answer.stderr
    assert "events.jsonl" in answer.stderr
    assert "File too large" in answer.stderr
    assert left.status["state"] == "FAILED"
    frames = left.check_rows()
    assert 200 < frames < 600
    assert left.document("run_summary.json")["frames"] == frames
    left.check_no_scraps()
    assert f"last frame is {frames - 1} of" in invoke("score", left.out).stderr
