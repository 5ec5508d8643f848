"""Agents that cannot be loaded or built are refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from failing_runs import (
    AGENT,
    CONTROL_SUITE,
    ONE_VISIT,
    SUITE,
)

pytestmark = pytest.mark.usefixtures("working_dir")


UNLOADABLE = [
    ("x = 1", "expected a class `Agent` with a method `step`"),
    ("def step(*args): return 0", "functions `init` and `step`; found only `step`"),
    ("def init(*args): return 0", "functions `init` and `step`; found only `init`"),
    ("class Agent: pass", "class Agent has no method `step`"),
    ("class Agent:\n  step = 3", "class Agent has no method `step`"),
    ("1 / 0", "importing it raised ZeroDivisionError: division by zero"),
    ("import no_such_thing", "importing it raised ModuleNotFoundError"),
    ("def broken(:", "importing it raised SyntaxError"),
    ("raise SystemExit(0)", "importing it raised SystemExit"),
    ("raise GeneratorExit", "importing it raised GeneratorExit"),
    (
        AGENT.format(init="raise KeyError('weights')", step="pass", more="pass"),
        "raised KeyError: 'weights'",
    ),
    (
        AGENT.format(init="sys.exit(0)", step="pass", more="pass"),
        "raised SystemExit",
    ),
    (
        AGENT.format(init="raise GeneratorExit", step="pass", more="pass"),
        "raised GeneratorExit",
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


@pytest.mark.few(15)
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
    assert "agent file not_there.py: no such file" in message


def test_agent_file_without_that_attribute(
    refuse: Callable[..., str], write_agent: Callable[..., Path]
) -> None:
    message = refuse("run", SUITE, "--agent", f"{write_agent()}:Agnet")
    assert "it has no 'Agnet'" in message


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
