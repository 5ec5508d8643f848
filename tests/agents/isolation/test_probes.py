"""In a sandbox an agent learns nothing from the referee, and changes nothing.

Without isolation the same probes succeed, which shows that they can.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from probes import CHANGING, LEARNING, Scene, write_agent

from longplay.contract.rundir import ROW_FILES

# Those that are also played on their own in `make test`.
_QUICK = ("patches the recorder",)
PREDICTION = ("prediction-smoke-v1", "--set", 'games=["pong", "breakout"]')
CONTROL = ("control-smoke-v1", "--set", 'games=["pong"]')
SHORT = ("--set", "base_visit_frames=45", "--seed", "1000", "--quiet")


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with (
        socket.create_server(("127.0.0.1", 0)) as tcp,
        socket.socket(socket.AF_UNIX) as local,
    ):
        scene = Scene(tmp_path, tcp.getsockname()[1])
        monkeypatch.setenv("LONGPLAY_TEST_SECRET", scene.secret)
        local.bind(f"\0longplay-probe-{scene.port}")
        local.listen()
        for server in (tcp, local):
            arguments = (server, scene.secret.encode())
            threading.Thread(target=_serve, args=arguments, daemon=True).start()
        scene.canary.write_text(scene.secret)
        shared = Path(f"/dev/shm/longplay-probe-{scene.port}")
        shared.write_text(scene.secret)
        yield scene
        shared.unlink()
        # `accept` in another thread does not notice that the socket is closed.
        for server in (tcp, local):
            with contextlib.suppress(OSError):
                server.shutdown(socket.SHUT_RDWR)


def _serve(server: socket.socket, secret: bytes) -> None:
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            with connection:
                connection.sendall(secret)


def play(scene: Scene, level: str, agent: Path, *suite: str) -> int:
    """Runs the command line in its own session; returns its exit code."""
    shutil.rmtree(scene.out, ignore_errors=True)
    scene.planted.unlink(missing_ok=True)
    command = [sys.executable, "-m", "longplay", "run", *suite, *SHORT]
    command += ["--agent", str(agent), "--out", str(scene.out), "--isolate", level]
    done = subprocess.run(
        command,
        cwd=scene.folder,
        check=False,
        timeout=300,
        capture_output=True,
        start_new_session=True,
    )
    return done.returncode


def leaks(scene: Scene) -> set[str]:
    """The probes that learned something."""
    # A run whose agent prints nothing has no such file.
    outputs = scene.out.glob("episodes/*/agent_output.txt")
    lines = [line for path in outputs for line in path.read_text().splitlines()]
    pairs = [json.loads(line[6:]) for line in lines if line.startswith("FOUND ")]
    return {name for name, found in pairs if LEARNING[name][0] in found}


def test_there_are_enough_probes() -> None:
    assert len(LEARNING) + len(CHANGING) >= 40


def test_no_probe_learns_anything_in_a_sandbox(scene: Scene) -> None:
    """All of them in one agent; without isolation, every one succeeds."""
    bodies = {name: body for name, (_, body) in LEARNING.items()}
    agent = write_agent(scene, bodies)
    assert play(scene, "sandbox", agent, *PREDICTION) == 0
    assert leaks(scene) == set()
    assert play(scene, "none", agent, *PREDICTION) == 0
    assert set(LEARNING) - leaks(scene) == set()


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LEARNING)
def test_probe_on_its_own_learns_nothing_in_a_sandbox(name: str, scene: Scene) -> None:
    agent = write_agent(scene, {name: LEARNING[name][1]})
    assert play(scene, "sandbox", agent, *PREDICTION) == 0
    assert leaks(scene) == set()
    assert play(scene, "none", agent, *PREDICTION) == 0
    assert leaks(scene) == {name}


def read_rows(scene: Scene) -> dict[str, bytes]:
    (run_dir,) = scene.out.glob("episodes/*")
    return {name: (run_dir / name).read_bytes() for name in ROW_FILES}


def is_true(scene: Scene) -> bool:
    """Whether `verify` finds the run true."""
    command = [sys.executable, "-m", "longplay", "verify", str(scene.out), "--quiet"]
    done = subprocess.run(
        [*command, "--workers", "1"], check=False, capture_output=True
    )
    return done.returncode == 0


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in _QUICK else pytest.mark.exhaustive)
        for name in CHANGING
    ],
)
def test_no_probe_changes_a_run_in_a_sandbox(name: str, scene: Scene) -> None:
    options = {"actions": ", num_actions", "answer": "3"}
    harmless = write_agent(scene, {"harmless": "pass"}, **options)
    assert play(scene, "process", harmless, *CONTROL) == 0
    expected = read_rows(scene)
    agent = write_agent(scene, {name: CHANGING[name]}, **options)

    assert play(scene, "sandbox", agent, *CONTROL) == 0
    assert read_rows(scene) == expected
    assert is_true(scene)
    assert not scene.planted.exists()

    exit_code = play(scene, "none", agent, *CONTROL)
    has_changed = exit_code != 0 or read_rows(scene) != expected or not is_true(scene)
    assert has_changed or scene.planted.exists()
