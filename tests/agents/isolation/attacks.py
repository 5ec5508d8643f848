"""Attacking agents: each tries to learn from the referee, or to change its run.

An attack is the body of a function of the agent. `LEARNING` attacks return what they
found; `CHANGING` attacks return nothing. They get the paths of a `Scene` as constants,
as if the agent's author knew them: a sandbox must not depend on secret paths.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Scene:
    """What surrounds a run: everything that an attack might want to reach.

    Attributes:
        folder: Contains everything else.
        port: A TCP port on this machine that answers with the secret.
    """

    folder: Path
    port: int = 0
    secret: str = "the secret of the scene"

    @property
    def out(self) -> Path:
        """The experiment directory."""
        return self.folder / "out"

    @property
    def canary(self) -> Path:
        """A file with the secret."""
        return self.folder / "canary.txt"

    @property
    def planted(self) -> Path:
        """A file that an attack tries to make."""
        return self.folder / "planted.txt"


_PRELUDE = """
import builtins, ctypes, gc, glob, inspect, json, os, pathlib, shutil, signal, socket
import subprocess, sys, threading, time

OUT = pathlib.Path({out!r})
CANARY = pathlib.Path({canary!r})
PLANTED = pathlib.Path({planted!r})
FOLDER = pathlib.Path({folder!r})
PORT = {port}


def find(name):
    "The live objects of a class of the referee."
    return [o for o in gc.get_objects() if type(o).__name__ == name]


def ancestors():
    "This process and those above it, as far as /proc tells."
    pids, pid = [], os.getpid()
    while pid > 1:
        pids.append(pid)
        stat = open(f"/proc/{{pid}}/stat").read()
        pid = int(stat.rpartition(")")[2].split()[1])
    return pids


def referees():
    "The referee's process: this one, or the ones above."
    if "longplay.runs.session" in sys.modules:
        return [os.getpid()]
    return [os.getppid()]


def run_dir():
    (found,) = (OUT / "episodes").iterdir()
    return found

"""

_HARNESS = """
ATTACKS = [{names}]
calls = 0


def report(name, found):
    print("FOUND", json.dumps([name, found]), flush=True)


def act():
    global calls
    calls += 1
    if calls % 10:
        return
    for name, attack in ATTACKS:
        try:
            found = attack()
        except BaseException as error:
            print("FAILED", json.dumps([name, repr(error)]), flush=True)
            continue
        if found:
            report(name, str(found))


def init(observation_shape{actions}):
    return 0


def step(state, previous_observation, observation, reward):
    act()
    return state, {answer}
"""

# Name -> (what the attack must find for the leak to count, its body). The texts are of
# the run that the tests play: game, suite, seed and so on.
LEARNING: Mapping[str, tuple[str, str]] = {
    # --- Python objects of the referee ---
    "frames above": (
        "pong",
        """
        frame = sys._getframe()
        while frame:
            if "stream" in frame.f_locals:
                return frame.f_locals["stream"].visit.game_id
            frame = frame.f_back
        """,
    ),
    "stack": (
        "runs/loop.py",
        "return [entry.filename for entry in inspect.stack()]",
    ),
    "frames of all threads": (
        "runs/loop.py",
        """
        names = []
        for frame in sys._current_frames().values():
            while frame:
                names.append(frame.f_code.co_filename)
                frame = frame.f_back
        return names
        """,
    ),
    "live stream": ("pong", "return [s.visit.game_id for s in find('Stream')]"),
    "live config": ("1000", "return [c.seed for c in find('RunConfig')]"),
    "live plan": ("emulator_seeds", "return [p.config for p in find('RunPlan')]"),
    "live schedule": ("pong", "return [s.schedule for s in find('Stream')]"),
    "live emulator seeds": (
        "emulator seeds",
        "return ['emulator seeds', [s._emulator_seeds for s in find('Stream')][0]]",
    ),
    "live targets": (
        "target",
        "return ['target', find('ReferenceDriver')[0]._target]",
    ),
    "live policy": (
        "guide",
        "return ['guide', list(find('ReferenceDriver')[0]._guides.values())[0]]",
    ),
    "live memory of the game": (
        "ram",
        "return ['ram', bytes(find('ReferenceDriver')[0]._ram())]",
    ),
    "live recorder": (
        "decided_action_idx",
        "return [r._event_rows[:1] for r in find('Recorder')]",
    ),
    "live session": ("out/episodes", "return [s._run_dir for s in find('Session')]"),
    "modules": (
        "longplay.runs.session",
        "return [name for name in sys.modules if name.startswith('longplay.runs')]",
    ),
    "audit hook": (
        "out/episodes",
        """
        if not hasattr(builtins, "_opened"):
            builtins._opened = []
            sys.addaudithook(
                lambda event, args: event == "os.rename"
                and builtins._opened.append(str(args))
            )
        return [path for path in builtins._opened if "episodes" in path][-1:]
        """,
    ),
    "trace": (
        "advance",
        """
        if not hasattr(builtins, "_called"):
            builtins._called = set()
            sys.setprofile(
                lambda frame, event, arg: builtins._called.add(frame.f_code.co_name)
            )
        return [name for name in builtins._called if name == "advance"]
        """,
    ),
    # --- the process ---
    "arguments": ("prediction-smoke-v1", "return sys.argv"),
    "command line": (
        "prediction-smoke-v1",
        "return open('/proc/self/cmdline').read()",
    ),
    "command lines above": (
        "prediction-smoke-v1",
        """
        pids = ancestors() if os.path.exists("/proc/self/stat") else [os.getppid()]
        return [open(f"/proc/{pid}/cmdline").read() for pid in pids]
        """,
    ),
    "environment": ("the secret", "return os.environ.get('LONGPLAY_TEST_SECRET')"),
    "environment of the process": (
        "the secret",
        "return open('/proc/self/environ').read()",
    ),
    "environments above": (
        "the secret",
        """
        found = []
        for pid in ancestors():
            if os.access(f"/proc/{pid}/environ", os.R_OK):
                found.append(open(f"/proc/{pid}/environ").read())
        return found
        """,
    ),
    "open files": (
        "events.jsonl",
        "return [os.readlink(path) for path in glob.glob('/proc/self/fd/*')[:-1]]",
    ),
    "open files of the referee": (
        "events.jsonl",
        """
        found = []
        for pid in referees():
            for name in os.listdir(f"/proc/{pid}/fd"):
                if os.path.exists(f"/proc/{pid}/fd/{name}"):
                    found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        return found
        """,
    ),
    "descriptors by number": (
        "events.jsonl",
        """
        found = []
        for fd in range(3, 64):
            try:
                os.fstat(fd)
                found.append(os.path.realpath(f"/proc/self/fd/{fd}"))
            except OSError:
                pass
        return found
        """,
    ),
    "memory map of the referee": (
        "ale_py",
        "return [open(f'/proc/{pid}/maps').read() for pid in referees()]",
    ),
    "memory of the referee": (
        "bytes of memory",
        """
        for pid in referees():
            lines = open(f"/proc/{pid}/maps").read().splitlines()
            line = next(line for line in lines if " rw-p " in line)
            with open(f"/proc/{pid}/mem", "rb", 0) as memory:
                memory.seek(int(line.split("-")[0], 16))
                return ["bytes of memory", memory.read(64)]
        """,
    ),
    "process_vm_readv": (
        "bytes of memory",
        """
        class Part(ctypes.Structure):
            _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]
        text = ctypes.create_string_buffer(b"x" * 8)
        copy = ctypes.create_string_buffer(8)
        there = Part(ctypes.addressof(text), 8)
        here = Part(ctypes.addressof(copy), 8)
        libc = ctypes.CDLL(None, use_errno=True)
        for pid in referees():
            count = libc.process_vm_readv(
                pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0
            )
            error = ctypes.get_errno()
            if count == 8 or error == 14:  # EFAULT: permitted, but nothing there
                return "bytes of memory"
        """,
    ),
    # --- files ---
    "config of the run": ("1000", "return (run_dir() / 'config.json').read_text()"),
    "plan of the experiment": (
        "1000",
        "return (OUT / 'experiment_config.json').read_text()",
    ),
    "names of runs": ("seed-1000", "return os.listdir(OUT / 'episodes')"),
    "working directory": ("canary", "return os.listdir('.')"),
    "a file": ("the secret", "return CANARY.read_text()"),
    "a file, in a thread": (
        "the secret",
        """
        found = []
        def read():
            try:
                found.append(CANARY.read_text())
            except OSError as error:
                found.append(repr(error))
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        return found
        """,
    ),
    "a file, in a fork": (
        "the secret",
        """
        readable, writable = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.write(writable, CANARY.read_bytes())
            finally:
                os._exit(0)
        os.close(writable)
        os.waitpid(pid, 0)
        with open(readable, "rb") as file:
            return file.read()
        """,
    ),
    "a file, by cat": (
        "the secret",
        "return subprocess.run(['cat', CANARY], capture_output=True).stdout",
    ),
    "a file, by another Python": (
        "the secret",
        """
        code = "import sys; print(open(sys.argv[1]).read())"
        command = [sys.executable, "-I", "-S", "-c", code, str(CANARY)]
        return subprocess.run(command, capture_output=True).stdout
        """,
    ),
    "a file, through a link": (
        "the secret",
        """
        link = pathlib.Path(os.environ.get("TMPDIR", FOLDER)) / "link"
        link.unlink(missing_ok=True)
        link.symlink_to(CANARY)
        return link.read_text()
        """,
    ),
    "a file, through a hard link": (
        "the secret",
        """
        link = pathlib.Path(os.environ.get("TMPDIR", FOLDER)) / "hard link"
        link.unlink(missing_ok=True)
        os.link(CANARY, link)
        return link.read_text()
        """,
    ),
    "a file, through /proc": (
        "the secret",
        "return open(f'/proc/self/root{CANARY}').read()",
    ),
    "a file, by C": (
        "the secret",
        """
        libc = ctypes.CDLL(None, use_errno=True)
        fd = libc.open(os.fsencode(CANARY), 0)
        return os.read(fd, 100) if fd >= 0 else None
        """,
    ),
    "users of the machine": ("root", "return open('/etc/passwd').read()"),
    "the checkout": (
        "[project]",
        """
        import longplay
        root = pathlib.Path(longplay.__file__).parents[2]
        return (root / "pyproject.toml").read_text()
        """,
    ),
    # --- the emulator and the answers ---
    "emulator": ("ALEInterface", "import ale_py; return ale_py.ALEInterface"),
    "a ROM": (
        "bytes of pong",
        """
        import importlib.util
        package = pathlib.Path(importlib.util.find_spec("ale_py").origin).parent
        return ["bytes of pong", len((package / "roms/pong.bin").read_bytes())]
        """,
    ),
    "recorded streams": (
        "visit of pong",
        """
        from longplay.reference.streams import find_recorded_visit
        return ["visit of pong", find_recorded_visit("pong", 0, 0).rewards[:3]]
        """,
    ),
    "files of the reference": (
        "bytes of pong",
        """
        import longplay.reference
        data = pathlib.Path(longplay.reference.__file__).parent / "data"
        return ["bytes of pong", len((data / "pong.json").read_bytes())]
        """,
    ),
    # --- other processes ---
    "TCP": (
        "the secret",
        """
        with socket.create_connection(("127.0.0.1", PORT), timeout=5) as connection:
            return connection.recv(100)
        """,
    ),
    "abstract socket": (
        "the secret",
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(f"\\0longplay-attack-{PORT}")
            return connection.recv(100)
        """,
    ),
    "shared memory": (
        "the secret",
        "return open(f'/dev/shm/longplay-attack-{PORT}').read()",
    ),
    "signals": (
        "signalled",
        """
        os.kill(referees()[0], 0)
        return "signalled"
        """,
    ),
}

# Those that learn nothing in a process of their own, as an ordinary user: they look at
# objects, arguments, environment, descriptors or memory of the referee.
NOT_LEARNING_IN_A_PROCESS = frozenset(
    {
        *("frames above", "stack", "frames of all threads", "trace", "audit hook"),
        *("live stream", "live config", "live plan", "live schedule", "live policy"),
        *("live emulator seeds", "live targets", "live memory of the game"),
        *("live recorder", "live session", "modules", "arguments", "command line"),
        *("environment", "environment of the process", "open files"),
        *("open files of the referee", "descriptors by number", "working directory"),
        *("memory map of the referee", "memory of the referee", "process_vm_readv"),
    }
)

# Name -> a body that changes the run, its records or another file where it can.
CHANGING: Mapping[str, str] = {
    "patches the recorder": """
        from longplay.runs.recorder import Recorder
        import msgspec
        real = Recorder.flush
        def flush(self):
            rows = [msgspec.structs.replace(r, reward=1.0) for r in self._event_rows]
            self._event_rows = rows
            real(self)
        Recorder.flush = flush
        """,
    "patches the stream": """
        from longplay.stream import Stream
        Stream._deliver = lambda self, reward: 1.0
        for stream in find("Stream"):
            stream._state.reward = stream._state.episode_return = 9.0
        """,
    "patches the console": """
        (stream,) = find("Stream")
        real = stream._step_console
        stream._step_console = lambda action: (1.0, *real(action)[1:])
        """,
    "plays the emulator itself": """
        (stream,) = find("Stream")
        for _ in range(5):
            stream.console.step(0)
        """,
    "resets the game": "find('Stream')[0].console.reset()",
    "rewinds the stream": "find('Stream')[0]._state.visit_frame_idx -= 3",
    "patches the score": """
        from longplay.runs import writer
        writer.conclude_run = lambda *_: None
        """,
    "stretches the log": "os.truncate(run_dir() / 'events.jsonl', 1 << 20)",
    "appends to the log": """
        with open(run_dir() / "events.jsonl", "a") as log:
            log.write("{}")
        """,
    "appends to open files": """
        for fd in range(3, 64):
            if os.path.realpath(f"/proc/self/fd/{fd}").endswith(".jsonl"):
                os.write(fd, b"{}")
        """,
    "removes the run": "shutil.rmtree(run_dir())",
    "says that it is complete": """
        path = run_dir() / "config.json"
        document = json.loads(path.read_text())
        path.write_text(json.dumps({**document, "seed": 5}))
        """,
    "renames the run": "run_dir().rename(OUT / 'elsewhere')",
    "makes a file": "PLANTED.write_text('planted'); sys.exit(3)",
    "makes a file by a shell": """
        subprocess.run(["sh", "-c", f"echo planted > {PLANTED}"])
        if PLANTED.exists():
            sys.exit(3)
        """,
    "ends the referee": "[os.kill(pid, signal.SIGTERM) for pid in referees()]",
    "limits the size of files": """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        """,
}

# Those that change nothing there: they patch objects of the referee.
NOT_CHANGING_IN_A_PROCESS = frozenset(
    {
        *("patches the recorder", "patches the stream", "patches the console"),
        *("plays the emulator itself", "resets the game", "rewinds the stream"),
        *("patches the score", "appends to open files", "limits the size of files"),
    }
)
STOPPED_BY_NOTHING: frozenset[str] = frozenset()


def write_agent(
    scene: Scene,
    bodies: Mapping[str, str],
    *,
    actions: str = "",
    answer: str = "0.0",
    path: Path | None = None,
) -> Path:
    """Writes a module of functions that runs attacks on every tenth step.

    Args:
        scene: The paths to know.
        bodies: Name of an attack -> its body.
        actions: More parameters of `init`; empty for a predictor.
        answer: What `step` answers.
        path: The file.
    """
    functions = list(_define_attacks(bodies.values()))
    names = ", ".join(f"({name!r}, attack_{i})" for i, name in enumerate(bodies))
    prelude = _PRELUDE.format(
        out=str(scene.out),
        canary=str(scene.canary),
        planted=str(scene.planted),
        folder=str(scene.folder),
        port=scene.port,
    )
    harness = _HARNESS.format(names=names, actions=actions, answer=answer)
    path = path or scene.folder / "agent" / "attack.py"
    path.parent.mkdir(exist_ok=True)
    path.write_text(prelude + "\n\n".join(functions) + harness)
    return path


def _define_attacks(bodies: Iterable[str]) -> Iterable[str]:
    for index, body in enumerate(bodies):
        text = textwrap.indent(textwrap.dedent(body).strip(), "    ")
        yield f"def attack_{index}():\n{text}\n"
