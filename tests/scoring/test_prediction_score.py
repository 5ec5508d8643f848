"""The prediction score, on numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from longplay.contract.config import (
    ActionMappingPolicy,
    RunConfig,
    ScheduledVisit,
    ScoringDefaults,
)
from longplay.scoring.metrics import Rewards
from longplay.scoring.play import Forecasts, Play, played_visits
from longplay.scoring.prediction import (
    collect_forecasts,
    compute_score,
    discounted_returns,
    explain_game,
    normalised_error,
)

GAMES = ("pong", "qbert", "krull")
# Three visits of four timesteps.
TARGETS = [0.0, 1, 2, 3, 5, 5, 5, 5, -1, 1, -1, 1]


def make_play(
    predictions: list[float],
    rewards: dict[int, float] | None = None,
    ends: tuple[int, ...] = (),
    targets: list[float] = TARGETS,
    games: tuple[str, ...] = GAMES,
) -> Play:
    rewards = rewards or {}
    sparse = Rewards(
        np.array(list(rewards), np.int64), np.array(list(rewards.values()), np.float64)
    )
    config = RunConfig(
        games=tuple(dict.fromkeys(games)),
        schedule=tuple(
            ScheduledVisit(visit_idx=k, cycle_idx=0, game_id=game, visit_frames=4)
            for k, game in enumerate(games)
        ),
        decision_interval=1,
        delay=0,
        sticky=0.25,
        life_loss_termination=False,
        full_action_space=True,
        action_mapping_policy=ActionMappingPolicy(global_action_set=tuple(range(18))),
        default_action_idx=0,
        scoring_defaults=ScoringDefaults(
            window_frames=4,
            bottom_k_frac=0.25,
            revisit_frames=2,
            final_score_weights=(0.5, 0.5),
        ),
        benchmark_contract_version="prediction-v1",
        benchmark_contract_hash="0" * 64,
        track="prediction",
        frame_skip=4,
        reward="sign",
        discount=0.5,
        reference_sha256="0" * 64,
    )
    return Play(
        config=config,
        visits=played_visits(config),
        rewards=sparse,
        game_rewards=sparse,
        terminated_ends=np.array(ends, np.int64),
        fps=None,
        forecasts=Forecasts(np.array(predictions, np.float64), np.array(targets)),
    )


@pytest.mark.seed("003", "prediction-10")
def test_the_reference_itself_has_no_error() -> None:
    score = compute_score(make_play(TARGETS))
    assert (score.mse, score.nmse, score.median_nmse) == (0.0, 0.0, 0.0)
    assert score.reward == 1.0


@pytest.mark.seed("003", "prediction-10")
def test_a_constant_is_at_best_as_good_as_the_mean() -> None:
    score = compute_score(make_play([2.0] * 12))
    # pong: mean 1.5, variance 5/4, squared errors 4 1 0 1; krull: 0, 1, and 9 1 9 1
    assert score.per_game_mse == {"pong": 1.5, "qbert": 9.0, "krull": 5.0}
    assert score.per_game_nmse == {"pong": 1.2, "qbert": None, "krull": 5.0}
    # mse / variance = 1 + (constant - mean)² / variance = 1 + 0.25 / 1.25
    assert score.mse == pytest.approx(15.5 / 3)
    assert (score.nmse, score.median_nmse) == (3.1, 3.1)
    assert score.reward == pytest.approx(-2.1)


def test_the_mean_itself_has_one() -> None:
    assert normalised_error(np.full(4, 1.5), np.array(TARGETS[:4])) == 1.0


@pytest.mark.parametrize(
    ("spread", "is_null"), [(0.0, True), (0.9e-3, True), (1.1e-3, False)]
)
def test_targets_that_hardly_differ_have_no_normalised_error(
    spread: float, is_null: bool
) -> None:
    targets = np.array([-spread, spread])  # variance: spread²
    assert (normalised_error(np.zeros(2), targets) is None) == is_null


def test_without_any_normalised_error_the_reward_is_zero() -> None:
    score = compute_score(make_play([1.0] * 12, targets=[7.0] * 12))
    assert (score.nmse, score.median_nmse, score.reward) == (None, None, 0.0)
    assert score.mse == 36.0


def test_returns_end_with_the_game_and_are_truncated_after_the_last_one() -> None:
    rewards = np.array([1.0, 1, 1, 0, 1, 1, 1])
    ends = np.array([0, 0, 1, 0, 1, 0, 0], np.bool_)
    returns = discounted_returns(rewards, ends, 0.5)
    assert returns.tolist() == [1.75, 1.5, 1.0, 0.5, 1.0]


def test_return_errors_exclude_truncated_returns_and_do_not_cross_visits() -> None:
    # pong ends at 1: rows 0, 1; qbert never; krull at 8 and 11: all rows
    rewards = {1: 1.0, 3: 1.0, 4: -1.0, 8: 1.0, 10: 1.0, 11: 1.0}
    score = compute_score(make_play([0.0] * 12, rewards, ends=(1, 8, 11)))
    # returns: ½ 1 | | 1, then ¾ 1½ 1
    assert score.per_game_return_mse == {
        "pong": (0.25 + 1) / 2,
        "qbert": None,
        "krull": (1 + 0.5625 + 2.25 + 1) / 4,
    }
    assert score.return_mse == (0.625 + 1.203125) / 2


def test_no_game_over_at_all_means_no_return_error() -> None:
    score = compute_score(make_play([0.0] * 12, {2: 1.0}))
    assert score.return_mse is None
    assert score.per_game_return_mse == dict.fromkeys(GAMES)


def test_a_game_is_explained_by_the_sums_behind_its_errors() -> None:
    play = make_play([1.0] * 12, {1: 1.0}, ends=(2,))
    errors, spread, missed = explain_game(play, "pong")
    assert errors == ("prediction - value", 4, 1.0 + 0 + 1 + 4)
    assert spread == ("value - mean value", 4, 2.25 + 0.25 + 0.25 + 2.25)
    assert missed == ("prediction - return", 3, 0.25 + 0 + 1)  # returns: ½ 1 0
    score = compute_score(play)
    assert score.per_game_mse["pong"] == errors.mean == 1.5
    assert score.per_game_nmse["pong"] == 1.5 / 1.25
    assert score.per_game_return_mse["pong"] == missed.mean
    assert [why.mean for why in explain_game(play, "qbert")] == [16.0, 0.0, None]


def test_visits_not_played_are_left_out() -> None:
    play = make_play([2.0] * 12)
    first = Play(
        play.config,
        play.visits[:1],
        play.rewards,
        play.rewards,
        play.terminated_ends,
        None,
        play.forecasts,
    )
    assert compute_score(first).per_game_nmse == {"pong": 1.2}
    assert explain_game(first, "qbert") == []


def test_errors_of_several_visits_are_pooled() -> None:
    # pong: rows 0 … 3 with targets 0 1 2 3, and rows 8 … 11 with targets 4 4 4 4
    targets = [0.0, 1, 2, 3, 5, 5, 5, 5, 4, 4, 4, 4]
    rewards = {1: 1.0, 8: 1.0, 9: 1.0}
    play = make_play(
        [1.0] * 12, rewards, (1, 9), targets, games=("pong", "qbert", "pong")
    )
    score = compute_score(play)
    # (1 + 0 + 1 + 4) + 4 · 9 over 8 rows
    assert score.per_game_mse["pong"] == 42 / 8
    # mean 22 / 8; squares (0 + 1 + 4 + 9) + 4 · 16 = 78
    assert score.per_game_nmse["pong"] == pytest.approx(42 / (78 - 22**2 / 8))
    # returns, discounted by ½: ½ 1 in the first visit, 1½ 1 in the second
    assert score.per_game_return_mse["pong"] == (0.25 + 0 + 0.25 + 0) / 4
    assert list(score.per_game_mse) == ["pong", "qbert"]
    errors, spread, missed = explain_game(play, "pong")
    assert (errors.mean, missed.mean) == (42 / 8, 0.125)
    assert score.per_game_nmse["pong"] == errors.mean / spread.mean


def test_forecasts_of_a_visit_are_its_own() -> None:
    play = make_play(list(range(12)), rewards={3: 9.0, 6: 1.0}, ends=(3, 6))
    found = collect_forecasts(play, play.visits[1])
    assert found.predictions.tolist() == [4.0, 5.0, 6.0, 7.0]
    assert found.targets.tolist() == [5.0] * 4
    assert found.ends.tolist() == [False, False, True, False]
    assert found.returns.tolist() == [0.25, 0.5, 1.0]  # discount 0.5; row 7 is cut
