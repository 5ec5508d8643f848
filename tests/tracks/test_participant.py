"""The parts of a percept that an agent gets on each track."""

from __future__ import annotations

from typing import Any

import pytest
from test_control import make_module

from longplay.agents.functional import FunctionalAgent
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EventRow
from longplay.stream import INFO_KEYS, Mechanics, Stream
from longplay.tracks.catalogue import TRACKS
from longplay.tracks.participant import Participant
from longplay.tracks.streaming import STREAMING

ALL_BUT_LIVES = {
    "action_space_n",
    "is_decision_frame",
    "global_frame_idx",
    "default_action_idx",
    "prev_applied_action_idx",
    "has_prev_applied_action",
}


class Looker:
    """Keeps all its arguments, and always answers 1."""

    def __init__(self) -> None:
        self.observations: list[Any] = []
        self.infos: list[dict[str, Any]] = []

    def step(self, obs_rgb: Any, *others: Any) -> int:
        self.observations.append(obs_rgb)
        self.infos.append(others[-1])
        return 1


class DecisionLooker(Looker):
    looks_between_decisions = False


class CountingConsole(ScriptedConsole):
    """Counts the frames whose pixels were fetched."""

    fetched = 0

    def observation(self) -> Any:
        self.fetched += 1
        return super().observation()


def make_stream(console: Any, frames: int = 22) -> Stream:
    visit = ScheduledVisit(visit_idx=0, cycle_idx=0, game_id="a", visit_frames=frames)
    return Stream([visit], [1], console, Mechanics(decision_interval=4, delay=2))


def play(participant: Participant, console: Any) -> list[EventRow]:
    stream, rows = make_stream(console), []
    while not stream.done:
        percept = stream.percept(participant.looks_between_decisions)
        rows.append(stream.advance(participant.answer(percept)))
    return rows


def test_a_percept_has_the_listed_keys() -> None:
    assert tuple(make_stream(ScriptedConsole()).percept().info) == INFO_KEYS


@pytest.mark.parametrize(
    ("track", "keys"),
    [
        ("streaming", {"lives", *ALL_BUT_LIVES}),
        ("control", ALL_BUT_LIVES),
        ("prediction", {"is_decision_frame"}),
    ],
)
def test_an_agent_gets_what_its_track_allows(track: str, keys: set[str]) -> None:
    agent = Looker()
    play(TRACKS[track].join(agent), ScriptedConsole())
    assert {frozenset(info) for info in agent.infos} == {frozenset(keys)}


def test_an_agent_sees_every_frame_unless_it_opts_out() -> None:
    seeing, console = Looker(), CountingConsole()
    rows = play(STREAMING.join(seeing), console)
    assert console.fetched == len(rows) == 22
    looking, thrifty = DecisionLooker(), CountingConsole()
    assert play(STREAMING.join(looking), thrifty) == rows
    decisions = [row.is_decision_frame for row in rows]
    assert thrifty.fetched == sum(decisions) < 22
    seen = [observation is not None for observation in looking.observations]
    assert seen == decisions


def test_a_module_of_functions_does_not_look_between_decisions() -> None:
    shown: list[list[Any]] = [[], []]

    def make_agent(looks: bool, seen: list[Any]) -> FunctionalAgent:
        def step(state: Any, previous: Any, observation: Any, reward: float) -> Any:
            seen.append((previous.tobytes(), observation.tobytes(), reward))
            return state + 1, state * 5 % 18

        agent = FunctionalAgent(make_module(step), 18, 0)
        agent.looks_between_decisions = looks
        return agent

    assert FunctionalAgent.looks_between_decisions is False
    consoles = CountingConsole(), CountingConsole()
    rows = [
        play(STREAMING.join(make_agent(looks, seen)), console)
        for looks, seen, console in zip((True, False), shown, consoles, strict=True)
    ]
    assert rows[0] == rows[1]
    assert shown[0] == shown[1]
    assert consoles[0].fetched == 22
    assert consoles[1].fetched == len(shown[1]) == 6
