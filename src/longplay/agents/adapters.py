"""Agents of other benchmarks -> agents of the streaming track, unchanged.

    step(obs_rgb, reward, terminated, truncated, info)    longplay's own form
    frame(observation, reward, end_of_episode)            called after a step
    get_action(observation), learn(…)                     a pair, on decision frames
    init and step of a module                             see `functional`

`frame` is called on every frame: with the observation of this frame, and the reward and
the end of the transition that led to it. Each transition is delivered once, in order,
except the last of the run. Elsewhere `frame` gets the last picture of an episode
together with its end; here it gets the first picture of the next one. The first call
of a run, with reward 0.0 and no end, has no counterpart there.

`learn` gets the transition between two decisions before `get_action` is called for the
second. Its parameters are found by their names, or are five in this order: observation,
action, reward, next observation, end. After the end of an episode, the next observation
is the first picture of the next one.

A constructor may take `num_actions` (or `action_space_n`) and `seed` by keyword, and
leave either out. `get_stats()` counts as `metrics()`, as far as its values are numbers.
"""

from __future__ import annotations

import inspect
import json
import math
from collections.abc import Callable
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

from longplay.agents.functional import FunctionalAgent
from longplay.agents.protocol import StreamingAgent
from longplay.console.base import Observation
from longplay.errors import AgentLoadError

STEP_FORM = "step(obs_rgb, reward, terminated, truncated, info)"
FRAME_FORM = "frame(observation, reward, end_of_episode)"
PAIR_FORM = "get_action(observation) and learn(…)"

_OPTIONAL = ("metrics", "usage", "save", "load", "close")
# The parts of a transition, and the names that parameters of `learn` have for them.
_PARTS = (
    ("observation", "obs", "state", "previous_observation"),
    ("action",),
    ("reward",),
    ("next_observation", "next_obs", "next_state"),
    ("end_of_episode", "done", "terminated", "end"),
)
_PLACES = {name: place for place, names in enumerate(_PARTS) for name in names}


def has_known_form(found: object) -> bool:
    """Whether an agent, or its class, has a method that longplay can call."""
    return any(
        callable(getattr(found, name, None)) for name in ("step", "frame", "get_action")
    )


def name_form(agent: object) -> str:
    """The form in which a built agent is written."""
    if isinstance(agent, FrameAgent):
        return f"{FRAME_FORM}, called after a step"
    if isinstance(agent, PairAgent):
        return f"{PAIR_FORM}, called on decision frames"
    if isinstance(agent, FunctionalAgent):
        return "functions init and step of a module"
    return STEP_FORM


def call_constructor(
    factory: Callable[..., Any], num_actions: int | None, seed: int, **agent_args: Any
) -> Any:
    """Builds an agent: by names where its constructor has them, else by position."""
    offered = {"num_actions": num_actions, "action_space_n": num_actions, "seed": seed}
    try:
        signature = inspect.signature(factory)
        named = {n: v for n, v in offered.items() if n in signature.parameters}
        signature.bind(**{**named, **agent_args})
    except (TypeError, ValueError):  # other names, or no signature
        return factory(num_actions, seed, **agent_args)
    if not named:
        return factory(num_actions, seed, **agent_args)
    return factory(**{**named, **agent_args})


def adapt(agent: Any, num_actions: int, seed: int) -> StreamingAgent:
    """The agent itself, or an adapter that calls it in its own form.

    Raises:
        AgentLoadError: `learn` has a parameter whose meaning is unknown.
    """
    adapted = agent
    if not callable(getattr(agent, "step", None)):
        if callable(getattr(agent, "frame", None)):
            adapted = FrameAgent(agent)
        elif callable(getattr(agent, "get_action", None)):
            adapted = PairAgent(agent, num_actions, seed)
    if not hasattr(agent, "metrics") and callable(getattr(agent, "get_stats", None)):
        try:
            adapted.metrics = partial(_read_stats, agent)
        except AttributeError as error:
            raise AgentLoadError(
                "its get_stats() cannot be used, because it has __slots__; rename it "
                "to metrics()"
            ) from error
    return adapted  # type: ignore[no-any-return]


def _read_stats(agent: Any) -> dict[str, float]:
    """The finite numbers of `get_stats`; it may contain anything else."""
    stats = agent.get_stats()
    return {
        str(name): float(value)
        for name, value in stats.items()
        if isinstance(value, Real) and math.isfinite(value)
    }


class FrameAgent:
    """An agent with `frame`, asked before each step for the transition before it."""

    def __init__(self, agent: Any) -> None:
        self.adapted = agent
        self._frame = agent.frame
        for name in _OPTIONAL:
            if callable(getattr(agent, name, None)):
                setattr(self, name, getattr(agent, name))

    def step(
        self,
        obs_rgb: Observation,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> Any:
        """Delivers the last transition."""
        return self._frame(obs_rgb, reward, int(terminated or truncated))


class PairAgent(FunctionalAgent):
    """An agent with `get_action` and, if it learns, `learn`."""

    def __init__(self, agent: Any, num_actions: int, seed: int) -> None:
        super().__init__(_PairModule(agent), num_actions, seed)  # type: ignore[arg-type]
        self.adapted = agent
        for name in ("metrics", "usage", "close"):
            if callable(getattr(agent, name, None)):
                setattr(self, name, getattr(agent, name))


class _PairModule:
    """A pair as the functions of a module; the state is its last action."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        self._places = _find_places(getattr(agent, "learn", None))
        if all(callable(getattr(agent, name, None)) for name in ("save", "load")):
            self.save, self.load = self._save, self._load

    def init(self, observation_shape: tuple[int, ...], num_actions: int) -> None:
        """There is no action yet; the agent is built."""

    def step(
        self,
        state: Any,
        previous_observation: Observation,
        observation: Observation,
        reward: float,
        info: dict[str, bool],
    ) -> tuple[Any, Any]:
        """Learns from the transition, then asks for the next action."""
        if self._places is not None and previous_observation is not observation:
            end = info["terminated"] or info["truncated"]
            parts = (previous_observation, state, reward, observation, end)
            given = {name: parts[place] for name, place in self._places.items()}
            self._agent.learn(**given)
        action = self._agent.get_action(observation)
        return action, action

    def _save(self, state: Any, directory: Path) -> None:
        self._agent.save(directory)
        action = None if state is None else int(state)
        text = json.dumps({"action": action})
        (directory / "last_action.json").write_text(text, encoding="utf-8")

    def _load(self, directory: Path) -> Any:
        self._agent.load(directory)
        text = (directory / "last_action.json").read_text(encoding="utf-8")
        return json.loads(text)["action"]


def _find_places(learn: Any) -> dict[str, int] | None:
    """Parameter of `learn` -> the part of a transition that it gets.

    A parameter with a default is filled if its name is known, and else left alone.
    """
    if not callable(learn):
        return None
    parameters = inspect.signature(learn).parameters.values()
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    unknown = [name for name in required if name not in _PLACES]
    if not unknown:
        names = (parameter.name for parameter in parameters)
        return {name: _PLACES[name] for name in names if name in _PLACES}
    if len(required) == len(_PARTS):
        return {name: place for place, name in enumerate(required)}
    raise AgentLoadError(
        f"learn: expected parameters among {', '.join(_PLACES)}, or five in the order "
        f"{', '.join(names[0] for names in _PARTS)}, found {unknown[0]!r}"
    )
