"""A seccomp filter that denies system calls which a sandboxed agent does not need.

Landlock covers files and TCP. This filter covers the rest: sockets of any kind (except
socket pairs, which stay local), other processes' memory, io_uring, which would bypass
the filter, and kernel interfaces with a history of vulnerabilities. A denied call fails
with EPERM. On an unknown architecture there is no filter, and `install_filter` returns
False.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

from longplay.agents.isolation.landlock import SandboxError

_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER = 22, 2
_RETURN_ALLOW, _RETURN_ERRNO, _RETURN_KILL = 0x7FFF0000, 0x00050000, 0x80000000
# Classic BPF: load a word, jump if equal or at least, return.
_LOAD, _JUMP_EQUAL, _JUMP_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_OFFSET_NUMBER, _OFFSET_ARCH = 0, 4
_X32_BIT = 0x40000000

# Calls with the same number on all architectures, as for all since Linux 5.1.
_COMMON = {
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "pidfd_getfd": 438,
    "process_madvise": 440,
}
# Architecture -> its audit number, and the numbers of its calls.
_ARCHITECTURES = {
    "x86_64": (
        0xC000003E,
        {
            "socket": 41,
            "ptrace": 101,
            "add_key": 248,
            "request_key": 249,
            "keyctl": 250,
            "perf_event_open": 298,
            "process_vm_readv": 310,
            "process_vm_writev": 311,
            "kcmp": 312,
            "bpf": 321,
            "userfaultfd": 323,
        },
    ),
    "aarch64": (
        0xC00000B7,
        {
            "socket": 198,
            "ptrace": 117,
            "add_key": 217,
            "request_key": 218,
            "keyctl": 219,
            "perf_event_open": 241,
            "process_vm_readv": 270,
            "process_vm_writev": 271,
            "kcmp": 272,
            "bpf": 280,
            "userfaultfd": 282,
        },
    ),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def install_filter() -> bool:
    """Denies the calls permanently, to this process and its descendants.

    `forbid_new_privileges` must have been called.

    Returns:
        Whether there is a filter for this architecture.

    Raises:
        SandboxError: The kernel refused the filter.
    """
    known = _ARCHITECTURES.get(platform.machine())
    if known is None:
        return False
    arch, numbers = known
    code = _assemble(arch, sorted({**_COMMON, **numbers}.values()))
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    if libc.prctl(_PR_SET_SECCOMP, mode, ctypes.byref(program), 0, 0) != 0:
        raise SandboxError(f"PR_SET_SECCOMP: {os.strerror(ctypes.get_errno())}")
    return True


def _assemble(arch: int, denied: list[int]) -> bytes:
    """The filter as the kernel reads it: 8 bytes for each instruction."""
    deny = _RETURN_ERRNO | errno.EPERM
    instructions = [
        (_LOAD, 0, 0, _OFFSET_ARCH),
        (_JUMP_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _RETURN_KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        # The x32 calls of x86-64 have their own numbers.
        (_JUMP_AT_LEAST, len(denied) + 1, 0, _X32_BIT),
    ]
    for index, number in enumerate(denied):
        instructions.append((_JUMP_EQUAL, len(denied) - index, 0, number))
    instructions += [(_RETURN, 0, 0, _RETURN_ALLOW), (_RETURN, 0, 0, deny)]
    return b"".join(struct.pack("=HBBI", *each) for each in instructions)
