"""Hyper-parameters out of range are refused, by name, before anything is built."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from all_learners import LEARNERS, is_predictor
from longplay.agents.source.loading import load_agent
from longplay.errors import AgentLoadError, ConfigError
from longplay.learners.parts.limits import LIMITS, check_arguments

GIVEN = {"observation_shape": (210, 160, 3), "num_actions": 18, "seed": 0}
INITS = {name: module.init for name, module in LEARNERS.items()}
COUNT = "a whole number, at least 1"


def test_replay_that_never_has_a_batch_is_refused() -> None:
    message = "capacity: expected at least 40 frames for a batch of 32, found 39"
    with pytest.raises(ConfigError, match=message):
        INITS["dqn"](**GIVEN, capacity=39)


def list_numeric(name: str) -> list[str]:
    """The hyper-parameters of a learner that are numbers, flags, or several numbers."""
    return [
        key
        for key, parameter in inspect.signature(INITS[name]).parameters.items()
        if isinstance(parameter.default, int | float | tuple)
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step_size": -0.1}, "step_size: expected a number, at least 0, found -0.1"),
        ({"step_size": "fast"}, "step_size: expected a number, at least 0, found 'fa"),
        ({"step_size": True}, "step_size: expected a number, at least 0, found True"),
        ({"step_size": float("nan")}, "step_size: expected .*, found nan"),
        ({"step_size": float("inf")}, "step_size: expected .*, found inf"),
        ({"discount": 1.5}, "discount: expected a number from 0 to 1, found 1.5"),
        ({"trace_decay": -1}, "trace_decay: expected a number from 0 to 1, found -1"),
        ({"bias": 0}, "bias: expected a number above 0, found 0"),
        ({"kappa": 0}, "kappa: expected a number above 0, found 0"),
        ({"horizon": 0}, f"horizon: expected {COUNT}, found 0"),
        ({"horizon": None}, f"horizon: expected {COUNT}, found None"),
        ({"block_decisions": 0}, f"block_decisions: expected {COUNT}, found 0"),
        ({"size": 42.5}, f"size: expected {COUNT}, found 42.5"),
        ({"frames": 0}, f"frames: expected {COUNT}, found 0"),
        ({"hidden": 0}, f"hidden: expected {COUNT}, found 0"),
        ({"returns": 0}, f"returns: expected {COUNT}, found 0"),
        ({"batch_size": 0}, f"batch_size: expected {COUNT}, found 0"),
        ({"decisions_per_update": 0}, f"decisions_per_update: expected {COUNT}, fou"),
        ({"capacity": 1e4}, f"capacity: expected {COUNT}, found 10000.0"),
        ({"first_update": -1}, "first_update: expected a number, at least 0, found"),
        ({"target_share": 0}, "target_share: expected a number above 0, at most 1"),
        ({"sparsity": 1.0}, "sparsity: expected a number from 0 to below 1, found 1"),
        ({"pull": 2}, "pull: expected a number from 0 to 1, found 2"),
        ({"renewal": -0.5}, "renewal: expected a number from 0 to 1, found -0.5"),
        ({"epsilons": 0.1}, "epsilons: expected a list of 1 to 10 rates from 0 to 1"),
        ({"epsilons": ()}, r"epsilons: expected a list of .*, found \(\)"),
        ({"epsilons": [0.1, 1.5]}, r"epsilons: expected .*, found \[0.1, 1.5\]"),
        ({"epsilons": [0.5] * 11}, "epsilons: expected a list of 1 to 10 rates from"),
        ({"cut_traces": "no"}, "cut_traces: expected true or false, found 'no'"),
        ({"shared_parts": "False"}, "shared_parts: expected true or false, found 'F"),
        ({"memory": "keep"}, "memory: expected one of carry, reset, library, found"),
        ({"memory": None}, "memory: expected one of carry, reset, library, found No"),
        ({"method": "EWC"}, "method: expected one of none, rehearsal, ewc, redo, shr"),
        ({"strength": -1}, "strength: expected null or a number above 0, found -1"),
        ({"shared_parts": 0}, "shared_parts: expected true or false, found 0"),
    ],
)
def test_out_of_range(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_arguments({**GIVEN, **arguments})


@pytest.mark.parametrize(
    "arguments",
    [{"step_size": 0}, {"first_update": 1e9}, {"epsilons": [0] * 10}, {"my_own": -1}],
)
def test_what_is_allowed(arguments: dict[str, Any]) -> None:
    check_arguments(arguments)


def init_with(name: str, **arguments: Any) -> None:
    init = INITS[name]
    given = {k: v for k, v in GIVEN.items() if k in inspect.signature(init).parameters}
    init(**given, **arguments)


@pytest.mark.parametrize("name", INITS)
def test_every_number_of_every_learner_is_checked(name: str) -> None:
    numeric = list_numeric(name)
    assert set(numeric) <= set(LIMITS)
    for key in numeric:
        with pytest.raises(ConfigError, match=f"^{key}: expected .*, found -1"):
            init_with(name, **{key: -1})


@pytest.mark.parametrize("name", INITS)
def test_nothing_is_drawn_before_arguments_are_checked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(seed: object) -> None:
        raise AssertionError("a generator was made before the check")

    monkeypatch.setattr(np.random, "default_rng", refuse)
    for key in list_numeric(name):
        with pytest.raises(ConfigError, match=f"^{key}: expected .*, found -1"):
            init_with(name, **{key: -1})


def test_the_variant_checks_arguments_of_stream_q() -> None:
    with pytest.raises(ConfigError, match="kappa: expected a number above 0, found 0"):
        INITS["stream-q-l2init"](**GIVEN, kappa=0)
    with pytest.raises(ConfigError, match="cut_traces: expected true or false, found"):
        INITS["stream-q-l2init"](**GIVEN, cut_traces="no")


@pytest.mark.parametrize("name", INITS)
def test_unknown_names_are_refused_in_the_same_words(name: str) -> None:
    agent = load_agent(name, {"stepsize": 1})
    message = (
        f"agent {name}: init has no parameter 'stepsize'; it was given as an agent "
        "argument"
    )
    with pytest.raises(AgentLoadError, match=f"^{message}$"):
        (agent.build_predictor if is_predictor(name) else agent.build)(0)


@pytest.mark.parametrize("name", ["stream-q", "stream-q-l2init", "dqn", "stream-td"])
def test_images_too_small_for_the_network_are_refused(name: str) -> None:
    init = INITS[name]
    given = {k: v for k, v in GIVEN.items() if k in inspect.signature(init).parameters}
    init(**given, size=27)
    message = (
        "size: expected images of at least 27 × 27 for this network, found 26 × 26"
    )
    with pytest.raises(ConfigError, match=message):
        init(**given, size=26)
