"""Agents of other benchmarks run unchanged, and every form decides alike."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forms import FORMS, POLICY

import longplay
from longplay.agents.source.loading import load_agent
from longplay.contract.files import read_json
from longplay.errors import AgentLoadError, UnknownNameError
from longplay.runs.conformance import check_agent
from longplay.runs.trial import STREAMING_TRIAL
from playing import play_run
from rows import read_rows

SETTINGS = {"base_visit_frames": 400, "games": ["qbert", "centipede"]}
# Rewards, ends of episodes and a switch.
FORMS_PLAY = {
    "base_visit_frames": 2000,
    "games": ["qbert", "breakout"],
    "num_cycles": 1,
}


def write_form(folder: Path, name: str) -> Path:
    path = folder / f"{name}_agent.py"
    path.write_text(POLICY + FORMS[name])
    return path


# --- the same decisions -------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A run of every form, and of a module named `package.module`."""
    folder = tmp_path_factory.mktemp("forms")
    found = {
        name: play_run(
            "stream-smoke-v1",
            str(write_form(folder, name)),
            seed=1000,
            out=folder / f"out-{name}",
            overrides=FORMS_PLAY,
        ).run_dir
        for name in FORMS
    }
    package = folder / "their_package"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "their_module.py").write_text(POLICY + FORMS["functions"])
    sys.path.insert(0, str(folder))
    try:
        found["package.module"] = play_run(
            "stream-smoke-v1",
            "their_package.their_module",
            seed=1000,
            out=folder / "out-package",
            overrides=FORMS_PLAY,
        ).run_dir
    finally:
        sys.path.remove(str(folder))
    return found


def test_every_form_makes_the_same_decisions(runs):
    first, *others = (run / "events.jsonl" for run in runs.values())
    rows = read_rows(first)
    assert len({row["decided_action_idx"] for row in rows}) == 18
    assert any(row["reward"] for row in rows)
    assert any(row["terminated"] for row in rows)
    for other in others:
        assert other.read_bytes() == first.read_bytes()
    assert len(runs) == 6


def test_forms_have_different_ids(runs):
    ids = {read_json(run / "config.json")["agent"]["agent_id"] for run in runs.values()}
    assert len(ids) == 6


# --- transitions --------------------------------------------------------------------


@pytest.mark.parametrize("form", ["frame", "pair", "keywords"])
def test_stats_are_metrics(runs, form):
    visits = read_json(runs[form] / "run_summary.json")["visits"]
    metrics = visits[-1]["metrics"]
    rewards = [row["reward"] for row in read_rows(runs[form] / "events.jsonl")]
    assert "name" not in metrics
    assert "loss" not in metrics
    assert 0 < metrics["total"] <= sum(rewards)


class Recorder:
    """Records what an agent with `frame` gets."""

    def __init__(self, num_actions: int, seed: int) -> None:
        self.calls: list[tuple[int, float, int]] = []

    def frame(self, observation: Any, reward: float, end_of_episode: int) -> int:
        self.calls.append((id(observation), reward, end_of_episode))
        return 0


def test_frame_gets_each_transition_once_in_order():
    agents: list[Recorder] = []

    def build(num_actions: int, seed: int) -> Recorder:
        agents.append(Recorder(num_actions, seed))
        return agents[-1]

    events = STREAMING_TRIAL.play(load_agent(build).build(0))
    (agent,) = agents
    assert len(agent.calls) == len(events)
    assert agent.calls[0][1:] == (0.0, 0)
    ends = [int(event.terminated or event.truncated) for event in events]
    assert [call[1:] for call in agent.calls[1:]] == [
        (event.reward, end) for event, end in zip(events, ends, strict=True)
    ][:-1]
    assert sum(ends) > 2


class Learner:
    def __init__(self, num_actions: int, seed: int) -> None:
        self.transitions: list[tuple[Any, ...]] = []
        self.actions = 0

    def get_action(self, observation: Any) -> int:
        self.actions += 1
        return self.actions % 18

    def learn(self, observation, action, reward, next_observation, end) -> None:
        self.transitions.append((observation, action, reward, next_observation, end))


def test_learn_gets_the_transition_between_two_decisions():
    learners: list[Learner] = []

    def build(num_actions: int, seed: int) -> Learner:
        learners.append(Learner(num_actions, seed))
        return learners[-1]

    events = STREAMING_TRIAL.play(load_agent(build).build(0))
    (learner,) = learners
    decisions = [n for n, event in enumerate(events) if event.is_decision_frame]
    assert learner.actions == len(decisions)
    assert len(learner.transitions) == len(decisions) - 1
    for k, (before, _, reward, after, end) in enumerate(learner.transitions):
        between = events[decisions[k] : decisions[k + 1]]
        assert reward == sum(event.reward for event in between)
        assert end == any(event.terminated or event.truncated for event in between)
        if k:
            assert before is learner.transitions[k - 1][3]
        assert after is not before
    assert [action for _, action, *_ in learner.transitions] == [
        n % 18 for n in range(1, len(decisions))
    ]


@pytest.mark.parametrize(
    "signature",
    [
        "obs, action, reward, next_obs, done",
        "done, next_state, reward, action, state",
        "*, observation, action, reward, next_observation, end_of_episode",
        "obs, action, reward, next_obs, done=None, rate=0.1",
        "a, b, c, d, e",
    ],
)
def test_learn_gets_every_part_by_name_or_order(tmp_path, signature):
    names = signature.replace("*, ", "").replace("=None", "").split(", ")[:5]
    path = tmp_path / "agent.py"
    path.write_text(
        "class Agent:\n"
        "    def __init__(self, num_actions, seed): pass\n"
        "    def get_action(self, observation): return 5\n"
        f"    def learn(self, {signature}):\n"
        f"        self.got = {{n: v for n, v in locals().items() if n in {names}}}\n"
    )
    agent = load_agent(str(path)).build(0)
    before, after = np.zeros((210, 160, 3), np.uint8), np.ones((210, 160, 3), np.uint8)
    agent.step(before, 0.0, False, False, {"is_decision_frame": True})
    agent.step(after, 2.5, False, True, {"is_decision_frame": True})
    got = [agent.adapted.got[name] for name in names]
    if names[0] == "done":
        got.reverse()
    assert got[0] is before
    assert got[3] is after
    assert [got[1], got[2], got[4]] == [5, 2.5, True]


# --- constructors, names and messages -----------------------------------------------


@pytest.mark.parametrize(
    ("signature", "given"),
    [
        ("num_actions, seed", {"num_actions": 18, "seed": 7}),
        ("seed, num_actions", {"num_actions": 18, "seed": 7}),
        ("*, num_actions, seed", {"num_actions": 18, "seed": 7}),
        ("*, action_space_n, seed=0", {"action_space_n": 18, "seed": 7}),
        ("*, num_actions", {"num_actions": 18}),
        ("num_actions, seed, *, rate", {"num_actions": 18, "seed": 7, "rate": 0.5}),
        ("n, s", {"n": 18, "s": 7}),
        ("*numbers", {"numbers": (18, 7)}),
    ],
)
def test_constructor_may_take_keywords(tmp_path, signature, given):
    path = tmp_path / "agent.py"
    path.write_text(
        f"class Agent:\n    def __init__(self, {signature}):\n"
        "        self.given = {k: v for k, v in locals().items() if k != 'self'}\n"
        "    def step(self, obs_rgb, reward, terminated, truncated, info):\n"
        "        return 0\n"
    )
    args = {"rate": 0.5} if "rate" in given else {}
    assert load_agent(str(path), args).build(7).given == given


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "class Agent:\n    def act(self): pass",
            "class Agent has no method `step`, `frame` or `get_action`",
        ),
        (
            "class Agent:\n"
            "    def __init__(self, num_actions, seed): pass\n"
            "    def get_action(self, observation): return 0\n"
            "    def learn(self, batch, weights): pass",
            "learn: expected parameters among observation, obs, .*, or five in the "
            "order observation, action, reward, next_observation, .*, found 'batch'",
        ),
    ],
)
def test_unknown_form_is_refused(tmp_path, source, message):
    path = tmp_path / "agent.py"
    path.write_text(source)
    with pytest.raises(AgentLoadError, match=message):
        load_agent(str(path)).build(0)


def test_module_that_does_not_exist_is_named():
    with pytest.raises(AgentLoadError, match="no_such_package"):
        load_agent("no_such_package.module")
    with pytest.raises(UnknownNameError, match=r"module:Agent or package\.module"):
        load_agent("no_such_agent")


FORM_WORDS = {
    "step": "step(obs_rgb, reward, terminated, truncated, info)",
    "keywords": "step(obs_rgb, reward, terminated, truncated, info)",
    "frame": "frame(observation, reward, end_of_episode), called after a step",
    "pair": "get_action(observation) and learn(…), called on decision frames",
    "functions": "functions init and step of a module",
}


@pytest.mark.parametrize("form", FORMS)
def test_check_agent_says_which_form_it_found(tmp_path, invoke, form):
    path = write_form(tmp_path, form)
    checks = {check.sentence: check for check in check_agent(load_agent(str(path)))}
    assert all(check.passed is not False for check in checks.values()), checks
    assert checks["has a form that longplay calls"].detail == FORM_WORDS[form]
    built = [check for text, check in checks.items() if text.startswith("is built as")]
    name = "FunctionalAgent" if form == "functions" else "Agent"
    assert built[0].detail.startswith(f"{name}, ")
    first_words = FORM_WORDS[form].split()[0]
    assert first_words in invoke("check-agent", path).stdout


# --- saving -------------------------------------------------------------------------

SAVING = """
    def save(self, directory):
        (directory / "sums.txt").write_text(f"{self.total} {self.ends}")

    def load(self, directory):
        total, ends = (directory / "sums.txt").read_text().split()
        self.total, self.ends = float(total), int(ends)
"""


@pytest.fixture(params=["frame", "pair"])
def saving_agent(request, tmp_path) -> Iterator[Path]:
    path = write_form(tmp_path, request.param)
    path.write_text(path.read_text() + SAVING)
    yield path


def test_adapter_continues_from_what_its_agent_saved(saving_agent):
    checks = {c.sentence: c for c in check_agent(load_agent(str(saving_agent)))}
    assert checks["offers save() and load() together"].passed
    assert checks["continues from what it saved"].passed


def test_adapted_agent_runs_isolated(tmp_path):
    path = write_form(tmp_path, "pair")
    options: dict[str, Any] = {"seeds": [1000], "overrides": SETTINGS}
    here = longplay.run("stream-smoke-v1", str(path), out=tmp_path / "a", **options)
    there = longplay.run(
        "stream-smoke-v1", str(path), out=tmp_path / "b", isolate="process", **options
    )
    one, two = (
        (r.runs[0].run_dir / "events.jsonl").read_bytes() for r in (here, there)
    )
    assert one == two
    assert json.loads(one.splitlines()[0])
