"""The control track: the arguments of `init` and `step`, call by call.

The expected values come from a second console that plays single frames.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from longplay.agents.functional import FunctionalAgent
from longplay.agents.noop import NoopAgent
from longplay.agents.random import RandomAgent
from longplay.agents.repeat import RepeatAgent
from longplay.console.base import Observation
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EventRow, TimestepRow
from longplay.driver import ActionDriver
from longplay.stream import Mechanics, Stream
from longplay.tracks.control import CONTROL

VISITS = [("alpha", 23), ("beta", 17), ("gamma", 31)]
SEEDS = (13, 14, 15)
LIFE_FRAMES = 9
SKIP = 4


def choose(call: int) -> int:
    """The actions of every agent here: a function of the call alone."""
    return call * 7 % 18


def make_module(step: Callable[..., Any], init: Any = None) -> ModuleType:
    module = ModuleType("functions")
    module.step = step  # type: ignore[attr-defined]
    module.init = init or (lambda observation_shape, num_actions: 0)  # type: ignore[attr-defined]
    return module


def make_stream(reward: Any = "sign") -> Stream:
    schedule = [
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=game, visit_frames=n)
        for k, (game, n) in enumerate(VISITS)
    ]
    console = ScriptedConsole(life_frames=LIFE_FRAMES, frame_skip=SKIP)
    driver = ActionDriver(TimestepRow)
    return Stream(schedule, SEEDS, console, Mechanics(reward=reward), driver)


def play(agent: Any, reward: Any = "sign") -> list[EventRow]:
    stream, track, events = make_stream(reward), CONTROL.join(agent), []
    while not stream.done:
        events.append(stream.advance(track.answer(stream.percept())))
    return events


class Witness:
    """Records every call: the objects, and their contents at that moment."""

    def __init__(self) -> None:
        self.calls: list[tuple[Observation, Observation, float, Any]] = []
        self.seen: list[Observation] = []

    def step(
        self, state: int, previous: Observation, observation: Observation, reward: float
    ) -> tuple[int, int]:
        self.note(previous, observation, reward)
        return state + 1, choose(state)

    def step_with_info(
        self, state: int, previous: Any, observation: Any, reward: float, info: Any
    ) -> tuple[int, int]:
        self.note(previous, observation, reward, info)
        return state + 1, choose(state)

    def note(self, previous: Any, observation: Any, reward: Any, info: Any = 0) -> None:
        self.calls.append((previous, observation, reward, info))
        self.seen.append(observation.copy())


def witness_of(step_name: str = "step", reward: Any = "sign") -> Witness:
    witness = Witness()
    agent = FunctionalAgent(make_module(getattr(witness, step_name)), 18, 0)
    play(agent, reward)
    return witness


Told = tuple[Observation, float, bool, bool]


def tell_truth(make_reward: Callable[[float], float] = np.sign) -> list[Told]:
    """(observation, reward that led to it, terminated, truncated), call by call."""
    console = ScriptedConsole(life_frames=LIFE_FRAMES)
    told: list[Told] = []
    transition = (0.0, False, False)
    for (game, timesteps), seed in zip(VISITS, SEEDS, strict=True):
        console.start_visit(game, seed)
        for timestep in range(timesteps):
            told.append((console.observation(), *transition))
            total, is_over = 0.0, False
            for _ in range(SKIP):
                reward, is_over, _ = console.step(choose(len(told) - 1))
                total += reward
                if is_over:
                    break
            is_last = timestep == timesteps - 1
            transition = (float(make_reward(total)), is_over, is_last)
            if is_over and not is_last:
                console.reset()
    return told


# --- the transition -----------------------------------------------------------------


def test_truth_has_every_kind_of_boundary_and_rewards_on_them() -> None:
    truth = tell_truth()
    assert any(r and over and not last for _, r, over, last in truth)
    assert any(r and last for _, r, _, last in truth)
    assert sum(last for *_, last in truth) == 2
    assert {r for _, r, _, _ in truth} == {-1.0, 0.0, 1.0}


@pytest.mark.seed("003", "intro-3")
@pytest.mark.parametrize("step_name", ["step", "step_with_info"])
def test_reward_is_that_of_the_transition_between_the_observations(
    step_name: str,
) -> None:
    witness, truth = witness_of(step_name), tell_truth()
    assert len(witness.calls) == len(truth) == 71
    for seen, call, told in zip(witness.seen, witness.calls, truth, strict=True):
        np.testing.assert_array_equal(seen, told[0])
        assert call[2] == told[1]
        assert type(call[2]) is float


def test_raw_rewards_are_the_sums_over_the_frames() -> None:
    rewards = [call[2] for call in witness_of(reward="raw").calls]
    assert rewards == [told[1] for told in tell_truth(float)]
    assert {-0.5, 1.0, 10.0} <= set(rewards)


def test_first_call_has_one_observation_and_no_reward() -> None:
    previous, observation, reward, _ = witness_of().calls[0]
    assert previous is observation
    assert reward == 0.0


def test_previous_observation_is_the_array_handed_out_before() -> None:
    calls = witness_of().calls
    for before, now in itertools.pairwise(calls):
        assert now[0] is before[1]
        assert now[1] is not before[1]


def test_previous_observation_keeps_the_agents_own_changes() -> None:
    marks = []

    def step(state: int, previous: Any, observation: Any, reward: float) -> Any:
        marks.append(int(previous[5, 5, 0]))
        observation[5, 5, 0] = state % 200 + 1
        return state + 1, choose(state)

    events = play(FunctionalAgent(make_module(step), 18, 0))
    assert marks == [0, *range(1, 71)]
    assert events == play(FunctionalAgent(make_module(Witness().step), 18, 0))


def test_last_reward_is_recorded_but_not_delivered() -> None:
    witness = Witness()
    events = play(FunctionalAgent(make_module(witness.step), 18, 0))
    assert [call[2] for call in witness.calls[1:]] == [e.reward for e in events[:-1]]


# --- information about the game -------------------------------------------------------


def test_info_is_the_flags_of_the_transition_and_nothing_else() -> None:
    infos = [call[3] for call in witness_of("step_with_info").calls]
    assert infos == [
        {"terminated": over, "truncated": last} for *_, over, last in tell_truth()
    ]
    assert {type(value) for info in infos for value in info.values()} == {bool}
    assert len({id(info) for info in infos}) == len(infos)


@pytest.mark.seed("003", "control-3")
def test_init_gets_shape_actions_and_seed() -> None:
    given: list[Any] = []

    def init(observation_shape: Any, num_actions: int, seed: int, lr: float) -> int:
        given.append((observation_shape, num_actions, seed, lr))
        return 0

    FunctionalAgent(make_module(Witness().step, init), 18, 77, lr=0.5)
    assert given == [((210, 160, 3), 18, 77, 0.5)]


def test_keyword_only_info_is_passed_too() -> None:
    witness = Witness()

    def step(state: int, previous: Any, observation: Any, reward: float, *, info: Any):
        return witness.step_with_info(state, previous, observation, reward, info)

    play(FunctionalAgent(make_module(step), 18, 0))
    assert witness.calls[0][3] == {"terminated": False, "truncated": False}


class Listener:
    """A streaming agent that keeps its info."""

    def __init__(self) -> None:
        self.infos: list[dict[str, Any]] = []

    def step(self, *args: Any) -> int:
        self.infos.append(args[4])
        return choose(len(self.infos) - 1)


def test_streaming_agent_plays_without_lives() -> None:
    listener = Listener()
    events = play(listener)
    assert events == play(FunctionalAgent(make_module(Witness().step), 18, 0))
    for frame, info in enumerate(listener.infos):
        assert info["is_decision_frame"] is True
        assert info["global_frame_idx"] == frame
        assert "lives" not in info


@pytest.mark.parametrize("agent_type", [RandomAgent, RepeatAgent, NoopAgent])
def test_built_in_agents_play(agent_type: Any) -> None:
    events = play(agent_type(18, 3))
    assert len(events) == 71
    actions = {event.applied_action_idx for event in events}
    expected = {RandomAgent: 18, RepeatAgent: 1, NoopAgent: 1}[agent_type]
    assert len(actions) <= expected
    assert (len(actions) > 9) == (agent_type is RandomAgent)


# --- metrics --------------------------------------------------------------------------


def test_metrics_are_averaged_over_the_steps_that_report_them() -> None:
    def step(state: int, previous: Any, observation: Any, reward: float) -> Any:
        metrics = {"call": state, "even": np.float32(2.5)}
        if state % 2:
            del metrics["even"]
        return state + 1, 0, metrics

    agent = FunctionalAgent(make_module(step), 18, 0)
    stream, track, means = make_stream(), CONTROL.join(agent), []
    while not stream.done:
        event = stream.advance(track.answer(stream.percept()))
        if event.truncated:
            means.append(track.metrics())
    assert means == [
        {"call": 11.0, "even": 2.5},  # 0 … 22
        {"call": 31.0, "even": 2.5},  # 23 … 39
        {"call": 55.0, "even": 2.5},  # 40 … 70
    ]


def test_step_may_report_metrics_occasionally() -> None:
    def step(state: int, previous: Any, observation: Any, reward: float) -> Any:
        return (state + 1, 0, {"first": 1.0}) if state == 0 else (state + 1, 0)

    agent = FunctionalAgent(make_module(step), 18, 0)
    play(agent)
    assert agent.metrics() == {"first": 1.0}
    assert agent.metrics() == {}
