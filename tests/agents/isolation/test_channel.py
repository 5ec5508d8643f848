"""Messages, invalid messages, and the shared memory."""

from __future__ import annotations

import fcntl
import mmap
import os
import struct
from collections.abc import Iterator
from time import monotonic

import msgspec
import numpy as np
import pytest

from longplay.agents.isolation import channel
from longplay.agents.isolation.channel import Answer, Failure, Output, Reply
from longplay.errors import AgentError

Reader = channel.MessageReader[Reply]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    for fd in (read, write):
        try:
            os.close(fd)
        except OSError:
            continue


def test_messages_arrive_in_order_and_whole(pipe: tuple[int, int]) -> None:
    read, write = pipe
    reader = Reader(read, Reply, 1 << 20)
    sent: list[Reply] = [Answer(3), Answer(0.5), Output("x" * 30_000), Answer(None)]
    for message in sent:
        channel.send_message(write, message)
    assert [reader.read() for _ in sent] == sent
    os.close(write)
    assert reader.read() is None


def test_message_in_pieces(pipe: tuple[int, int]) -> None:
    read, write = pipe
    reader = Reader(read, Reply, 1 << 20)
    body = msgspec.msgpack.encode(Answer(7))
    data = struct.pack("<I", len(body)) + body
    for byte in data[:-1]:
        os.write(write, bytes([byte]))
        with pytest.raises(TimeoutError):
            reader.read(deadline_s=monotonic())
    os.write(write, data[-1:])
    assert reader.read() == Answer(7)


def framed(body: bytes) -> bytes:
    return struct.pack("<I", len(body)) + body


BAD_MESSAGES = [
    (struct.pack("<I", 0xFFFFFFFF), "sent a message of 4,294,967,295 bytes; expected"),
    (framed(b""), "sent an invalid message"),
    (framed(b"\xc1"), "sent an invalid message"),
    (framed(b"\x93\x01\x02"), "sent an invalid message"),
    (
        framed(msgspec.msgpack.encode({"type": "Answer", "value": "3"})),
        "invalid message",
    ),
    (
        framed(msgspec.msgpack.encode({"type": "Answer", "value": [1]})),
        "invalid message",
    ),
    (
        framed(msgspec.msgpack.encode({"type": "Batch", "percepts": []})),
        "invalid message",
    ),
    (framed(msgspec.msgpack.encode({"type": "os.system"})), "invalid message"),
    (framed(b"\x91" * 50_000), "invalid message"),
    (framed(b"\x82\xa4type\xa6Output\xa4text\xa2\xff\xfe"), "invalid message"),
]


@pytest.mark.parametrize(("data", "message"), BAD_MESSAGES)
def test_bad_message_is_the_agents_error(
    data: bytes, message: str, pipe: tuple[int, int]
) -> None:
    read, write = pipe
    reader = Reader(read, Reply, 1 << 20)
    os.write(write, data)
    with pytest.raises(AgentError, match=message):
        reader.read(deadline_s=monotonic() + 1)


def test_message_sent_before_the_end_is_read(pipe: tuple[int, int]) -> None:
    read, write = pipe
    ended, other = os.pipe()
    reader = Reader(read, Reply, 1 << 20, watched=ended)
    channel.send_message(write, Answer(1))
    os.close(other)
    assert reader.read() == Answer(1)
    assert reader.read() is None
    os.close(ended)


def test_failure_is_sent_and_received() -> None:
    failure = Failure(
        "", "KeyError", "'x'", "KeyError: 'x' (a.py:3)", "Trace…", None, 2
    )
    body = msgspec.msgpack.encode(failure)
    assert msgspec.msgpack.decode(body, type=Reply) == failure


def test_frames_are_shared_and_copied() -> None:
    writer = channel.FrameWriter()
    reader = channel.FrameReader(os.dup(writer.fd))
    frame = np.random.default_rng(0).integers(0, 256, (210, 160, 3), np.uint8)
    writer.slots[31][...] = frame
    got = reader.read(31)
    assert (got == frame).all()
    got[:] = 0  # the agent's own
    assert (reader.read(31) == frame).all()
    writer.close()


def test_shared_memory_can_be_neither_resized_nor_written_by_others() -> None:
    writer = channel.FrameWriter()
    fd = os.dup(writer.fd)
    for size in (0, 1 << 30):
        with pytest.raises(PermissionError):
            os.ftruncate(fd, size)
    with pytest.raises(PermissionError):
        os.write(fd, b"x")
    with pytest.raises(PermissionError):
        mmap.mmap(fd, writer.size_bytes)
    with pytest.raises(PermissionError):
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, 0)
    writer.slots[0][...] = 1
    os.close(fd)
    writer.close()
