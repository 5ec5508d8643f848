"""A seccomp filter: the system calls that a sandboxed agent does not get.

Landlock covers the content of files, TCP and, from ABI 6 on, signals. This filter
covers what else connects an agent with other processes or with its earlier lives:

    without effect   modes, owners and times of files: `shutil` and `tempfile` set them
                     for no need, but any file of the user could keep a message in them
    EPERM            sockets (pairs of streams stay local; datagrams can be sent to
                     any address), System V and POSIX IPC, setting extended attributes,
                     watches and leases of files, handles of files and processes,
                     anonymous files, new namespaces, other processes' memory, the
                     kernel's log, io_uring, which would bypass the filter, and
                     interfaces with a history of vulnerabilities
    EOPNOTSUPP       reading extended attributes, also of files that Landlock hides:
                     `shutil` does without them after this error
    ENOSYS           calls with structures that a filter cannot read, and all calls that
                     are newer than this table: programs fall back to older ones

A filter sees numbers, not paths, so the rules hold for the agent's own files too. It
cannot know either which processes are the agent's: a call that names one, to send a
signal or to set its priority, waits until the keeper has decided by a `Listener`. So
does a call that makes a process: at the end the keeper lets none pass, and kills all.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from longplay.agents.isolation.landlock import SandboxError

_SET_MODE_FILTER = 1
# A descriptor for the keeper; a call that it has seen is interrupted by SIGKILL only.
_FILTER_FLAGS = 1 << 3 | 1 << 5
_RETURN_ALLOW, _RETURN_ERRNO, _RETURN_KILL = 0x7FFF0000, 0x00050000, 0x80000000
_RETURN_NOTIFY = 0x7FC00000
_NO_EFFECT = _RETURN_ERRNO  # error 0
_NOT_PERMITTED = _RETURN_ERRNO | errno.EPERM
_NOT_SUPPORTED = _RETURN_ERRNO | errno.EOPNOTSUPP
_UNKNOWN = _RETURN_ERRNO | errno.ENOSYS
# Classic BPF: load a word, mask it, jump always, if equal or if at least, return.
_LOAD, _AND, _JUMP, _JUMP_EQUAL, _JUMP_AT_LEAST = 0x20, 0x54, 0x05, 0x15, 0x35
_RETURN = 0x06
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENTS = 0, 4, 16
_X32_BIT = 0x40000000
# From here on calls are unknown to this table, even if named in it.
_FIRST_UNKNOWN = 451

# Architecture -> its audit number, its column in the table of calls, and its number of
# the call seccomp.
_ARCHITECTURES = {"x86_64": (0xC000003E, 0, 317), "aarch64": (0xC00000B7, 1, 277)}
# Call -> its number on x86-64 and on ARM; one number for all since Linux 5.1.
_CALLS: Mapping[str, tuple[int | None, int | None] | int] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "getxattr": (191, 8),
    "lgetxattr": (192, 9),
    "fgetxattr": (193, 10),
    "listxattr": (194, 11),
    "llistxattr": (195, 12),
    "flistxattr": (196, 13),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "inotify_add_watch": (254, 27),
    "inotify_rm_watch": (255, 28),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "memfd_create": (319, 279),
    "memfd_secret": 447,
    "mincore": (27, 232),
    "unshare": (272, 97),
    "setns": (308, 268),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "syslog": (103, 116),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": 440,
    "process_mrelease": 448,
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "pidfd_getfd": 438,
    "kcmp": (312, 272),
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "perf_event_open": (298, 241),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": 452,
    "chown": (92, None),
    "fchown": (93, 55),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "utimensat": (280, 88),
    "fork": (57, None),
    "vfork": (58, None),
    "clone": (56, 220),
    "clone3": 435,
    "preadv2": (327, 286),
    "io_setup": (206, 0),
    "io_submit": (209, 2),
    "io_getevents": (208, 4),
    "prctl": (157, 167),
    "mmap": (9, 222),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": 434,
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
}
# Calls that name a process or thread -> which argument does.
_NAMING = {
    **dict.fromkeys(("kill", "tkill", "tgkill", "pidfd_open", "prlimit64"), 0),
    **dict.fromkeys(("rt_sigqueueinfo", "rt_tgsigqueueinfo"), 0),
    **dict.fromkeys(("sched_setaffinity", "sched_setscheduler"), 0),
    **dict.fromkeys(("sched_setparam", "sched_setattr"), 0),
    **dict.fromkeys(("setpriority", "ioprio_set"), 1),
}
_FORKING = ("fork", "vfork", "clone")
_WITHOUT_EFFECT = (
    *("chmod", "fchmod", "fchmodat", "fchmodat2"),
    *("chown", "fchown", "lchown", "fchownat"),
    *("utime", "utimes", "futimesat", "utimensat"),
)
_NOT_READABLE = (
    *("getxattr", "lgetxattr", "fgetxattr"),
    *("listxattr", "llistxattr", "flistxattr"),
)
# clone3 takes its flags in a structure; preadv2 and asynchronous reads say what is in
# the page cache.
_MISSING = ("clone3", "preadv2", "io_setup", "io_submit", "io_getevents")
# Flags of clone that make a namespace, or a thread.
_NEW_NAMESPACE, _NEW_THREAD = 0x7E020000, 0x10000
# fcntl: hints that the kernel keeps with a file as long as it is cached, signals to the
# owner of a file, leases, which hold up others who open a file, and watches.
_FCNTLS = (1036, 1038, 8, 10, 15, 1024, 1026)
# ioctl, by the second byte of its number: flags, attributes and versions of files,
# shared blocks, and owners of sockets. They need no more than an open descriptor.
_IOCTL_GROUP = 0xFF00
_IOCTLS = (ord("f") << 8, ord("X") << 8, ord("v") << 8, 0x94 << 8, 0x89 << 8)
# socketpair: local streams and packets. Datagrams could be sent to any address.
_AF_UNIX, _SOCKET_TYPES, _SOCKET_TYPE_MASK = 1, (1, 5), 0xF
# mmap: shared memory without a file stays allocated when it is no longer mapped, where
# no limit counts it.
_SHARED_ANONYMOUS = 0x21
# prctl: the keeper reads the descriptors of the agent's processes.
_PR_SET_DUMPABLE = 4
# setpriority and ioprio_set: one process, not a group or all of the user's.
_PRIO_PROCESS, _IOPRIO_WHO_PROCESS = 0, 1

_Instruction = tuple[int, int, int, int]


class _Condition(NamedTuple):
    """Allows a call by 32 bits of one of its arguments.

    Attributes:
        argument: Which one, from 0.
        values: What it is compared with.
        is_allowed: Whether these values are allowed, or all others.
        refusal: How the call is answered otherwise.
        mask: The bits that are compared.
    """

    argument: int
    values: Sequence[int]
    is_allowed: bool
    refusal: int = _NOT_PERMITTED
    mask: int = 0xFFFFFFFF


# A null pointer stands for now: `Path.touch` makes the file if that fails.
_SAYS_WHEN = _Condition(1, (0,), False)
_CONDITIONS: Mapping[str, tuple[_Condition, ...]] = {
    "fork": (_Condition(0, (), True, _RETURN_NOTIFY),),
    "vfork": (_Condition(0, (), True, _RETURN_NOTIFY),),
    "clone": (
        _Condition(0, (0,), True, mask=_NEW_NAMESPACE),
        _Condition(0, (_NEW_THREAD,), True, _RETURN_NOTIFY, _NEW_THREAD),
    ),
    "fcntl": (_Condition(1, _FCNTLS, False),),
    # Copying a file falls back to reading and writing it after this error.
    "ioctl": (_Condition(1, _IOCTLS, False, _NOT_SUPPORTED, _IOCTL_GROUP),),
    "socketpair": (
        _Condition(0, (_AF_UNIX,), True),
        _Condition(1, _SOCKET_TYPES, True, mask=_SOCKET_TYPE_MASK),
    ),
    "mmap": (_Condition(3, (_SHARED_ANONYMOUS,), False, mask=_SHARED_ANONYMOUS),),
    "prctl": (_Condition(0, (_PR_SET_DUMPABLE,), False),),
    "utime": (_SAYS_WHEN,),
    "utimes": (_SAYS_WHEN,),
    "futimesat": (_SAYS_WHEN._replace(argument=2),),
    "utimensat": (_SAYS_WHEN._replace(argument=2),),
    # 0 stands for the caller.
    **{
        name: (_Condition(argument, (0,), True, _RETURN_NOTIFY),)
        for name, argument in _NAMING.items()
    },
    "setpriority": (
        _Condition(0, (_PRIO_PROCESS,), True),
        _Condition(1, (0,), True, _RETURN_NOTIFY),
    ),
    "ioprio_set": (
        _Condition(0, (_IOPRIO_WHO_PROCESS,), True),
        _Condition(1, (0,), True, _RETURN_NOTIFY),
    ),
}
_DENIED = tuple(
    set(_CALLS).difference(_WITHOUT_EFFECT, _NOT_READABLE, _MISSING, _CONDITIONS)
)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def check_available() -> None:
    """Checks that there is a filter for this machine.

    Raises:
        SandboxError: Its architecture has no table of system calls here.
    """
    if platform.machine() not in _ARCHITECTURES:
        raise SandboxError(
            f"a sandbox needs a seccomp filter, which exists for "
            f"{' and '.join(_ARCHITECTURES)}; found {platform.machine()}"
        )


def install_filter() -> int:
    """Installs the filter for good, for this process and its descendants.

    `forbid_new_privileges` must have been called.

    Returns:
        The descriptor of a `Listener`.

    Raises:
        SandboxError: There is no filter for this machine, or the kernel refused it;
            the process must end.
    """
    check_available()
    code = assemble(platform.machine())
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    listener: int = ctypes.CDLL(None, use_errno=True).syscall(
        ctypes.c_long(_ARCHITECTURES[platform.machine()][2]),
        ctypes.c_uint(_SET_MODE_FILTER),
        ctypes.c_uint(_FILTER_FLAGS),
        ctypes.byref(program),
    )
    if listener < 0:
        raise SandboxError(
            "a sandbox needs a seccomp filter, which the kernel refused: "
            f"{os.strerror(ctypes.get_errno())}"
        )
    return listener


class Listener:
    """Decides on the calls that name a process; lets those pass that make one.

    Args:
        fd: The descriptor of the filter.
        find_error: Takes a process and returns the error of a call that names it, 0
            for none.
    """

    # linux/seccomp.h: id, pid, flags and data of a call; id, value, error and flags of
    # an answer; the numbers of two ioctls.
    _NOTICE, _ANSWER = struct.Struct("=QIIiIQ6Q"), struct.Struct("=QqiI")
    _RECEIVE, _SEND = 0xC0502100, 0xC0182101
    _CONTINUE = 1

    def __init__(self, fd: int, find_error: Callable[[int], int]) -> None:
        self.fd = fd
        self._find_error = find_error
        machine = platform.machine()
        self._naming = {find_number(n, machine): i for n, i in _NAMING.items()}
        self._forking = _find_numbers(_FORKING, machine)

    def answer(self) -> None:
        """Answers the next call that waits."""
        notice = bytearray(self._NOTICE.size)
        # The process that called may be killed at any time.
        with contextlib.suppress(OSError):
            fcntl.ioctl(self.fd, self._RECEIVE, notice)
            call_id, _, _, number, _, _, *arguments = self._NOTICE.unpack(notice)
            error = 0
            if number not in self._forking:
                # A process id has 32 bits and a sign.
                process = ctypes.c_int32(arguments[self._naming[number]]).value
                error = self._find_error(process)
            flags = 0 if error else self._CONTINUE
            answer = bytearray(self._ANSWER.pack(call_id, 0, -error, flags))
            fcntl.ioctl(self.fd, self._SEND, answer)


def find_number(call: str, machine: str) -> int | None:
    """The number of a system call; None if this machine does not have it."""
    entry = _CALLS[call]
    return entry if isinstance(entry, int) else entry[_ARCHITECTURES[machine][1]]


def assemble(machine: str) -> bytes:
    """The filter as the kernel reads it: 8 bytes for each instruction."""
    arch, _, _ = _ARCHITECTURES[machine]
    instructions = [
        (_LOAD, 0, 0, _OFFSET_ARCH),
        (_JUMP_EQUAL, 1, 0, arch),
        (_RETURN, 0, 0, _RETURN_KILL),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        # The x32 calls of x86-64 have their own numbers.
        (_JUMP_AT_LEAST, 0, 1, _X32_BIT),
        (_RETURN, 0, 0, _NOT_PERMITTED),
    ]
    for call, conditions in _CONDITIONS.items():
        answer = _NO_EFFECT if call in _WITHOUT_EFFECT else _RETURN_ALLOW
        instructions += _check(find_number(call, machine), conditions, answer)
    instructions += [
        *_answer(_find_numbers(_WITHOUT_EFFECT, machine), _NO_EFFECT),
        *_answer(_find_numbers(_DENIED, machine), _NOT_PERMITTED),
        *_answer(_find_numbers(_NOT_READABLE, machine), _NOT_SUPPORTED),
        *_answer(_find_numbers(_MISSING, machine), _UNKNOWN),
        (_JUMP_AT_LEAST, 0, 1, _FIRST_UNKNOWN),
        (_RETURN, 0, 0, _UNKNOWN),
        (_RETURN, 0, 0, _RETURN_ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *each) for each in instructions)


def _find_numbers(calls: Iterable[str], machine: str) -> list[int]:
    found = (find_number(call, machine) for call in calls)
    return sorted(number for number in found if number is not None)


def _answer(values: Sequence[int], answer: int) -> Iterator[_Instruction]:
    """Ends the call with this answer if the loaded word is one of the values."""
    for left in range(len(values), 0, -1):
        yield (_JUMP_EQUAL, left, 0, values[-left])
    yield (_JUMP, 0, 0, 1)
    yield (_RETURN, 0, 0, answer)


def _check(
    number: int | None, conditions: Iterable[_Condition], answer: int
) -> list[_Instruction]:
    """Decides on one call; all others go on behind it."""
    if number is None:
        return []
    body: list[_Instruction] = []
    for condition in conditions:
        offset = _OFFSET_ARGUMENTS + 8 * condition.argument
        body += [(_LOAD, 0, 0, offset), (_AND, 0, 0, condition.mask)]
        if condition.is_allowed:
            count = len(condition.values)
            for index, value in enumerate(condition.values):
                body.append((_JUMP_EQUAL, count - index, 0, value))
            body.append((_RETURN, 0, 0, condition.refusal))
        else:
            body += _answer(condition.values, condition.refusal)
    body.append((_RETURN, 0, 0, answer))
    return [(_JUMP_EQUAL, 0, len(body), number), *body]
