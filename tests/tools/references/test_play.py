"""Playing without a stream: the same timesteps, the same pairs of memory."""

from __future__ import annotations

import zlib

import numpy as np

from longplay.console.ale import AleConsole
from longplay.console.scripted import ScriptedConsole
from references.continuations import Player
from references.training.frozen_play import PlayedVisit
from references.training.play import FRAME_SKIP, Emulators
from references.training.returns import discounted_returns, known_returns


def test_timesteps_are_the_ones_the_track_plays() -> None:
    """The golden vector: asterix, 1,000 timesteps of four, action (i * 7) % 18."""
    console = AleConsole(sticky=0.25, full_action_space=True, frame_skip=FRAME_SKIP)
    console.start_visit("asterix", 2044266242)
    reward_sum, game_overs = 0.0, 0
    for timestep in range(1000):
        reward, is_over, _ = console.step(timestep * 7 % 18)
        reward_sum += reward
        game_overs += is_over
        if is_over:
            console.reset()
    assert (reward_sum, game_overs) == (1100, 3)
    assert zlib.crc32(console.ram()) == 0xB71A42FB


def test_a_game_over_starts_a_new_pair() -> None:
    player = Player(ScriptedConsole(life_frames=8, frame_skip=4), "alpha", 3)
    previous, game_overs = player.pair, 0
    for _ in range(30):
        _, is_over = player.play(1)
        before = player.pair[:128] if is_over else previous[:128]
        assert player.pair[128:].tobytes() == before.tobytes()
        previous, game_overs = player.pair, game_overs + is_over
    assert game_overs > 1


def test_emulators_side_by_side_play_as_alone() -> None:
    together = Emulators("alpha", lambda: ScriptedConsole(frame_skip=4), [5, 6, 7])
    alone = Player(ScriptedConsole(frame_skip=4), "alpha", 6)
    scores, score = [], 0.0
    for timestep in range(60):
        outcomes = together.play([3, timestep % 18, 9])
        game_reward, is_over = alone.play(timestep % 18)
        assert outcomes.game_rewards[1] == game_reward
        assert outcomes.is_over[1] == is_over
        assert together.ram[1].tobytes() == alone.pair.tobytes()
        score += game_reward
        if is_over:
            scores.append(score)
            score = 0.0
    assert scores
    assert set(scores) <= set(together.finished_scores)


def test_a_lost_life_shows_once() -> None:
    emulators = Emulators(
        "alpha", lambda: ScriptedConsole(life_frames=8, frame_skip=4), [1]
    )
    lost = [emulators.play([0]) for _ in range(20)]
    ends = [(bool(o.life_lost[0]), bool(o.is_over[0])) for o in lost]
    overs = [over for life, over in ends if life]
    # two lives a game: every second loss is the game's end
    assert overs == [index % 2 == 1 for index in range(len(overs))]
    assert len(overs) > 4


def test_played_visits_give_their_pairs_back() -> None:
    ram = np.arange(4 * 128, dtype=np.int64).astype(np.uint8).reshape(4, 128)
    ram = ram + np.arange(4, dtype=np.uint8)[:, None]
    visit = PlayedVisit(
        ram, np.zeros(4, np.uint8), np.zeros(4), np.array([0, 1, 0, 0], np.bool_)
    )
    before = visit.pairs()[:, 128:]
    assert before.tobytes() == ram[[0, 0, 2, 2]].tobytes()


def test_returns_stop_at_the_end_of_the_game() -> None:
    rewards = np.array([0, 1, 0, 1], np.float32)
    ends = np.array([False, True, False, False])
    returns = discounted_returns(rewards, ends, 0.5)
    assert returns.tolist() == [0.5, 1.0, 0.5, 1.0]


def test_returns_are_known_up_to_the_last_end_and_a_horizon_before_the_cut() -> None:
    ends = np.zeros(1500, np.bool_)
    assert np.flatnonzero(~known_returns(ends)).tolist() == [*range(501, 1500)]
    ends[800] = True
    assert np.flatnonzero(~known_returns(ends)).tolist() == [*range(801, 1500)]
