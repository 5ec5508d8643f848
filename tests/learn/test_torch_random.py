"""torch's generator is seeded, saved and restored with the other global ones."""

from __future__ import annotations

import json
from dataclasses import asdict

import torch
from pydantic import TypeAdapter

from longplay.agents.global_random import GlobalRandom, GlobalRandomState


def draw() -> list[float]:
    return torch.randn(3).tolist()


def test_agent_draws_from_torch_and_the_caller_notices_nothing() -> None:
    torch.manual_seed(1)
    outside = [draw(), draw()]
    torch.manual_seed(2)
    inside = [draw(), draw()]
    torch.manual_seed(1)
    randomness = GlobalRandom(2)
    found_outside = [draw()]
    with randomness.in_use():
        found_inside = [draw()]
    found_outside.append(draw())
    with randomness.in_use():
        found_inside.append(draw())
    assert (found_inside, found_outside) == (inside, outside)


def test_state_survives_json() -> None:
    draw()
    text = json.dumps(asdict(GlobalRandomState.read()))
    expected = draw()
    TypeAdapter(GlobalRandomState).validate_json(text).restore()
    assert draw() == expected
