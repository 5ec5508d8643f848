"""Re-execution cannot be fooled by an agent that cheats while it is checked.

Every agent here draws its actions from the operating system, so an honest re-execution
cannot reproduce them. Each has a trick that makes the check pass in the verifier's own
process, which shows that the trick works; in the sandbox it has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forgery import rechain

from longplay.contract.rundir import ROW_FILES
from playing import play_run
from rows import read_rows

SUITE = "control-smoke-v1"
SETTINGS = {"games": ["pong"], "base_visit_frames": 80}
QUIET = ("--quiet", "--workers", 1)

AGENT = """
import gc, glob, json, os, sys

def draw():
    return os.urandom(1)[0] % 18

{trick}

class Agent:
    def __init__(self, num_actions, seed):
        self.frame = -1
        try:
            self.trick = Trick()
        except Exception as error:
            print("no trick:", repr(error))
            self.trick = None

    def step(self, obs_rgb, reward, terminated, truncated, info):
        self.frame += 1
        if self.trick is None:
            return draw()
        try:
            return self.trick.decide(self.frame)
        except Exception as error:
            print("no trick:", repr(error))
            return draw()
"""

_REPEATS = """
    def decide(self, frame):
        return json.loads(self.lines[frame])["decided_action_idx"]
"""

# Repeats a log, found in different ways; or makes the comparison succeed.
TRICKS = {
    "finds the log among the open files": """
class Trick:
    def __init__(self):
        links = [os.path.realpath(path) for path in glob.glob("/proc/self/fd/*")]
        (path,) = [link for link in links if link.endswith("events.jsonl")]
        self.lines = open(path).read().splitlines()
"""
    + _REPEATS,
    "opens the log by its path": """
class Trick:
    def __init__(self):
        pattern = os.path.join("{folder}", "out/episodes/*/events.jsonl")
        (path,) = glob.glob(pattern)
        self.lines = open(path).read().splitlines()
        assert self.lines
"""
    + _REPEATS,
    "reads the log through the verifier's files in /proc": """
class Trick:
    def __init__(self):
        self.lines = None
        for process in (os.getpid(), os.getppid()):
            for path in glob.glob(f"/proc/{process}/fd/*"):
                if os.path.realpath(path).endswith("events.jsonl"):
                    self.lines = open(path).read().splitlines()
        assert self.lines
"""
    + _REPEATS,
    "finds the checker among the live objects": """
class Trick:
    def __init__(self):
        from longplay.runs.checked_rows import CheckedRows
        checkers = [o for o in gc.get_objects() if isinstance(o, CheckedRows)]
        (path,) = [c.path for c in checkers if c.path.name == "events.jsonl"]
        self.lines = path.read_text().splitlines()
"""
    + _REPEATS,
    "patches the checker": """
class Trick:
    def __init__(self):
        from longplay.runs import checked_rows
        checked_rows.CheckedRows.append = lambda self, rows: None
        assert "longplay.verify.reexecution" in sys.modules
    def decide(self, frame):
        return draw()
""",
    "patches the recorder": """
class Trick:
    def __init__(self):
        from longplay.runs.recorder import Recorder
        assert "longplay.verify.reexecution" in sys.modules
        Recorder.flush = lambda self: None
        Recorder.write_digest = lambda self, event, ram_crc32: None
    def decide(self, frame):
        return draw()
""",
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def write(trick: str) -> Path:
        path = tmp_path / "cheat.py"
        path.write_text(
            AGENT.replace("{trick}", trick.replace("{folder}", str(tmp_path)))
        )
        return path

    return write


# Tested in `make test`; the others in `make test-all`.
_QUICK = ("finds the log among the open files", "patches the checker")


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in _QUICK else pytest.mark.exhaustive)
        for name in TRICKS
    ],
)
def test_trick_works_only_without_a_sandbox(
    name: str,
    write: Callable[[str], Path],
    tmp_path: Path,
    invoke: Callable[..., Any],
    spawn: Callable[..., Any],
) -> None:
    agent = write(TRICKS[name])
    out = tmp_path / "out"
    play_run(
        SUITE, str(agent), seed=1000, out=out, overrides=SETTINGS, isolate="process"
    )
    verify = ("verify", out, "--reexecute", "--agent", agent, *QUIET)
    answer = invoke(*verify)
    assert answer.exit_code == 1, answer.stdout + answer.stderr
    assert "decided_action_idx logged" in answer.stdout
    document = next(out.glob("episodes/*/verification.json"))
    assert json.loads(document.read_bytes())["level"] == "claimed"

    fooled = spawn(*verify, "--isolate", "none")
    assert fooled.exit_code == 0, fooled.stdout + fooled.stderr
    level = json.loads(document.read_bytes())["level"]
    assert level == "re-executed (unconfined)"


DEATHS = {
    "os._exit(0)": "the agent's process ended with exit status 0",
    "raise SystemExit(0)": "the agent raised SystemExit: 0",
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("death", DEATHS)
def test_agent_that_ends_while_it_is_checked_fails(
    death: str, tmp_path: Path, invoke: Callable[..., Any], spawn: Callable[..., Any]
) -> None:
    agent = tmp_path / "mortal.py"
    flag = tmp_path / "flag"
    agent.write_text(
        "import os\n"
        "class Agent:\n"
        "    def __init__(self, num_actions, seed): pass\n"
        "    def step(self, obs_rgb, reward, terminated, truncated, info):\n"
        f"        if not os.path.exists({str(flag)!r}): {death}\n"
        "        return 3\n"
    )
    flag.touch()
    out = tmp_path / "out"
    play_run(SUITE, str(agent), seed=1000, out=out, overrides=SETTINGS)
    answer = invoke("verify", out, "--reexecute", "--agent", agent, *QUIET)
    # `stat` is not restricted by Landlock: the agent still finds the file.
    assert answer.exit_code == 0, answer.stderr
    flag.unlink()
    answer = invoke("verify", out, "--reexecute", "--agent", agent, *QUIET)
    assert answer.exit_code == 1
    assert DEATHS[death] in answer.stderr.replace("\n", " ")
    unconfined = spawn(
        "verify", out, "--reexecute", "--agent", agent, "--isolate", "none", *QUIET
    )
    assert unconfined.exit_code == 1


def test_false_log_fails_before_the_agent_runs(
    tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """A log whose rewards were changed: the agent's code is never imported."""
    agent = tmp_path / "agent.py"
    agent.write_text(
        "class Agent:\n"
        "    def __init__(self, num_actions, seed): pass\n"
        "    def step(self, *percept): return 3\n"
    )
    out = tmp_path / "out"
    run_dir = play_run(
        SUITE, str(agent), seed=1000, out=out, overrides=SETTINGS
    ).run_dir
    events = run_dir / ROW_FILES[0]
    rows = read_rows(events)
    rows[40] = {**rows[40], "lives": rows[40]["lives"] + 1}
    events.write_bytes(
        b"".join(json.dumps(r, separators=(",", ":")).encode() + b"\n" for r in rows)
    )
    rechain(run_dir)
    agent.write_text("raise AssertionError('imported')")
    answer = invoke(
        "verify", out, "--reexecute", "--agent", agent, "--isolate", "none", *QUIET
    )
    assert answer.exit_code == 1
    assert "timestep 40: lives logged" in answer.stdout


@pytest.mark.exhaustive
def test_allowing_the_log_is_refused(
    finished_run: Path, invoke: Callable[..., Any]
) -> None:
    for path in (finished_run, finished_run.parent, finished_run / "events.jsonl"):
        allow = ("--sandbox-allow", path)
        answer = invoke("verify", finished_run, "--reexecute", *allow, *QUIET)
        assert answer.exit_code == 2
        assert "a sandboxed agent could read it" in answer.stderr


@pytest.mark.exhaustive
def test_agent_finds_nothing_that_its_runs_left_in_the_cache(
    tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """Each process has a copy of the cache, which is thrown away."""
    agent = tmp_path / "remembering.py"
    agent.write_text(
        "import os, pathlib\n"
        "class Agent:\n"
        "    def __init__(self, num_actions, seed):\n"
        "        cache = pathlib.Path(os.environ['NUMBA_CACHE_DIR'])\n"
        "        self.action = len(list(cache.iterdir()))\n"
        "        (cache / f'note-{self.action}').touch()\n"
        "    def step(self, *percept):\n"
        "        return self.action\n"
    )
    exit_codes = []
    for name in ("first", "second"):
        play_run(
            SUITE,
            str(agent),
            seed=1000,
            out=tmp_path / name,
            overrides=SETTINGS,
            isolate="process",
        )
        verify = ("verify", tmp_path / name, "--reexecute", "--agent", agent)
        exit_codes.append(invoke(*verify, *QUIET).exit_code)
    assert exit_codes == [0, 0]
