"""Frames that are played before the agent has decided change nothing."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longplay.agents.isolation.ahead import AheadConsole
from longplay.console.base import Console
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EventRow, TimestepRow
from longplay.driver import ActionDriver
from longplay.errors import AgentError, ConsoleError
from longplay.stream import Mechanics, Stream
from tape_console import (
    GAME_OVER,
    LIFE_LOST,
    QUIET,
    TapeConsole,
    make_stream,
    make_visits,
)


class CountedConsole(TapeConsole):
    """Shows its memory and how many emulator frames a step took."""

    def step(self, action: int) -> tuple[float, bool, int]:
        self.emulator_frames = 1 + self.steps % 4
        return super().step(action)

    def ram(self) -> bytes:
        return self.screen.to_bytes(4, "little")


def make_canvas() -> Any:
    return np.zeros(1, int)


def play_ahead_on(stream: Stream, looks: bool = True) -> Callable[[], None]:
    """Wraps the stream's console; returns what plays ahead of a decision."""
    shown_after = 1 if looks else stream.mechanics.decision_interval
    console = AheadConsole(stream.console, make_canvas, shown_after)
    stream.use_console(console)
    return lambda: console.play_ahead(stream.known_actions)


def play_all(stream: Stream, *, ahead: bool, looks: bool) -> list[tuple[Any, ...]]:
    """Per frame: percept, row, CRC-32 of the memory, state."""
    play_ahead = play_ahead_on(stream, looks) if ahead else lambda: None
    found: list[tuple[Any, ...]] = []
    while not stream.done:
        percept = stream.percept(looks)
        seen = None if percept.observation is None else percept.observation.tolist()
        if percept.info["is_decision_frame"]:
            play_ahead()
        row = stream.advance((7 * len(found)) % 18)
        rest = msgspec.structs.astuple(percept)[1:]
        found.append((seen, rest, row, stream.ram_crc32, stream.snapshot()))
    return found


@pytest.mark.seed("000", "versions-7")
@given(
    delay=st.integers(1, 20),
    interval=st.integers(1, 20),
    looks=st.booleans(),
    row_type=st.sampled_from((EventRow, TimestepRow)),
    data=st.data(),
)
@settings(max_examples=100, deadline=None)
def test_playing_ahead_changes_nothing(delay, interval, looks, row_type, data):
    outcomes = st.sampled_from((QUIET, QUIET, (1.0, False, 3), LIFE_LOST, GAME_OVER))
    tape = data.draw(st.lists(outcomes, max_size=50))
    visits = make_visits(("pong", 41), ("qbert", 5))
    rules = Mechanics(delay=delay, decision_interval=interval)
    consoles = CountedConsole(tape), CountedConsole(tape)
    found = [
        play_all(
            Stream(visits, [1, 2], console, rules, ActionDriver(row_type)),
            ahead=ahead,
            looks=looks,
        )
        for console, ahead in zip(consoles, (False, True), strict=True)
    ]
    assert found[0] == found[1]
    assert consoles[0].calls == consoles[1].calls


@pytest.mark.parametrize(
    ("delay", "interval", "frames"), [(6, 4, 4), (2, 4, 2), (30, 30, 16)]
)
def test_console_plays_ahead_while_the_actions_are_known(delay, interval, frames):
    console = TapeConsole()
    stream = make_stream(console, ("pong", 99), delay=delay, decision_interval=interval)
    play_ahead = play_ahead_on(stream)
    stream.percept()
    play_ahead()
    assert console.steps == frames


def test_console_does_not_play_ahead_of_a_reset_or_of_a_visit():
    console = TapeConsole([QUIET, GAME_OVER])
    stream = make_stream(console, ("pong", 5), delay=6, decision_interval=4)
    play_ahead = play_ahead_on(stream)
    stream.percept()
    play_ahead()
    assert console.steps == 2
    for _ in range(2):
        stream.advance(0)
    stream.percept()
    play_ahead()
    assert console.steps == 5


def test_frames_are_drawn_on_given_arrays():
    class DrawingConsole(TapeConsole):
        def draw(self, canvas: Any) -> None:
            canvas[0] = self.screen

    stream = make_stream(DrawingConsole(), ("pong", 9))
    canvases = [np.zeros(1, int), np.zeros(1, int)]
    rotating = itertools.cycle(canvases)
    stream.use_console(AheadConsole(stream.console, lambda: next(rotating), 1))
    assert stream.percept().observation is canvases[0]
    stream.advance(0)
    assert stream.percept().observation is canvases[1]
    assert [int(canvas[0]) for canvas in canvases] == [100, 101]


@pytest.mark.parametrize(("delay", "steps"), [(0, 0), (2, 1)])
def test_only_delayed_decisions_are_played_ahead(delay, steps):
    console = TapeConsole()
    stream = make_stream(console, ("pong", 9), delay=delay)
    play_ahead = play_ahead_on(stream)
    stream.percept()
    play_ahead()
    assert console.steps == steps


class ReadingDriver:
    """Decides by what the console shows."""

    row_type = EventRow

    def start_visit(self, visit: ScheduledVisit, console: Console) -> None:
        self._console = console

    def decide(self, answer: object, is_first: bool) -> int:
        return int(self._console.observation()[0]) % 18

    def finish_frame(self, reward: float) -> tuple[()]:
        return ()

    def skip(self, is_first: bool) -> None:
        pass


def test_a_driver_that_reads_the_console_is_asked_first():
    rules, console = Mechanics(delay=2), TapeConsole()
    visits = make_visits(("pong", 9))
    stream = Stream(visits, [1], console, rules, ReadingDriver())
    stream.percept()
    assert stream.known_actions == []


class BrokenConsole(TapeConsole):
    def step(self, action: int) -> tuple[float, bool, int]:
        raise ConsoleError("the emulator is gone")


def test_error_of_a_console_played_ahead_comes_after_the_answer():
    stream = make_stream(BrokenConsole(), ("pong", 9), delay=2)
    play_ahead = play_ahead_on(stream)
    stream.percept()
    play_ahead()
    with pytest.raises(AgentError, match="not a valid action"):
        stream.advance("up")
    with pytest.raises(ConsoleError, match="the emulator is gone"):
        stream.advance(3)
