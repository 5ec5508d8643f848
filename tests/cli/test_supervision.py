"""A command line whose agent ends or damages its process says so."""

from __future__ import annotations

import json
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from failing_runs import AGENT, ONE_VISIT
from longplay.cli.supervision import is_supervised
from longplay.seeds import agent_seed
from processes import is_alive

SUITE = "stream-smoke-v1"


@pytest.fixture
def run(tmp_path: Path, spawn: Callable[..., Any]) -> Callable[..., Any]:
    """Runs an agent with a relative --out; at frame 20 it does something."""

    def run(deed: str, *options: object, init: str = "pass") -> Any:
        step = f"if frame == 20:\n            {deed}\n        return 3"
        source = AGENT.format(init=init, step=step, more="pass")
        (tmp_path / "agent.py").write_text("import ctypes, multiprocessing\n" + source)
        command = ("run", SUITE, "--agent", "agent.py", "--out", "out", "--quiet")
        return spawn(*command, *ONE_VISIT, *options, cwd=tmp_path, timeout=120)

    return run


def read_status(folder: Path) -> dict[str, Any]:
    (path,) = folder.glob("out/episodes/*/status.json")
    return json.loads(path.read_bytes())


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("deed", "ending"),
    [
        ("os._exit(0)", "ended with exit status 0"),
        ("os.closerange(0, 4096)", "ended with exit status 1"),
        ("os._exit(75)", "ended with exit status 75"),
        ("ctypes.string_at(0)", "was killed by SIGSEGV"),
    ],
)
def test_sudden_end_is_a_failed_run(
    deed: str, ending: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    answer = run(deed)
    assert answer.exit_code == 1
    assert f"the process of this command {ending}" in answer.stderr
    status = read_status(tmp_path)
    assert status["state"] == "FAILED"
    assert ending in status["error"]["message"]


def test_summary_and_records_follow_a_sudden_end(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """Of two runs the first one is complete; only the second agent ends the process."""
    deed = f"self.seed == {agent_seed(1)} and os._exit(0)"
    answer = run(deed, "--seeds", "0,1", init="self.seed = seed")
    assert answer.exit_code == 1
    out = tmp_path / "out"
    summary = json.loads((out / "experiment_summary.json").read_bytes())
    assert [run["state"] for run in summary["runs"]] == ["COMPLETED", "FAILED"]
    assert "ended with exit status 0" in summary["runs"][1]["error"]["message"]
    records = sorted(out.glob("episodes/*/episode_record.json"))
    errors = [json.loads(path.read_bytes())["error_type"] for path in records]
    assert errors == [None, "RunFailed"]


def test_exit_handler_does_not_hide_a_failure(run: Callable[..., Any]) -> None:
    init = "import atexit; atexit.register(os._exit, 0)"
    assert run("raise ValueError('boom')", init=init).exit_code == 1


def test_sudden_end_is_json_if_requested(run: Callable[..., Any]) -> None:
    answer = run("os._exit(0)", "--json")
    assert answer.exit_code == 1
    assert answer.json["error"]["type"] == "RunFailed"


def test_debugging_is_not_supervised(run: Callable[..., Any], tmp_path: Path) -> None:
    assert run("os._exit(0)", "--debug").exit_code == 0
    assert read_status(tmp_path)["state"] == "RUNNING"


def test_debugging_an_isolated_agent_is_refused(run: Callable[..., Any]) -> None:
    answer = run("pass", "--debug", "--isolate", "process")
    assert answer.exit_code == 2
    assert "--debug: only with --isolate none, found process" in answer.stderr


@pytest.mark.few(1)
@pytest.mark.parametrize("where", ["import", "init", "step"])
def test_changed_working_directory(
    where: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    deed = {"import": "pass", "init": "pass", "step": "os.chdir('/')"}[where]
    init = "os.chdir('/')" if where == "init" else "pass"
    if where == "import":
        init = "pass\n    os.chdir('/')"
    assert run(deed, init=init).exit_code == 0
    assert read_status(tmp_path)["state"] == "COMPLETED"
    assert (tmp_path / "out/experiment_summary.json").exists()


def test_changed_umask(run: Callable[..., Any], tmp_path: Path) -> None:
    assert run("os.umask(0o777)").exit_code == 0
    for path in (tmp_path / "out").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o400, path


def test_copy_of_the_process_does_not_play(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    """The copy ends at its first write; the original waits for that."""
    deed = "pid = os.fork()\n            if pid: os.waitpid(pid, 0)"
    answer = run(deed)
    assert answer.exit_code == 1, answer.stdout
    assert "the agent forked this process" in answer.stderr
    status = read_status(tmp_path)
    assert status["state"] == "FAILED"
    rows = next(tmp_path.glob("out/episodes/*/events.jsonl")).read_bytes()
    frames = [json.loads(row)["global_frame_idx"] for row in rows.splitlines()]
    assert frames == list(range(len(frames)))


def test_children_that_end_themselves_are_fine(run: Callable[..., Any]) -> None:
    pool = "with multiprocessing.get_context('fork').Pool(2) as pool:"
    assert run(f"{pool} pool.map(abs, [1, -2])").exit_code == 0


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "deed",
    [
        "raise ValueError('\\udc80 \\x1b')",
        "raise type('\\udc80', (Exception,), {})('x')",
        "raise type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})()",
        "print('\\udc80')\n            return '\\udc80'",
    ],
)
def test_message_that_cannot_be_written(
    deed: str, run: Callable[..., Any], tmp_path: Path
) -> None:
    answer = run(deed)
    assert answer.exit_code == 1
    assert "Traceback" not in answer.stderr
    status = read_status(tmp_path)
    assert (status["state"], status["frame"]) == ("FAILED", 20)


def test_signal_reaches_the_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "longplay", "run", "stream-3x2-v1"]
    command += ["--agent", "random", "--out", "out", "--quiet"]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
    while not any(tmp_path.glob("out/episodes/*/events.jsonl")):
        time.sleep(0.05)
    player = read_status(tmp_path)["pid"]
    assert player != process.pid
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 75
    assert read_status(tmp_path)["state"] == "QUEUED"


def test_player_dies_with_the_waiting_process(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "longplay", "run", "stream-3x2-v1"]
    command += ["--agent", "random", "--out", "out", "--quiet"]
    process = subprocess.Popen(command, cwd=tmp_path)
    while not any(tmp_path.glob("out/episodes/*/events.jsonl")):
        time.sleep(0.05)
    player = read_status(tmp_path)["pid"]
    process.kill()
    process.wait()
    deadline = time.monotonic() + 30
    while is_alive(player) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(player)


def test_reading_commands_are_not_supervised() -> None:
    assert is_supervised(["run", "stream-smoke-v1"])
    for arguments in ([], ["show", "out"], ["run", "--help"], ["run", "x", "--debug"]):
        assert not is_supervised(arguments)
