"""An agent that does not keep to its turn is ended, and never blocks the referee."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longplay.agents.isolation import channel
from longplay.agents.isolation.parent import AgentProcess
from longplay.errors import AgentError

START = """
import fcntl, os, stat, struct, threading, time
import msgspec
from longplay.agents.isolation import channel


def find_replies():
    "The pipe to the referee."
    for fd in range(3, 50):
        try:
            is_pipe = stat.S_ISFIFO(os.fstat(fd).st_mode)
        except OSError:
            continue
        if is_pipe and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY:
            return fd


REPLIES = find_replies()
BODY = msgspec.msgpack.encode(channel.Answer(3))
ANSWER = struct.pack("<I", len(BODY)) + BODY


class Agent:
    def __init__(self, num_actions, seed):
        self.n = 0

    def close(self):
        time.sleep(600)

    def step(self, obs_rgb, reward, terminated, truncated, info):
        self.n += 1
        if self.n < 2:
            return 3
"""


def ask(agent: Any) -> Any:
    frame = np.zeros((210, 160, 3), np.uint8)
    return agent.step(frame, 0.0, False, False, {"is_decision_frame": True})


# Name -> (what it does in its second step, the error of the referee).
OUT_OF_TURN = {
    "answers in advance and never reads": (
        "os.write(REPLIES, ANSWER * 5000); time.sleep(600)",
        "sent Answer before it was asked",
    ),
    "answers twice": (
        "os.write(REPLIES, ANSWER); return 3",
        "sent Answer before it was asked",
    ),
    "answers now and then, and never reads": (
        "[os.write(REPLIES, ANSWER) and time.sleep(0.01) for _ in range(9999)]",
        "answered requests that it did not read|before it was asked",
    ),
}


@pytest.mark.few(2)
@pytest.mark.parametrize("level", ["process", "sandbox"])
@pytest.mark.parametrize("name", OUT_OF_TURN)
def test_answer_before_its_request_is_an_error(
    name: str, level: str, start: Callable[..., Any]
) -> None:
    statement, message = OUT_OF_TURN[name]
    _, agent = start(f"{START}        {statement}\n", level=level)
    with pytest.raises(AgentError, match=message):
        for _ in range(20_000):  # the requests fill the pipe long before
            ask(agent)
    assert not agent._process.is_open


# Name -> what it does in its second step, for more than the time it has.
SLOW = {
    "sleeps": "time.sleep(600)",
    "prints without end": "while True: print('x' * 70_000)",
    "sends a message byte by byte": (
        "os.write(REPLIES, struct.pack('<I', 1 << 20))\n"
        "        while True: os.write(REPLIES, b'x'); time.sleep(0.0001)"
    ),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("level", ["process", "sandbox"])
@pytest.mark.parametrize("name", SLOW)
def test_time_of_a_step_is_limited(
    name: str, level: str, start: Callable[..., Any]
) -> None:
    source = f"{START}        {SLOW[name]}\n"
    _, agent = start(source, level=level, step_timeout_s=0.5)
    assert ask(agent) == 3
    with pytest.raises(AgentError, match=r"more than 0\.5 s to answer"):
        ask(agent)


class _Blocked(BaseException):
    """The referee would have waited, or gone on, for ever."""


@pytest.fixture
def alarm() -> Iterator[None]:
    """Raises `_Blocked` in this process after a while."""

    def interrupt(*_: object) -> None:
        raise _Blocked

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 3)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", [*OUT_OF_TURN, *SLOW])
def test_without_deadline_and_order_none_of_them_is_ended(
    name: str,
    start: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    def send(self: AgentProcess, message: channel.Request, _: float | None) -> None:
        os.set_blocking(self._requests, True)
        channel.send_message(self._requests, message)

    monkeypatch.setattr(AgentProcess, "_send", send)
    monkeypatch.setattr(channel, "is_empty", lambda _: True)
    statement = OUT_OF_TURN[name][0] if name in OUT_OF_TURN else SLOW[name]
    _, agent = start(f"{START}        {statement}\n")
    request.getfixturevalue("alarm")
    with pytest.raises(_Blocked):
        while True:
            ask(agent)


def test_request_that_is_not_read_has_a_deadline() -> None:
    read, written = os.pipe()
    os.set_blocking(written, False)
    started_s = time.monotonic()
    long = channel.Load("x" * 100_000)
    with pytest.raises(TimeoutError):
        channel.send_message(written, long, started_s + 0.2)
    assert 0.2 <= time.monotonic() - started_s < 5
    with pytest.raises(AgentError, match="answered requests that it did not read"):
        channel.send_message(written, channel.Import())
    ended, other = os.pipe()
    os.close(other)
    os.read(read, 1 << 16)
    with pytest.raises(BrokenPipeError):
        channel.send_message(written, long, None, watched=ended)
    for fd in (read, written, ended):
        os.close(fd)


RUN = """
import sys, longplay
longplay.run("stream-smoke-v1", sys.argv[1], seeds=[0], out=sys.argv[2],
             isolate="process")
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize("statement", [SLOW["sleeps"], SLOW["prints without end"]])
def test_second_interrupt_ends_the_run(
    statement: str, write: Callable[..., str], tmp_path: Path
) -> None:
    started = tmp_path / "started"
    tell = f"open({str(started)!r}, 'w').close()\n        "
    agent = write(f"{START}        {tell}{statement}\n")
    command = [sys.executable, "-c", RUN, agent, str(tmp_path / "out")]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        deadline_s = time.monotonic() + 120
        while not started.exists() and time.monotonic() < deadline_s:
            time.sleep(0.05)
        for _ in range(2):
            time.sleep(1)
            process.send_signal(signal.SIGINT)
        try:
            process.wait(20)
        finally:
            process.kill()
    assert process.returncode != 0
