"""What agents and their libraries do every day works in a sandbox."""

from __future__ import annotations

import importlib.util
import platform
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longplay.agents.isolation import seccomp
from longplay.agents.isolation.landlock import SandboxError
from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.remote import load_isolated_agent
from longplay.errors import ConfigError

# Name -> the module that it needs, and statements; all of them in one agent's step.
DAILY: dict[str, tuple[str, str]] = {
    "shutil": (
        "shutil",
        """
        home = pathlib.Path.home()
        (home / "a").mkdir()
        (home / "a" / "file").write_text("text")
        for copy in (shutil.copy, shutil.copy2, shutil.copyfile):
            assert open(copy(home / "a" / "file", home / "b")).read() == "text"
        shutil.copytree(home / "a", home / "c")
        shutil.move(home / "c", home / "d")
        shutil.make_archive(str(home / "archive"), "zip", home / "d")
        shutil.rmtree(home / "d")
        """,
    ),
    "files": (
        "pathlib",
        """
        path = pathlib.Path.home() / "touched"
        path.touch()
        path.touch()
        path.chmod(0o600)
        os.utime(path, (1, 2))
        os.replace(path, path.with_name("replaced"))
        """,
    ),
    "tempfile": (
        "tempfile",
        """
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "x").write_text("y")
        with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryFile() as other:
            file.write(b"x")
            other.write(b"x")
        with tempfile.SpooledTemporaryFile(max_size=1) as file:
            file.write(b"xyz")
        """,
    ),
    "pyc": (
        "py_compile",
        """
        module = pathlib.Path.home() / "fresh_module.py"
        module.write_text("VALUE = 3")
        sys.path.insert(0, str(module.parent))
        sys.dont_write_bytecode = False
        import fresh_module
        assert fresh_module.VALUE == 3
        assert list(module.parent.glob("__pycache__/fresh_module.*.pyc"))
        assert py_compile.compile(str(module), str(module) + "c")
        """,
    ),
    "forks": (
        "os",
        """
        pid = os.fork()
        if not pid:
            os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5
        pid = os.fork()
        if not pid:
            os.read(os.pipe()[0], 1)
        os.sched_setaffinity(pid, os.sched_getaffinity(pid))
        resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        signal.pidfd_send_signal(os.pidfd_open(pid), 0)
        os.kill(pid, 9)
        assert os.waitpid(pid, 0) == (pid, 9)
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            pass
        heard = []
        signal.signal(signal.SIGUSR1, lambda *_: heard.append(1))
        signal.raise_signal(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        assert len(heard) == 3
        """,
    ),
    "threads": (
        "threading",
        """
        from concurrent.futures import ThreadPoolExecutor
        def pin():
            os.sched_setaffinity(0, os.sched_getaffinity(0))
            return threading.get_native_id()
        with ThreadPoolExecutor(3) as pool:
            assert all(pool.map(lambda _: pin(), range(6)))
            for tid in set(pool.map(lambda _: threading.get_native_id(), range(3))):
                os.sched_setaffinity(tid, os.sched_getaffinity(tid))
                os.setpriority(os.PRIO_PROCESS, tid, 19)
        resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(
            resource.RLIMIT_NOFILE))
        os.nice(1)
        """,
    ),
    "ctypes": (
        "ctypes",
        """
        compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        values = (ctypes.c_int * 3)(3, 1, 2)
        called = []
        def order(a, b):
            called.append(1)
            return 0
        ctypes.CDLL(None).qsort(values, 3, 4, compare(order))
        assert called
        """,
    ),
    "numba": (
        "numba",
        """
        import compiled
        assert compiled.add(3, 4) == 7
        assert compiled.total(np.ones(1000)) == 1000.0
        cache = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
        assert list(cache.rglob("compiled.add*.nbi"))
        """,
    ),
    "torch": (
        "torch",
        """
        torch.set_num_threads(2)
        weights = torch.ones(300, 300, requires_grad=True)
        (weights @ weights).sum().backward()
        path = pathlib.Path.home() / "weights.pt"
        torch.save({"weights": weights}, path)
        assert torch.equal(torch.load(path)["weights"], weights)
        torch.jit.fork(lambda: torch.ones(3))
        """,
    ),
}

COMPILED = """
import numba
@numba.njit(cache=True)
def add(a, b):
    return a + b
@numba.njit(parallel=True)
def total(values):
    result = 0.0
    for i in numba.prange(len(values)):
        result += values[i]
    return result
"""


def write_daily(name: str) -> str:
    module, statements = DAILY[name]
    return (
        "import os, pathlib, resource, signal, sys, threading\n"
        "import numpy as np\n"
        f"import {module}\n"
        "class Agent:\n"
        "    def __init__(self, num_actions, seed): pass\n"
        "    def step(self, obs_rgb, reward, terminated, truncated, info):\n"
        + textwrap.indent(textwrap.dedent(statements), "        ")
        + "\n        return 3\n"
    )


def ask(agent: Any) -> Any:
    frame = np.zeros((210, 160, 3), np.uint8)
    return agent.step(frame, 0.0, False, False, {"is_decision_frame": True})


@pytest.mark.few(4)
@pytest.mark.parametrize("name", DAILY)
def test_daily_work_succeeds_in_a_sandbox(
    name: str, start: Callable[..., Any], write: Callable[..., str]
) -> None:
    if importlib.util.find_spec(DAILY[name][0]) is None:
        pytest.skip(f"{DAILY[name][0]} is not installed")
    write(COMPILED, "compiled.py")
    _, agent = start(write_daily(name), level="sandbox")
    assert ask(agent) == 3


# --- the numba cache ------------------------------------------------------------------

CACHE_WRITER = """
import os, pathlib
CACHE = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
class Agent:
    def __init__(self, num_actions, seed): pass
    def step(self, obs_rgb, reward, terminated, truncated, info):
        (CACHE / "compiled").mkdir()
        print(sorted(str(path.relative_to(CACHE)) for path in CACHE.rglob("*")))
        return 3
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("level", ["process", "sandbox"])
def test_agent_gets_a_private_copy_of_the_numba_cache(
    level: str, start: Callable[..., Any], tmp_path: Path
) -> None:
    kept = tmp_path / "cache" / "longplay" / "numba" / "longplay"
    (kept / "learners").mkdir(parents=True)
    (kept / "learners" / "sarsa.nbi").write_text("compiled")
    for _ in range(2):
        loaded, agent = start(CACHE_WRITER, level=level)
        ask(agent)
        names = "".join(loaded.output._pending).strip()
        assert names == "['compiled', 'learners', 'learners/sarsa.nbi']"
        agent.close()
    assert not (kept / "compiled").exists()


def test_built_in_agent_keeps_its_numba_cache(tmp_path: Path) -> None:
    load_isolated_agent("random", Isolation("sandbox")).build(7).close()
    kept = tmp_path / "cache" / "longplay" / "numba"
    assert [path.name for path in kept.iterdir()] == ["longplay"]


# --- the filter is part of the sandbox ------------------------------------------------


def test_unknown_machine_has_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(ConfigError, match=r"--isolate sandbox: .* found riscv64"):
        Isolation("sandbox").check_available()
    with pytest.raises(SandboxError, match="exists for x86_64 and aarch64"):
        seccomp.install_filter()


# A container that denies prctl(PR_SET_SECCOMP) and seccomp(2) itself.
REFUSING = """
import ctypes, os, struct, sys
from longplay.agents.isolation import landlock
code = [(0x20, 0, 0, 0), (0x15, 4, 0, {seccomp}), (0x15, 0, 2, {prctl}),
        (0x20, 0, 0, 16), (0x15, 1, 0, 22), (0x06, 0, 0, 0x7FFF0000),
        (0x06, 0, 0, 0x00050001)]
data = b"".join(struct.pack("=HBBI", *each) for each in code)
landlock.forbid_new_privileges()
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
program = Program(len(code), data)
assert ctypes.CDLL(None).prctl(22, 2, ctypes.byref(program), 0, 0) == 0
os.execv(sys.executable, [sys.executable, "-m", "longplay", *sys.argv[1:]])
"""


def test_sandbox_is_refused_where_the_filter_is(tmp_path: Path) -> None:
    numbers = {"x86_64": (317, 157), "aarch64": (277, 167)}[platform.machine()]
    agent = tmp_path / "agent.py"
    agent.write_text("raise SystemExit('it was imported')")
    script = REFUSING.format(seccomp=numbers[0], prctl=numbers[1])
    options = ["--isolate", "sandbox", "--out", "out", "--agent", str(agent)]
    done = subprocess.run(
        [sys.executable, "-c", script, "run", "stream-smoke-v1", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "a sandbox needs a seccomp filter, which the kernel refused" in " ".join(
        done.stderr.split()
    )
    assert "it was imported" not in done.stderr
    assert not (tmp_path / "out" / "episodes").exists()


HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_of_calls_are_those_of_the_kernel(machine: str) -> None:
    if not HEADERS[machine].exists():
        pytest.skip("the kernel's headers are not installed")
    pattern = re.compile(r"#define __NR(?:3264)?_(\w+)\s+(\d+)")
    known = dict(pattern.findall(HEADERS[machine].read_text()))
    for call in seccomp._CALLS:
        number = seccomp.find_number(call, machine)
        if number is None or number < seccomp._FIRST_UNKNOWN:
            assert known.get(call) == (None if number is None else str(number)), call
