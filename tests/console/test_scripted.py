"""The scripted console: a timestep is its single frames, up to a game over."""

from __future__ import annotations

import pytest

from longplay.console.scripted import ScriptedConsole
from longplay.errors import ConfigError


def make_consoles(frame_skip: int) -> tuple[ScriptedConsole, ScriptedConsole]:
    """One console with frame skip, and one that plays single frames."""
    pair = (
        ScriptedConsole(life_frames=5, frame_skip=frame_skip),
        ScriptedConsole(life_frames=5),
    )
    for console in pair:
        console.start_visit("pong", 11)
    return pair


@pytest.mark.parametrize("frame_skip", [2, 3, 4, 7])
def test_timestep_is_its_frames_added_up(frame_skip: int) -> None:
    held, single = make_consoles(frame_skip)
    counts = set()
    for i in range(200):
        reward, is_over, lives = held.step(i % 18)
        frames = [single.step(i % 18) for _ in range(held.emulator_frames)]
        assert reward == sum(frame[0] for frame in frames)
        assert (is_over, lives) == frames[-1][1:]
        assert bytes(held.ram()) == bytes(single.ram())
        # Cut short by a game over, and by nothing else: lives are lost in between.
        assert [frame[1] for frame in frames[:-1]] == [False] * (len(frames) - 1)
        assert is_over or held.emulator_frames == frame_skip
        counts.add(held.emulator_frames)
        if is_over:
            held.reset()
            single.reset()
    assert len(counts) > 1


def test_frame_skip_out_of_range_is_refused() -> None:
    with pytest.raises(ConfigError, match="frame_skip: expected at least 1, found 0"):
        ScriptedConsole(frame_skip=0)
