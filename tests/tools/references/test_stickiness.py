"""ALE's own draws, read from its saved state before it makes them."""

from __future__ import annotations

import pytest

from longplay.console.ale import AleConsole
from longplay.errors import ConsoleError
from references.stickiness import AleDraws

RIGHT, LEFT, PADDLE = 3, 4, 72


def test_repeated_actions_are_predicted() -> None:
    """Breakout's paddle moves by the action that is executed, one frame later."""
    console = AleConsole(sticky=0.25, full_action_space=True)
    plain = AleConsole(sticky=0.0, full_action_space=True)
    for emulator in (console, plain):
        emulator.start_visit("breakout", 7)
    draws = AleDraws(console.serialize_state())
    executed, repeated = 0, 0
    for frame in range(400):
        requested = (RIGHT, LEFT)[frame // 3 % 2]
        if draws.random() >= 0.25:
            executed = requested
        repeated += executed != requested
        console.step(requested)
        plain.step(executed)
        assert console.ram()[PADDLE] == plain.ram()[PADDLE]
    assert console.serialize_state() == plain.serialize_state()
    # A third of the frames request another action than before, a quarter repeat.
    assert 20 < repeated < 60


def test_a_state_without_a_generator_is_refused() -> None:
    with pytest.raises(ConsoleError, match="expected its random generator as 624 wor"):
        AleDraws(b"1 2 3 4")


def test_the_generator_is_read_by_its_length_and_not_by_what_follows() -> None:
    words = b" ".join([b"7"] * 624 + [b"624"])
    state = b"\xff" + len(words).to_bytes(4, "little") + words
    assert AleDraws(state).random() == AleDraws(state + b"99").random()
