"""Games as episodes: the same stream, with ends where a game ends."""

from __future__ import annotations

import itertools
from typing import Any

import gymnasium
import numpy as np
import pytest

from longplay.gym import GameEpisodes

SETTINGS = {"base_visit_frames": 400, "games": ["asterix", "breakout"]}


def make() -> gymnasium.Env[Any, Any]:
    return gymnasium.make("longplay/ControlSmoke-v1", overrides=SETTINGS)


def choose(frame: int) -> int:
    return frame // 2 * 7 % 18


@pytest.fixture(scope="module")
def stream() -> list[Any]:
    """Every step of the stream itself."""
    with make() as env:
        env.reset(seed=0)
        return [env.step(choose(frame)) for frame in range(800)]  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def episodes() -> list[list[Any]]:
    """The same actions, in the loop that everybody writes."""
    found: list[list[Any]] = []
    with GameEpisodes(make()) as env:
        frame = 0
        seed: int | None = 0
        while frame < 800:
            observation, info = env.reset(seed=seed)
            found.append([(observation, None, False, False, info)])
            seed = None
            while not (found[-1][-1][2] or found[-1][-1][3]):
                found[-1].append(env.step(choose(frame)))
                frame += 1
    return found


def test_no_frame_is_lost_or_played_twice(stream, episodes):
    rewards = [step[1] for episode in episodes for step in episode[1:]]
    assert rewards == [step[1] for step in stream]


def test_an_episode_ends_where_the_game_ends(stream, episodes):
    ends = [
        number
        for number, step in enumerate(stream, start=1)
        if step[4]["terminated"] or step[4]["truncated"]
    ]
    lengths = [len(episode) - 1 for episode in episodes]
    assert list(np.cumsum(lengths)) == ends
    assert len(ends) > 3
    for episode, end in zip(episodes, ends, strict=True):
        info = stream[end - 1][4]
        assert episode[-1][2:4] == (info["terminated"], info["truncated"])
    assert [episode[-1][3] for episode in episodes].count(True) == 2


def test_reset_gives_the_first_observation_of_the_next_episode(stream, episodes):
    played = 0
    for episode, after in itertools.pairwise(episodes):
        played += len(episode) - 1
        assert np.array_equal(after[0][0], stream[played - 1][0])
        # The last step of an episode shows none of the next one.
        assert np.array_equal(episode[-1][0], episode[-2][0])


def test_reset_inside_an_episode_changes_nothing(stream):
    with GameEpisodes(make()) as env:
        env.reset(seed=0)
        for frame in range(20):
            env.reset()
            assert env.step(choose(frame))[1] == stream[frame][1]


def test_a_seed_starts_the_stream_again(stream):
    with GameEpisodes(make()) as env:
        for _ in range(2):
            env.reset(seed=0)
            observations = [env.step(choose(frame))[0] for frame in range(5)]
            assert np.array_equal(observations[4], stream[4][0])
