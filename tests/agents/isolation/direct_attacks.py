"""Attacks of an agent that is asked directly, without a run around it.

`REMEMBERING` attacks write something that the agent's next life can read; `REACHING`
attacks act on processes and places outside. Each is the body of a function that knows:

    FOLDER    a folder of the user, out of reach in a sandbox; it has an attribute
    TARGET    a file of the user for this attack alone; in a sandbox readable
    VICTIM    a process of the user
    KEY       a number that only the agent uses

and returns whether it has succeeded. `attack_driver.py` plays them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

PRELUDE = """
import ctypes, errno, fcntl, mmap, os, pathlib, resource, signal, socket, struct, sys
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p


def call(name, *arguments):
    "A system call: its result, or minus the error."
    from longplay.agents.isolation.seccomp import find_number
    number = name if isinstance(name, int) else find_number(name, os.uname().machine)
    ctypes.set_errno(0)
    given = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *given)
    return result if result >= 0 else -ctypes.get_errno()


def in_fork(action):
    "Whether an action returns something true, in a process of its own."
    pid = os.fork()
    if not pid:
        try:
            os._exit(0 if action() else 1)
        finally:
            os._exit(2)
    return os.waitpid(pid, 0)[1] == 0


def count_interleaved():
    "Pages ever allocated by a policy that hardly any program asks for."
    words = open("/sys/devices/system/node/node0/numastat").read().split()
    return int(words[words.index("interleave_hit") + 1])


def is_cached(path):
    "Whether the first page of a file is in memory, by mincore."
    with open(path, "rb") as file:
        libc.mmap.restype = ctypes.c_void_p
        size = ctypes.c_size_t(4096)
        place = libc.mmap(None, size, 1, 1, file.fileno(), ctypes.c_long(0))
    found = (ctypes.c_ubyte * 1)()
    answer = libc.mincore(ctypes.c_void_p(place), size, found)
    libc.munmap(ctypes.c_void_p(place), size)
    return answer == 0 and found[0] & 1

"""

# Name -> (a body that writes, a body that returns whether it was written).
REMEMBERING: Mapping[str, tuple[str, str]] = {
    "System V shared memory": (
        "libc.shmget(KEY, 4096, 0o1600)",
        "return libc.shmget(KEY, 0, 0) >= 0",
    ),
    "System V messages": (
        "libc.msgget(KEY, 0o1600)",
        "return libc.msgget(KEY, 0) >= 0",
    ),
    "System V semaphores": (
        "libc.semget(KEY, 1, 0o1600)",
        "return libc.semget(KEY, 0, 0) >= 0",
    ),
    "POSIX messages": (
        "libc.mq_open(f'/longplay-{KEY}'.encode(), os.O_CREAT | os.O_RDWR, 0o600, 0)",
        "return libc.mq_open(f'/longplay-{KEY}'.encode(), os.O_RDONLY) >= 0",
    ),
    "keys of the user": (
        "call('add_key', b'user', f'longplay-{KEY}'.encode(), b'1', 1, -4)",
        "return call('keyctl', 10, -4, b'user', f'longplay-{KEY}'.encode(), 0) > 0",
    ),
    "extended attribute": (
        "os.setxattr(TARGET, 'user.memory', b'1')",
        "return os.listxattr(TARGET)",
    ),
    "extended attribute by descriptor": (
        """
        with open(TARGET) as file:
            os.setxattr(file.fileno(), "user.memory", b"1")
        """,
        "return os.listxattr(TARGET)",
    ),
    "mode": ("os.chmod(TARGET, 0o754)", "return os.stat(TARGET).st_mode & 0o111"),
    "mode by descriptor": (
        """
        with open(TARGET) as file:
            os.fchmod(file.fileno(), 0o754)
        """,
        "return os.stat(TARGET).st_mode & 0o111",
    ),
    "mode by fchmodat2": (
        "call('fchmodat2', -100, os.fsencode(TARGET), 0o754, 0)",
        "return os.stat(TARGET).st_mode & 0o111",
    ),
    "time": ("os.utime(TARGET, (1, 1))", "return os.stat(TARGET).st_mtime == 1"),
    "time by descriptor": (
        """
        with open(TARGET) as file:
            os.utime(file.fileno(), (1, 1))
        """,
        "return os.stat(TARGET).st_mtime == 1",
    ),
    "time of a change of owner": (
        "os.chown(TARGET, os.getuid(), -1)",
        """
        found = os.stat(TARGET)
        return found.st_ctime_ns > found.st_mtime_ns + 50_000_000
        """,
    ),
    "flags of a file": (
        """
        with open(TARGET) as file:
            fcntl.ioctl(file, 0x40086602, struct.pack("l", 0x40))
        """,
        """
        with open(TARGET) as file:
            flags = fcntl.ioctl(file, 0x80086601, bytes(8))
        return struct.unpack("l", flags)[0] & 0x40
        """,
    ),
    "write hint of a file": (
        """
        with open(TARGET) as file:
            fcntl.fcntl(file, 1036, struct.pack("Q", 3))
        """,
        """
        with open(TARGET) as file:
            return fcntl.fcntl(file, 1035, bytes(8))[0] == 3
        """,
    ),
    "page cache, by mincore": ("TARGET.read_bytes()", "return is_cached(TARGET)"),
    "page cache, by preadv2": (
        "TARGET.read_bytes()",
        """
        with open(TARGET, "rb", 0) as file:
            return os.preadv(file.fileno(), [bytearray(1)], 0, os.RWF_NOWAIT) == 1
        """,
    ),
    "page cache, by aio": (
        "TARGET.read_bytes()",
        """
        context = ctypes.c_ulong(0)
        if call("io_setup", 1, ctypes.byref(context)) < 0:
            return False
        with open(TARGET, "rb") as file:
            place = ctypes.create_string_buffer(1)
            # linux/aio_abi.h: an iocb that reads a byte, with RWF_NOWAIT.
            given = (0, 0, 8, 0, 0, file.fileno(), ctypes.addressof(place), 1)
            request = struct.pack("QIIHhIQQqQII", *given, 0, 0, 0, 0)
            request = ctypes.create_string_buffer(request)
            parts = (ctypes.c_void_p * 1)(ctypes.addressof(request))
            call("io_submit", context.value, 1, parts)
            events = ctypes.create_string_buffer(32)
            call("io_getevents", context.value, 1, 1, events, 0)
            return struct.unpack("QQqq", events.raw)[2] == 1
        """,
    ),
    "pages counted by the kernel": (
        """
        set_mempolicy = {"x86_64": 238, "aarch64": 237}[os.uname().machine]
        call(set_mempolicy, 3, ctypes.byref(ctypes.c_ulong(1)), 8)
        while count_interleaved() % 997 != KEY % 997:
            with mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as page:
                page[0] = 1
        call(set_mempolicy, 0, 0, 0)
        """,
        "return count_interleaved() % 997 == KEY % 997",
    ),
    "a file in the numba cache": (
        """
        path = FOLDER / "cache" / "longplay" / "numba" / "longplay"
        path.mkdir(parents=True)
        (path / "memory").write_text("1")
        """,
        "return (pathlib.Path(os.environ['NUMBA_CACHE_DIR']) / 'memory').exists()",
    ),
    "a file": (
        "(FOLDER / 'memory').write_text('1')",
        "return (FOLDER / 'memory').exists()",
    ),
    "a file in /dev/shm": (
        "open(f'/dev/shm/longplay-{KEY}', 'w').write('1')",
        "return os.path.exists(f'/dev/shm/longplay-{KEY}')",
    ),
    "links of a file": (
        "os.link(TARGET, os.environ['HOME'] + '/link'); os.link(TARGET, FOLDER / 'l')",
        "return os.stat(TARGET).st_nlink > 1",
    ),
}

# Name -> a body that returns whether it reached something outside.
REACHING: Mapping[str, str] = {
    # --- namespaces, watches, and interfaces around the filter ---
    "user namespace": "return in_fork(lambda: libc.unshare(0x10000000) == 0)",
    "user namespace by clone": """
        pid = call("clone", 0x10000011, 0, 0, 0, 0)
        if pid == 0:
            os._exit(0)
        return pid > 0 and os.waitpid(pid, 0)[0] == pid
        """,
    "user namespace by clone3": """
        given = struct.pack("8Q", 0x10000000, 0, 0, 0, 17, 0, 0, 0)
        pid = call("clone3", given, len(given))
        if pid == 0:
            os._exit(0)
        return pid > 0 and os.waitpid(pid, 0)[0] == pid
        """,
    "watching a folder": """
        watch = libc.inotify_init()
        return libc.inotify_add_watch(watch, os.fsencode(FOLDER), 0xFFF) >= 0
        """,
    "watching a folder by fanotify": "return libc.fanotify_init(0x200, 0) >= 0",
    "extended attribute of a folder": "return os.getxattr(FOLDER, 'user.secret')",
    "names of extended attributes": "return os.listxattr(FOLDER)",
    "io_uring": "return call('io_uring_setup', 1, bytes(120)) != -errno.EPERM",
    "memory without a mapping": "return libc.memfd_create(b'memory', 0) >= 0",
    "secret memory": """
        return call("memfd_secret", 0) not in (-errno.EPERM, -errno.ENOSYS)
        """,
    "mounts of the machine": "return call(458, 0, 0, 0, 0) != -errno.ENOSYS",
    "state of the page cache": "return call(451, -1, 0, 0, 0) != -errno.ENOSYS",
    "watching a folder by a signal": """
        folder = os.open(os.path.dirname(os.__file__), os.O_RDONLY)
        return fcntl.fcntl(folder, fcntl.F_NOTIFY, fcntl.DN_MODIFY) == 0
        """,
    "holding up who writes to a file": """
        with open(TARGET) as file:
            return fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK) == 0
        """,
    "a filter of its own that answers for the keeper": """
        def listen():
            # Load the number of the call; if it is 999, ask the owner; allow others.
            code = ((0x20, 0, 0, 0), (0x15, 0, 1, 999))
            code += ((6, 0, 0, 0x7FC00000), (6, 0, 0, 0x7FFF0000))
            code = b"".join(struct.pack("HBBI", *each) for each in code)
            buffer = ctypes.create_string_buffer(code)
            program = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
            libc.prctl(38, 1, 0, 0, 0)
            number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
            return call(number, 1, 8, program) >= 0
        return in_fork(listen)
        """,
    # --- its own folder ---
    "renaming the folder of saved states": """
        saved = pathlib.Path(os.environ["HOME"]).parent / "saved"
        saved.rename(saved.with_name("renamed"))
        return saved.with_name("renamed").rename(saved)
        """,
    "replacing the folder of loaded states": """
        loaded = pathlib.Path(os.environ["HOME"]).parent / "loaded"
        loaded.rmdir()
        return loaded.mkdir() is None
        """,
    "changing its own files": "return open(__file__, 'a').write('# changed')",
    # --- other processes ---
    "memory of a process": """
        part = struct.pack("PL", 0, 1)
        found = call("process_vm_readv", VICTIM, part, 1, part, 1, 0)
        return found not in (-errno.EPERM, -errno.ENOSYS)
        """,
    "writing to the memory of a process": """
        part = struct.pack("PL", 0, 1)
        found = call("process_vm_writev", VICTIM, part, 1, part, 1, 0)
        return found not in (-errno.EPERM, -errno.ENOSYS)
        """,
    "tracing a process": "return call('ptrace', 0x4206, VICTIM, 0, 0) == 0",
    "descriptor of a process": """
        return call("pidfd_getfd", os.pidfd_open(VICTIM), 0, 0) >= 0
        """,
    "comparing processes": """
        return call("kcmp", os.getpid(), VICTIM, 1, 0, 0) != -errno.EPERM
        """,
    "handle of a process": "return os.pidfd_open(VICTIM) >= 0",
    "handle of a process by its number": """
        # pidfs numbers processes and, since Linux 6.14, opens them by number.
        own = os.pidfd_open(os.getpid())
        handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
        place = ctypes.byref(ctypes.c_int())
        found = call("name_to_handle_at", own, b"", handle, place, 0x1000)
        if found < 0:
            return found != -errno.EPERM
        (number,) = struct.unpack_from("Q", handle, 8)
        for other in range(number - 1, number - 50_000, -1):
            struct.pack_into("Q", handle, 8, other)
            if call("open_by_handle_at", own, handle, os.O_RDONLY) >= 0:
                return True
        """,
    "moving a process's memory": """
        found = call("move_pages", VICTIM, 0, 0, 0, 0, 0)
        return found not in (-errno.EPERM, -errno.ENOSYS)
        """,
    "setting limits of a process": """
        return resource.prlimit(VICTIM, resource.RLIMIT_CORE, (0, 0)) is not None
        """,
    "reading limits of a process": """
        return resource.prlimit(VICTIM, resource.RLIMIT_CORE)
        """,
    "affinity of a process": "return os.sched_setaffinity(VICTIM, {0}) is None",
    "priority of a process": """
        return os.setpriority(os.PRIO_PROCESS, VICTIM, 19) is None
        """,
    "priority of a group": "return os.setpriority(os.PRIO_PGRP, VICTIM, 19) is None",
    "priority of the user's processes": """
        # The kernel refuses more than they have; the filter, to look at them.
        return call("setpriority", os.PRIO_USER, 0, -20) != -errno.EPERM
        """,
    "scheduler of a process": """
        given = os.sched_param(0)
        return os.sched_setscheduler(VICTIM, os.SCHED_BATCH, given) is None
        """,
    "parameters of the scheduler": """
        return os.sched_setparam(VICTIM, os.sched_param(0)) is None
        """,
    "attributes of the scheduler": """
        given = struct.pack("IIQiI3Q", 48, 3, 0, 19, 0, 0, 0, 0)
        return call("sched_setattr", VICTIM, given, 0) == 0
        """,
    "disk priority of a process": """
        return call("ioprio_set", 1, VICTIM, 3 << 13) == 0
        """,
    "disk priority of a group": "return call('ioprio_set', 2, VICTIM, 3 << 13) == 0",
    "out-of-memory score of a process": """
        return open(f"/proc/{VICTIM}/oom_score_adj", "w").write("900")
        """,
    "signal to a process": "return os.kill(VICTIM, 0) is None",
    "signal to a group": "return os.kill(-VICTIM, 0) is None",
    "signal to a thread": "return call('tkill', VICTIM, 0) == 0",
    "signal to a thread of a process": "return call('tgkill', VICTIM, VICTIM, 0) == 0",
    "signal in a queue": """
        given = struct.pack("iii", 0, 0, -1) + bytes(116)
        return call("rt_sigqueueinfo", VICTIM, 0, given) == 0
        """,
    "signal by a handle": """
        return signal.pidfd_send_signal(os.pidfd_open(VICTIM), 0) is None
        """,
    "signal by the folder of a process": """
        # Opening it without O_PATH takes the right to read.
        folder = os.open(f"/proc/{VICTIM}", os.O_RDONLY)
        return signal.pidfd_send_signal(folder, 0) is None
        """,
    "signal by the owner of a pipe": """
        readable, writable = os.pipe()
        fcntl.fcntl(readable, fcntl.F_SETOWN, VICTIM)
        fcntl.fcntl(readable, 10, signal.SIGWINCH)  # F_SETSIG
        flags = fcntl.fcntl(readable, fcntl.F_GETFL)
        fcntl.fcntl(readable, fcntl.F_SETFL, flags | os.O_ASYNC)
        return os.write(writable, b"x")
        """,
    "datagram to a socket": """
        ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        return ours.sendto(b"x", str(FOLDER / "socket")) == 1
        """,
    "datagram to a socket without a file": """
        ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        return ours.sendto(b"x", f"\\0longplay-{KEY}") == 1
        """,
    "name of a socket": """
        ours, _ = socket.socketpair()
        return ours.bind(f"\\0longplay-{KEY}-own") is None
        """,
    "signal by the owner of a socket": """
        pair = socket.socketpair()
        return fcntl.ioctl(pair[0], 0x8902, struct.pack("i", VICTIM)) is not None
        """,
}


# Name -> a body that `save` runs. It makes the referee copy the user's files, if it
# follows links. It also knows PRIVATE, a folder with a secret, and the `directory` to
# save in.
SAVING: Mapping[str, str] = {
    "link to a file": "(directory / 'file').symlink_to(PRIVATE / 'secret.txt')",
    "link to a folder": "(directory / 'folder').symlink_to(PRIVATE)",
    "link in a folder": """
        (directory / "folder").mkdir()
        (directory / "folder" / "link").symlink_to(PRIVATE)
        """,
    "link instead of the agent's folder": """
        directory.rename(directory.with_name("away"))
        directory.symlink_to(PRIVATE)
        """,
    "link instead of the folder of saved states": """
        saved = directory.parent
        saved.rename(saved.with_name("away"))
        saved.symlink_to(PRIVATE)
        """,
    "hard link to a file": "os.link(PRIVATE / 'secret.txt', directory / 'file')",
    "folder that becomes a link while it is copied": """
        (directory / "aside").symlink_to(PRIVATE)
        for index in range(200):
            (directory / f"folder {index}").mkdir()
            (directory / f"folder {index}" / "file").write_text("own")
        def swap():
            for index in range(200):
                folder = directory / f"folder {index}"
                folder.rename(directory / f"moved {index}")
                folder.symlink_to(PRIVATE)
            (directory / "aside").unlink()
        threading.Thread(target=swap).start()
        """,
}

# Name -> a body that runs before `load`. It makes the referee write the agent's files
# to OUTSIDE, if it follows links. It also knows the `folder` for the state.
LOADING: Mapping[str, str] = {
    "link instead of the state": "folder.symlink_to(OUTSIDE)",
    "link instead of the agent's folder in the state": """
        folder.mkdir()
        (folder / "agent").symlink_to(OUTSIDE)
        """,
    "link instead of the folder of loaded states": """
        folder.parent.rename(folder.parent.with_name("away"))
        folder.parent.symlink_to(OUTSIDE)
        """,
}


def write_exchanging_source(name: str, names: Mapping[str, Any]) -> str:
    """The source of an agent that attacks when it is saved or loaded."""
    constants = "".join(f"{k} = pathlib.Path({v!r})\n" for k, v in names.items())
    bodies = {"save": SAVING.get(name, "pass"), "load": LOADING.get(name, "pass")}
    texts = {
        key: textwrap.indent(textwrap.dedent(body).strip(), "        ")
        for key, body in bodies.items()
    }
    return f"import threading\n{PRELUDE}{constants}{_EXCHANGING.format(**texts)}"


_EXCHANGING = """
class Agent:
    def __init__(self, num_actions, seed):
        pass

    def step(self, obs_rgb, reward, terminated, truncated, info):
        folder = pathlib.Path(os.environ["HOME"]).parent / "loaded" / "0"
{load}
        return 3

    def save(self, directory):
        (directory / "planted.pth").write_text("import os")
{save}

    def load(self, directory):
        raise ValueError("keeps what was written")
"""


def write_source(table: Mapping[str, Any], names: Mapping[str, Any]) -> str:
    """The source of an agent that attacks once, at its first step.

    Its metrics are the names of the attacks that have succeeded.

    Args:
        table: One of the tables above.
        names: What the bodies know, and the targets by attack.
    """
    targets = names["targets"]
    parts = [PRELUDE]
    parts += [f"{k} = {v!r}\n" for k, v in names.items() if k != "targets"]
    parts.append("FOLDER = pathlib.Path(FOLDER)\n")
    for index, (name, bodies) in enumerate(table.items()):
        write, read = bodies if isinstance(bodies, tuple) else ("pass", bodies)
        target = f"    TARGET = pathlib.Path({targets[name]!r})\n"
        parts += _define(f"write_{index}", target, write)
        parts += _define(f"read_{index}", target, read)
    pairs = ", ".join(
        f"({name!r}, read_{index}, write_{index})" for index, name in enumerate(table)
    )
    return "".join(parts) + _AGENT.format(pairs=pairs)


def _define(name: str, first: str, body: str) -> Iterator[str]:
    text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    yield f"def {name}():\n{first}{text}\n\n"


_AGENT = """
ATTACKS = [{pairs}]


class Agent:
    def __init__(self, num_actions, seed):
        self.found = {{}}

    def step(self, obs_rgb, reward, terminated, truncated, info):
        for name, read, write in ATTACKS:
            for attack in (read, write):
                try:
                    if attack() and attack is read:
                        self.found[name] = 1.0
                except OSError as error:
                    print(name, repr(error))
        return 3

    def metrics(self):
        return self.found
"""
