"""Agent specs -> agents: what is found, how it is built, and its config."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from longplay import plugins
from longplay.agents.random import RandomAgent
from longplay.agents.source.loading import (
    BUILT_IN_AGENTS,
    LoadedAgent,
    list_agents,
    load_agent,
)
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EventRow
from longplay.errors import AgentLoadError, UnknownNameError
from longplay.stream import Mechanics, Stream
from longplay.tracks.streaming import STREAMING
from playing import play_run

AGENT = """
class {name}:
    def __init__(self, num_actions, seed, **args):
        self.given = (num_actions, seed, args)
    def step(self, obs_rgb, reward, terminated, truncated, info):
        return {action}
"""
FUNCTIONAL = """
calls = []

def init(observation_shape, num_actions):
    calls.append((observation_shape, num_actions))
    return 0

def step(state, previous_observation, observation, reward):
    calls.append((state, previous_observation, observation, reward))
    return state + 1, state % 18
"""


@pytest.fixture(autouse=True)
def forgotten_imports(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    """Removes the modules that a test imported from its own folder."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    def write(name: str, source: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
        return path

    return write


def agent_source(action: int = 3, name: str = "Agent") -> str:
    return AGENT.format(name=name, action=action)


def answer_of(loaded: LoadedAgent) -> object:
    info = {"is_decision_frame": True}
    return loaded.build(7).step(np.zeros(1, np.uint8), 0.0, False, False, info)


def hash_by_hand(config: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()


# --- Agent specs ------------------------------------------------------------------


def test_file_without_attribute_loads_its_class_agent(
    write: Callable[..., Path],
) -> None:
    path = write("my_agent.py", agent_source(3) + agent_source(5, "Other"))
    loaded = load_agent(str(path))
    assert (loaded.name, answer_of(loaded)) == ("my_agent", 3)


def test_file_and_attribute(write: Callable[..., Path]) -> None:
    path = write("my_agent.py", agent_source(3) + agent_source(5, "Other"))
    loaded = load_agent(f"{path}:Other")
    assert (answer_of(loaded), loaded.entry.config["_type"]) == (5, "my_agent.Other")


def test_file_and_factory_function(write: Callable[..., Path]) -> None:
    factory = "\ndef make(num_actions, seed):\n    return Agent(num_actions, seed)\n"
    path = write("my_agent.py", agent_source(4) + factory)
    assert answer_of(load_agent(f"{path}:make")) == 4


def test_file_may_import_its_neighbours(write: Callable[..., Path]) -> None:
    write("the_neighbour.py", "ACTION = 9\n")
    source = "from the_neighbour import ACTION\n" + agent_source("ACTION")
    assert answer_of(load_agent(str(write("my_agent.py", source)))) == 9


def test_file_with_a_dataclass(write: Callable[..., Path]) -> None:
    source = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    source += "@dataclass\nclass Memory:\n    size: int = 3\n"
    path = write("my_agent.py", source + agent_source("Memory().size"))
    assert answer_of(load_agent(str(path))) == 3


def test_relative_file(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("my_agent.py", agent_source(6))
    monkeypatch.chdir(tmp_path)
    assert answer_of(load_agent("my_agent.py")) == 6


def test_module_and_attribute(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("lab/agents_of_ours.py", agent_source(8, "Eight"))
    monkeypatch.syspath_prepend(str(tmp_path))
    loaded = load_agent("lab.agents_of_ours:Eight")
    assert answer_of(loaded) == 8
    assert loaded.entry.config["_type"] == "lab.agents_of_ours.Eight"


def test_module_in_the_working_directory(
    write: Callable[..., Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write("agents_right_here.py", agent_source(8))
    monkeypatch.chdir(tmp_path)
    assert answer_of(load_agent("agents_right_here:Agent")) == 8


def test_class_is_used_as_it_is() -> None:
    loaded = load_agent(RandomAgent)
    assert isinstance(loaded.build(7), RandomAgent)
    assert loaded.entry == load_agent("random").entry


@pytest.mark.parametrize("name", BUILT_IN_AGENTS)
def test_built_in_agents(name: str) -> None:
    loaded = load_agent(name)
    assert loaded.name == name
    assert loaded.entry.config["_type"] == BUILT_IN_AGENTS[name].replace(":", ".")
    assert answer_of(load_agent("repeat", {"action": 11})) == 11


def test_agent_is_built_with_actions_seed_and_arguments(
    write: Callable[..., Path],
) -> None:
    path = write("my_agent.py", agent_source())
    agent: Any = load_agent(str(path), {"lr": 0.5, "name": "x"}).build(123)
    assert agent.given == (18, 123, {"lr": 0.5, "name": "x"})


REFUSED_REFERENCES = [
    ("nowhere.py", "agent file nowhere.py: no such file"),
    ("nowhere.py:Agent", "agent file nowhere.py: no such file"),
    ("no_such_module:Agent", "agent module no_such_module.*ModuleNotFoundError"),
    ("json:nothing", "agent json:nothing: it has no 'nothing'"),
    ("math:pi", "expected a class or factory, found float"),
    ("json:JSONDecoder", "class JSONDecoder has no method `step`"),
    (":Agent", "agent module"),
]


@pytest.mark.parametrize(("reference", "message"), REFUSED_REFERENCES)
def test_refused_spec(
    reference: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AgentLoadError, match=message):
        load_agent(reference)


def test_failed_import_leaves_no_half_made_module(write: Callable[..., Path]) -> None:
    path = write("my_agent.py", "raise RuntimeError('no')")
    with pytest.raises(AgentLoadError, match="importing it raised RuntimeError: no"):
        load_agent(str(path))
    assert not [name for name in sys.modules if "my_agent" in name]


# --- Entry points -----------------------------------------------------------------


@pytest.fixture
def entry_points(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Pretends that packages with these entry points are installed."""

    def install(**points: str) -> None:
        def find(*, group: str) -> list[EntryPoint]:
            assert group == "longplay.agents"
            return [EntryPoint(name, value, group) for name, value in points.items()]

        monkeypatch.setattr(importlib.metadata, "entry_points", find)
        plugins.list_entry_points.cache_clear()

    yield install
    plugins.list_entry_points.cache_clear()


def test_entry_point_is_loaded_by_name(
    entry_points: Callable[..., None],
    write: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    write("installed_package.py", agent_source(10, "Ten"))
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_points(ten="installed_package:Ten")
    loaded = load_agent("ten")
    assert (loaded.name, answer_of(loaded)) == ("ten", 10)
    assert loaded.entry.config["_type"] == "installed_package.Ten"


def test_entry_point_may_be_a_functional_module(
    entry_points: Callable[..., None],
    write: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    write("installed_functions.py", FUNCTIONAL)
    monkeypatch.syspath_prepend(str(tmp_path))
    entry_points(functions="installed_functions")
    assert answer_of(load_agent("functions")) == 0


def test_package_cannot_take_a_built_ins_name(
    entry_points: Callable[..., None],
) -> None:
    entry_points(random="longplay.agents.noop:NoopAgent", other="json:loads")
    assert list_agents()["random"] == "longplay.agents.random:RandomAgent"
    assert list_agents()["other"] == "json:loads"
    assert isinstance(load_agent("random").build(7), RandomAgent)


def test_listing_agents_imports_none_of_them(entry_points: Callable[..., None]) -> None:
    entry_points(broken="no_such_package_at_all:Agent")
    assert set(list_agents()) == {*BUILT_IN_AGENTS, "broken"}


def test_broken_entry_point_is_an_error(
    entry_points: Callable[..., None],
) -> None:
    entry_points(broken="no_such_package_at_all:Agent")
    with pytest.raises(AgentLoadError, match=r"no_such_package_at_all.*ModuleNotFound"):
        load_agent("broken")


def test_unknown_name_suggests_entry_points_too(
    entry_points: Callable[..., None],
) -> None:
    entry_points(rainbow="installed_package:Rainbow")
    with pytest.raises(UnknownNameError, match=r"unknown agent 'rainbo'.*'rainbow'"):
        load_agent("rainbo")


# --- Configs ----------------------------------------------------------------------


def test_agent_id_of_a_built_in() -> None:
    config = {"_type": "longplay.agents.repeat.RepeatAgent", "args": {"action": 3}}
    entry = load_agent("repeat", {"action": 3}).entry
    assert entry.config == config
    assert entry.agent_id == hash_by_hand(config)
    # Written out by hand, so that a change of the algorithm is noticed.
    text = b'{"_type": "longplay.agents.repeat.RepeatAgent", "args": {"action": 3}}'
    assert entry.agent_id == hashlib.sha256(text).hexdigest()


def test_agent_id_of_a_file(write: Callable[..., Path]) -> None:
    path = write("my_agent.py", agent_source())
    config = {
        "_type": "my_agent.Agent",
        "args": {"lr": 0.5},
        "file": "my_agent.py",
        "source_sha256": hashlib.sha256(agent_source().encode()).hexdigest(),
    }
    entry = load_agent(str(path), {"lr": 0.5}).entry
    assert entry.config == config
    assert entry.agent_id == hash_by_hand(config)


def test_agent_id_follows_source_and_arguments_not_the_folder(
    write: Callable[..., Path],
) -> None:
    here = str(write("here/my_agent.py", agent_source()))
    there = str(write("there/my_agent.py", agent_source()))
    other = str(write("other/my_agent.py", agent_source() + "# a remark\n"))
    ids = [
        load_agent(reference, agent_args).entry.agent_id
        for reference, agent_args in [
            (here, None),
            (there, {}),
            (here, {"lr": 1}),
            (other, None),
        ]
    ]
    assert ids[0] == ids[1]
    assert len(set(ids)) == 3


def test_config_has_no_path_and_no_seed(
    write: Callable[..., Path], tmp_path: Path
) -> None:
    path = write("my_agent.py", agent_source())
    result = play_run(
        "stream-smoke-v1",
        str(path),
        seed=12345,
        out=tmp_path / "run",
        overrides={"games": ["pong"], "num_cycles": 1, "base_visit_frames": 20},
    )
    document = json.loads((result.run_dir / "config.json").read_bytes())
    written = json.dumps(document["agent"])
    assert set(document["agent"]["config"]) == {
        "_type",
        "args",
        "file",
        "source_sha256",
    }
    assert document["agent"]["config"]["args"] == {}
    assert str(tmp_path) not in written
    assert "12345" not in written
    assert document["agent"]["agent_id"] == load_agent(str(path)).entry.agent_id


def test_seed_cannot_be_given_as_an_argument() -> None:
    with pytest.raises(AgentLoadError, match="seed"):
        load_agent("random", {"seed": 3}).build(7)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), b"x"])
def test_arguments_must_be_plain_json(value: object) -> None:
    with pytest.raises(AgentLoadError, match="agent args must be plain JSON"):
        load_agent("random", {"x": value})


# --- Functional modules on a streaming suite --------------------------------------


def play(loaded: LoadedAgent) -> list[EventRow]:
    """Plays two visits with boundaries, decisions every three frames."""
    schedule = [
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=f"game-{k}", visit_frames=100)
        for k in range(2)
    ]
    mechanics = Mechanics(decision_interval=3, delay=1)
    stream = Stream(schedule, (1, 2), ScriptedConsole(life_frames=10), mechanics)
    track, events = STREAMING.join(loaded.build(7)), []
    while not stream.done:
        events.append(stream.advance(track.answer(stream.percept())))
    return events


@pytest.fixture
def functional(write: Callable[..., Path]) -> tuple[LoadedAgent, list[Any]]:
    loaded = load_agent(str(write("my_functions.py", FUNCTIONAL)))
    module: Any = sys.modules["longplay_agent_my_functions"]
    return loaded, module.calls


def test_functional_module_config(functional: tuple[LoadedAgent, list[Any]]) -> None:
    loaded, _ = functional
    assert loaded.entry.config == {
        "_type": "my_functions.module",
        "args": {},
        "file": "my_functions.py",
        "source_sha256": hashlib.sha256(FUNCTIONAL.encode()).hexdigest(),
    }


def test_functional_module_is_called_on_decision_frames(
    functional: tuple[LoadedAgent, list[Any]],
) -> None:
    loaded, calls = functional
    events = play(loaded)
    decisions = [e for e in events if e.is_decision_frame]
    assert calls[0] == ((210, 160, 3), 18)
    assert len(decisions) < len(events)
    assert [call[0] for call in calls[1:]] == list(range(len(decisions)))
    assert [e.decided_action_idx for e in decisions] == [
        k % 18 for k in range(len(decisions))
    ]


def test_functional_module_gets_the_rewards_since_its_last_call(
    functional: tuple[LoadedAgent, list[Any]],
) -> None:
    loaded, calls = functional
    events = play(loaded)
    frames = [e.global_frame_idx for e in events if e.is_decision_frame]
    expected = [
        sum(e.reward for e in events[before:now])
        for before, now in zip([0, *frames], frames, strict=False)
    ]
    assert [call[3] for call in calls[1:]] == expected
    assert expected[0] == 0.0
    assert len({*expected}) > 3


def test_functional_module_sees_a_seamless_stream(
    functional: tuple[LoadedAgent, list[Any]],
) -> None:
    loaded, calls = functional
    play(loaded)
    steps = calls[1:]
    assert steps[0][1] is steps[0][2]
    for before, now in pairwise(steps):
        assert now[1] is before[2]
        assert now[2] is not before[2]


INITS = [
    ("observation_shape, num_actions", {}, (None, None)),
    ("observation_shape, num_actions, seed", {}, (7, None)),
    ("observation_shape, num_actions, lr", {"lr": 0.5}, (None, 0.5)),
    ("observation_shape, num_actions, *, seed, lr=0.1", {}, (7, 0.1)),
    ("observation_shape, num_actions, seed, lr=0.1", {"lr": 0.5}, (7, 0.5)),
]


@pytest.mark.parametrize(("signature", "agent_args", "expected"), INITS)
def test_init_gets_only_what_its_signature_names(
    signature: str,
    agent_args: dict[str, Any],
    expected: tuple[Any, ...],
    write: Callable[..., Path],
) -> None:
    source = (
        f"given = []\ndef init({signature}):\n    found = locals()\n"
        "    given.append((found.get('seed'), found.get('lr')))\n"
        "def step(state, previous_observation, observation, reward):\n"
        "    return state, 0\n"
    )
    load_agent(str(write("my_init.py", source)), agent_args).build(7)
    module: Any = sys.modules["longplay_agent_my_init"]
    assert module.given == [expected]


def test_argument_that_init_does_not_name_is_refused(
    write: Callable[..., Path],
) -> None:
    loaded = load_agent(str(write("my_functions.py", FUNCTIONAL)), {"lr": 0.5})
    with pytest.raises(AgentLoadError, match="no parameter 'lr'"):
        loaded.build(7)


def test_class_agent_takes_precedence_over_functions(
    write: Callable[..., Path],
) -> None:
    path = write("my_both.py", FUNCTIONAL + agent_source(12))
    assert answer_of(load_agent(str(path))) == 12
