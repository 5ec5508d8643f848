"""The global generators: when they have the agent's states, and their JSON form."""

# ruff: noqa: NPY002 - the legacy generator is what this is about
from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from pydantic import TypeAdapter

from longplay.agents.global_random import IMPORT_SEED, GlobalRandom, GlobalRandomState
from longplay.agents.source.loading import load_agent

Draw = Callable[[], float]
DRAWS: list[Draw] = [
    random.random,
    lambda: random.gauss(0.0, 1.0),
    np.random.rand,
    np.random.standard_normal,
]


def draw_all() -> list[float]:
    """One number of each kind; normal draws come in pairs, so one is left over."""
    return [float(draw()) for draw in DRAWS]


@pytest.fixture(autouse=True)
def kept_states() -> object:
    """Restores the generators, so that a test does not affect other tests' draws."""
    states = GlobalRandomState.read()
    yield
    states.restore()


def test_states_survive_json() -> None:
    draw_all()
    states = GlobalRandomState.read()
    assert states.python.spare_normal is not None
    assert states.numpy.spare_normal is not None
    text = json.dumps(asdict(states), allow_nan=False)
    expected = draw_all() + draw_all()
    TypeAdapter(GlobalRandomState).validate_json(text).restore()
    assert draw_all() + draw_all() == expected


def test_seeding_equals_seeding_by_hand() -> None:
    with GlobalRandom(7).in_use():
        found = draw_all()
    random.seed(7)
    np.random.seed(7)
    assert draw_all() == found


def test_agent_continues_its_draws_and_the_caller_is_unaffected() -> None:
    random.seed(1)
    np.random.seed(1)
    expected_outside = [draw_all() for _ in range(3)]
    random.seed(2)
    np.random.seed(2)
    expected_inside = [draw_all() for _ in range(4)]

    random.seed(1)
    np.random.seed(1)
    randomness = GlobalRandom(2)
    outside, inside = [draw_all()], []
    with randomness.in_use():
        inside.append(draw_all())
    outside.append(draw_all())
    with randomness.in_use():
        inside.append(draw_all())
        with randomness.released():
            outside.append(draw_all())
        inside.append(draw_all())
    with randomness.in_use():
        inside.append(draw_all())
    assert inside == expected_inside
    assert outside == expected_outside


def test_caller_gets_its_states_back_after_an_error() -> None:
    before = GlobalRandomState.read()
    with pytest.raises(ZeroDivisionError), GlobalRandom(3).in_use():
        draw_all()
        raise ZeroDivisionError
    assert GlobalRandomState.read() == before


def test_agent_is_imported_with_a_fixed_seed(tmp_path: Path) -> None:
    """One import may serve runs of many seeds, so it cannot depend on one of them."""
    path = tmp_path / "weights_at_import.py"
    path.write_text(
        "import random\nimport numpy as np\n"
        "drawn = [random.random(), float(np.random.rand())]\n"
        "class Agent:\n    def step(self, *frame): return 0\n"
    )
    before = GlobalRandomState.read()
    load_agent(str(path))
    assert GlobalRandomState.read() == before
    random.seed(IMPORT_SEED)
    np.random.seed(IMPORT_SEED)
    drawn = [random.random(), float(np.random.rand())]
    assert sys.modules["longplay_agent_weights_at_import"].drawn == drawn
