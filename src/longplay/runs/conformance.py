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

from longplay.agents.adapters import name_form
from longplay.agents.functional import INIT_PREDICTOR
from longplay.agents.global_random import GlobalRandom, GlobalRandomState
from longplay.agents.metrics import find_non_finite
from longplay.agents.protocol import StreamingAgent
from longplay.agents.source.loading import LoadedAgent
from longplay.errors import AgentError, LongplayError, describe_exception
from longplay.runs.continuation import Continuation
from longplay.runs.trial import (
    CONTROL_TRIAL,
    PREDICTION_TRIAL,
    STREAMING_TRIAL,
    read_answer,
)

_SEED = 7


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
        _check("offers metrics: numbers", _metrics, loaded),
        _check("offers save() and load() together", _saves, loaded),
        _check("continues from what it saved", _continues, loaded),
    ]


def _check_actor(loaded: LoadedAgent) -> list[Check]:
    return [
        _check(f"is built as {loaded.built_as}", _build, loaded),
        _check("has a form that longplay calls", _name_form, loaded),
        _check("answers every decision with an action", _plays, loaded),
        _check("plays the control track, without info['lives']", _controls, loaded),
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
        return Check(sentence, False, describe_exception(error))


def _make_agent(loaded: LoadedAgent) -> StreamingAgent:
    if loaded.is_predictor:
        return loaded.build_predictor(_SEED)
    return loaded.build(_SEED)


def _answer_all(loaded: LoadedAgent, agent: StreamingAgent) -> Sequence[float]:
    """An agent's answers to the decisions of a short stream."""
    trial = PREDICTION_TRIAL if loaded.is_predictor else STREAMING_TRIAL
    events = trial.play(agent)
    return [read_answer(event) for event in events if event.is_decision_frame]


def _answer_anew(loaded: LoadedAgent) -> Sequence[float]:
    """A new agent's answers, with the global generators seeded as in a run."""
    with GlobalRandom(_SEED).in_use():
        return _answer_all(loaded, _make_agent(loaded))


def _build(loaded: LoadedAgent) -> str:
    agent = _make_agent(loaded)
    kind = type(getattr(agent, "adapted", agent))
    return f"{kind.__name__}, {loaded.entry.agent_id[:8]}"


def _name_form(loaded: LoadedAgent) -> str:
    return name_form(_make_agent(loaded))


def _plays(loaded: LoadedAgent) -> str:
    choices = _answer_all(loaded, _make_agent(loaded))
    return f"{len(choices)} decisions, {len(set(choices))} different actions"


def _predicts(loaded: LoadedAgent) -> str:
    predictions = _answer_all(loaded, _make_agent(loaded))
    return f"{len(predictions)} predictions, {len(set(predictions))} different ones"


def _controls(loaded: LoadedAgent) -> str:
    try:
        events = CONTROL_TRIAL.play(_make_agent(loaded))
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
        raise AgentError(f"decision {at} was {first[at]}, then {second[at]}")
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
    metrics = STREAMING_TRIAL.track.join(agent).metrics()
    if not metrics:
        raise _NotOfferedError
    if names := find_non_finite(metrics):
        return f"not finite, which a run counts and leaves out: {', '.join(names)}"
    return ", ".join(metrics)


def _saves(loaded: LoadedAgent) -> str:
    # The agent object of a module has both methods or neither.
    owner = _make_agent(loaded) if loaded.module is None else loaded.module
    methods = {name: callable(getattr(owner, name, None)) for name in ("save", "load")}
    if not any(methods.values()):
        raise _NotOfferedError
    for missing, other in (("save", "load"), ("load", "save")):
        if not methods[missing]:
            raise AgentError(
                f"it has {other}() without {missing}(): add it, or rename {other}()"
            )
    return ""


def _continues(loaded: LoadedAgent) -> str:
    """Saves an agent midway, and compares it with a new one that loads its state."""
    trial = STREAMING_TRIAL if loaded.module is None else CONTROL_TRIAL
    if loaded.is_predictor:
        trial = PREDICTION_TRIAL
    if not trial.track.join(_make_agent(loaded)).can_save:
        raise _NotOfferedError
    continuation = Continuation(trial, lambda: _make_agent(loaded), _SEED)
    with tempfile.TemporaryDirectory() as folder:
        return continuation.compare(Path(folder))
