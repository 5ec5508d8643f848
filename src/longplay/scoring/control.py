"""The control score: rewards summed over all timesteps.

The headline is the sum of all delivered rewards. The sum of the games' own rewards,
which other papers report, is given too, and so are the keys of v1, computed on
delivered rewards.
"""

from __future__ import annotations

from collections.abc import Iterator

from longplay.contract.documents import ControlScore, RatePoint
from longplay.scoring.metrics import Rewards, Span
from longplay.scoring.play import Play
from longplay.scoring.streaming import compute_score as compute_streaming_score


def compute_score(play: Play) -> ControlScore:
    """Computes every number of a control run's score.json."""
    played = Span(0, play.frames - 1)
    return ControlScore(
        **compute_streaming_score(play).model_dump(),
        cumulative_reward=play.rewards.total(played),
        cumulative_game_score=play.game_rewards.total(played),
        per_game_cumulative_reward=_total_per_game(play, play.rewards),
        per_game_cumulative_game_score=_total_per_game(play, play.game_rewards),
        reward_rate=tuple(_trace_rate(play)),
    )


def _total_per_game(play: Play, rewards: Rewards) -> dict[str, float]:
    totals: dict[str, float] = {}
    for game_id in play.config.games:
        visits = play.visits_of(game_id)
        if visits:
            totals[game_id] = sum(rewards.total(visit.span) for visit in visits)
    return totals


def _trace_rate(play: Play) -> Iterator[RatePoint]:
    """One point per window of each visit, so that no point mixes two games."""
    window_frames = play.config.scoring_defaults.window_frames
    for visit in play.visits:
        for start in range(visit.span.start, visit.span.end + 1, window_frames):
            window = Span(start, visit.span.end).head(window_frames)
            rate = play.rewards.rate(window)
            yield RatePoint(timestep=window.end + 1, rate=rate)
