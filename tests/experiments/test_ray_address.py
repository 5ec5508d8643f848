"""Addresses where Ray does not answer: an error within 15 s, and nothing written."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from longplay.errors import ConfigError
from longplay.experiments.job import Needs, RayPlace
from longplay.experiments.ray_pool import RayPool, _describe_node

HTTP = b"HTTP/1.0 400 Bad Request\r\n\r\n"


@pytest.fixture(params=[None, b"", HTTP], ids=["closed", "silent", "http"])
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """A port that is closed, that says nothing, and of another server."""
    server = socket.create_server(("", 0))
    port = server.getsockname()[1]
    kept = []

    def answer() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            kept.append(connection)
            connection.sendall(request.param)

    if request.param is None:
        server.close()
    else:
        threading.Thread(target=answer, daemon=True).start()
    yield f"127.0.0.1:{port}"
    server.close()
    for connection in kept:
        connection.close()


def test_an_address_without_ray_is_refused_soon(address):
    started_s = time.monotonic()
    with pytest.raises(ConfigError, match=f"cannot reach Ray at {address}"):
        RayPool(RayPlace(address=address)).__enter__()
    assert time.monotonic() - started_s < 15


def test_nothing_is_written_then(tmp_path: Path, invoke):
    with socket.create_server(("", 0)) as server:
        port = server.getsockname()[1]
    answer = invoke(
        *("run", "stream-smoke-v1", "--agent", "random", "--out", tmp_path / "out"),
        *("--ray-address", f"127.0.0.1:{port}"),
    )
    assert answer.exit_code == 2
    assert "cannot reach Ray at" in answer.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--cpus", 2), "--cpus: expected --ray or --ray-address as well"),
        (("--gpus", 1), "--gpus: expected --ray or --ray-address as well"),
        (("--ray", 1, "--cpus", 0), "--cpus: expected a number above 0, found 0.0"),
        (("--ray", 1, "--memory-gb", "nan"), "--memory-gb: expected a number above 0"),
    ],
)
def test_wrong_needs_are_refused(tmp_path, invoke, options, message):
    command = ("run", "stream-smoke-v1", "--agent", "random", "--out", tmp_path / "out")
    answer = invoke(*command, *options)
    assert answer.exit_code == 2
    assert message in " ".join(answer.stderr.split())
    assert not (tmp_path / "out").exists()


@pytest.mark.exhaustive  # starts Ray
def test_needs_that_no_node_meets_are_refused(tmp_path, invoke):
    command = ("run", "stream-smoke-v1", "--agent", "random", "--out", tmp_path / "out")
    answer = invoke(*command, "--ray", 1, "--gpus", 64)
    assert answer.exit_code == 2
    assert "a run needs 1 CPU, 64 GPUs, and no node of this Ray has that" in " ".join(
        answer.stderr.split()
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("needs", "text"),
    [
        (Needs(), "1 CPU"),
        (Needs(2.0, 1.0, 8.0), "2 CPUs, 1 GPU, 8 GB"),
        (Needs(0.5, 0.25), "0.5 CPUs, 0.25 GPUs"),
    ],
)
def test_needs_in_words(needs, text):
    assert str(needs) == text


def test_what_a_node_has_is_said_in_the_units_of_the_options():
    needs = Needs(4, 1, memory_gb=8)
    assert _describe_node(needs.resources) == str(needs) == "4 CPUs, 1 GPU, 8 GB"
