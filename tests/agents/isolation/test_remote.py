"""An agent in its own process behaves as in the referee's, and dies cleanly."""

from __future__ import annotations

import mmap
import os
import platform
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longplay.agents.global_random import GlobalRandom
from longplay.agents.isolation import folders, keeper
from longplay.agents.isolation.channel import SLOTS
from longplay.agents.isolation.levels import Isolation
from longplay.agents.isolation.remote import load_isolated_agent
from longplay.agents.source.loading import load_agent
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EventRow
from longplay.errors import (
    AgentError,
    AgentLoadError,
    ConfigError,
    describe_exception,
    format_traceback,
    name_error,
)
from longplay.stream import Mechanics, Stream
from longplay.tracks.streaming import STREAMING
from ordinary_user import open_parents

FRAME = np.zeros((210, 160, 3), np.uint8)
PROCESS = Isolation("process")
Start = Callable[..., Any]


def ask(agent: Any, *, decide: bool = True) -> Any:
    return agent.step(FRAME, 0.0, False, False, {"is_decision_frame": decide})


def agent_source(step: str = "return 3", init: str = "pass", more: str = "") -> str:
    return (
        "import os, signal, sys, time\n"
        "class Agent:\n"
        "    def __init__(self, num_actions, seed, **args):\n"
        f"        self.n = 0; {init}\n"
        "    def step(self, obs_rgb, reward, terminated, truncated, info):\n"
        "        self.n += 1\n"
        f"        {step}\n" + more
    )


# --- the same as in the referee's process -------------------------------------------

CURIOUS = """
import hashlib
class Agent:
    def __init__(self, num_actions, seed, speed=1):
        self.hash = hashlib.sha256(f"{num_actions} {seed} {speed}".encode())
        self.kept = []
    def step(self, obs_rgb, reward, terminated, truncated, info):
        self.kept.append(obs_rgb)
        told = [reward, terminated, truncated, sorted(info.items())]
        kinds = [type(x).__name__ for x in (reward, terminated, *info.values())]
        self.hash.update(obs_rgb.tobytes() + repr((told, kinds)).encode())
        obs_rgb[:] = 0
        self.kept = self.kept[-3:]
        return self.hash.digest()[0] % 18
    def metrics(self):
        return {"hash": float(self.hash.digest()[1])}
    def usage(self):
        return {"prompt_tokens": 3}
"""


def play(agent: Any) -> tuple[list[EventRow], list[dict[str, float]]]:
    schedule = [
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=f"game-{k}", visit_frames=90)
        for k in range(2)
    ]
    mechanics = Mechanics(decision_interval=4, delay=2)
    stream = Stream(schedule, (1, 2), ScriptedConsole(life_frames=10), mechanics)
    participant, events, metrics = STREAMING.join(agent), [], []
    while not stream.done:
        percept = stream.percept(participant.looks_between_decisions)
        events.append(stream.advance(participant.answer(percept)))
        if events[-1].truncated:
            metrics.append(participant.metrics())
    return events, metrics


@pytest.mark.parametrize("level", ["process", "sandbox"])
def test_agent_sees_and_answers_the_same(level: str, write: Any) -> None:
    path = write(CURIOUS)
    here = load_agent(path, {"speed": 3})
    there = load_isolated_agent(path, Isolation(level), {"speed": 3})  # type: ignore[arg-type]
    assert there.entry == here.entry
    assert there.agent_files == here.agent_files
    agent = there.build(7)
    assert play(agent) == play(here.build(7))
    assert agent.usage() == {"prompt_tokens": 3}
    agent.close()


def test_rare_decisions_are_sent_in_several_batches(start: Start) -> None:
    _, agent = start(agent_source("return self.n % 18"))
    for _ in range(2 * SLOTS + 5):
        assert ask(agent, decide=False) is None
    assert agent.processed == 2 * SLOTS
    assert ask(agent) == (2 * SLOTS + 6) % 18
    assert agent.processed == 2 * SLOTS + 6


FUNCTIONS = """
def init(observation_shape{actions}, seed, step_size=0.5):
    print("built with", observation_shape, seed, step_size)
    return 0
def step(state, previous_observation, observation, reward):
    return state + 1, {answer}, {{"size": float(observation.size)}}
def save(state, directory):
    (directory / "state.txt").write_text(str(state))
def load(directory):
    return int((directory / "state.txt").read_text())
"""


def test_functions_predict_save_and_load(write: Any, tmp_path: Path) -> None:
    source = FUNCTIONS.format(actions="", answer="state * 0.1")
    loaded = load_isolated_agent(write(source), PROCESS, {"step_size": 2})
    assert loaded.is_predictor
    agent = loaded.build_predictor(5)
    assert [ask(agent) for _ in range(4)] == [0.0, 0.1, 0.2, 0.1 * 3]
    assert agent.metrics() == {"size": 100800.0}
    saved = tmp_path / "saved"
    saved.mkdir()
    agent.save(saved)
    assert (saved / "agent" / "state" / "state.txt").read_text() == "4"
    ask(agent)
    agent.load(saved)
    assert ask(agent) == 0.4
    agent.close()
    loaded.output.keep_in(tmp_path)
    loaded.output.finish()
    text = (tmp_path / "agent_output.txt").read_text()
    assert text == "built with (210, 160, 3) 5 2\n"


DRAWING = """
import random
import numpy as np
IMPORTED = random.random()
def init(observation_shape, num_actions):
    return [IMPORTED, random.random(), np.random.random()]
def step(state, previous_observation, observation, reward):
    state.append(random.random() + np.random.normal())
    print(state)
    return state, 0
def save(state, directory):
    random.random()
    (directory / "state.txt").write_text(repr(state))
def load(directory):
    return eval((directory / "state.txt").read_text())
"""


def test_global_generators_are_seeded_and_saved(write: Any, tmp_path: Path) -> None:
    path = write(DRAWING)
    here, there = load_agent(path), load_isolated_agent(path, PROCESS)
    with GlobalRandom(7).in_use(), here.output.capture():
        agent = here.build(7)
        for _ in range(5):
            ask(agent)
    remote = there.build(7)
    for _ in range(3):
        ask(remote)
    (tmp_path / "saved").mkdir()
    remote.save(tmp_path / "saved")
    remote.close()
    again = there.build(7)
    again.load(tmp_path / "saved")
    for _ in range(2):
        ask(again)
    again.close()
    printed = "".join(there.output._pending)
    assert printed == "".join(here.output._pending)
    assert len(printed.splitlines()) == 5


def test_agent_that_opts_out_gets_no_pixels_between_decisions(start: Start) -> None:
    source = agent_source("print(obs_rgb is None); return 3")
    loaded, agent = start(source + "    looks_between_decisions = False\n")
    assert agent.looks_between_decisions is False
    info = {"is_decision_frame": False}
    agent.step(None, 0.0, False, False, info)
    ask(agent)
    assert "".join(loaded.output._pending).split() == ["True", "False"]


def test_agent_without_save_offers_none(start: Start) -> None:
    _, agent = start(agent_source())
    assert not hasattr(agent, "save") and not hasattr(agent, "usage")
    assert agent.metrics() == {}


STEPS_THAT_FAIL = [
    "raise ValueError('no luck')",
    "return {}['lives']",
    "raise SystemExit(3)",
    "raise KeyError",
    "class Odd(Exception): pass\n        raise Odd('a\\ud800b')",
    "return [][1]",
]


@pytest.mark.few(6)
@pytest.mark.parametrize("step", STEPS_THAT_FAIL)
def test_error_is_described_as_in_process(step: str, write: Any) -> None:
    path = write(agent_source(step))
    here, there = load_agent(path).build(7), load_isolated_agent(path, PROCESS).build(7)
    told = []
    for agent in (here, there):
        with pytest.raises((Exception, SystemExit)) as caught:
            ask(agent)
        error = caught.value
        told.append((describe_exception(error), name_error(error)))
        trace = format_traceback(error)
        assert "Traceback (most recent call last)" in trace
        assert "in step" in trace
    here_told, there_told = told
    assert there_told[0] == here_told[0].encode("utf-8", "backslashreplace").decode()
    assert there_told[1] == here_told[1]
    there.close()


ODD_ANSWERS = [
    "18",
    "np.array([19])",
    "-1",
    "True",
    "2.0",
    "'up'",
    "None",
    "10**30",
    "np.int64(18)",
    "np.float32(1)",
]


def test_odd_answers_read_the_same(write: Any) -> None:
    source = f"import numpy as np\nODD = [{', '.join(ODD_ANSWERS)}]\n"
    path = write(source + agent_source("return ODD[self.n - 1]"))
    told: list[list[str]] = []
    for agent in (
        load_agent(path).build(7),
        load_isolated_agent(path, PROCESS).build(7),
    ):
        told.append([])
        for _ in ODD_ANSWERS:
            visit = ScheduledVisit(
                visit_idx=0, cycle_idx=0, game_id="game", visit_frames=9
            )
            stream = Stream([visit], (1,), ScriptedConsole(), Mechanics())
            with pytest.raises(AgentError) as caught:
                stream.advance(ask(agent))
            told[-1].append(str(caught.value))
    assert told[0] == told[1]
    assert len(set(told[0])) == len(ODD_ANSWERS)
    agent.close()  # type: ignore[attr-defined]


def test_error_between_decisions_says_where(start: Start) -> None:
    _, agent = start(agent_source("return 3 if self.n != 3 else 1 / 0"))
    assert ask(agent) == 3
    assert ask(agent, decide=False) is None  # answers
    assert ask(agent, decide=False) is None  # fails
    assert ask(agent, decide=False) is None
    with pytest.raises(Exception, match="division by zero"):
        ask(agent)
    assert agent.processed == 2  # the other three were given to it in vain


LOADS_THAT_FAIL = [
    ("raise ValueError('no')", {}),
    ("import no_such_module_here", {}),
    ("import sys; sys.exit(2)", {}),
    ("x = (", {}),
    ("Agent = 3", {}),
    ("class Agent: pass", {}),
    ("def init(a, b): pass", {}),
    ("def Agent(num_actions, seed): return object()", {}),
    ("class Agent:\n def __init__(self, n, s): 1 / 0\n def step(self): pass", {}),
    (agent_source(), {"a": 1, "num_actions": 2}),
    (FUNCTIONS.format(actions="", answer="0"), {}),
    (FUNCTIONS.format(actions=", n", answer="0"), {"lr": 2}),
    ("import importlib; importlib.import_module('bes' + 'ide')", {}),
]


@pytest.mark.few(5)
@pytest.mark.parametrize(("source", "args"), LOADS_THAT_FAIL)
def test_refusal_to_load_is_the_same(source: str, args: Any, write: Any) -> None:
    path = write(source)
    write("", "beside.py")
    messages = []
    for load in (load_agent, lambda r, a: load_isolated_agent(r, PROCESS, a)):
        with pytest.raises(AgentLoadError) as caught:
            load(path, args).build(7)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_output_is_kept_in_order(start: Start, tmp_path: Path) -> None:
    source = agent_source(
        "print('step', self.n); sys.stdout.buffer.write(b'bytes\\n'); return 3",
        init="print('built', file=sys.stderr)",
    )
    loaded, agent = start("print('imported')\n" + source)
    ask(agent)
    agent.close()
    loaded.output.keep_in(tmp_path)
    loaded.output.finish()
    text = (tmp_path / "agent_output.txt").read_text()
    assert text == "imported\nbuilt\nstep 1\nbytes\n"


def test_object_cannot_be_isolated() -> None:
    class Agent:
        pass

    with pytest.raises(AgentLoadError, match="an object cannot be sent to another"):
        load_isolated_agent(Agent, PROCESS)


def test_data_files_are_copied_and_must_not_change(write: Any, tmp_path: Path) -> None:
    init = "self.a = int(open(os.path.join(os.path.dirname(__file__), 'w.txt')).read())"
    path = write(agent_source("return self.a", init))
    weights = Path(write("5", "w.txt"))
    loaded = load_isolated_agent(path, PROCESS, agent_files=["*.txt"])
    agent = loaded.build(7)
    assert ask(agent) == 5
    agent.close()
    weights.write_text("6")
    with pytest.raises(AgentLoadError, match=r"w\.txt: it changed after it was hashed"):
        loaded.build(7)


@pytest.mark.parametrize("place", ["notes.py", "package/notes.py"])
def test_link_in_the_agents_folder_leads_nowhere(
    place: str, write: Any, tmp_path: Path
) -> None:
    """It would make the referee copy a file of the user into the sandbox."""
    (tmp_path / "secret.txt").write_text("the secret")
    module = place.removesuffix(".py").replace("/", ".")
    name = repr(f"files/{place}")
    path = write(
        "import os, pathlib\n"
        "folder = pathlib.Path(os.environ['HOME']).parent\n"
        f"raise SystemExit((folder / {name}).read_text())\n"
        f"import {module}\n"
    )
    link = tmp_path / "agent" / place
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "secret.txt")
    with pytest.raises(AgentLoadError, match=r"found a link to .*secret\.txt"):
        load_isolated_agent(path, Isolation("sandbox"))
    # Without the check, it is read.
    with pytest.raises(AgentLoadError, match="SystemExit: the secret"):
        load_isolated_agent(path, Isolation("process"))
    link.unlink()
    inside = tmp_path / "agent" / "inside.txt"
    inside.write_text("its own file")
    link.symlink_to(inside)
    with pytest.raises(AgentLoadError, match="SystemExit: its own file"):
        load_isolated_agent(path, Isolation("sandbox"))


def test_environment_and_descriptors(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_TOKEN", "visible")
    monkeypatch.setenv("MY_OTHER", "hidden")
    step = (
        "print(sorted(os.environ)); print(len(os.listdir('/proc/self/fd'))); "
        "print(os.getcwd() == os.environ['HOME']); return 3"
    )
    loaded, agent = start(agent_source(step), variables=("MY_TOKEN",))
    ask(agent)
    names, count, is_home = "".join(loaded.output._pending).splitlines()
    assert "'MY_TOKEN'" in names and "'MY_OTHER'" not in names
    # Standard streams, two pipes, the shared memory; and the listing itself.
    assert int(count) == 7
    assert is_home == "True"


# --- the end ------------------------------------------------------------------------

DEATHS = [
    ("os._exit(0)", "the agent's process ended with exit status 0"),
    ("os._exit(7)", "the agent's process ended with exit status 7"),
    ("os.kill(os.getpid(), signal.SIGKILL)", "was killed by SIGKILL"),
    ("os.abort()", "was killed by SIGABRT"),
    ("os.kill(os.getpid(), 40)", "was killed by signal 40"),
    ("os.write(2, b'last words\\n'); os._exit(1)", "exit status 1: last words"),
    ("os.kill(os.getppid(), signal.SIGKILL); time.sleep(60)", "closed its pipe"),
    ("os.write(4, b'\\xff' * 64); time.sleep(60)", "sent a message of"),
]


@pytest.mark.few(3)
@pytest.mark.parametrize(("statement", "message"), DEATHS)
def test_death_is_an_error_with_its_status(
    statement: str, message: str, start: Start
) -> None:
    find = "os.write(4" in statement
    source = agent_source(statement)
    if find:  # the descriptor of the reply pipe
        source = source.replace("os.write(4", "os.write(fd()") + (
            "def fd():\n"
            "    import fcntl\n"
            "    return next(f for f in range(3, 50) if is_pipe(f) and\n"
            "        fcntl.fcntl(f, fcntl.F_GETFL) & os.O_WRONLY)\n"
            "def is_pipe(f):\n"
            "    try:\n"
            "        return os.readlink(f'/proc/self/fd/{f}').startswith('pipe')\n"
            "    except OSError:\n"
            "        return False\n"
        )
    _, agent = start(source)
    with pytest.raises(AgentError, match=message):
        ask(agent)
    agent.close()  # does nothing
    assert not agent._process.folder.path.exists()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def is_running(pid: int) -> bool:
    """Whether a process that is not a child of this one is still alive."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_no_descendant_outlives_the_agent(start: Start, tmp_path: Path) -> None:
    step = (
        f"pids = open({str(tmp_path / 'pids')!r}, 'a')\n"
        "        for _ in range(3):\n"
        "            pid = os.fork()\n"
        "            if pid == 0:\n"
        "                os.setsid(); signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "                if os.fork() == 0: pass\n"
        "                pids.write(f'{os.getpid()}\\n'); pids.flush()\n"
        "                time.sleep(600)\n"
        "        time.sleep(0.5); return 3"
    )
    _, agent = start(agent_source(step))
    assert ask(agent) == 3
    pids = [int(line) for line in (tmp_path / "pids").read_text().split()]
    assert len(pids) == 6 and all(map(is_alive, pids))
    agent.close()
    assert not any(map(is_alive, pids))


# x86-64: clones itself and ends, 3,000 times, within 0.1 ms each.
RABBIT = "".join(
    (
        *("41bcb80b0000", "41ffcc", "741a", "bf11010000", "31f6", "31d2", "4d31d2"),
        *("4d31c0", "b838000000", "0f05", "85c0", "74e1", "31ff", "b83c000000", "0f05"),
    )
)


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
@pytest.mark.parametrize("level", ["process", "sandbox"])
def test_processes_that_fork_faster_than_they_are_found_are_killed(
    level: str, start: Start
) -> None:
    """They begin when the agent ends: a pipe tells them."""
    step = (
        "import ctypes, mmap\n"
        f"        code = bytes.fromhex({RABBIT!r})\n"
        "        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS\n"
        "        place = mmap.mmap(-1, 4096, flags, 7); place.write(code)\n"
        "        place = ctypes.c_char.from_buffer(place)\n"
        "        run = ctypes.CFUNCTYPE(None)(ctypes.addressof(place))\n"
        "        read, written = os.pipe()\n"
        "        for _ in range(5):\n"
        "            if os.fork() == 0:\n"
        "                os.close(written); os.read(read, 1); run()\n"
        "        return 3"
    )
    _, agent = start(agent_source(step), level=level)
    assert ask(agent) == 3
    started_s = time.monotonic()
    agent.close()
    assert time.monotonic() - started_s < 10
    assert agent._process._popen.returncode == 0  # the keeper has found them all


def test_agent_dies_with_the_referee(write: Any, tmp_path: Path) -> None:
    path = write(agent_source("return os.getpid()"))
    read, written = os.pipe()
    referee = os.fork()
    if referee == 0:
        try:
            agent = load_isolated_agent(path, PROCESS).build(7)
            process = agent._process
            os.write(written, f"{process._popen.pid} {process.folder.path}".encode())
        finally:  # an error must not make a second test runner of this process
            os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(referee, 0)
    os.close(written)
    pid, folder = os.read(read, 1000).decode().split()
    keeper = int(pid)
    deadline_s = time.monotonic() + 10
    while is_running(keeper) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not is_running(keeper)
    assert not Path(folder).exists()


def test_step_timeout_counts_from_the_second_step(start: Start) -> None:
    step = "time.sleep({1: 0.5, 2: 0.0, 3: 60}[self.n]); return 3"
    _, agent = start(agent_source(step), step_timeout_s=0.3)
    assert (ask(agent), ask(agent)) == (3, 3)
    with pytest.raises(AgentError, match=r"more than 0\.3 s to answer .--step-timeout"):
        ask(agent)


def test_memory_limit_covers_descendants(start: Start) -> None:
    step = (
        "os.fork() or setattr(self, 'x', bytearray(os.urandom(1)) * (300 << 20)); "
        "time.sleep(60)"
    )
    _, agent = start(agent_source(step), memory_bytes=250 << 20)
    with pytest.raises(
        AgentError, match=r"more than the 262,144,000 of --agent-memory"
    ):
        ask(agent)


def test_memory_limit_covers_anonymous_files(start: Start) -> None:
    """No process has the memory mapped."""
    step = (
        "fd = os.memfd_create('memory')\n"
        "        for _ in range(300): os.write(fd, bytes(1 << 20))\n"
        "        time.sleep(60)"
    )
    _, agent = start(agent_source(step), memory_bytes=250 << 20)
    with pytest.raises(AgentError, match=r"more than the 262,144,000 of --agent-memo"):
        ask(agent)


@pytest.mark.parametrize("level", ["process", "sandbox"])
def test_memory_limit_covers_page_tables(start: Start, level: str) -> None:
    """4 KiB for every 2 MiB that are only read: no page of its own."""
    step = (
        "import mmap\n"
        "        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS\n"
        "        m = mmap.mmap(-1, 150 << 30, flags=flags, prot=mmap.PROT_READ)\n"
        "        m.madvise(mmap.MADV_NOHUGEPAGE)\n"
        "        for place in range(0, len(m), 2 << 20): m[place]\n"
        "        time.sleep(60)"
    )
    _, agent = start(agent_source(step), level, memory_bytes=250 << 20)
    with pytest.raises(AgentError, match=r"more than the 262,144,000 of --agent-memo"):
        ask(agent)


def test_limited_agent_has_no_folder_in_memory(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file there that is removed but mapped takes memory that is not counted."""
    monkeypatch.setattr("tempfile.tempdir", "/dev/shm")
    in_memory = folders.list_memory_devices()
    assert Path("/dev/shm").stat().st_dev in in_memory
    _, agent = start(agent_source("return 3"))
    assert agent._process.folder.path.parent == Path("/dev/shm")
    _, agent = start(agent_source("return 3"), memory_bytes=250 << 20)
    process = agent._process
    assert process.folder.path.stat().st_dev not in in_memory
    assert os.fstat(process._native).st_dev not in in_memory
    everything = {Path(place).stat().st_dev for place in ("/dev/shm", "/var/tmp")}
    monkeypatch.setattr(folders, "list_memory_devices", lambda: everything)
    with pytest.raises(ConfigError, match="--agent-memory: expected a temporary folde"):
        start(agent_source("return 3"), memory_bytes=250 << 20)


def test_shared_memory_counts_once() -> None:
    fd = os.memfd_create("memory")
    before = keeper.count_memory_bytes([os.getpid()])
    os.ftruncate(fd, 64 << 20)
    with mmap.mmap(fd, 64 << 20) as memory:
        for _ in range(64):
            memory.write(bytes(1 << 20))
        grown = keeper.count_memory_bytes([os.getpid()]) - before
    os.close(fd)
    assert 60 << 20 < grown < 100 << 20


SAVES_THAT_FAIL = [
    "os.symlink('/etc/passwd', directory / 'link')",
    "os.mkfifo(directory / 'fifo')",
    "os.symlink('/etc', directory / 'folder')",
]


@pytest.mark.parametrize("statement", SAVES_THAT_FAIL)
def test_links_and_fifos_of_save_are_refused(
    statement: str, start: Start, tmp_path: Path
) -> None:
    more = f"    def save(self, directory): {statement}\n    def load(self, d): pass\n"
    _, agent = start(agent_source(more=more))
    (tmp_path / "saved").mkdir()
    with pytest.raises(AgentError, match="which is neither a file nor a folder"):
        agent.save(tmp_path / "saved")
    assert list((tmp_path / "saved" / "agent").iterdir()) == []


SAVES_THAT_EXCEED = [
    ("directory /= 'x'; directory.mkdir()", "folders nested more than 32 deep"),
    ("(directory / f'{i}').touch()", "more than 20 files and folders"),
    ("(directory / f'{i}').write_bytes(bytes(50_000))", "more than 99,999 bytes"),
]


@pytest.mark.parametrize(("statement", "message"), SAVES_THAT_EXCEED)
def test_large_saves_are_refused(
    statement: str,
    message: str,
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if "32" not in message:
        monkeypatch.setattr(folders, "MOST_ENTRIES", 20)
        monkeypatch.setattr(folders, "MOST_BYTES", 99_999)
    more = (
        "    def save(self, directory):\n"
        "        for i in range(40):\n"
        f"            {statement}\n"
        "    def load(self, d): pass\n"
    )
    _, agent = start(agent_source(more=more))
    (tmp_path / "saved").mkdir()
    with pytest.raises(AgentError, match=message):
        agent.save(tmp_path / "saved")
    agent.close()
    assert not agent._process.folder.path.exists()


def test_save_that_changes_while_it_is_copied_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every file disappears once another one has been copied."""
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    for name in ("a", "b"):
        (source / name).touch()
    real = folders._TreeCopy._copy_file

    def copy_file(self: Any, *given: Any) -> None:
        real(self, *given)
        for path in source.iterdir():
            path.unlink()

    monkeypatch.setattr(folders._TreeCopy, "_copy_file", copy_file)
    fd = os.open(source, os.O_RDONLY)
    with pytest.raises(AgentError, match="which changed while it was copied"):
        folders.copy_tree(fd, target)
    os.close(fd)


TREE = """
import os, sys
sys.path.insert(0, sys.argv[1])
from ordinary_user import become_ordinary_user
become_ordinary_user()
from pathlib import Path
from longplay.agents.isolation.folders import remove_tree
folder = Path(os.path.join(sys.argv[2], "folder"))
folder.mkdir()
(folder / "link").symlink_to(sys.argv[2])
(folder / "closed" / "inner").mkdir(parents=True)
(folder / "closed" / "inner").chmod(0)
(folder / "closed").chmod(0)
os.chdir(folder)
for _ in range(3000):
    os.mkdir("x")
    os.chdir("x")
remove_tree(folder)
"""


def test_folder_is_removed_however_it_is_nested(tmp_path: Path) -> None:
    open_parents(tmp_path)
    tmp_path.chmod(0o777)
    (tmp_path / "file").touch()
    tests = str(Path(__file__).parents[2] / "kit")
    command = [sys.executable, "-c", TREE, tests, str(tmp_path)]
    subprocess.run(command, check=True, cwd="/")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_folder_is_removed_without_following_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder is replaced by a link just before it is opened."""
    private, folder = tmp_path / "private", tmp_path / "folder"
    private.mkdir()
    (private / "file").touch()
    (folder / "inner").mkdir(parents=True)
    chmod = os.chmod

    def swap(path: Any, *given: Any, **options: Any) -> None:
        if (folder / "inner").is_dir() and not (folder / "inner").is_symlink():
            (folder / "inner").rename(folder / "aside")
            (folder / "inner").symlink_to(private)
        chmod(path, *given, **options)

    monkeypatch.setattr(os, "chmod", swap)
    folders.remove_tree(folder)
    assert (private / "file").exists()
    assert not folder.exists()
