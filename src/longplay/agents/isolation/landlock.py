"""Restricts a process with Linux features: Landlock, prctl and capabilities.

Landlock is an allow-list that a process applies to itself and its descendants and can
never remove. Every right that the kernel's version (its ABI) supports is denied unless
a rule allows it: files, TCP ports, and from ABI 6 on signals and abstract sockets of
outside processes. There is no fallback: without ABI 3, `restrict_files` raises.

Only the standard library is imported, because this runs before NumPy and the agent are
imported.
See `man 7 landlock` and the kernel's Documentation/userspace-api/landlock.rst.
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable
from typing import NamedTuple

LEAST_ABI = 3  # the first that denies truncating a file

# The same on every architecture that Linux has had Landlock on.
_SYS_CREATE_RULESET = 444
_SYS_ADD_RULE = 445
_SYS_RESTRICT_SELF = 446
_CREATE_RULESET_VERSION = 1
_RULE_PATH_BENEATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = (1 << bit for bit in range(4))
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
# Rights that apply to a file that is not a directory.
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
# Rights on files by ABI: 13 in the first, then REFER, TRUNCATE and IOCTL_DEV.
_FILE_RIGHT_COUNT = {1: 13, 2: 14, 3: 15, 4: 15}
_LATEST_FILE_RIGHT_COUNT = 16
# What a rule allows: listing folders, reading, reading and executing, or everything
# except executing files and making devices.
ACCESS = {
    "list": _READ_DIR,
    "r": _READ_FILE | _READ_DIR,
    "rx": _READ_FILE | _READ_DIR | _EXECUTE,
    "rw": ~(_MAKE_CHAR | _MAKE_BLOCK | _EXECUTE),
}
_NET_ABI, _NET_RIGHTS = 4, 0b11  # bind and connect of TCP
_SCOPE_ABI, _SCOPES = 6, 0b11  # abstract Unix sockets, signals

_PR_SET_DUMPABLE = 4
_PR_SET_PDEATHSIG = 1
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63


class Rule(NamedTuple):
    """A path, and the access to it and everything below it.

    Attributes:
        path: An existing file or folder.
        access: A key of `ACCESS`.
    """

    path: str
    access: str


class SandboxError(OSError):
    """The kernel does not offer, or refused, what a sandbox needs."""


class _RulesetAttr(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneathAttr(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _CapHeader(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _CapData(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


_libc = ctypes.CDLL(None, use_errno=True)


def find_abi() -> int:
    """The Landlock version of this kernel; 0 if it has none."""
    if sys.platform != "linux":
        return 0
    version = _libc.syscall(
        ctypes.c_long(_SYS_CREATE_RULESET),
        None,
        ctypes.c_size_t(0),
        ctypes.c_uint32(_CREATE_RULESET_VERSION),
    )
    return max(int(version), 0)


def check_available() -> int:
    """Returns the ABI, if it is sufficient for a sandbox.

    Raises:
        SandboxError: Names what is missing.
    """
    if sys.platform != "linux":
        raise SandboxError(f"a sandbox needs Linux, found {sys.platform}")
    abi = find_abi()
    if abi < LEAST_ABI:
        found = f"ABI {abi}" if abi else "none, or it is switched off at boot"
        raise SandboxError(
            f"a sandbox needs Landlock, ABI {LEAST_ABI} or later (Linux 6.2); "
            f"found {found} in Linux {os.uname().release}"
        )
    return abi


def restrict_files(rules: Iterable[Rule]) -> int:
    """Denies this process everything that Landlock can deny, except for the rules.

    Returns:
        The ABI in force.

    Raises:
        SandboxError: Landlock is missing, or refused a rule; the process must end.
    """
    abi = check_available()
    handled = _handled_rights(abi)
    attr = _RulesetAttr(
        handled,
        _NET_RIGHTS if abi >= _NET_ABI else 0,
        _SCOPES if abi >= _SCOPE_ABI else 0,
    )
    ruleset = _call(
        "landlock_create_ruleset",
        _SYS_CREATE_RULESET,
        ctypes.byref(attr),
        ctypes.c_size_t(ctypes.sizeof(attr)),
        ctypes.c_uint32(0),
    )
    try:
        for rule in rules:
            _add_rule(ruleset, rule, handled)
        forbid_new_privileges()
        _call("landlock_restrict_self", _SYS_RESTRICT_SELF, ruleset, ctypes.c_uint32(0))
    finally:
        os.close(ruleset)
    return abi


def _handled_rights(abi: int) -> int:
    count = _FILE_RIGHT_COUNT.get(abi, _LATEST_FILE_RIGHT_COUNT)
    return int((1 << count) - 1)


def _add_rule(ruleset: int, rule: Rule, handled: int) -> None:
    try:
        fd = os.open(rule.path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise SandboxError(
            f"cannot allow {rule.path}: {os.strerror(error.errno or 0)}"
        ) from error
    try:
        rights = ACCESS[rule.access] & handled
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _FILE_RIGHTS
        attr = _PathBeneathAttr(rights, fd)
        _call(
            f"landlock_add_rule for {rule.path}",
            _SYS_ADD_RULE,
            ruleset,
            ctypes.c_int(_RULE_PATH_BENEATH),
            ctypes.byref(attr),
            ctypes.c_uint32(0),
        )
    finally:
        os.close(fd)


def forbid_new_privileges() -> None:
    """Prevents executed programs from gaining privileges."""
    _prctl("PR_SET_NO_NEW_PRIVS", _PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities() -> None:
    """Drops every capability, for descendants too."""
    for capability in range(_LAST_CAPABILITY + 1):
        # Fails beyond the kernel's last one, and where there is nothing to drop.
        _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = _CapHeader(_CAPABILITY_VERSION_3, 0)
    data = (_CapData * 2)()
    if _libc.capset(ctypes.byref(header), ctypes.byref(data)) != 0:
        raise SandboxError(f"capset: {os.strerror(ctypes.get_errno())}")


def set_dumpable(is_dumpable: bool) -> None:
    """Sets whether other processes of the user may read this process's memory."""
    _prctl("PR_SET_DUMPABLE", _PR_SET_DUMPABLE, int(is_dumpable))


def die_with_parent(signal_number: int) -> None:
    """Makes the kernel send this process a signal when its parent dies."""
    _prctl("PR_SET_PDEATHSIG", _PR_SET_PDEATHSIG, signal_number)


def become_subreaper() -> None:
    """Makes orphaned descendants children of this process, not of init."""
    _prctl("PR_SET_CHILD_SUBREAPER", _PR_SET_CHILD_SUBREAPER, 1)


def _prctl(name: str, option: int, value: int) -> None:
    if _libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise SandboxError(f"{name}: {os.strerror(ctypes.get_errno())}")


def _call(name: str, number: int, *arguments: object) -> int:
    result = int(_libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise SandboxError(f"{name}: {os.strerror(ctypes.get_errno())}")
    return result
