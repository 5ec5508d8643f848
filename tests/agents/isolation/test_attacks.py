"""In a sandbox an agent learns nothing from the referee, and changes nothing.

Without isolation the same attacks succeed, which shows that they can.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attacks import (
    CHANGING,
    LEARNING,
    NOT_CHANGING_IN_A_PROCESS,
    NOT_LEARNING_IN_A_PROCESS,
    Scene,
    write_agent,
)
from direct_attacks import LOADING, REACHING, REMEMBERING, SAVING

from attack_table import render_table
from forgeries import PAGE, read_table
from longplay.contract.rundir import ROW_FILES
from ordinary_user import open_parents

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
        local.bind(f"\0longplay-attack-{scene.port}")
        local.listen()
        for server in (tcp, local):
            arguments = (server, scene.secret.encode())
            threading.Thread(target=_serve, args=arguments, daemon=True).start()
        scene.canary.write_text(scene.secret)
        shared = Path(f"/dev/shm/longplay-attack-{scene.port}")
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


# Runs a command of longplay as an ordinary user.
AS_USER = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ordinary_user import become_ordinary_user
become_ordinary_user()
os.execv(sys.executable, [sys.executable, "-m", "longplay", *sys.argv[2:]])
"""


def hand_over(scene: Scene) -> None:
    """Makes the scene one of the ordinary user's."""
    open_parents(scene.folder)
    for path in (scene.folder, *scene.folder.rglob("*")):
        os.chown(path, 65534, 65534)


def play(scene: Scene, level: str, agent: Path, *suite: str, user: str = "root") -> int:
    """Runs the command line in its own session; returns its exit code."""
    shutil.rmtree(scene.out, ignore_errors=True)
    scene.planted.unlink(missing_ok=True)
    command = [sys.executable, "-m", "longplay"]
    if user == "ordinary" and os.geteuid() == 0:
        hand_over(scene)
        command = [
            sys.executable,
            "-c",
            AS_USER,
            str(Path(__file__).parents[2] / "kit"),
        ]
    command += [
        "run",
        *suite,
        *SHORT,
        "--agent",
        str(agent),
        "--out",
        str(scene.out),
        "--isolate",
        level,
    ]
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
    """The attacks that learned something."""
    # A run whose agent prints nothing has no such file.
    outputs = scene.out.glob("episodes/*/agent_output.txt")
    lines = [line for path in outputs for line in path.read_text().splitlines()]
    pairs = [json.loads(line[6:]) for line in lines if line.startswith("FOUND ")]
    return {name for name, found in pairs if LEARNING[name][0] in found}


def test_table_of_the_docs_counts_every_attack() -> None:
    table = render_table()
    assert read_table(PAGE.read_text("utf-8"), "attacks") == table
    total = int(table.splitlines()[-1].split("|")[2])
    assert total >= 100


@pytest.mark.few(1)
@pytest.mark.parametrize("user", ["root", "ordinary"])
def test_no_attack_learns_anything_in_a_sandbox(user: str, scene: Scene) -> None:
    """All of them in one agent; without isolation, every one succeeds."""
    if user == "ordinary" and os.geteuid() != 0:
        pytest.skip("the tests were started as an ordinary user")
    bodies = {name: body for name, (_, body) in LEARNING.items()}
    agent = write_agent(scene, bodies)
    assert play(scene, "sandbox", agent, *PREDICTION, user=user) == 0
    assert leaks(scene) == set()
    assert play(scene, "none", agent, *PREDICTION) == 0
    assert set(LEARNING) - leaks(scene) == set()


@pytest.mark.exhaustive
def test_process_stops_some_attacks(scene: Scene) -> None:
    bodies = {name: body for name, (_, body) in LEARNING.items()}
    agent = write_agent(scene, bodies)
    assert play(scene, "process", agent, *PREDICTION, user="ordinary") == 0
    assert leaks(scene) == set(LEARNING) - NOT_LEARNING_IN_A_PROCESS


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", LEARNING)
def test_attack_on_its_own_learns_nothing_in_a_sandbox(name: str, scene: Scene) -> None:
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


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", CHANGING)
def test_no_attack_changes_a_run_in_a_sandbox(name: str, scene: Scene) -> None:
    options = {"actions": ", num_actions", "answer": "3"}
    harmless = write_agent(scene, {"harmless": "pass"}, **options)
    assert play(scene, "process", harmless, *CONTROL) == 0
    expected = read_rows(scene)
    agent = write_agent(scene, {name: CHANGING[name]}, **options)

    for user in ("root", "ordinary"):
        exit_code = play(scene, "sandbox", agent, *CONTROL, user=user)
        assert not has_changed(scene, exit_code, expected)
    exit_code = play(scene, "process", agent, *CONTROL, user="ordinary")
    is_stopped = name in NOT_CHANGING_IN_A_PROCESS
    assert has_changed(scene, exit_code, expected) is not is_stopped
    exit_code = play(scene, "none", agent, *CONTROL)
    assert has_changed(scene, exit_code, expected)


def has_changed(scene: Scene, exit_code: int, expected: dict[str, bytes]) -> bool:
    """Whether a run failed, has other rows, is not true, or a file was made."""
    if exit_code != 0 or scene.planted.exists():
        return True
    return read_rows(scene) != expected or not is_true(scene)


# --- attacks without a run ------------------------------------------------------------

DRIVER = Path(__file__).with_name("attack_driver.py")


def attack(**given: object) -> list[Any]:
    """The attacks that succeed, in each life of an agent that has two."""
    done = subprocess.run(
        [sys.executable, DRIVER, json.dumps(given)],
        check=True,
        timeout=300,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    return json.loads(done.stdout)  # type: ignore[no-any-return]


@pytest.mark.few(1)
@pytest.mark.parametrize("user", ["root", "ordinary"])
@pytest.mark.parametrize("table", ["REMEMBERING", "REACHING"])
def test_no_direct_attack_succeeds_in_a_sandbox(table: str, user: str) -> None:
    if user == "root" and os.geteuid() != 0:
        pytest.skip("the tests were not started as root")
    assert attack(table=table, user=user, level="sandbox") == [[], []]


@pytest.mark.exhaustive
@pytest.mark.parametrize("abi", [3, 5])
def test_older_landlock_does_not_open_a_way(abi: int) -> None:
    """It has no scope for signals."""
    found = attack(table="REACHING", user="ordinary", level="sandbox", abi=abi)
    assert found == [[], []]


@pytest.mark.exhaustive
def test_every_direct_attack_succeeds_without_a_sandbox() -> None:
    """As an ordinary user: a root without its capabilities may do less."""
    first, second = attack(table="REMEMBERING", user="ordinary", level="process")
    # A fast disk answers a read that must not wait, and fills the page cache by it.
    assert all(name.startswith("page cache") for name in first)
    assert second == sorted(REMEMBERING)
    first, second = attack(table="REACHING", user="ordinary", level="process")
    assert first == second == sorted(REACHING)


@pytest.mark.few(1)
@pytest.mark.parametrize("user", ["root", "ordinary"])
@pytest.mark.parametrize("table", ["SAVING", "LOADING"])
def test_no_link_leads_out_of_a_sandbox(table: str, user: str) -> None:
    if user == "root" and os.geteuid() != 0:
        pytest.skip("the tests were not started as root")
    assert attack(table=table, user=user, level="sandbox") == []


@pytest.mark.exhaustive
def test_every_link_leads_out_if_the_referee_follows_it() -> None:
    assert attack(table="SAVING", user="root", level="process") == sorted(SAVING)
    assert attack(table="LOADING", user="root", level="process") == sorted(LOADING)
