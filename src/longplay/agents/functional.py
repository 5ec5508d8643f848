"""A module with `init` and `step` -> an agent object.

    init(observation_shape, num_actions) -> state         init(observation_shape) for
                                                          a predictor
    step(state, previous_observation, observation, reward) -> (state, action)
                                                            | (state, action, metrics)

`step` is called on decision frames: on every timestep of a control suite; on a
streaming suite with the sum of the rewards since its last call. If it has a parameter
`info`, that is `{"terminated", "truncated"}` of the same transition. `init` gets `seed`
and agent arguments only if its signature names them. The module gets no other
information about boundaries in the stream. If the module also has `save(state,
directory)` and `load(directory) -> state`, a run can resume from a checkpoint.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from longplay.agents.metrics import MeanMetrics, Metrics
from longplay.console.base import OBSERVATION_SHAPE, Observation
from longplay.errors import AgentError, AgentLoadError

INIT = "init(observation_shape, num_actions)"
INIT_PREDICTOR = "init(observation_shape)"
STEP = "step(state, previous_observation, observation, reward)"


def is_functional(found: object) -> bool:
    """Whether this is a module with `init` and `step`."""
    return isinstance(found, ModuleType) and all(
        callable(getattr(found, name, None)) for name in ("init", "step")
    )


def takes_shape_alone(init: Callable[..., Any], agent_args: Mapping[str, Any]) -> bool:
    """Whether `init` takes no number of actions, as for a predictor."""
    parameters = inspect.signature(init).parameters.values()
    names = {parameter.name for parameter in parameters}
    kinds = {parameter.kind for parameter in parameters}
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_KEYWORD
        and parameter.name not in ("seed", *agent_args)
    ]
    takes_any = inspect.Parameter.VAR_POSITIONAL in kinds
    return len(required) == 1 and not takes_any and "num_actions" not in names


def _check_call(
    function: Callable[..., Any], expected: str, count: int, named: dict[str, Any]
) -> None:
    """Checks that a function accepts the arguments it will be called with."""
    signature = inspect.signature(function)
    name = expected.partition("(")[0]
    try:
        signature.bind(*range(count), **named)
        _check_places(list(signature.parameters), INIT if name == "init" else expected)
    except TypeError as error:
        raise AgentLoadError(
            f"{name}: expected {expected}, found {name}{signature}: {error}"
        ) from error


def _check_places(found: Sequence[str], expected: str) -> None:
    """Refuses the contract's parameter names in another order.

    Arguments are passed by position: swapped names would bind to the wrong values.
    """
    names = expected.partition("(")[2].rstrip(")").split(", ")
    for due, name in enumerate(names, start=1):
        if name in found and found.index(name) + 1 != due:
            raise TypeError(
                f"{name} must be parameter {due}, found as parameter "
                f"{found.index(name) + 1}"
            )


class FunctionalAgent:
    """Keeps a module's state between decisions.

    Without `num_actions` it is a predictor: its answers are values, not actions.
    """

    looks_between_decisions = False

    def __init__(
        self, module: ModuleType, num_actions: int | None, seed: int, **agent_args: Any
    ) -> None:
        named = _named_arguments(module.init, {"seed": seed}, agent_args)
        self._noun = "prediction" if num_actions is None else "action"
        given = () if num_actions is None else (num_actions,)
        expected = INIT_PREDICTOR if num_actions is None else INIT
        _check_call(module.init, expected, 1 + len(given), named)
        if given and takes_shape_alone(module.init, agent_args):
            raise AgentLoadError(
                f"init: expected {INIT}, found init{inspect.signature(module.init)}: "
                "it is a predictor, and this track needs actions"
            )
        self._step = module.step
        self._takes_info = "info" in inspect.signature(module.step).parameters
        _check_call(module.step, STEP, 4, {"info": {}} if self._takes_info else {})
        self._state = module.init(OBSERVATION_SHAPE, *given, **named)
        self._metrics = MeanMetrics()
        self._window_metrics = MeanMetrics()
        self._previous: Observation | None = None
        self._action: Any = 0
        self._start_transition()
        if all(callable(getattr(module, name, None)) for name in ("save", "load")):
            self._module = module
            self.save, self.load = self._save, self._load

    def _save(self, directory: Path) -> None:
        """Saves the module's state and the current transition."""
        state_dir = directory / "state"
        state_dir.mkdir()
        self._module.save(self._state, state_dir)
        if self._previous is not None:
            np.save(directory / "previous.npy", self._previous)
        transition = {
            "reward": self._reward,
            "terminated": self._terminated,
            "truncated": self._truncated,
            "metrics": self._metrics.snapshot(),
            "window_metrics": self._window_metrics.snapshot(),
        }
        text = json.dumps(transition)
        (directory / "transition.json").write_text(text, encoding="utf-8")

    def _load(self, directory: Path) -> None:
        """Restores what was saved."""
        self._state = self._module.load(directory / "state")
        previous = directory / "previous.npy"
        self._previous = np.load(previous) if previous.exists() else None
        text = (directory / "transition.json").read_text(encoding="utf-8")
        transition = json.loads(text)
        self._reward = transition["reward"]
        self._terminated = transition["terminated"]
        self._truncated = transition["truncated"]
        self._metrics.restore(transition["metrics"])
        self._window_metrics.restore(transition.get("window_metrics", {}))

    def _start_transition(self) -> None:
        self._reward, self._terminated, self._truncated = 0.0, False, False

    @classmethod
    def factory(cls, module: ModuleType) -> Callable[..., FunctionalAgent]:
        """The factory that `LoadedAgent.build` calls for a module."""

        def build(
            num_actions: int | None, seed: int, **agent_args: Any
        ) -> FunctionalAgent:
            return cls(module, num_actions, seed, **agent_args)

        return build

    def step(
        self,
        obs_rgb: Observation | None,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> Any:
        """Calls the module on decision frames, and repeats its answer in between."""
        self._reward += reward
        self._terminated |= terminated
        self._truncated |= truncated
        if obs_rgb is not None and info["is_decision_frame"]:
            self._action = self._ask(obs_rgb)
            self._previous = obs_rgb
            self._start_transition()
        return self._action

    def _ask(self, observation: Observation) -> Any:
        previous = observation if self._previous is None else self._previous
        if self._takes_info:
            flags = {"terminated": self._terminated, "truncated": self._truncated}
            answer = self._step(
                self._state, previous, observation, self._reward, info=flags
            )
        else:
            answer = self._step(self._state, previous, observation, self._reward)
        self._state, action, *metrics = _read_answer(answer, self._noun)
        if metrics:
            self._metrics.add(metrics[0])
            self._window_metrics.add(metrics[0])
        return action

    def metrics(self) -> Metrics:
        """The means of the metrics that `step` reported in the visit."""
        return self._metrics.take()

    def window_metrics(self) -> Metrics:
        """The means of the metrics that `step` reported since the last call."""
        return self._window_metrics.take()


def _read_answer(answer: Any, noun: str) -> Sequence[Any]:
    found = type(answer).__name__
    if isinstance(answer, tuple | list):
        if len(answer) in (2, 3):
            return answer
        found = f"{len(answer)} values"
    raise AgentError(
        f"step must return (state, {noun}) or (state, {noun}, metrics), found {found}"
    )


def _named_arguments(
    init: Callable[..., Any], offered: dict[str, Any], agent_args: dict[str, Any]
) -> dict[str, Any]:
    """The offered arguments that the signature names, and all agent arguments."""
    parameters = inspect.signature(init).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for name in agent_args:
        if name not in parameters and not takes_any:
            raise AgentLoadError(
                f"init has no parameter {name!r}; it was given as an agent argument"
            )
    return {
        name: value
        for name, value in {**offered, **agent_args}.items()
        if name in parameters or (takes_any and name in agent_args)
    }
