"""The agent contract as a checklist, played on the scripted console.

    checks = check_agent(load_agent("my_agent.py"))

Each check is a sentence of the contract. Errors are failures; what an agent may leave
out is marked as such. No ROM is needed, and nothing is written.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from longplay.agents.base import LoadedAgent, StreamingAgent
from longplay.console.scripted import ScriptedConsole
from longplay.contract.records import EventRow, ScheduledVisit, TimestepRow
from longplay.errors import LongplayError
from longplay.stream import Mechanics, Stream
from longplay.tracks.base import Track
from longplay.tracks.control import ControlTrack
from longplay.tracks.streaming import StreamingTrack

_VISIT_FRAMES = (300, 170, 240)
_SEED = 7
# Streams with every kind of boundary, as both tracks have them.
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
        """The check for machines."""
        return {
            "sentence": self.sentence,
            "passed": self.passed,
            "detail": self.detail,
        }


def check_agent(loaded: LoadedAgent) -> list[Check]:
    """Goes through the contract with fresh agents."""
    return [
        _check(f"is built as {loaded.built_as}", _build, loaded),
        _check("answers every decision with an action", _plays, loaded),
        _check("plays the control track, where it has pixels alone", _controls, loaded),
        _check("repeats its choices for the same seed", _repeats, loaded),
        _check("leaves NumPy's global random state alone", _spares_random, loaded),
        _check("offers metrics: finite numbers", _metrics, loaded),
        _check("offers save() and load() together", _saves, loaded),
    ]


class _NotOfferedError(Exception):
    """The agent leaves out what it may leave out."""


def _check(
    sentence: str, check: Callable[[LoadedAgent], str], loaded: LoadedAgent
) -> Check:
    printed = io.StringIO()
    random_state = np.random.get_state()  # noqa: NPY002 - put back afterwards
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            return Check(sentence, True, check(loaded))
    except _NotOfferedError as error:
        return Check(sentence, None, str(error) or "not offered, optional")
    except LongplayError as error:
        return Check(sentence, False, str(error))
    except (Exception, SystemExit) as error:
        return Check(sentence, False, f"{type(error).__name__}: {error}")
    finally:
        np.random.set_state(random_state)  # noqa: NPY002


def _make_schedule() -> list[ScheduledVisit]:
    return [
        ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=f"game-{k}", visit_frames=n)
        for k, n in enumerate(_VISIT_FRAMES)
    ]


def _play(agent: StreamingAgent) -> list[EventRow]:
    """Plays a short stream of the streaming track."""
    schedule, console = _make_schedule(), ScriptedConsole()
    stream = Stream(schedule, range(len(schedule)), console, _STREAMING)
    return _play_stream(stream, StreamingTrack(agent))


def _play_control(agent: StreamingAgent) -> list[EventRow]:
    """Plays a short stream of the control track."""
    schedule = _make_schedule()
    console = ScriptedConsole(frame_skip=_CONTROL_FRAME_SKIP)
    stream = Stream(schedule, range(len(schedule)), console, _CONTROL, TimestepRow)
    return _play_stream(stream, ControlTrack(agent))


def _play_stream(stream: Stream, track: Track) -> list[EventRow]:
    events = []
    while not stream.done:
        events.append(stream.advance(track.answer(stream.percept())))
    return events


def _choices(events: list[EventRow]) -> list[int]:
    return [e.decided_action_idx for e in events if e.is_decision_frame]


def _build(loaded: LoadedAgent) -> str:
    return f"{type(loaded.build(_SEED)).__name__}, {loaded.entry.agent_id[:8]}"


def _plays(loaded: LoadedAgent) -> str:
    choices = _choices(_play(loaded.build(_SEED)))
    return f"{len(choices)} decisions, {len(set(choices))} different actions"


def _controls(loaded: LoadedAgent) -> str:
    try:
        events = _play_control(loaded.build(_SEED))
    except KeyError as error:
        if error.args != ("lives",):
            raise
        raise _NotOfferedError("needs info['lives'], for streaming suites") from error
    return f"{len(events)} timesteps"


def _repeats(loaded: LoadedAgent) -> str:
    first, second = (_choices(_play(loaded.build(_SEED))) for _ in range(2))
    if first != second:
        at = next(
            i
            for i, pair in enumerate(zip(first, second, strict=True))
            if len(set(pair)) > 1
        )
        raise ValueError(f"decision {at} was {first[at]}, then {second[at]}")
    return ""


def _spares_random(loaded: LoadedAgent) -> str:
    _play(loaded.build(_SEED))
    # A state that no agent's own seeding leaves behind.
    np.random.seed(0x10A9)  # noqa: NPY002 - the state that is guarded
    guarded = repr(np.random.get_state(legacy=False))  # noqa: NPY002
    _play(loaded.build(_SEED))
    if repr(np.random.get_state(legacy=False)) != guarded:  # noqa: NPY002
        raise ValueError("it touched numpy.random; use the seed it is given")
    return ""


def _metrics(loaded: LoadedAgent) -> str:
    agent = loaded.build(_SEED)
    if not hasattr(agent, "metrics"):
        raise _NotOfferedError
    _play(agent)
    names = StreamingTrack(agent).metrics()
    if not names:
        raise _NotOfferedError
    return ", ".join(names)


def _saves(loaded: LoadedAgent) -> str:
    agent = loaded.build(_SEED)
    offered = [name for name in ("save", "load") if hasattr(agent, name)]
    if not offered:
        raise _NotOfferedError
    if len(offered) == 1:
        raise ValueError(f"it has {offered[0]} alone")
    return ""
