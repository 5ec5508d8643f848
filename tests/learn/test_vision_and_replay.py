"""Pixels, scales and replay on numbers worked out by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from longplay.errors import ConfigError
from longplay.learners.parts.pixel_scale import PixelScale
from longplay.learners.parts.replay import Replay, ReplayShape
from longplay.learners.parts.vision import FrameStack, Shrinker, Vision, find_overlaps

SHAPE = (210, 160, 3)


def test_overlaps_by_hand() -> None:
    starts, weights = find_overlaps(5, 2)
    # parts 0 … 2.5 and 2.5 … 5
    assert starts.tolist() == [0, 2]
    assert weights == pytest.approx(np.array([[0.4, 0.4, 0.2], [0.2, 0.4, 0.4]]))


@pytest.mark.parametrize("size", [42, 84, 100])
def test_a_small_pixel_is_the_mean_of_its_area(size: int) -> None:
    rng = np.random.default_rng(0)
    screen = rng.integers(0, 256, SHAPE, np.uint8)
    bright = screen @ np.array([0.299, 0.587, 0.114]) / 255
    # Each pixel cut into size × size crumbs, so that every area is a whole number.
    crumbs = np.repeat(bright, size, axis=0).reshape(size, 210, 160).mean(axis=1)
    expected = np.repeat(crumbs, size, axis=1).reshape(size, size, 160).mean(axis=2)
    found = Shrinker(SHAPE, size)(screen)
    assert found.dtype == np.float32
    assert found == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(("shape", "size"), [(SHAPE, 0), (SHAPE, 161), ((9, 9, 1), 4)])
def test_sizes_out_of_range_are_refused(shape: tuple[int, int, int], size: int) -> None:
    with pytest.raises(ConfigError, match="size: expected 1 … "):
        Shrinker(shape, size)


def test_stack_holds_the_last_frames() -> None:
    stack = FrameStack(size=2, depth=3)
    for k in range(1, 5):
        image = stack.push(np.full((2, 2), k, np.float32), is_first=k == 1)
        if k == 1:
            assert image[0, 0, 0].tolist() == [1, 1, 1]
    assert image[0, 1, 1].tolist() == [2, 3, 4]


def test_pixel_scale_by_hand() -> None:
    scale = PixelScale(size=1, horizon=100)
    found = [float(scale(np.full((1, 1), x, np.float32))[0, 0]) for x in (0.2, 0.6)]
    # mean 0.2, then 0.4; variance 0, then 0.04; never below 0.02² beside it
    assert found == pytest.approx([0.0, 0.2 / (0.04 + 0.0004) ** 0.5])


def test_pixel_scale_follows_the_stream() -> None:
    scale = PixelScale(size=1, horizon=20)
    for _ in range(100):
        scale(np.zeros((1, 1), np.float32))
    # mean 1/20, variance 1/20 · 19/20
    first = scale(np.ones((1, 1), np.float32))[0, 0]
    assert first == pytest.approx(0.95 / (0.0475 + 0.0004) ** 0.5, rel=1e-5)
    for _ in range(200):
        last = scale(np.ones((1, 1), np.float32))
    assert abs(last[0, 0]) < 0.1


def test_vision_starts_over_with_a_game() -> None:
    vision = Vision(SHAPE, size=42, frames=4, horizon=100)
    dark, bright = np.zeros(SHAPE, np.uint8), np.full(SHAPE, 255, np.uint8)
    going_on = {"terminated": False, "truncated": False}
    vision.see(dark, going_on)
    image = vision.see(bright, going_on).copy()
    assert len(set(image[0, 0, 0].tolist())) == 2
    image = vision.see(bright, {"terminated": True, "truncated": False})
    assert len(set(image[0, 0, 0].tolist())) == 1
    assert vision.scale.count == 3
    vision.see(dark, {"terminated": False, "truncated": True})
    assert vision.scale.count == 1


# --- replay -------------------------------------------------------------------------


def fill(replay: Replay, count: int, ends: tuple[int, ...] = ()) -> None:
    """Frame k shows k / 255; action k % 5 there earns k."""
    for k in range(count):
        frame = np.full((2, 2), k / 255, np.float32)
        replay.add(frame, is_first=k == 0 or k - 1 in ends)
        replay.complete(k % 5, float(k), is_over=k in ends)


def make_replay(capacity: int = 50, returns: int = 2) -> Replay:
    return Replay(ReplayShape(capacity, size=2, frames=3, returns=returns))


def shown(images: np.ndarray) -> list[list[int]]:
    return np.rint(images[:, 0, 0] * 255).astype(int).tolist()


def test_transitions_by_hand() -> None:
    replay = make_replay()
    fill(replay, 10)
    assert len(replay) == 8
    batch = replay.draw(np.random.default_rng(0), 200, discount=0.5)
    starts = [stack[-1] for stack in shown(batch.images)]
    assert set(starts) == set(range(8))
    for start, stack, after, action, reward, factor in zip(
        starts,
        shown(batch.images),
        shown(batch.next_images),
        batch.actions.tolist(),
        batch.rewards.tolist(),
        batch.discounts.tolist(),
        strict=True,
    ):
        assert stack == [max(start - 2, 0), max(start - 1, 0), start]
        assert after == [max(start, 0), start + 1, start + 2]
        assert action == start % 5
        assert reward == start + 0.5 * (start + 1)
        assert factor == 0.25


def test_nothing_reaches_over_the_end_of_a_game() -> None:
    replay = make_replay(returns=3)
    fill(replay, 10, ends=(4,))
    numbers = np.array([3, 4, 5, 6])
    assert shown(replay.stack(numbers)) == [[1, 2, 3], [2, 3, 4], [5, 5, 5], [5, 5, 6]]
    batch = replay.draw(np.random.default_rng(0), 200, discount=0.5)
    found = {
        stack[-1]: (reward, factor)
        for stack, reward, factor in zip(
            shown(batch.images),
            batch.rewards.tolist(),
            batch.discounts.tolist(),
            strict=True,
        )
    }
    assert found[3] == (3 + 0.5 * 4, 0.0)
    assert found[4] == (4.0, 0.0)
    assert found[5] == (5 + 3 + 1.75, 0.125)


def test_the_oldest_frames_make_room() -> None:
    replay = make_replay(capacity=8)
    fill(replay, 30)
    # frames 22 … 29 are kept; 22 and 23 lack those before, 28 and 29 what follows
    assert len(replay) == 4
    batch = replay.draw(np.random.default_rng(0), 100, discount=0.5)
    assert {stack[-1] for stack in shown(batch.images)} == {24, 25, 26, 27}
    assert all(stack[0] == stack[-1] - 2 for stack in shown(batch.images))
    assert shown(replay.newest_image()) == [[27, 28, 29]]


def test_a_replay_too_small_is_refused() -> None:
    with pytest.raises(ConfigError, match="capacity: expected more than 5 frames"):
        make_replay(capacity=5)


def test_saved_replay_is_compressed(tmp_path: Path) -> None:
    from longplay.learners import dqn

    state = dqn.init(SHAPE, 18, 0)
    screen = np.zeros(SHAPE, np.uint8)
    screen[80:100, 50:60] = 200
    for _ in range(30):
        dqn.step(state, screen, screen, 0.0, {"terminated": False, "truncated": False})
    dqn.save(state, tmp_path)
    saved = sum(path.stat().st_size for path in tmp_path.iterdir())
    weights = 4 * state.network.weights.nbytes  # with target network and Adam
    assert saved < weights + 0.02 * state.replay.frames.nbytes
