"""The messages between referee and agent when the agent has its own process.

Two pipes carry messages: four bytes of length, then MessagePack. Nothing is unpickled;
a message from the agent that is too long or not one of `Reply` is an error of the
agent. Observations are passed in shared memory, which the referee writes and never
reads. It is sealed: the agent can neither resize it nor write to it. Frames that the
agent is to see after its next decision are not there yet.

A batch of percepts ends with a decision frame, because only the answers to those count.
So there is one round trip per decision. A side that waits polls the pipe for a bounded
time first, if another core is free: a wake-up by the kernel takes longer than the
answer of a fast agent.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import struct
import termios
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import numpy as np

from longplay.console.base import OBSERVATION_SHAPE, Observation
from longplay.errors import AgentError

# More frames between two decisions are sent in several batches.
LONGEST_BATCH = 16
# Frames in the shared memory. They rotate: a core writes faster where the other has not
# just read.
SLOTS = 2 * LONGEST_BATCH
_FRAME_BYTES = int(np.prod(OBSERVATION_SHAPE))

_LENGTH = struct.Struct("<I")
LARGEST_REQUEST_BYTES = 64 << 20
LARGEST_REPLY_BYTES = 4 << 20
# Printed text is sent in pieces of this length.
OUTPUT_CHARS = 64 * 1024
_READ_BYTES = 4096
# Long enough for the frames between two decisions.
SPIN_S = 0.001

_NO_BYTES = bytes(4)
# linux/fcntl.h; Python names all but the last.
_F_SEAL_FUTURE_WRITE = 0x0010


# --- requests of the referee ------------------------------------------------------


class Import(msgspec.Struct, tag=True):
    """Import the agent and describe it."""


class Build(msgspec.Struct, tag=True):
    """Build the agent; without a number of actions, as a predictor."""

    num_actions: int | None
    seed: int


class SentPercept(msgspec.Struct, array_like=True):
    """A percept whose observation is in a slot of the shared memory, if it has one."""

    slot: int | None
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Batch(msgspec.Struct, tag=True):
    """Frames in order; the reply is the answer to the last one."""

    percepts: list[SentPercept]
    # How long the agent may poll for the next batch, as long as another core is free.
    spin_s: float


class Ask(msgspec.Struct, tag=True):
    """Call one of the agent's optional methods without arguments."""

    method: str


class Save(msgspec.Struct, tag=True):
    """Save the agent in a new folder."""

    directory: str


class Load(msgspec.Struct, tag=True):
    """Restore the agent from a folder."""

    directory: str


Request = Import | Build | Batch | Ask | Save | Load


# --- replies of the agent's process -----------------------------------------------


class Output(msgspec.Struct, tag=True):
    """Text that the agent printed; the reply itself follows."""

    text: str


class Described(msgspec.Struct, tag=True):
    """A description of the imported agent."""

    name: str
    is_functional: bool
    is_predictor: bool
    revision: int | None = None


class Built(msgspec.Struct, tag=True):
    """The optional methods and settings of the agent that was built."""

    methods: list[str]
    looks_between_decisions: bool


class Answer(msgspec.Struct, tag=True):
    """The answer to the last frame of a batch."""

    value: int | float | None


class OddAnswer(msgspec.Struct, tag=True):
    """An answer that is neither an action nor a number, as text."""

    type_name: str
    text: str


class Numbers(msgspec.Struct, tag=True):
    """The return value of a method."""

    values: dict[str, int | float | None]


class Failure(msgspec.Struct, tag=True):
    """An exception was raised.

    Attributes:
        kind: `AgentError`, `AgentLoadError` or `LongplayError` for one of longplay's
            own exceptions, else "".
        type_name: The class of the exception.
        message: Its text.
        description: Class, text and place, as errors show them.
        traceback: The text for agent_output.txt.
        cause: For an AgentError, the class of the exception that caused it.
        percept: Index of the percept in its batch; 0 otherwise.
    """

    kind: str
    type_name: str
    message: str
    description: str
    traceback: str
    cause: str | None = None
    percept: int = 0


Reply = Output | Described | Built | Answer | OddAnswer | Numbers | Failure

_encode = msgspec.msgpack.Encoder().encode
_Message = TypeVar("_Message")


def send_message(
    fd: int,
    message: Request | Reply,
    deadline_s: float | None = None,
    watched: int | None = None,
) -> None:
    """Writes one message to a pipe.

    Args:
        fd: The pipe; only a non-blocking one has a deadline.
        message: The message.
        deadline_s: When to give up, by the monotonic clock.
        watched: A second descriptor; waiting ends when it becomes readable.

    Raises:
        AgentError: Earlier messages fill the pipe.
        BrokenPipeError: The other end is closed, or the watched descriptor ended.
        TimeoutError: The deadline has passed.
    """
    body = _encode(message)
    data = _LENGTH.pack(len(body)) + body
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(fd, view) :]
        except BlockingIOError:
            if len(view) == len(data):
                raise AgentError(
                    "the agent's process has answered requests that it did not read"
                ) from None
            poll = select.poll()
            poll.register(fd, select.POLLOUT)
            if watched is not None:
                poll.register(watched, select.POLLIN)
            if all(ready != fd for ready, _ in _poll(poll, deadline_s)):
                raise BrokenPipeError from None


def is_empty(fd: int) -> bool:
    """Whether everything in a pipe has been read; for either end."""
    # The kernel answers with a number of bytes.
    return fcntl.ioctl(fd, termios.FIONREAD, _NO_BYTES) == _NO_BYTES


def _poll(poll: select.poll, deadline_s: float | None) -> list[tuple[int, int]]:
    """Waits for a descriptor, until the deadline."""
    timeout_ms = None
    if deadline_s is not None:
        timeout_ms = (deadline_s - monotonic()) * 1000
        # A stream of single bytes must not move the deadline.
        if timeout_ms <= 0:
            raise TimeoutError
    ready = poll.poll(timeout_ms)
    if not ready:
        raise TimeoutError
    return ready


class MessageReader(Generic[_Message]):
    """Reads messages of one kind from a pipe.

    Args:
        fd: The pipe; it is made non-blocking.
        kind: The union of expected messages.
        largest_bytes: A longer message is refused before it is read.
        watched: A second descriptor; waiting ends when it becomes readable.

    Attributes:
        has_waited: Whether the last message came after it was asked for.
    """

    def __init__(
        self, fd: int, kind: Any, largest_bytes: int, watched: int | None = None
    ) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._decode: Callable[[bytes], _Message] = msgspec.msgpack.Decoder(kind).decode
        self._largest_bytes = largest_bytes
        self._buffer = bytearray()
        self.has_waited = False
        self._poll = select.poll()
        for each in (fd, watched):
            if each is not None:
                self._poll.register(each, select.POLLIN)

    def read(
        self, spin_s: float = 0.0, deadline_s: float | None = None
    ) -> _Message | None:
        """The next message; None if the pipe or the watched descriptor ended.

        Args:
            spin_s: How long to poll before waiting for the kernel.
            deadline_s: When to give up, by the monotonic clock.

        Raises:
            TimeoutError: The deadline has passed.
            AgentError: The data is not a valid message.
        """
        spin_until_s = perf_counter() + spin_s if spin_s else 0.0
        self.has_waited = False
        while True:
            message = self.take()
            if message is not None:
                return message
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                self.has_waited = True
                if spin_until_s and perf_counter() < spin_until_s:
                    continue
                if not self._wait(deadline_s):
                    return None
                continue
            if not data:
                return None
            self._buffer += data

    def _wait(self, deadline_s: float | None) -> bool:
        """Waits; returns whether the pipe is readable."""
        # Data that was sent before the end is still read.
        return any(fd == self._fd for fd, _ in _poll(self._poll, deadline_s))

    def take(self) -> _Message | None:
        """The next message, if it was read together with an earlier one.

        Raises:
            AgentError: The data is not a valid message.
        """
        buffer = self._buffer
        if len(buffer) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(buffer)
        if length > self._largest_bytes:
            raise AgentError(
                f"the agent's process sent a message of {length:,} bytes; expected at "
                f"most {self._largest_bytes:,}"
            )
        end = _LENGTH.size + length
        if len(buffer) < end:
            return None
        body = bytes(memoryview(buffer)[_LENGTH.size : end])
        del buffer[:end]
        try:
            return self._decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise AgentError(
                f"the agent's process sent an invalid message: {error}"
            ) from error


class FrameWriter:
    """The referee's side of the shared memory: writes, and never reads.

    Attributes:
        slots: Arrays for one observation each.
    """

    size_bytes: ClassVar[int] = SLOTS * _FRAME_BYTES

    def __init__(self) -> None:
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self.fd = os.memfd_create("longplay-frames", flags)
        os.ftruncate(self.fd, self.size_bytes)
        self._memory = mmap.mmap(self.fd, self.size_bytes)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals | _F_SEAL_FUTURE_WRITE)
        frames: Observation = np.frombuffer(self._memory, np.uint8)
        self.slots = list(frames.reshape(SLOTS, *OBSERVATION_SHAPE))

    def close(self) -> None:
        """Releases the memory."""
        self.slots.clear()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class FrameReader:
    """The agent's side of the shared memory; takes ownership of the descriptor."""

    def __init__(self, fd: int) -> None:
        memory = mmap.mmap(fd, FrameWriter.size_bytes, prot=mmap.PROT_READ)
        os.close(fd)  # the mapping has its own
        frames: Observation = np.frombuffer(memory, np.uint8)
        self._slots = list(frames.reshape(SLOTS, *OBSERVATION_SHAPE))

    def read(self, slot: int) -> Observation:
        """An observation, in a new array for the agent."""
        return self._slots[slot].copy()
