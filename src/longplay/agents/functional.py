"""A module with `init` and `step` -> a streaming agent.

    init(observation_shape, num_actions) -> state
    step(state, previous_observation, observation, reward) -> (state, action)

On a streaming suite `step` is called on decision frames, with the rewards since its
last call added up. `init` gets `seed` and agent arguments only if its signature names
them. The module knows nothing of boundaries: its stream has no seams.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

from longplay.console.base import OBSERVATION_SHAPE, Observation
from longplay.errors import AgentLoadError


def is_functional(found: object) -> bool:
    """Whether this is a module with `init` and `step`."""
    return isinstance(found, ModuleType) and all(
        callable(getattr(found, name, None)) for name in ("init", "step")
    )


class FunctionalAgent:
    """Carries a module's state from decision to decision."""

    def __init__(
        self, module: ModuleType, num_actions: int, seed: int, **agent_args: Any
    ) -> None:
        self._step = module.step
        self._state = module.init(
            OBSERVATION_SHAPE,
            num_actions,
            **_named_arguments(module.init, {"seed": seed}, agent_args),
        )
        self._previous: Observation | None = None
        self._reward = 0.0
        self._action = 0

    @classmethod
    def factory(cls, module: ModuleType) -> Callable[..., FunctionalAgent]:
        """What `LoadedAgent.build` calls for a module."""

        def build(num_actions: int, seed: int, **agent_args: Any) -> FunctionalAgent:
            return cls(module, num_actions, seed, **agent_args)

        return build

    def step(
        self,
        obs_rgb: Observation,
        reward: float,
        terminated: bool,
        truncated: bool,
        info: dict[str, Any],
    ) -> int:
        """Asks the module on decision frames, and holds its answer between them."""
        self._reward += reward
        if info["is_decision_frame"]:
            previous = obs_rgb if self._previous is None else self._previous
            answer = self._step(self._state, previous, obs_rgb, self._reward)
            self._state, self._action = _read_pair(answer)
            self._previous, self._reward = obs_rgb, 0.0
        return self._action


def _read_pair(answer: Any) -> tuple[Any, Any]:
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise TypeError(f"step must return (state, action), found {answer!r}")
    return answer


def _named_arguments(
    init: Callable[..., Any], offered: dict[str, Any], agent_args: dict[str, Any]
) -> dict[str, Any]:
    """The offered arguments that a signature names, and all agent arguments."""
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
