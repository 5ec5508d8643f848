"""How referee and agent talk when the agent has a process of its own.

Two pipes carry messages: four bytes of length, then MessagePack. Nothing is unpickled;
a message of the agent that is too long or not one of `REPLIES` is an error of the
agent. Observations travel beside the pipes in shared memory, which the referee writes
and never reads. It is sealed: the agent can neither resize it nor write to it.

A batch of percepts ends with a decision frame, because only the answers to those count.
So a round trip is paid once per decision. Whoever waits first polls the pipe for a
bounded time, if another core is free: being woken by the kernel takes longer than a
light agent takes to answer.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import select
import struct
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import numpy as np

from longplay.console.base import OBSERVATION_SHAPE, Observation
from longplay.errors import AgentError

# Frames that fit into the shared memory. A longer wait between two decisions is sent
# in several batches.
SLOTS = 32
_FRAME_BYTES = int(np.prod(OBSERVATION_SHAPE))

_LENGTH = struct.Struct("<I")
LARGEST_REQUEST_BYTES = 64 << 20
LARGEST_REPLY_BYTES = 4 << 20
# What is printed is sent in pieces of this length.
OUTPUT_CHARS = 64 * 1024
_READ_BYTES = 64 * 1024
# Long enough for the frames between two decisions.
SPIN_S = 0.001

# linux/fcntl.h; Python names all but the last.
_F_SEAL_FUTURE_WRITE = 0x0010


# --- what the referee asks --------------------------------------------------------


class Import(msgspec.Struct, tag=True):
    """Import the agent and say what it is."""


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
    """Frames in order; the answer to the last one is wanted."""

    percepts: list[SentPercept]
    # How long the agent may poll for the next batch, as long as another core is free.
    spin_s: float


class Ask(msgspec.Struct, tag=True):
    """Call one of the agent's optional methods: metrics, usage or close."""

    method: str


class Save(msgspec.Struct, tag=True):
    """Save the agent in a folder of its own."""

    directory: str


class Load(msgspec.Struct, tag=True):
    """Restore the agent from a folder of its own."""

    directory: str


Request = Import | Build | Batch | Ask | Save | Load


# --- what the agent's process answers ---------------------------------------------


class Output(msgspec.Struct, tag=True):
    """Something that the agent printed; the answer is still to come."""

    text: str


class Described(msgspec.Struct, tag=True):
    """What was imported."""

    name: str
    is_functional: bool
    is_predictor: bool
    revision: int | None = None


class Built(msgspec.Struct, tag=True):
    """What the agent that was built offers."""

    methods: list[str]
    looks_between_decisions: bool


class Answer(msgspec.Struct, tag=True):
    """The answer to the last frame of a batch."""

    value: int | float | None


class OddAnswer(msgspec.Struct, tag=True):
    """An answer that is neither an action nor a number, as it can be shown."""

    type_name: str
    text: str


class Numbers(msgspec.Struct, tag=True):
    """What a method returned."""

    values: dict[str, int | float]


class Failure(msgspec.Struct, tag=True):
    """Something was raised.

    Attributes:
        kind: `AgentError`, `AgentLoadError` or `LongplayError` for one of longplay's
            own, else "".
        type_name: The class of what was raised.
        message: Its text.
        description: Class, text and place, as errors show them.
        traceback: As it is written to agent_output.txt.
        cause: Of an AgentError: the class of the exception behind it.
        percept: Which percept of a batch it was; 0 otherwise.
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


def send_message(fd: int, message: Request | Reply) -> None:
    """Writes one message to a pipe.

    Raises:
        BrokenPipeError: There is no one at the other end.
    """
    body = _encode(message)
    view = memoryview(_LENGTH.pack(len(body)) + body)
    while view:
        view = view[os.write(fd, view) :]


class MessageReader(Generic[_Message]):
    """Reads messages of one kind from a pipe.

    Args:
        fd: The pipe; it is made non-blocking.
        kind: The union of messages that are expected.
        largest_bytes: A longer message is refused before it is read.
        watched: A second descriptor; once it can be read, waiting ends.
    """

    def __init__(
        self, fd: int, kind: Any, largest_bytes: int, watched: int | None = None
    ) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._decode: Callable[[bytes], _Message] = msgspec.msgpack.Decoder(kind).decode
        self._largest_bytes = largest_bytes
        self._buffer = bytearray()
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
            AgentError: What came is no message.
        """
        spin_until_s = perf_counter() + spin_s if spin_s else 0.0
        while True:
            message = self._take()
            if message is not None:
                return message
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                if spin_until_s and perf_counter() < spin_until_s:
                    continue
                if not self._wait(deadline_s):
                    return None
                continue
            if not data:
                return None
            self._buffer += data

    def _wait(self, deadline_s: float | None) -> bool:
        """Whether there is something to be read."""
        timeout_ms = None
        if deadline_s is not None:
            timeout_ms = max(0.0, deadline_s - monotonic()) * 1000
        ready = self._poll.poll(timeout_ms)
        if not ready:
            raise TimeoutError
        # What was sent before the end is still read.
        return any(fd == self._fd for fd, _ in ready)

    def _take(self) -> _Message | None:
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
                f"the agent's process sent what is no message: {error}"
            ) from error


class FrameWriter:
    """The referee's side of the shared memory: writes, and cannot be made to read."""

    size_bytes: ClassVar[int] = SLOTS * _FRAME_BYTES

    def __init__(self) -> None:
        flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
        self.fd = os.memfd_create("longplay-frames", flags)
        os.ftruncate(self.fd, self.size_bytes)
        self._memory = mmap.mmap(self.fd, self.size_bytes)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals | _F_SEAL_FUTURE_WRITE)
        frames: Observation = np.frombuffer(self._memory, np.uint8)
        self._slots = list(frames.reshape(SLOTS, *OBSERVATION_SHAPE))

    def write(self, slot: int, observation: Observation) -> None:
        """Puts an observation into a slot."""
        self._slots[slot][...] = observation

    def close(self) -> None:
        """Gives the memory back."""
        self._slots = []
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class FrameReader:
    """The agent's side of the shared memory; takes the descriptor over."""

    def __init__(self, fd: int) -> None:
        memory = mmap.mmap(fd, FrameWriter.size_bytes, prot=mmap.PROT_READ)
        os.close(fd)  # the mapping has one of its own
        frames: Observation = np.frombuffer(memory, np.uint8)
        self._slots = list(frames.reshape(SLOTS, *OBSERVATION_SHAPE))

    def read(self, slot: int) -> Observation:
        """An observation, in an array that is the agent's own."""
        return self._slots[slot].copy()
