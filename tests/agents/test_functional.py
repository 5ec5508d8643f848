"""Modules with `init` and `step`: their parameters and valid answers."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest

from longplay.agents.functional import FunctionalAgent
from longplay.driver import unwrap_number
from longplay.errors import AgentError, AgentLoadError
from longplay.reference.driver import read_number

INIT = "observation_shape, num_actions"
STEP = "state, previous_observation, observation, reward"


def make_module(
    init: str = INIT, step: str = STEP, answer: str = "state, 3"
) -> ModuleType:
    module = ModuleType("functions")
    source = f"def init({init}): return 0\ndef step({step}): return {answer}\n"
    exec(source, module.__dict__)
    return module


# --- parameters ---------------------------------------------------------------

SWAPPED = [
    (
        {"init": "num_actions, observation_shape"},
        18,
        "init: expected init(observation_shape, num_actions), found "
        "init(num_actions, observation_shape): observation_shape must be parameter 1, "
        "found as parameter 2",
    ),
    (
        {"init": "observation_shape, rate=0.1, num_actions=18"},
        18,
        "num_actions must be parameter 2, found as parameter 3",
    ),
    (
        {"init": "num_actions"},
        None,
        "init: expected init(observation_shape), found init(num_actions): num_actions "
        "must be parameter 2, found as parameter 1",
    ),
    (
        {"init": "rate=0.1, observation_shape=None"},
        None,
        "observation_shape must be parameter 1, found as parameter 2",
    ),
    (
        {"step": "state, observation, previous_observation, reward"},
        18,
        "previous_observation must be parameter 2, found as parameter 3",
    ),
    (
        {"step": "state, reward, previous_observation, observation"},
        None,
        "previous_observation must be parameter 2, found as parameter 3",
    ),
    (
        {"step": "observation, state, previous, reward"},
        18,
        "state must be parameter 1, found as parameter 2",
    ),
    (
        {"step": "state, *observations, reward=0.0"},
        18,
        "reward must be parameter 4, found as parameter 3",
    ),
]


@pytest.mark.parametrize(("signature", "num_actions", "message"), SWAPPED)
def test_contract_name_in_another_position_is_refused(
    signature: dict[str, str], num_actions: int | None, message: str
) -> None:
    init = {"init": "observation_shape"} if num_actions is None else {}
    with pytest.raises(AgentLoadError) as caught:
        FunctionalAgent(make_module(**{**init, **signature}), num_actions, 7)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("init", "step"),
    [
        (INIT, STEP),
        ("shape, count", "s, old, new, r"),
        ("observation_shape, n", "state, _, observation, r"),
        ("*given", "*given"),
        (f"{INIT}, seed", f"{STEP}, info"),
    ],
)
def test_other_parameter_names_are_accepted(init: str, step: str) -> None:
    agent = FunctionalAgent(make_module(init, step, answer="0, 3"), 18, 7)
    assert ask(agent) == 3


# --- answers ------------------------------------------------------------------


def ask(agent: FunctionalAgent) -> Any:
    observation = np.zeros((210, 160, 3), np.uint8)
    return agent.step(observation, 0.0, False, False, {"is_decision_frame": True})


@pytest.mark.seed("003", "control-5")
@pytest.mark.parametrize("answer", ["[state, 3]", "[state, 3, {'loss': 0.5}]"])
def test_step_may_return_a_list(answer: str) -> None:
    assert ask(FunctionalAgent(make_module(answer=answer), 18, 7)) == 3


@pytest.mark.seed("003", "control-5")
@pytest.mark.parametrize("answer", ["[state]", "[state, 3, {}, 4]"])
def test_list_of_another_length_is_refused(answer: str) -> None:
    agent = FunctionalAgent(make_module(answer=answer), 18, 7)
    with pytest.raises(AgentError, match=r"found [14] values"):
        ask(agent)


class Tensor:
    """An array of another library than NumPy."""

    shape = (1, 1)

    def item(self) -> float:
        return 2.5


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        (np.array([3]), 3),
        (np.array([[3]], np.uint8), 3),
        (np.array(3), 3),
        (np.int64(3), 3),
        (Tensor(), 2.5),
        (3, 3),
        ([3], [3]),
    ],
)
def test_array_of_one_element_is_its_number(answer: object, number: object) -> None:
    found = unwrap_number(answer)
    assert (found, type(found)) == (number, type(number))


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        (np.array([0.5]), 0.5),
        (np.array([[0.5]], np.float32), 0.5),
        (Tensor(), 2.5),
        (np.array([0.5, 1.0]), None),
        (np.array([]), None),
        (np.array([True]), None),
        (np.array(["0.5"]), None),
        (np.array([np.nan]), None),
        ([0.5], None),
    ],
)
def test_prediction_may_be_an_array_of_one_element(
    answer: object, number: float | None
) -> None:
    assert read_number(answer) == number
