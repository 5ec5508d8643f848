"""What the filter answers on both of its architectures, evaluated like the kernel."""

from __future__ import annotations

import errno
import struct
from collections.abc import Sequence

import pytest

from longplay.agents.isolation import seccomp

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOWED, KILLED, KEEPER = 0x7FFF0000, 0x80000000, 0x7FC00000
NO_EFFECT, EPERM, ENOSYS, EOPNOTSUPP = (
    0x50000 | number for number in (0, errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP)
)


def evaluate(machine: str, number: int, *arguments: int, arch: int = 0) -> int:
    """Runs the filter on a system call."""
    arch = arch or ARCHITECTURES[machine]
    given = [*arguments, *(0,) * (6 - len(arguments))]
    data = struct.pack("<iIQ6Q", number, arch, 0, *given)
    code = list(struct.iter_unpack("=HBBI", seccomp.assemble(machine)))
    place = word = 0
    while True:
        operation, if_true, if_false, value = code[place]
        place += 1
        if operation == 0x06:
            return int(value)
        if operation == 0x20:
            (word,) = struct.unpack_from("<I", data, value)
        elif operation == 0x54:
            word &= value
        elif operation == 0x05:
            place += value
        else:
            is_met = word == value if operation == 0x15 else word >= value
            place += if_true if is_met else if_false


def answer(machine: str, call: str, *arguments: int) -> int | None:
    number = seccomp.find_number(call, machine)
    return None if number is None else evaluate(machine, number, *arguments)


POINTER = 0x7FFF_0000_1000
ANSWERS: list[tuple[str, Sequence[int], int]] = [
    ("chmod", (POINTER, 0o700), NO_EFFECT),
    ("fchmodat2", (0, POINTER, 0o700), NO_EFFECT),
    ("utimensat", (0, POINTER, POINTER), NO_EFFECT),
    ("utimensat", (0, POINTER, 0), EPERM),
    ("shmget", (1, 4096), EPERM),
    ("setxattr", (POINTER,), EPERM),
    ("getxattr", (POINTER, POINTER), EOPNOTSUPP),
    ("flistxattr", (3, POINTER), EOPNOTSUPP),
    ("syslog", (3, POINTER, 4096), EPERM),
    ("open_by_handle_at", (3, POINTER), EPERM),
    ("memfd_create", (POINTER,), EPERM),
    ("socket", (1, 1), EPERM),
    ("connect", (3, POINTER), EPERM),
    ("socketpair", (1, 1), ALLOWED),
    ("socketpair", (1, 1 | 0o2000000), ALLOWED),  # SOCK_CLOEXEC
    ("socketpair", (1, 2), EPERM),  # datagrams
    ("socketpair", (30, 1), EPERM),  # TIPC
    ("mmap", (0, 4096, 3, 0x22), ALLOWED),  # private and anonymous
    ("mmap", (0, 4096, 1, 0x01, 5), ALLOWED),  # a shared file
    ("mmap", (0, 4096, 3, 0x21), EPERM),
    ("mmap", (0, 4096, 3, 0x23), EPERM),  # MAP_SHARED_VALIDATE
    ("prctl", (15, POINTER), ALLOWED),
    ("prctl", (4, 0), EPERM),
    ("clone", (0x3D0F00,), ALLOWED),  # a thread
    ("clone", (0x4111,), KEEPER),  # as vfork
    ("fork", (), KEEPER),
    ("vfork", (), KEEPER),
    ("clone", (0x10000011,), EPERM),
    ("fcntl", (3, 1), ALLOWED),
    ("fcntl", (3, 1024, 0), EPERM),
    ("ioctl", (3, 0x5401), ALLOWED),
    ("ioctl", (3, 0x40086602), EOPNOTSUPP),
    ("clone3", (POINTER,), ENOSYS),
    ("preadv2", (3,), ENOSYS),
    ("io_setup", (1, POINTER), ENOSYS),
    ("kill", (0, 9), ALLOWED),
    ("kill", (1234, 9), KEEPER),
    ("kill", (2**32, 9), ALLOWED),  # the kernel reads 32 bits of it
    ("prlimit64", (1234, 7), KEEPER),
    ("setpriority", (0, 1234), KEEPER),
    ("setpriority", (2, 0), EPERM),
]


@pytest.mark.parametrize("machine", ARCHITECTURES)
@pytest.mark.parametrize(("call", "arguments", "expected"), ANSWERS)
def test_call_is_answered(
    machine: str, call: str, arguments: Sequence[int], expected: int
) -> None:
    assert answer(machine, call, *arguments) in (expected, None)


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_other_calls(machine: str) -> None:
    read = {"x86_64": 0, "aarch64": 63}[machine]
    assert evaluate(machine, read, 3, POINTER, 1) == ALLOWED
    for newer in (451, 463, 10_000):
        assert evaluate(machine, newer) == ENOSYS
    assert evaluate(machine, 0x40000000 | read) == EPERM  # x32
    assert evaluate(machine, read, arch=0x40000003) == KILLED  # 32 bits


@pytest.mark.parametrize("machine", ARCHITECTURES)
def test_every_denied_call_is_denied(machine: str) -> None:
    for call in seccomp._DENIED:
        assert answer(machine, call) in (EPERM, None), call
