"""The server itself: its address, its token, and how it ends."""

from __future__ import annotations

import contextlib
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from longplay.errors import ConfigError
from longplay.lab.viewer import server
from longplay.lab.viewer.server import DEFAULT_PORT, ServerOptions, _bind

Start = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def start(finished_run: Path) -> Iterator[Start]:
    """Starts `longplay view` and returns its process and first line."""
    started = []

    def start(*options: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "longplay", "view", str(finished_run)]
        process = subprocess.Popen(
            [*command, "--no-open", "--port", "0", *options],
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline()

    yield start
    for process in started:
        process.kill()
        process.communicate()


def fetch(address: str, **headers: str) -> int:
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_local_server_starts_and_ends_with_ctrl_c(start: Start):
    process, line = start()
    found = re.fullmatch(r"(http://127\.0\.0\.1:\d+/)  \(Ctrl-C stops\)\n", line)
    assert found is not None
    assert fetch(found[1]) == 200
    assert fetch(found[1], Host="evil.example") == 421
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0


def test_other_machines_need_the_token(start: Start):
    _, line = start("--host", "0.0.0.0")
    found = re.fullmatch(r"http://.*:(\d+)/\?token=([\w-]{32})  .*\n", line)
    assert found is not None
    address = f"http://127.0.0.1:{found[1]}/"
    assert fetch(address) == 401
    assert fetch(f"{address}?token={found[2][:-1]}x") == 401
    assert fetch(address, Cookie=f"longplay_token={found[2]}") == 200


# `longplay view` with a shorter time limit: long enough to open 80 connections and
# one more on a busy machine.
IMPATIENT = """
import sys
from longplay.cli.app import app
from longplay.lab.viewer import server
server._HEADERS_S = 8.0
server._READING_S = 8.0
app(sys.argv[1:])
"""


@contextlib.contextmanager
def serve_impatiently(finished_run: Path) -> Iterator[str]:
    command = [sys.executable, "-c", IMPATIENT, "view", str(finished_run)]
    with subprocess.Popen(
        [*command, "--no-open", "--port", "0"], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().split()[0]
        finally:
            process.kill()


def connect(address: str) -> socket.socket:
    port = int(address.rstrip("/").rpartition(":")[2])
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    connection.connect(("127.0.0.1", port))
    connection.settimeout(60)
    return connection


def test_half_open_connections_do_not_stop_the_server(finished_run: Path):
    with serve_impatiently(finished_run) as address, contextlib.ExitStack() as stack:
        half_open = [stack.enter_context(connect(address)) for _ in range(80)]
        for connection in half_open:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1")
        assert fetch(address) == 503
        for connection in half_open:
            assert connection.recv(1) == b""
            connection.close()
        assert fetch(address) == 200


def test_clients_that_do_not_read_do_not_stop_the_server(finished_run: Path):
    with serve_impatiently(finished_run) as address, contextlib.ExitStack() as stack:
        host = address.removeprefix("http://").rstrip("/")
        request = f"GET /static/plotly.min.js HTTP/1.1\r\nHost: {host}\r\n\r\n"
        # Each is served: a connection beyond the limit would be closed.
        for _ in range(server._MOST_CONNECTIONS - 1):
            connection = stack.enter_context(connect(address))
            connection.sendall(request.encode())
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert fetch(address) == 503
        deadline_s = time.monotonic() + 60
        while fetch(address) == 503 and time.monotonic() < deadline_s:
            time.sleep(0.5)
        assert fetch(address) == 200


def test_next_free_port_is_taken():
    with _bind(ServerOptions()) as first, _bind(ServerOptions()) as second:
        ports = [taken.getsockname()[1] for taken in (first, second)]
    assert ports[0] < ports[1] < DEFAULT_PORT + 20


def test_taken_port_is_refused():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1:{port}: Address already"):
            _bind(ServerOptions(port=port))


def test_file_of_styles_that_is_not_valid_is_refused(invoke, finished_run, tmp_path):
    styles = tmp_path / "styles.toml"
    styles.write_text('[alpha]\ncolour = "blue"')
    answer = invoke("view", finished_run, "--no-open", "--styles", styles)
    assert answer.exit_code == 2
    assert "styles.toml: alpha.colour" in " ".join(answer.stderr.split())


def test_path_without_runs_is_refused(invoke, tmp_path):
    answer = invoke("view", tmp_path, "--no-open")
    assert answer.exit_code == 2
    assert "expected a run" in answer.stderr
