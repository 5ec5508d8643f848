"""Plays a table of `direct_attacks.py`, and prints which attacks succeed.

    python attack_driver.py {"table": "REACHING", "level": "sandbox", "user": "root"}

It is a script, because it becomes the user that it is given.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "kit"))

import direct_attacks

from ordinary_user import become_ordinary_user

# A number that no other process uses for the names of its IPC.
KEY = 0x10000000 + os.getpid()


@contextlib.contextmanager
def make_scene(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Everything that the attacks know."""
    with (
        tempfile.TemporaryDirectory(prefix="longplay-attack-") as folder,
        subprocess.Popen(["sleep", "600"], start_new_session=True) as victim,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as by_path,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as by_name,
    ):
        os.setxattr(folder, "user.secret", b"the secret")
        by_path.bind(str(Path(folder, "socket")))
        by_name.bind(f"\0longplay-{KEY}")
        targets = {}
        for index, name in enumerate(table):
            target = Path(folder, f"target-{index}")
            target.write_bytes(bytes(4096))
            remove_from_page_cache(target)
            targets[name] = str(target)
        # Times that are set at creation differ by less.
        time.sleep(0.1)
        try:
            names = {"FOLDER": folder, "VICTIM": victim.pid, "KEY": KEY}
            yield {**names, "targets": targets}
        finally:
            victim.kill()
            remove_ipc()


def remove_from_page_cache(path: Path) -> None:
    """Asks until the kernel has done it: pages that are being written stay."""
    known: dict[str, Any] = {}
    exec(direct_attacks.PRELUDE, known)
    with path.open("rb") as file:
        while known["is_cached"](path):
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def remove_ipc() -> None:
    """Removes what successful attacks have left behind."""
    from ctypes import CDLL

    libc = CDLL(None)
    libc.shmctl(libc.shmget(KEY, 0, 0), 0, None)
    libc.msgctl(libc.msgget(KEY, 0), 0, None)
    libc.semctl(libc.semget(KEY, 0, 0), 0, 0, None)
    libc.mq_unlink(f"/longplay-{KEY}".encode())
    Path(f"/dev/shm/longplay-{KEY}").unlink(missing_ok=True)


def start(path: Path, level: str, allowed: Sequence[str] = ()) -> Any:
    """Builds an agent in its own process."""
    from longplay.agents.isolation.levels import Isolation
    from longplay.agents.isolation.remote import load_isolated_agent

    isolation = Isolation(level, allowed=tuple(allowed))  # type: ignore[arg-type]
    return load_isolated_agent(str(path), isolation).build(7)


def step(agent: Any) -> None:
    """Asks an agent for one decision."""
    import numpy as np

    frame = np.zeros((210, 160, 3), np.uint8)
    agent.step(frame, 0.0, False, False, {"is_decision_frame": True})


def live(path: Path, level: str, targets: list[str]) -> dict[str, float]:
    """One life of the agent."""
    agent = start(path, level, targets if level == "sandbox" else ())
    step(agent)
    found: dict[str, float] = agent.metrics()
    agent.close()
    return found


def exchange(name: str, level: str, folder: Path) -> bool:
    """Saves and loads one agent; returns whether its attack succeeded."""
    places = {n: folder / n.lower() for n in ("PRIVATE", "OUTSIDE", "AGENT", "STATE")}
    for place in places.values():
        place.mkdir(parents=True)
    (places["PRIVATE"] / "secret.txt").write_text("the secret")
    path = places["AGENT"] / "agent.py"
    names = {n: str(places[n]) for n in ("PRIVATE", "OUTSIDE")}
    path.write_text(direct_attacks.write_exchanging_source(name, names))
    agent = start(path, level)
    try:
        with contextlib.suppress(Exception):
            agent.save(places["STATE"])
        with contextlib.suppress(Exception):
            step(agent)
        with contextlib.suppress(Exception):
            agent.load(places["STATE"])
    finally:
        agent.close()
    copied = (p for p in places["STATE"].rglob("*") if p.is_file())
    has_leaked = any(p.read_text() == "the secret" for p in copied)
    return has_leaked or any(places["OUTSIDE"].iterdir())


def follow_links() -> None:
    """Makes the referee copy as if an agent could be trusted."""
    from longplay.agents.isolation.folders import AgentFolder

    def copy_saved(self: AgentFolder, target: Path) -> None:
        with contextlib.suppress(shutil.Error):
            shutil.copytree(self.saved, target, dirs_exist_ok=True)

    def place_loaded(self: AgentFolder, source: Path) -> Path:
        shutil.copytree(source, self.loaded / "0", dirs_exist_ok=True)
        return self.loaded / "0"

    AgentFolder.copy_saved = copy_saved  # type: ignore[method-assign]
    AgentFolder.place_loaded = place_loaded  # type: ignore[method-assign]


def main() -> None:
    """Prints the names of the attacks that succeeded, for each life of the agent."""
    given = json.loads(sys.argv[1])
    if given["user"] == "ordinary":
        become_ordinary_user()
    if "abi" in given:
        pretend_abi(given["abi"])
    play = exchange_all if given["table"] in ("SAVING", "LOADING") else live_twice
    found = play(getattr(direct_attacks, given["table"]), given["level"])
    sys.stdout.write(json.dumps(found))


def pretend_abi(abi: int) -> None:
    """Makes agents' processes use an older version of Landlock."""
    from longplay.agents.isolation import parent

    first, start, last = parent.BOOT.rpartition("from longplay")
    importing = f"from {parent.__package__} import landlock"
    patch = f"{importing}; landlock.find_abi = lambda: {abi}; "
    parent.BOOT = first + patch + start + last  # type: ignore[misc]


def exchange_all(table: dict[str, Any], level: str) -> list[str]:
    """The attacks on saving and loading that succeeded."""
    if level == "process":
        follow_links()
    with tempfile.TemporaryDirectory(prefix="longplay-attack-") as folder:
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "cache"))
        return sorted(n for n in table if exchange(n, level, Path(folder, n)))


def live_twice(table: dict[str, Any], level: str) -> list[list[str]]:
    """The attacks that succeeded in each of two lives."""
    with make_scene(table) as scene:
        path = Path(scene["FOLDER"], "agent", "agent.py")
        path.parent.mkdir()
        path.write_text(direct_attacks.write_source(table, scene))
        os.environ["XDG_CACHE_HOME"] = str(Path(scene["FOLDER"], "cache"))
        targets = list(scene["targets"].values())
        return [sorted(live(path, level, targets)) for _ in range(2)]


if __name__ == "__main__":
    main()
