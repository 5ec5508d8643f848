"""A run is the same bytes at every isolation level, also where the agent fails."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from longplay.agents.isolation.ahead import AheadConsole
from longplay.contract.rundir import ROW_FILES
from longplay.errors import AgentError, ConfigError, RunFailed
from playing import play_run

# Two visits of 100 frames; decisions at frames 0, 4, 8 … of a visit.
SETTINGS = {
    "games": ["pong", "breakout"],
    "num_cycles": 1,
    "base_visit_frames": 100,
    "jitter_pct": 0,
    "decision_interval": 4,
    "delay": 2,
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def read_rows(run_dir: Path) -> dict[str, bytes]:
    return {name: (run_dir / name).read_bytes() for name in ROW_FILES}


def play_at(level: str, agent: Path, out: Path, **settings: Any) -> Path:
    """Plays a run and returns its directory, whether it failed or not."""
    overrides = {**SETTINGS, **settings}
    with contextlib.suppress(RunFailed):
        play_run(
            "stream-smoke-v1",
            str(agent),
            seed=1000,
            out=out,
            overrides=overrides,
            isolate=level,
        )
    (run_dir,) = (out / "episodes").iterdir()
    return run_dir


# Where the agent fails, and what that is; frame 0 and 4 are decision frames, frame 99
# is the last of a visit.
FAILURES = {
    "at a decision": "if frame == 8: raise ValueError('boom')",
    "at the first frame": "if frame == 0: raise ValueError('boom')",
    "between decisions": "if frame == 9: raise ValueError('boom')",
    "before a decision": "if frame == 11: raise ValueError('boom')",
    "at a visit's end": "if frame == 99: raise ValueError('boom')",
    "in the second visit": "if frame == 158: raise SystemExit(0)",
    "invalid action": "if frame >= 106: return 'left'",
    "invalid action that is ignored": "if not is_decision: return 'left'",
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", FAILURES)
def test_failing_run_is_the_same_in_its_own_process(
    name: str, write_agent: Callable[..., Path], tmp_path: Path
) -> None:
    agent = write_agent(f"{FAILURES[name]}\n        return frame % 18")
    here = play_at("none", agent, tmp_path / "none")
    there = play_at("process", agent, tmp_path / "process")
    assert read_rows(there) == read_rows(here)
    statuses = [json.loads((d / "status.json").read_bytes()) for d in (here, there)]
    for key in ("state", "frame", "game_id", "error"):
        assert statuses[1][key] == statuses[0][key], key
    summaries = [
        json.loads((d / "run_summary.json").read_bytes()) for d in (here, there)
    ]
    for key in ("frames", "decision_frames", "episodes", "segments", "chain_head"):
        assert summaries[1][key] == summaries[0][key], key


def test_rare_decisions_are_recorded_and_not_held_in_memory(
    write_agent: Callable[..., Path], tmp_path: Path
) -> None:
    agent = write_agent("if frame == 71: raise ValueError('boom')\n        return 3")
    runs = [
        play_at(level, agent, tmp_path / level, decision_interval=90)
        for level in ("none", "process")
    ]
    rows = read_rows(runs[1])
    assert rows == read_rows(runs[0])
    assert rows["events.jsonl"].count(b"\n") == 71


def test_traceback_of_the_other_process_is_kept(
    write_agent: Callable[..., Path], tmp_path: Path
) -> None:
    agent = write_agent("print('hello')\n        raise ValueError('boom')")
    run_dir = play_at("process", agent, tmp_path / "out")
    text = (run_dir / "agent_output.txt").read_text()
    assert text.startswith("hello\nTraceback (most recent call last):\n")
    assert text.endswith("raise ValueError('boom')\nValueError: boom\n")


DEATHS = {
    "os._exit(0)": "ended with exit status 0",
    "os.kill(os.getpid(), 9)": "was killed by SIGKILL",
    "os.closerange(3, 99)": "the agent's process",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("death", DEATHS)
def test_process_that_dies_is_a_failed_run(
    death: str, write_agent: Callable[..., Path], tmp_path: Path
) -> None:
    agent = write_agent(f"if frame == 8: {death}\n        return 3")
    with pytest.raises(AgentError, match=f"{DEATHS[death]}.* at frame .* of pong"):
        play_run(
            "stream-smoke-v1",
            str(agent),
            seed=1000,
            out=tmp_path / "out",
            overrides=SETTINGS,
            isolate="process",
        )
    (run_dir,) = (tmp_path / "out/episodes").iterdir()
    assert json.loads((run_dir / "status.json").read_bytes())["state"] == "FAILED"
    # Frames 5 to 7 travel with frame 8, so it is not known whether it processed them.
    assert (run_dir / "events.jsonl").read_bytes().count(b"\n") == 5


# What an agent does to the code that answers for it, and then raises or returns.
PATCH = """
        import longplay.agents.isolation.server as server
        from longplay.agents.isolation import channel
        if frame != 9: return 3
        def fail(*given):
            return channel.Failure(**{{**FAILURE, {changes}}})
        FAILURE = dict.fromkeys(("kind", "type_name", "message", "description"), "x")
        FAILURE.update(traceback="", percept=0, kind="")
        server.describe_failure = fail
        raise ValueError
"""
# Name -> statements of the step at frame 9, and the frame at which the run then fails.
LIES = {
    "percept below": (PATCH.format(changes="'percept': -5"), 9),
    "percept above": (PATCH.format(changes="'percept': 10**9"), 12),
    "name with a zero": (PATCH.format(changes="'type_name': 'a\\0b'"), 9),
    "cause with a zero": (
        PATCH.format(changes="'kind': 'AgentError', 'cause': 'a\\0b'"),
        9,
    ),
    "message with a zero": (PATCH.format(changes="'message': 'a\\0b'"), 9),
    "large message": (PATCH.format(changes="'description': 'x' * 3_000_000"), 9),
    "answer of a class with a zero": (
        """
        import longplay.agents.isolation.server as server
        from longplay.agents.isolation import channel
        server.pack_answer = lambda *given: channel.OddAnswer("a\\0b", "text")
        return 3
""",
        0,
    ),
    "folders without end": (
        """
        if frame == 8:
            for _ in range(3000):
                os.mkdir("x")
                os.chdir("x")
            raise ValueError
        return 3
""",
        8,
    ),
    "a folder instead of its output": (
        """
        output = os.environ["HOME"] + "/../native_output.txt"
        os.path.exists(output) and os.unlink(output)
        os.mkdir(output)
        os._exit(3)
""",
        0,
    ),
}


@pytest.mark.few(3)
@pytest.mark.parametrize("name", LIES)
def test_nothing_that_a_process_sends_breaks_the_referee(
    name: str,
    write_agent: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    statements, frame = LIES[name]
    agent = write_agent(f"pass\n{statements}")
    run_dir = play_at("process", agent, tmp_path / "out")
    status = json.loads((run_dir / "status.json").read_bytes())
    assert (status["state"], status["frame"]) == ("FAILED", frame)
    rows = (run_dir / "events.jsonl").read_bytes().count(b"\n")
    assert rows == frame
    assert list(temporary.iterdir()) == []


# Looks for frames in the shared memory that it has not been given yet.
LOOKING_AHEAD = """
        import gc, hashlib
        readers = [o for o in gc.get_objects() if type(o).__name__ == "FrameReader"]
        def find(image):
            return hashlib.sha256(image.tobytes()).digest()
        global SEEN, GIVEN
        if frame == 0:
            SEEN, GIVEN = set(), set()
        given = find(obs_rgb)
        if given in SEEN and given not in GIVEN:
            print("the future:", frame)
        GIVEN.add(given)
        if is_decision:
            time.sleep(0.02)
            SEEN |= set(map(find, readers[0]._slots))
        return frame % 18
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("is_hidden", [True, False])
def test_agent_does_not_see_frames_ahead(
    is_hidden: bool,
    write_agent: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a delay, frames are played before the agent has decided."""
    if not is_hidden:

        def draw_in_shared_memory(self: AheadConsole) -> Any:
            canvas = self._next_canvas()
            assert self._draw is not None
            self._draw(canvas)
            return canvas

        monkeypatch.setattr(AheadConsole, "_observe_hidden", draw_in_shared_memory)
    agent = write_agent(f"pass\n{LOOKING_AHEAD}")
    run_dir = play_at("sandbox", agent, tmp_path / "out", delay=8)
    assert json.loads((run_dir / "status.json").read_bytes())["state"] == "COMPLETED"
    output = run_dir / "agent_output.txt"
    seen = output.read_text().count("the future") if output.exists() else 0
    assert (seen == 0) is is_hidden


def test_limits_end_a_run(
    write_agent: Callable[..., Path], tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    agent = write_agent("if frame == 8: time.sleep(60)\n        return 3")
    limits = ("--isolate", "process", "--step-timeout", "0.5", "--agent-memory", "4")
    games = ("--set", 'games=["pong"]', "--set", "base_visit_frames=100")
    out = ("--out", tmp_path / "out")
    answer = invoke(
        "run", "stream-smoke-v1", "--agent", agent, *limits, *games, *out, "--quiet"
    )
    assert answer.exit_code == 1
    assert "(--step-timeout) at frame 5 of pong" in answer.stderr
    (run_dir,) = (tmp_path / "out/episodes").iterdir()
    for name in ("config.json", "episode_config.json"):
        recorded = json.loads((run_dir / name).read_bytes())["agent_isolation"]
        assert recorded == {
            "level": "process",
            "landlock_abi": None,
            "allowed": [],
            "step_timeout_s": 0.5,
            "memory_bytes": 4_000_000_000,
        }


@pytest.mark.exhaustive
def test_resuming_takes_the_recorded_level(
    write_agent: Callable[..., Path], tmp_path: Path, invoke: Callable[..., Any]
) -> None:
    """The agent dies the first time, as long as a file is missing."""
    flag = tmp_path / "flag"
    dies = f"frame == 130 and not os.path.exists({str(flag)!r})"
    agent = write_agent(f"if {dies}: os._exit(3)\n        return frame % 18")
    run_dir = play_at("process", agent, tmp_path / "out")
    flag.touch()
    here = play_at("none", agent, tmp_path / "none")
    out = tmp_path / "out"
    other = invoke("retry", out, "--agent", agent, "--isolate", "sandbox")
    assert other.exit_code == 2
    assert "was started with process, found sandbox" in other.stderr
    answer = invoke("resume", out, "--agent", agent, "--quiet", "--json")
    assert answer.exit_code == 0, answer.stderr
    assert read_rows(run_dir) == read_rows(here)


BAD_OPTIONS = [
    (("--isolate", "vm"), "--isolate: expected none, process, sandbox, found 'vm'"),
    (("--agent-env", "TOKEN"), "--agent-env: only with --isolate process or sandbox"),
    (("--step-timeout", "1"), "--step-timeout: only with --isolate"),
    (("--agent-memory", "0"), "--agent-memory: only with --isolate"),
    (
        ("--isolate", "process", "--step-timeout", "-1"),
        "--step-timeout: expected a number > 0, found -1",
    ),
    (
        ("--isolate", "process", "--agent-memory", "0"),
        "--agent-memory: expected a number > 0, found 0",
    ),
    (
        ("--isolate", "process", "--sandbox-allow", "/"),
        "--sandbox-allow: only with --isolate sandbox",
    ),
    (
        ("--isolate", "sandbox", "--sandbox-allow", "/no/such/path"),
        "--sandbox-allow /no/such/path: expected PATH or PATH:rw",
    ),
]


@pytest.mark.parametrize(("options", "message"), BAD_OPTIONS)
def test_bad_options_are_refused(
    options: tuple[str, ...], message: str, refuse: Callable[..., str]
) -> None:
    command = ("run", "stream-smoke-v1", "--agent", "random", *options)
    assert message in refuse(*command).replace("\n", " ")


def test_objects_cannot_be_isolated() -> None:
    with pytest.raises(Exception, match="an object cannot be sent to another process"):
        play_run("stream-smoke-v1", lambda n, seed: None, isolate="process")
    with pytest.raises(ConfigError, match="expected none, process, sandbox"):
        play_run("stream-smoke-v1", "random", isolate="thread")
