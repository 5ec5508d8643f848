"""Bad input: each kind has its own message and exit code, and writes nothing it should
not. A run that fails on its way leaves whole rows and a status that says so.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from longplay.contract import files

SUITE = "stream-smoke-v1"
CONTROL_SUITE = "control-smoke-v1"
ROW_FILES = ("events.jsonl", "episodes.jsonl", "segments.jsonl")

# One visit of 60 frames, and three of 100: what most tests here play.
ONE_VISIT = (
    *("--set", 'games=["pong"]', "--set", "num_cycles=1"),
    *("--set", "base_visit_frames=60", "--set", "jitter_pct=0"),
)
THREE_VISITS = (
    *("--set", "num_cycles=1", "--set", "base_visit_frames=100"),
    *("--set", "jitter_pct=0"),
)

AGENT = """\
import math, os, sys, time
import numpy as np

class Agent:
    def __init__(self, num_actions, seed):
        {init}
    def step(self, obs_rgb, reward, terminated, truncated, info):
        frame, is_decision = info["global_frame_idx"], info["is_decision_frame"]
        {step}
    {more}
"""


@pytest.fixture(autouse=True)
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, in which default output folders would appear."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    workplace = tmp_path / "workplace"
    workplace.mkdir()
    monkeypatch.chdir(workplace)
    return workplace


@pytest.fixture
def write_agent(tmp_path: Path) -> Callable[..., Path]:
    def write_agent(
        step: str = "return 3", init: str = "pass", more: str = "pass"
    ) -> Path:
        path = tmp_path / "some_agent.py"
        path.write_text(AGENT.format(step=step, init=init, more=more))
        return path

    return write_agent


@pytest.fixture
def refuse(
    invoke: Callable[..., Any], workplace: Path, tmp_path: Path
) -> Callable[..., str]:
    """Runs a command that must be refused (exit 2) and must write nothing."""

    def refuse(*args: object) -> str:
        before = sorted(tmp_path.rglob("*"))
        answer = invoke(*args)
        assert answer.exit_code == 2, answer.stdout + answer.stderr
        assert answer.stdout == ""
        assert answer.stderr.startswith("error: ")
        assert [p for p in sorted(tmp_path.rglob("*")) if p not in before] == []
        return str(answer.stderr)

    return refuse


class Left:
    """What a run left behind under `--out`, complete or not."""

    def __init__(self, out: Path) -> None:
        self.out = out

    @property
    def run_dir(self) -> Path:
        (run_dir,) = (self.out / "episodes").iterdir()
        return run_dir

    def document(self, name: str) -> Any:
        return json.loads((self.run_dir / name).read_bytes())

    @property
    def status(self) -> Any:
        return self.document("status.json")

    def rows(self, name: str = "events.jsonl") -> list[dict[str, Any]]:
        """All rows; fails if the file does not end with a whole one."""
        content = (self.run_dir / name).read_bytes()
        assert content == b"" or content.endswith(b"\n")
        return [json.loads(line) for line in content.splitlines()]

    def check_rows(self) -> int:
        """All files hold whole rows that agree; returns the number of frames."""
        frames = [row["global_frame_idx"] for row in self.rows()]
        assert frames == list(range(len(frames)))
        for name in ROW_FILES[1:]:
            for row in self.rows(name):
                assert row["end_global_frame_idx"] < len(frames)
        return len(frames)

    def check_no_scraps(self) -> None:
        """No temporary file and no reserved space is left; the lock file stays."""
        assert {p.name for p in self.out.rglob(".*")} <= {".lock"}


@pytest.fixture
def left(tmp_path: Path) -> Left:
    return Left(tmp_path / "out")


@pytest.fixture
def run_to_failure(invoke: Callable[..., Any], left: Left) -> Callable[..., str]:
    """Runs an agent that fails on the way: exit 1, FAILED, whole rows."""

    def run_to_failure(agent: Path, *args: object) -> str:
        answer = invoke("run", SUITE, "--agent", agent, "--out", left.out, *args)
        assert answer.exit_code == 1, answer.stdout + answer.stderr
        assert answer.stdout == ""
        assert left.status["state"] == "FAILED"
        left.check_rows()
        left.check_no_scraps()
        return str(answer.stderr)

    return run_to_failure


# --- Unknown names ----------------------------------------------------------------

UNKNOWN = [
    (("run", "stream-smok-v1", "--agent", "random"), "suite 'stream-smok-v1'", SUITE),
    (("run", "stream-8x3-v2", "--agent", "random"), "suite", "'stream-8x3-v1'"),
    (("run", "qqq", "--agent", "random"), "unknown suite 'qqq'", "stream-3x2-v1"),
    (("run", SUITE, "--agent", "randon"), "unknown agent 'randon'", "'random'"),
    (("run", SUITE, "--agent", "zzz"), "unknown agent 'zzz'", "file.py[:Agent]"),
    (("check-agent", "nop"), "unknown agent 'nop'", "'noop'"),
    (
        ("run", SUITE, "--agent", "random", "--set", 'games=["qberd"]'),
        "unknown game 'qberd'",
        "'qbert'",
    ),
]


@pytest.mark.parametrize(("args", "what", "hint"), UNKNOWN)
def test_unknown_name(
    args: tuple[str, ...], what: str, hint: str, refuse: Callable[..., str]
) -> None:
    message = refuse(*args)
    assert what in message
    assert hint in message


@pytest.mark.parametrize(
    ("game_id", "reason"),
    [
        ("combat", "'combat' cannot be played: for two players only"),
        ("adventure", "'adventure' cannot be played: its frames are 250 lines high"),
    ],
)
def test_unplayable_game(game_id: str, reason: str, refuse: Callable[..., str]) -> None:
    assert reason in refuse(
        "run", SUITE, "--agent", "random", "--set", f'games=["{game_id}"]'
    )


def test_damaged_rom(
    refuse: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pong.bin").write_bytes(b"\xea" * 2048)
    monkeypatch.setenv("ALE_ROMS_DIR", str(tmp_path))
    message = refuse("run", SUITE, "--agent", "random", *ONE_VISIT)
    assert "ROM of pong: expected MD5" in message


def test_no_agent_given(refuse: Callable[..., str]) -> None:
    assert "--agent: expected a name, file.py[:attr]" in refuse("run", SUITE)


# --- Agents that cannot be loaded or built ----------------------------------------

UNLOADABLE = [
    ("x = 1", "expected a class `Agent` with a method `step`"),
    ("def step(*args): return 0", "functions `init` and `step`; found `step` alone"),
    ("def init(*args): return 0", "functions `init` and `step`; found `init` alone"),
    ("class Agent: pass", "class Agent has no method `step`"),
    ("class Agent:\n  step = 3", "class Agent has no method `step`"),
    ("1 / 0", "importing it raised ZeroDivisionError: division by zero"),
    ("import no_such_thing", "importing it raised ModuleNotFoundError"),
    ("def broken(:", "importing it raised SyntaxError"),
    ("raise SystemExit(0)", "importing it raised SystemExit"),
    (
        AGENT.format(init="raise KeyError('weights')", step="pass", more="pass"),
        "raised KeyError: 'weights'",
    ),
    (
        AGENT.format(init="sys.exit(0)", step="pass", more="pass"),
        "raised SystemExit",
    ),
    (
        "class Agent:\n  def __init__(self): pass\n  def step(self, *a): return 0",
        "Agent(num_actions, seed, **agent_args) raised TypeError",
    ),
    (
        "class Thing: pass\ndef Agent(num_actions, seed): return Thing()",
        "found Thing without one",
    ),
    (
        "def init(observation_shape): return 0\ndef step(*args): return 0, 0",
        "init: expected init(observation_shape, num_actions), found "
        "init(observation_shape): too many positional arguments",
    ),
    (
        "def init(shape, num_actions, model): return 0\ndef step(*args): return 0, 0",
        "found init(shape, num_actions, model): missing a required argument: 'model'",
    ),
    (
        "def init(*args): return 0\ndef step(state, observation): return 0, 0",
        "step: expected step(state, previous_observation, observation, reward), found "
        "step(state, observation): too many positional arguments",
    ),
    (
        "def init(*args): return 0\ndef step(s, p, o, r, game): return 0, 0",
        "found step(s, p, o, r, game): missing a required argument: 'game'",
    ),
    (
        "def init(*args): raise KeyError('weights')\ndef step(*args): return 0, 0",
        "init(observation_shape, num_actions) raised KeyError: 'weights'",
    ),
]


@pytest.mark.parametrize("suite", [SUITE, CONTROL_SUITE])
@pytest.mark.parametrize(("source", "message"), UNLOADABLE)
def test_agent_that_cannot_be_loaded(
    suite: str, source: str, message: str, refuse: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "some_agent.py"
    path.write_text(source)
    found = refuse("run", suite, "--agent", path, *ONE_VISIT)
    assert message in found
    assert "some_agent.py" in found


def test_agent_file_missing(refuse: Callable[..., str]) -> None:
    message = refuse("run", SUITE, "--agent", "not_there.py")
    assert "agent file not_there.py: there is no such file" in message


def test_agent_file_without_that_attribute(
    refuse: Callable[..., str], write_agent: Callable[..., Path]
) -> None:
    message = refuse("run", SUITE, "--agent", f"{write_agent()}:Agnet")
    assert "there is no 'Agnet' in it" in message


BAD_ARGUMENTS = [
    ("random", "colour=3", "unexpected keyword argument 'colour'"),
    ("random", "seed=3", "'seed'"),
    ("random", "colour", "--agent-arg: expected key=value, found 'colour'"),
    ("random", "=3", "--agent-arg: expected key=value, found '=3'"),
    ("random", "lr=NaN", "agent args must be plain JSON"),
    ("repeat", "action=18", "action: expected an int in 0 … 17, found 18"),
    ("repeat", "action=true", "action: expected an int in 0 … 17, found True"),
    ("repeat", "action=UP", "action: expected an int in 0 … 17, found 'UP'"),
]


@pytest.mark.parametrize(("agent", "argument", "message"), BAD_ARGUMENTS)
def test_agent_argument(
    agent: str, argument: str, message: str, refuse: Callable[..., str]
) -> None:
    found = refuse("run", SUITE, "--agent", agent, "--agent-arg", argument, *ONE_VISIT)
    assert message in found


# --- Agents that fail on the way --------------------------------------------------


@pytest.fixture
def failed_run(
    run_to_failure: Callable[..., str], write_agent: Callable[..., Path], left: Left
) -> Left:
    """A run of three visits of 100 frames whose agent raised at frame 137."""
    agent = write_agent("if frame == 137: raise ValueError('boom')\n        return 1")
    message = run_to_failure(agent, *THREE_VISITS)
    game_id = left.rows()[-1]["game_id"]
    assert (
        f"the agent raised ValueError: boom (some_agent.py:9) at frame 137 of {game_id}"
        in message
    )
    assert f"what was recorded: {left.run_dir}\n" in message
    return left


def test_agent_that_raises_leaves_its_status(failed_run: Left) -> None:
    error = failed_run.status["error"]
    assert failed_run.status["frame"] == error["frame"] == 137
    assert failed_run.status["frames_total"] == 300
    assert error["type"] == "ValueError"
    assert "ValueError: boom" in error["message"]
    assert failed_run.status["game_id"] == error["game"]
    assert error["game"] == failed_run.rows()[136]["game_id"]


def test_agent_that_raises_leaves_all_frames_before(failed_run: Left) -> None:
    assert failed_run.check_rows() == 137
    assert failed_run.document("run_summary.json")["frames"] == 137
    assert failed_run.rows("segments.jsonl")[0]["end_global_frame_idx"] == 99
    assert not (failed_run.run_dir / "score.json").exists()


def test_agent_that_raises_shows_in_the_experiment(failed_run: Left) -> None:
    summary = json.loads((failed_run.out / "experiment_summary.json").read_bytes())
    (run,) = summary["runs"]
    assert (run["state"], run["frame"], run["final_score"]) == ("FAILED", 137, None)
    assert run["error"] == failed_run.status["error"]


def test_failed_run_is_not_scored(failed_run: Left, invoke: Callable[..., Any]) -> None:
    answer = invoke("score", failed_run.out)
    assert answer.exit_code == 1
    assert "its last frame is 136 of 0 … 299" in answer.stderr
    assert "--partial" in answer.stderr
    assert not (failed_run.run_dir / "score.json").exists()


def test_failed_run_is_scored_in_part(
    failed_run: Left, invoke: Callable[..., Any]
) -> None:
    answer = invoke("score", failed_run.out, "--partial", "--json")
    assert answer.exit_code == 0
    assert answer.json["complete"] is False
    assert list(answer.json["per_game_scores"]) == [failed_run.rows()[0]["game_id"]]
    assert not (failed_run.run_dir / "score.json").exists()


def test_run_without_a_frame(
    run_to_failure: Callable[..., str],
    write_agent: Callable[..., Path],
    left: Left,
    invoke: Callable[..., Any],
) -> None:
    run_to_failure(write_agent("return 18"), *ONE_VISIT)
    answer = invoke("score", left.out)
    assert answer.exit_code == 1
    assert "frame is -1" not in answer.stderr
    partial = invoke("score", left.out, "--partial", "--json")
    assert partial.exit_code == 0
    assert (partial.json["complete"], partial.json["final_score"]) == (False, None)
    assert invoke("show", left.out).exit_code == 0
    assert invoke("validate", left.out).exit_code == 1


def test_failed_run_is_shown(failed_run: Left, invoke: Callable[..., Any]) -> None:
    answer = invoke("show", failed_run.out)
    assert answer.exit_code == 0
    assert "FAILED" in answer.stdout


def test_failed_run_has_findings(failed_run: Left, invoke: Callable[..., Any]) -> None:
    answer = invoke("validate", failed_run.out)
    assert answer.exit_code == 1
    assert "error:" not in answer.stderr


NO_ACTIONS = [
    ("3.0", "found 3.0 (float)"),
    ("'3'", "found '3' (str)"),
    ("-1", "found -1 (int)"),
    ("18", "found 18 (int)"),
    ("10**30", f"found {10**30} (int)"),
    ("math.nan", "found nan (float)"),
    ("True", "found True (bool)"),
    ("False", "found False (bool)"),
    ("None", "found None (NoneType)"),
    ("np.bool_(True)", "found np.True_"),
    ("np.float32(3)", "found np.float32(3.0)"),
    ("[3]", "found [3] (list)"),
    ("(3,)", "found (3,) (tuple)"),
    ("np.array([3, 4])", "found array([3, 4]) (ndarray)"),
    ("np.array([3.0])", "found array([3.]) (ndarray)"),
    ("np.array([True])", "found array([ True]) (ndarray)"),
]


@pytest.mark.parametrize(("answer", "found"), NO_ACTIONS)
def test_answer_that_is_no_action(
    answer: str,
    found: str,
    run_to_failure: Callable[..., str],
    write_agent: Callable[..., Path],
    left: Left,
) -> None:
    agent = write_agent(f"return {answer} if frame == 8 else 2")
    message = run_to_failure(agent, *ONE_VISIT)
    assert (
        "the agent's answer is not a valid action: expected an int in 0 … 17" in message
    )
    assert found in message
    assert "at frame 8 of pong" in message
    assert left.check_rows() == 8
    assert (left.status["error"]["frame"], left.status["error"]["game"]) == (8, "pong")


def play(invoke: Callable[..., Any], agent: object, out: Path, *args: object) -> Left:
    answer = invoke("run", SUITE, "--agent", agent, "--out", out, *ONE_VISIT, *args)
    assert answer.exit_code == 0, answer.stderr
    return Left(out)


NUMPY_ACTIONS = [
    *(f"np.{kind}(3)" for kind in ("int64", "int32", "int8", "uint8", "uint64")),
    "np.array([3])",
    "np.array([[3]])",
]


@pytest.mark.parametrize("action", NUMPY_ACTIONS)
def test_numpy_integer_is_an_action(
    action: str,
    invoke: Callable[..., Any],
    write_agent: Callable[..., Path],
    left: Left,
) -> None:
    agent = write_agent(f"return {action}")
    rows = play(invoke, agent, left.out).rows()
    assert {row["decided_action_idx"] for row in rows} == {3}


def test_answers_between_decisions_are_ignored(
    invoke: Callable[..., Any], write_agent: Callable[..., Path], tmp_path: Path
) -> None:
    action = "frame // 4 % 18"
    garbage = "[None, 'x', math.nan, -1, 18, True, object(), [1, 2]][frame % 8]"
    agent = write_agent(f"return {action} if is_decision else {garbage}")
    # An interval of 3, so that each kind of garbage meets a frame between decisions.
    interval = ("--set", "decision_interval=3")
    messy = play(invoke, agent, tmp_path / "messy", *interval)
    agent = write_agent(f"return {action}")
    clean = play(invoke, agent, tmp_path / "clean", *interval)
    for name in ROW_FILES:
        written = (messy.run_dir / name).read_bytes()
        assert written == (clean.run_dir / name).read_bytes()
    assert len({row["decided_action_idx"] for row in messy.rows()}) > 10


OTHER_FAILURES = [
    ("return 0", "def metrics(self): return {'loss': math.nan}", "found nan"),
    ("return 0", "def metrics(self): return {'loss': math.inf}", "found inf"),
    ("return 0", "def metrics(self): return {'loss': 'low'}", "found 'low'"),
    ("return 0", "def metrics(self): return {'loss': True}", "found True"),
    ("return 0", "def metrics(self): return 0.5", "must be a dict, found 0.5"),
    ("return 0", "def metrics(self): return 1 / 0", "raised ZeroDivisionError"),
    ("return 0", "def close(self): raise OSError('stuck')", "raised OSError: stuck"),
    ("sys.exit(0)", "pass", "raised SystemExit"),
    ("raise StopIteration", "pass", "raised StopIteration"),
    ("raise MemoryError", "pass", "raised MemoryError"),
]


@pytest.mark.parametrize(("step", "more", "message"), OTHER_FAILURES)
def test_agent_that_fails_otherwise(
    step: str,
    more: str,
    message: str,
    run_to_failure: Callable[..., str],
    write_agent: Callable[..., Path],
    left: Left,
) -> None:
    found = run_to_failure(write_agent(step, more=more), *ONE_VISIT)
    assert message in found
    _, raised, kind = message.partition("raised ")
    kind = kind.partition(":")[0] if raised else "AgentError"
    assert left.status["error"]["type"] == kind


# --- Functions that fail on the way -----------------------------------------------

FUNCTIONS = """\
def init(observation_shape, num_actions):
    return 0

def step(state, previous_observation, observation, reward):
    state += 1
    if state <= 40:
        return state, 1
    {answer}
"""
MUST_RETURN = "step must return (state, action) or (state, action, metrics), found"
BAD_STEPS = [
    ("return state", f"{MUST_RETURN} int"),
    ("return None", f"{MUST_RETURN} NoneType"),
    ("return (state,)", f"{MUST_RETURN} 1 values"),
    ("return state, 1, {}, 0", f"{MUST_RETURN} 4 values"),
    ("return [state]", f"{MUST_RETURN} 1 values"),
    ("return state, 1, 0.5", "step's metrics must be a dict, found 0.5"),
    ("return state, 1, {'loss': float('nan')}", "'loss']: expected a finite number"),
    ("return state, 1, {'loss': float('inf')}", "found inf"),
    ("return state, 1, {'loss': True}", "found True"),
    ("return state, 1, {'loss': 'low'}", "found 'low'"),
    ("return state, 18", "expected an int in 0 … 17, found 18 (int)"),
    ("return state, -1", "found -1 (int)"),
    ("return state, 1.0", "found 1.0 (float)"),
    ("return state, True", "found True (bool)"),
    ("return state, None", "found None (NoneType)"),
    ("raise ValueError('boom')", "raised ValueError: boom (some_functions.py:8)"),
]


@pytest.mark.parametrize(("answer", "message"), BAD_STEPS)
def test_step_that_fails(
    answer: str,
    message: str,
    invoke: Callable[..., Any],
    left: Left,
    tmp_path: Path,
) -> None:
    path = tmp_path / "some_functions.py"
    path.write_text(FUNCTIONS.format(answer=answer))
    options = ("--out", left.out, "--quiet", "--set", "base_visit_frames=30")
    failure = invoke("run", CONTROL_SUITE, "--agent", path, *options)
    assert failure.exit_code == 1
    found = " ".join(failure.stderr.split())
    assert message in found
    assert "at frame 40 of breakout" in found
    assert left.status["state"] == "FAILED"
    assert left.status["error"]["frame"] == 40
    assert left.check_rows() == 40
    left.check_no_scraps()


def test_metrics_that_are_no_numbers_are_named(
    run_to_failure: Callable[..., str], write_agent: Callable[..., Path]
) -> None:
    agent = write_agent(more="def metrics(self): return {'loss': math.nan}")
    message = run_to_failure(agent, *ONE_VISIT)
    assert "metrics()['loss']: expected a finite number, found nan" in message


def test_metrics_of_numpy_are_taken(
    invoke: Callable[..., Any], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent(more="def metrics(self): return {'loss': np.float32(0.5)}")
    summary = play(invoke, agent, left.out).document("run_summary.json")
    assert [visit["metrics"] for visit in summary["visits"]] == [{"loss": 0.5}]


# --- What an agent prints ---------------------------------------------------------


def test_prints_are_kept_beside_the_run(
    spawn: Callable[..., Any], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent(
        step="print('step', frame); return 0",
        init="print('built'); print('to stderr', file=sys.stderr)",
        more="def close(self): print('closed')",
    )
    answer = spawn(
        "run", SUITE, "--agent", agent, "--out", left.out, *ONE_VISIT, "--json"
    )
    assert answer.exit_code == 0
    assert answer.json["run_dir"] == str(left.run_dir)
    kept = (left.run_dir / "agent_output.txt").read_text().splitlines()
    steps = [f"step {frame}" for frame in range(60)]
    assert kept == ["built", "to stderr", *steps, "closed"]
    for text in ("built", "to stderr", "step 5", "closed"):
        assert text not in answer.stdout + answer.stderr


def test_prints_at_import_do_not_spoil_the_json(
    spawn: Callable[..., Any], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent()
    agent.write_text("print('imported')\n" + agent.read_text())
    answer = spawn(
        "run", SUITE, "--agent", agent, "--out", left.out, *ONE_VISIT, "--json"
    )
    assert answer.exit_code == 0
    assert answer.json["run_dir"] == str(left.run_dir)
    assert "imported" in (left.run_dir / "agent_output.txt").read_text()


def test_prints_of_a_failing_agent_are_kept(
    run_to_failure: Callable[..., str], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent("print('my last words'); raise ValueError('boom')")
    message = run_to_failure(agent, *ONE_VISIT)
    assert "my last words" not in message
    assert "my last words" in (left.run_dir / "agent_output.txt").read_text()


def test_silent_agent_leaves_no_output_file(
    invoke: Callable[..., Any], left: Left
) -> None:
    run_dir = play(invoke, "noop", left.out).run_dir
    assert not (run_dir / "agent_output.txt").exists()


# --- Settings ---------------------------------------------------------------------

BAD_VALUES: dict[str, list[str]] = {
    "games": ["[]", '"qbert"', "[3]", "null", '[["qbert"]]', "{}"],
    "num_cycles": ["0", "-1", "1.5", '"2"', "true", "null"],
    "base_visit_frames": ["0", "-5", "100.0", '"100"', "true", "[100]"],
    "jitter_pct": ["-0.1", "1", "1.5", "NaN", "Infinity", '"0.1"', "true"],
    "min_visit_frames": ["0", "-1", "2.5", '"1"', "false"],
    "decision_interval": ["0", "-4", "4.0", '"4"', "true"],
    "delay": ["-1", "2.0", '"2"', "true", "null"],
    "sticky": ["-0.1", "1", "1.5", "NaN", "-Infinity", "1e999", '"0"', "true", "{}"],
    "full_action_space": ["1", "0", '"true"', "null"],
    "life_loss_termination": ["1", "0", '"false"', "null"],
    "default_action_idx": ["-1", "18", "0.0", '"NOOP"', "true"],
    "scoring_defaults.window_frames": ["0", "-1", "5.5", '"5"', "true"],
    "scoring_defaults.revisit_frames": ["0", "-1", "5.5", '"5"', "true"],
    "scoring_defaults.bottom_k_frac": ["0", "-0.1", "1.1", "NaN", '"1"', "true"],
    "scoring_defaults.final_score_weights": [
        "[0.5]",
        "[0.5, 0.5, 0.5]",
        "[-1, 1]",
        "[NaN, 1]",
        "[0.5, Infinity]",
        '["a", "b"]',
        "[true, false]",
        "0.5",
    ],
}


@pytest.mark.parametrize(
    ("name", "text"),
    [(name, text) for name, texts in BAD_VALUES.items() for text in texts],
)
def test_setting_out_of_range(name: str, text: str, refuse: Callable[..., str]) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--set", f"{name}={text}")
    assert name in message


def test_every_setting_has_bad_values() -> None:
    from longplay.suites import SUITES

    settings = SUITES[SUITE].settings
    scoring = settings.pop("scoring_defaults")
    names = [*settings, *(f"scoring_defaults.{name}" for name in scoring)]
    assert set(BAD_VALUES) == set(names)


def test_value_that_was_found_is_named(refuse: Callable[..., str]) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--set", "delay=-7")
    assert "delay: " in message
    assert "at least 0, found -7" in message


BAD_SETTINGS = [
    ("delya=2", ("unknown setting 'delya'", "'delay'")),
    ("window_frames=5", ("unknown setting 'window_frames'", "scoring_defaults.")),
    ("seed=3", ("unknown setting 'seed'",)),
    ("suite_id=3", ("unknown setting 'suite_id'",)),
    ("scoring_defaults=3", ("unknown setting 'scoring_defaults'",)),
    ("scoring_defaults.x=3", ("unknown setting 'scoring_defaults.x'",)),
    ("games.x=3", ("unknown setting 'games.x'",)),
    ("delay", ("--set: expected key=value, found 'delay'",)),
    ("=3", ("--set: expected key=value, found '=3'",)),
    ("delay=", ("--set delay: expected a JSON value, found ''",)),
    ("delay=two", ("--set delay: expected a JSON value, found 'two'",)),
    ("games=qbert", ("--set games: expected a JSON value", 'games=["qbert"]')),
    ('games=["qbert"', ("--set games: expected a JSON value",)),
    ('games=["qbert","pong","qbert"]', ("no duplicates, found 'qbert' twice",)),
]


@pytest.mark.parametrize(("setting", "fragments"), BAD_SETTINGS)
def test_bad_setting(
    setting: str, fragments: tuple[str, ...], refuse: Callable[..., str]
) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--set", setting)
    for fragment in fragments:
        assert fragment in message


def test_bad_setting_is_refused_in_a_dry_run_too(refuse: Callable[..., str]) -> None:
    assert "delay: " in refuse("run", SUITE, "--dry-run", "--set", "delay=-1")


@pytest.mark.parametrize("seed", [-1, 2**31, 2**64])
def test_seed_out_of_range(seed: int, refuse: Callable[..., str]) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--seed", seed)
    assert f"seed: expected 0 … 2147483647, found {seed}" in message


@pytest.mark.parametrize("seed", ["1.5", "one", ""])
def test_seed_that_is_no_int(
    seed: str, invoke: Callable[..., Any], workplace: Path
) -> None:
    answer = invoke("run", SUITE, "--agent", "random", "--seed", seed)
    assert answer.exit_code == 2
    assert "--seed" in answer.stderr
    assert list(workplace.iterdir()) == []


# --- --config ---------------------------------------------------------------------


def dry_run(invoke: Callable[..., Any], *args: object) -> Any:
    answer = invoke("run", SUITE, "--dry-run", "--json", *args)
    assert answer.exit_code == 0, answer.stdout
    return answer.json


GOOD_CONFIGS = {
    "nested.toml": (
        'games = ["pong"]\nnum_cycles = 1\nbase_visit_frames = 77\njitter_pct = 0\n'
        "[scoring_defaults]\nwindow_frames = 9\n"
    ),
    "nested.json": (
        '{"games": ["pong"], "num_cycles": 1, "base_visit_frames": 77,'
        ' "jitter_pct": 0, "scoring_defaults": {"window_frames": 9}}'
    ),
    "dotted.json": (
        '{"games": ["pong"], "num_cycles": 1, "base_visit_frames": 77,'
        ' "jitter_pct": 0, "scoring_defaults.window_frames": 9}'
    ),
}
AS_SETTINGS = (
    *("--set", 'games=["pong"]', "--set", "num_cycles=1", "--set", "jitter_pct=0"),
    *("--set", "base_visit_frames=77", "--set", "scoring_defaults.window_frames=9"),
)
PONG_VISIT = {"visit_idx": 0, "cycle_idx": 0, "game_id": "pong", "visit_frames": 77}


@pytest.mark.parametrize("name", GOOD_CONFIGS)
def test_config_file_says_the_same_as_settings(
    name: str, invoke: Callable[..., Any], workplace: Path
) -> None:
    path = workplace / name
    path.write_text(GOOD_CONFIGS[name])
    plan = dry_run(invoke, "--config", path)
    assert plan["schedule"] == [PONG_VISIT]
    assert plan == dry_run(invoke, *AS_SETTINGS)


@pytest.mark.parametrize("name", GOOD_CONFIGS)
def test_set_wins_over_config(
    name: str, invoke: Callable[..., Any], workplace: Path
) -> None:
    path = workplace / name
    path.write_text(GOOD_CONFIGS[name])
    other = (
        "--set",
        "base_visit_frames=55",
        "--set",
        "scoring_defaults.window_frames=8",
    )
    plan = dry_run(invoke, "--config", path, *other)
    assert plan["schedule"] == [{**PONG_VISIT, "visit_frames": 55}]
    assert plan == dry_run(invoke, *AS_SETTINGS, *other)


BAD_CONFIGS = [
    ("bad.toml", "delay = ", "bad.toml"),
    ("bad.toml", "delay = 1\ndelay = 2\n", "bad.toml"),
    ("bad.toml", "delay = -1\n", "delay: "),
    ("bad.toml", "sticky = nan\n", "sticky"),
    ("bad.toml", "delay = 2020-01-01\n", "delay"),
    ("bad.toml", "delya = 2\n", "unknown setting 'delya'; did you mean 'delay'"),
    ("bad.toml", "[scoring]\nwindow_frames = 2\n", "'scoring.window_frames'"),
    ("bad.toml", b"delay = 2 # \xff\n", "bad.toml"),
    ("bad.json", '{"delay": 2', "bad.json"),
    ("bad.json", '{"delay": 1, "delay": 2}', "key 'delay' appears twice"),
    ("bad.json", '{"sticky": NaN}', "NaN is not JSON"),
    ("bad.json", "[1]", "bad.json: expected a JSON object at the top"),
    ("bad.json", "", "bad.json"),
    ("bad.json", '{"delay": "2"}', "delay: "),
    ("bad.json", '{"sticky": {}}', "sticky"),
    ("bad.yaml", "delay: 2", "expected a file ending in .toml or .json"),
    ("bad", "delay: 2", "expected a file ending in .toml or .json"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD_CONFIGS)
def test_bad_config_file(
    name: str, content: str | bytes, message: str, refuse: Callable[..., str]
) -> None:
    raw = content if isinstance(content, bytes) else content.encode()
    Path(name).write_bytes(raw)
    found = refuse("run", SUITE, "--agent", "random", "--config", name)
    assert message in found


@pytest.mark.parametrize("name", ["missing.toml", "missing.json"])
def test_missing_config_file(name: str, refuse: Callable[..., str]) -> None:
    message = refuse("run", SUITE, "--agent", "random", "--config", name)
    assert f"--config {name}: " in message


# --- Output folders and disks -----------------------------------------------------


def test_existing_out_is_refused(refuse: Callable[..., str], tmp_path: Path) -> None:
    out = tmp_path / "mine"
    out.mkdir()
    (out / "precious.txt").write_text("precious")
    message = refuse("run", SUITE, "--agent", "random", "--out", out, *ONE_VISIT)
    assert "mine exists already; give --out a folder that does not" in message
    assert [path.name for path in out.iterdir()] == ["precious.txt"]


def test_out_that_is_a_file_is_refused(
    refuse: Callable[..., str], tmp_path: Path
) -> None:
    out = tmp_path / "mine"
    out.write_text("precious")
    message = refuse("run", SUITE, "--agent", "random", "--out", out, *ONE_VISIT)
    assert "mine exists already" in message
    assert out.read_text() == "precious"


def test_out_below_a_file_is_refused(
    refuse: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text("precious")
    out = tmp_path / "mine" / "out"
    message = refuse("run", SUITE, "--agent", "random", "--out", out, *ONE_VISIT)
    assert str(out) in message


def test_second_run_into_the_same_out_is_refused(
    invoke: Callable[..., Any], refuse: Callable[..., str], left: Left
) -> None:
    play(invoke, "noop", left.out)
    before = left.rows()
    refuse("run", SUITE, "--agent", "random", "--out", left.out, *ONE_VISIT)
    assert left.rows() == before


def test_too_little_disk_space_is_refused(
    refuse: Callable[..., str], left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    message = refuse("run", SUITE, "--agent", "random", "--out", left.out)
    assert "the run needs about 3 MB of disk" in message
    assert "has 2 MB free" in message
    assert not left.out.exists()


def test_enough_disk_space_for_a_smaller_run(
    invoke: Callable[..., Any], left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=2_000_000))
    assert len(play(invoke, "noop", left.out).rows()) == 60


class Sabotage:
    """Makes the n-th call of a writing function fail, after half of its work."""

    def __init__(self, name: str, n: int) -> None:
        self._name, self._n, self.calls = name, n, 0
        self._real = getattr(os, name.removeprefix("os_"))

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        if self.calls != self._n:
            return self._real(*args)
        if self._name == "os_write":
            fd, data = args
            os.write(fd, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# What a run writes before it plays: experiment_record.json, experiment_config.json,
# episode_config.json and the first status.json, then the reserve and config.json; after
# it experiment_summary.json and the two records. Before the first status there is none
# that could tell.
WRITES_BEFORE_STATUS = 4
WRITES_AFTER_RUN = 3


@pytest.fixture
def sabotage(
    invoke: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Callable[..., tuple[Sabotage, Any, Left]]:
    def sabotage(name: str, n: int) -> tuple[Sabotage, Any, Left]:
        saboteur = Sabotage(name, n)
        monkeypatch.setattr(files, name, saboteur)
        # No clock in the number of writes: one heartbeat, then none for an hour.
        monkeypatch.setattr("longplay.runs.status.HEARTBEAT_S", 3600.0)
        monkeypatch.setattr("longplay.runs.loop._TICK_S", 3600.0)
        left = Left(tmp_path / f"{name}-{n}")
        args = ("--agent", "random", "--out", left.out, *THREE_VISITS, "--quiet")
        return saboteur, invoke("run", SUITE, *args), left

    return sabotage


OPERATIONS = ("os_write", "os_fsync", "os_replace")


@pytest.mark.parametrize("name", OPERATIONS)
def test_full_disk_at_every_write(
    name: str, sabotage: Callable[..., tuple[Sabotage, Any, Left]]
) -> None:
    counter, answer, _ = sabotage(name, -1)
    assert answer.exit_code == 0
    assert counter.calls > 6
    last_of_run = counter.calls - WRITES_AFTER_RUN
    for n in range(WRITES_BEFORE_STATUS + 1, last_of_run + 1):
        _, answer, left = sabotage(name, n)
        check_full_disk(answer, left, f"{name} {n} of {counter.calls}")


def check_full_disk(answer: Any, left: Left, where: str) -> None:
    assert answer.exit_code == 1, where
    assert "No space left on device" in answer.stderr, where
    assert left.status["state"] == "FAILED", where
    assert left.status["error"]["type"] == "RecordingError", where
    assert "No space left on device" in left.status["error"]["message"], where
    left.check_no_scraps()
    for file_name in ROW_FILES:
        if (left.run_dir / file_name).exists():
            left.rows(file_name)
    if (left.run_dir / "events.jsonl").exists():
        left.check_rows()


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("n", range(1, WRITES_BEFORE_STATUS + 1))
def test_full_disk_before_the_run_begins(
    n: int, name: str, sabotage: Callable[..., tuple[Sabotage, Any, Left]]
) -> None:
    _, answer, left = sabotage(name, n)
    assert answer.exit_code == 1
    assert "No space left on device" in answer.stderr
    left.check_no_scraps()
    assert not list(left.out.rglob("status.json"))


@pytest.mark.parametrize("name", OPERATIONS)
def test_full_disk_after_the_run_spares_the_run(
    name: str,
    sabotage: Callable[..., tuple[Sabotage, Any, Left]],
    invoke: Callable[..., Any],
) -> None:
    total = sabotage(name, -1)[0].calls
    for n in range(total - WRITES_AFTER_RUN + 1, total + 1):
        _, answer, left = sabotage(name, n)
        assert answer.exit_code == 1, n
        assert "No space left on device" in answer.stderr
        assert left.status["state"] == "COMPLETED"
        assert left.check_rows() == 300
        left.check_no_scraps()
        assert invoke("score", left.out).exit_code == 0
        assert invoke("validate", left.out).exit_code == 0


class SmallDisk:
    """A disk of so many bytes: what is deleted or cut makes room again."""

    def __init__(self, root: Path, size_bytes: int) -> None:
        self._root, self._size_bytes = root, size_bytes

    def write(self, fd: int, data: bytes) -> int:
        used = sum(p.stat().st_size for p in self._root.rglob("*") if p.is_file())
        room = max(0, self._size_bytes - used)
        if room == 0 and len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(fd, data[:room])


@pytest.mark.parametrize("size_bytes", [75_000, 80_000, 100_000, 120_000, 140_000])
def test_disk_that_fills_up(
    size_bytes: int,
    invoke: Callable[..., Any],
    left: Left,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk = SmallDisk(left.out, size_bytes)
    monkeypatch.setattr(files, "os_write", disk.write)
    args = ("--agent", "random", "--out", left.out, *THREE_VISITS)
    check_full_disk(invoke("run", SUITE, *args), left, f"{size_bytes}")


def test_output_of_the_agent_that_does_not_fit_is_a_full_disk(
    invoke: Callable[..., Any],
    write_agent: Callable[..., Path],
    left: Left,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "os_write", SmallDisk(left.out, 200_000).write)
    agent = write_agent("print('x' * 10_000); return 0")
    args = ("--agent", agent, "--out", left.out, *ONE_VISIT)
    check_full_disk(invoke("run", SUITE, *args), left, "agent_output.txt")


def limit_file_size() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_real_limit_on_the_size_of_a_file(
    spawn: Callable[..., Any], left: Left, invoke: Callable[..., Any]
) -> None:
    args = ("--agent", "random", "--out", left.out, "--set", "base_visit_frames=300")
    answer = spawn("run", SUITE, *args, preexec_fn=limit_file_size)
    assert answer.exit_code == 1
    assert "cannot write" in answer.stderr
    assert "events.jsonl" in answer.stderr
    assert "File too large" in answer.stderr
    assert left.status["state"] == "FAILED"
    frames = left.check_rows()
    assert 200 < frames < 600
    assert left.document("run_summary.json")["frames"] == frames
    left.check_no_scraps()
    assert f"last frame is {frames - 1} of" in invoke("score", left.out).stderr


# --- Ctrl-C -----------------------------------------------------------------------


@pytest.fixture
def start_run(left: Left) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a long run in a process of its own and waits for its first rows."""
    started: list[subprocess.Popen[str]] = []

    def start_run(agent: object, *args: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "longplay", "run", "stream-3x2-v1"]
        command += ["--agent", str(agent), "--out", str(left.out), *map(str, args)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield start_run
    for process in started:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "waited for a minute"
        time.sleep(0.02)


def has_rows(left: Left) -> bool:
    return any(path.stat().st_size for path in left.out.rglob("events.jsonl"))


@pytest.mark.parametrize("as_json", [False, True], ids=["text", "json"])
def test_ctrl_c(
    as_json: bool,
    start_run: Callable[..., subprocess.Popen[str]],
    left: Left,
    invoke: Callable[..., Any],
) -> None:
    process = start_run("random", *(["--json"] if as_json else []))
    wait_for(lambda: has_rows(left))
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    frames = left.check_rows()
    assert 0 < frames < left.status["frames_total"]
    assert left.status["state"] == "CANCELLED"
    assert left.status["frame"] == frames
    assert left.document("run_summary.json")["frames"] == frames
    left.check_no_scraps()
    told = json.loads(stdout)["error"]["message"] if as_json else stderr
    assert f"stopped before frame {frames}" in told
    assert "Traceback" not in stderr
    assert invoke("score", left.out).exit_code == 1


def test_second_ctrl_c_stops_an_agent_that_hangs(
    start_run: Callable[..., subprocess.Popen[str]],
    write_agent: Callable[..., Path],
    left: Left,
    tmp_path: Path,
) -> None:
    mark = tmp_path / "hangs"
    agent = write_agent(
        f"if frame == 50: open({str(mark)!r}, 'w').close(); time.sleep(600)\n"
        "        return 0"
    )
    process = start_run(agent)
    wait_for(mark.exists)
    assert left.status["state"] == "RUNNING"
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert left.status["state"] == "CANCELLED"
    assert left.check_rows() == 50


# --- --json and directories that are no runs --------------------------------------

JSON_ERRORS = [
    (("run", "nope", "--agent", "random"), 2, "UnknownNameError", "suite 'nope'"),
    (("run", SUITE, "--agent", "nope"), 2, "UnknownNameError", "agent 'nope'"),
    (("run", SUITE, "--agent", "no.py"), 2, "AgentLoadError", "no such file"),
    (("run", SUITE, "--agent", "noop", "--set", "delay=-1"), 2, "ConfigError", "delay"),
    (("run", SUITE, "--agent", "noop", "--out", "."), 2, "OutputError", "exists"),
    (("run", SUITE), 2, "ConfigError", "--agent"),
    (("check-agent", "nope"), 2, "UnknownNameError", "agent 'nope'"),
    (("validate", "nowhere"), 2, "NotARunError", "no such folder"),
    (("score", "nowhere"), 2, "NotARunError", "no such folder"),
    (("show", "nowhere"), 2, "NotARunError", "no such folder"),
]


@pytest.mark.parametrize(("args", "exit_code", "kind", "message"), JSON_ERRORS)
def test_error_as_json(
    args: tuple[str, ...],
    exit_code: int,
    kind: str,
    message: str,
    invoke: Callable[..., Any],
) -> None:
    answer = invoke(*args, "--json")
    assert answer.exit_code == exit_code
    assert set(answer.json) == {"error"}
    assert answer.json["error"]["type"] == kind
    assert message in answer.json["error"]["message"]
    assert answer.stderr == ""


def test_failed_run_as_json(
    invoke: Callable[..., Any], write_agent: Callable[..., Path], left: Left
) -> None:
    agent = write_agent("raise ValueError('boom')")
    answer = invoke(
        *("run", SUITE, "--agent", agent, "--out", left.out),
        *(*ONE_VISIT, "--json", "--quiet"),
    )
    assert answer.exit_code == 1
    assert answer.json["error"]["type"] == "AgentError"
    assert (
        "ValueError: boom (some_agent.py:9) at frame 0 of pong"
        in answer.json["error"]["message"]
    )
    assert left.status["state"] == "FAILED"


def make_nothing(path: Path) -> None:
    pass


def make_file(path: Path) -> None:
    path.write_text("{}")


def make_folder(path: Path) -> None:
    path.mkdir()


def make_hollow_experiment(path: Path) -> None:
    (path / "episodes" / "run").mkdir(parents=True)


NOT_RUNS = [make_nothing, make_file, make_folder, make_hollow_experiment]


@pytest.mark.parametrize("command", ["validate", "score", "show"])
@pytest.mark.parametrize("make", NOT_RUNS)
def test_not_a_run(
    command: str,
    make: Callable[[Path], None],
    refuse: Callable[..., str],
    tmp_path: Path,
) -> None:
    path = tmp_path / "thing"
    make(path)
    message = refuse(command, path)
    assert "expected a run directory (config.json, events.jsonl, …)" in message
    assert str(path) in message


BAD_SCORING = [
    (("--window-frames", "0"), "window_frames"),
    (("--revisit-frames", "-1"), "revisit_frames"),
    (("--bottom-k-frac", "0"), "bottom_k_frac"),
    (("--bottom-k-frac", "1.5"), "bottom_k_frac"),
    (("--bottom-k-frac", "nan"), "bottom_k_frac"),
    (("--explain", "qberd"), "did you mean 'qbert'"),
]


@pytest.mark.parametrize(("options", "message"), BAD_SCORING)
def test_bad_scoring_option(
    options: tuple[str, ...],
    message: str,
    refuse: Callable[..., str],
    finished_run: Path,
) -> None:
    before = (finished_run / "score.json").read_bytes()
    assert message in refuse("score", finished_run, *options)
    assert (finished_run / "score.json").read_bytes() == before


@pytest.mark.parametrize(
    "args", [("run",), ("frobnicate",), ("score",), ("run", "--x")]
)
def test_usage(args: tuple[str, ...], invoke: Callable[..., Any]) -> None:
    answer = invoke(*args)
    assert answer.exit_code == 2
    assert "Usage" in answer.stderr
