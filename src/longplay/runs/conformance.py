"""The agent contract as a checklist, run on the scripted console.

    checks = check_agent(load_agent("my_agent.py"))

Each check is one sentence of the contract. Errors are failures; missing optional
methods are marked as such. No ROM is needed, and nothing is written.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longplay.agents.functional import INIT_PREDICTOR
from longplay.agents.global_random import GlobalRandom, GlobalRandomState
from longplay.agents.loading import LoadedAgent
from longplay.agents.protocol import StreamingAgent
from longplay.console.base import Observation
from longplay.console.scripted import ScriptedConsole
from longplay.contract.records import (
    EventRow,
    PredictionRow,
    ScheduledVisit,
    TimestepRow,
)
from longplay.driver import ActionDriver
from longplay.errors import LongplayError
from longplay.reference.driver import ReferenceDriver
from longplay.reference.guide import Guidance
from longplay.stream import Mechanics, Stream
from longplay.tracks.control import CONTROL
from longplay.tracks.participant import Participant
from longplay.tracks.prediction import PREDICTION
from longplay.tracks.streaming import STREAMING

_VISIT_FRAMES = (300, 170, 240)
_SEED = 7
# Within the second visit, after a game over, not on a decision frame.
_SAVED_AFTER = 391
# Streams with every kind of boundary, as the tracks have them.
_STREAMING = Mechanics(decision_interval=4, delay=2)
_CONTROL = Mechanics(reward="sign")
_CONTROL_FRAME_SKIP = 4


@dataclass(frozen=True)
class Check:
    """One sentence of the contract: passed, failed, or None where it does not apply."""

    sentence: str
    passed: bool | None
    detail: str = ""

    def to_json(self) -> dict[str, Any]:
        """The check as plain JSON values."""
        return {
            "sentence": self.sentence,
            "passed": self.passed,
            "detail": self.detail,
        }


def check_agent(loaded: LoadedAgent) -> list[Check]:
    """Checks every sentence of the contract, each with a new agent."""
    return [
        *(_check_predictor(loaded) if loaded.is_predictor else _check_actor(loaded)),
        _check("repeats its choices for the same seed", _repeats, loaded),
        _check("draws from random generators of its own", _spares_random, loaded),
        _check("offers metrics: finite numbers", _metrics, loaded),
        _check("offers save() and load() together", _saves, loaded),
        _check("continues from what it saved", _continues, loaded),
    ]


def _check_actor(loaded: LoadedAgent) -> list[Check]:
    return [
        _check(f"is built as {loaded.built_as}", _build, loaded),
        _check("answers every decision with an action", _plays, loaded),
        _check("plays the control track, where it has pixels alone", _controls, loaded),
    ]


def _check_predictor(loaded: LoadedAgent) -> list[Check]:
    return [
        _check(f"is built as {INIT_PREDICTOR}", _build, loaded),
        _check("answers every timestep with a finite number", _predicts, loaded),
    ]


class _NotOfferedError(Exception):
    """The agent does not have something that is optional."""


def _check(
    sentence: str, check: Callable[[LoadedAgent], str], loaded: LoadedAgent
) -> Check:
    printed = io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
            GlobalRandom(_SEED).in_use(),
        ):
            return Check(sentence, True, check(loaded))
    except _NotOfferedError as error:
        return Check(sentence, None, str(error) or "not offered, optional")
    except LongplayError as error:
        return Check(sentence, False, str(error))
    except (Exception, SystemExit) as error:
        return Check(sentence, False, f"{type(error).__name__}: {error}")


def _make_schedule() -> list[ScheduledVisit]:
    return [
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=f"game-{k}", visit_frames=n)
        for k, n in enumerate(_VISIT_FRAMES)
    ]


def _play(agent: StreamingAgent) -> list[EventRow]:
    """Plays a short stream of the streaming track."""
    schedule, console = _make_schedule(), ScriptedConsole()
    stream = Stream(schedule, range(len(schedule)), console, _STREAMING)
    return _play_stream(stream, STREAMING.join(agent))


def _play_control(agent: StreamingAgent) -> list[EventRow]:
    """Plays a short stream of the control track."""
    schedule = _make_schedule()
    console = ScriptedConsole(frame_skip=_CONTROL_FRAME_SKIP)
    driver = ActionDriver(TimestepRow)
    stream = Stream(schedule, range(len(schedule)), console, _CONTROL, driver)
    return _play_stream(stream, CONTROL.join(agent))


class _SimpleGuide:
    """A policy for the scripted console, which needs no file."""

    def decide(self, ram: memoryview, is_first: bool) -> Guidance:
        return Guidance(ram[0] % 18, 0.0)

    def skip(self, ram: memoryview, is_first: bool) -> None:
        """Does nothing: the policy has no state."""

    def check_reward(self, reward: float) -> None:
        """Accepts every reward."""


def _play_prediction(agent: StreamingAgent) -> list[EventRow]:
    """Plays a short stream of the prediction track."""
    schedule = _make_schedule()
    console = ScriptedConsole(frame_skip=_CONTROL_FRAME_SKIP)
    driver = ReferenceDriver({visit.visit_idx: _SimpleGuide() for visit in schedule})
    stream = Stream(schedule, range(len(schedule)), console, _CONTROL, driver)
    return _play_stream(stream, PREDICTION.join(agent))


def _make_agent(loaded: LoadedAgent) -> StreamingAgent:
    if loaded.is_predictor:
        return loaded.build_predictor(_SEED)
    return loaded.build(_SEED)


def _answer_all(loaded: LoadedAgent, agent: StreamingAgent) -> Sequence[float]:
    """An agent's answers on a short stream of its own track."""
    if loaded.is_predictor:
        rows = _play_prediction(agent)
        return [row.prediction for row in rows if isinstance(row, PredictionRow)]
    return _choices(_play(agent))


def _answer_anew(loaded: LoadedAgent) -> Sequence[float]:
    """A new agent's answers, with the global generators seeded as in a run."""
    with GlobalRandom(_SEED).in_use():
        return _answer_all(loaded, _make_agent(loaded))


def _play_stream(stream: Stream, participant: Participant) -> list[EventRow]:
    events = []
    while not stream.done:
        events.append(stream.advance(participant.answer(stream.percept())))
    return events


def _choices(events: list[EventRow]) -> list[int]:
    return [e.decided_action_idx for e in events if e.is_decision_frame]


def _build(loaded: LoadedAgent) -> str:
    return f"{type(_make_agent(loaded)).__name__}, {loaded.entry.agent_id[:8]}"


def _plays(loaded: LoadedAgent) -> str:
    choices = _choices(_play(loaded.build(_SEED)))
    return f"{len(choices)} decisions, {len(set(choices))} different actions"


def _predicts(loaded: LoadedAgent) -> str:
    predictions = _answer_all(loaded, _make_agent(loaded))
    return f"{len(predictions)} predictions, {len(set(predictions))} different ones"


def _controls(loaded: LoadedAgent) -> str:
    try:
        events = _play_control(loaded.build(_SEED))
    except KeyError as error:
        if error.args != ("lives",):
            raise
        raise _NotOfferedError("needs info['lives'], for streaming suites") from error
    return f"{len(events)} timesteps"


def _repeats(loaded: LoadedAgent) -> str:
    first, second = (_answer_anew(loaded) for _ in range(2))
    if first != second:
        at = next(
            i
            for i, pair in enumerate(zip(first, second, strict=True))
            if len(set(pair)) > 1
        )
        raise ValueError(f"decision {at} was {first[at]}, then {second[at]}")
    return ""


def _spares_random(loaded: LoadedAgent) -> str:
    # A state that an agent's own seeding does not produce.
    with GlobalRandom(0x10A9).in_use():
        guarded = GlobalRandomState.read()
        _answer_all(loaded, _make_agent(loaded))
        if GlobalRandomState.read() == guarded:
            return ""
    raise _NotOfferedError("it uses the global ones, which are seeded for it")


def _metrics(loaded: LoadedAgent) -> str:
    agent = _make_agent(loaded)
    if not hasattr(agent, "metrics"):
        raise _NotOfferedError
    _answer_all(loaded, agent)
    names = STREAMING.join(agent).metrics()
    if not names:
        raise _NotOfferedError
    return ", ".join(names)


def _saves(loaded: LoadedAgent) -> str:
    agent = _make_agent(loaded)
    offered = [name for name in ("save", "load") if hasattr(agent, name)]
    if not offered:
        raise _NotOfferedError
    if len(offered) == 1:
        raise ValueError(f"it has only {offered[0]}")
    return ""


def _continues(loaded: LoadedAgent) -> str:
    """Saves an agent, loads a new one, and compares their answers from there on."""
    agent = _SavedAgent(loaded)
    if not all(hasattr(agent.original, name) for name in ("save", "load")):
        raise _NotOfferedError
    _answer_all(loaded, agent)
    return f"{agent.compared} answers compared"


class _SavedAgent:
    """Answers as its agent does; a second agent, loaded midway, must agree."""

    def __init__(self, loaded: LoadedAgent) -> None:
        self._loaded = loaded
        self.original = _make_agent(loaded)
        self._second: StreamingAgent | None = None
        self._frames = 0
        self.compared = 0

    def step(
        self,
        obs_rgb: Observation,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> Any:
        if self._frames == _SAVED_AFTER:
            self._second = self._load_second()
        self._frames += 1
        # A copy for each agent: it may keep the arrays and write to them.
        percept = (obs_rgb.copy(), reward, terminated, truncated, dict(info))
        answer = self.original.step(obs_rgb, reward, terminated, truncated, info)
        if self._second is not None and percept[-1]["is_decision_frame"]:
            self._compare(answer, self._second.step(*percept))
        elif self._second is not None:
            self._second.step(*percept)
        return answer

    def _load_second(self) -> StreamingAgent:
        second = _make_agent(self._loaded)
        with tempfile.TemporaryDirectory() as folder:
            self.original.save(Path(folder))  # type: ignore[attr-defined]
            second.load(Path(folder))  # type: ignore[attr-defined]
        return second

    def _compare(self, answer: Any, second: Any) -> None:
        if answer != second:
            raise ValueError(
                f"decision {self.compared} after load() was {second}, without saving "
                f"and loading it was {answer}"
            )
        self.compared += 1
