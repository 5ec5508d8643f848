"""The control track: the agent gets pixels and reward, and no hint of the game.

The agent is a module with `init` and `step`, which `agents.functional` calls on every
timestep. An agent object of the streaming track plays here too; its `info` lacks
`lives`, because a module can only identify a game by its pixels.
"""

from __future__ import annotations

from typing import Any

from longplay.contract.registry import get_contract_version
from longplay.scoring.control import compute_score
from longplay.scoring.metrics import Span
from longplay.scoring.play import Play
from longplay.tracks.base import Explanation, Track
from longplay.tracks.streaming import (
    WINDOWS_RULE,
    describe_span,
    drive_by_answers,
    list_windows,
)


def _explain_game(play: Play, game_id: str) -> Explanation:
    """The visits, whose sums are the game's totals, and the windows of v1's keys."""
    visits = [
        describe_span(play, "whole visit", visit.span)
        for visit in play.visits_of(game_id)
    ]
    rows = [
        _with_game_reward(play, row) for row in visits + list_windows(play, game_id)
    ]
    headings = {
        "window": "window",
        "visit_idx": "visit",
        "first_frame": "first timestep",
        "last_frame": "last timestep",
        "frames": "timesteps",
        "reward_sum": "reward",
        "game_reward_sum": "game score",
        "rate": "rate",
    }
    rule = "reward, game score = sums over whole visits"
    return Explanation(rows, headings, f"{rule}; {WINDOWS_RULE}")


def _with_game_reward(play: Play, row: dict[str, Any]) -> dict[str, Any]:
    span = Span(row["first_frame"], row["last_frame"])
    return {**row, "game_reward_sum": play.game_rewards.total(span)}


CONTROL = Track(
    name="control",
    contract=get_contract_version("control-v1"),
    info_keys=(
        "action_space_n",
        "is_decision_frame",
        "global_frame_idx",
        "default_action_idx",
        "prev_applied_action_idx",
        "has_prev_applied_action",
    ),
    build_agent=lambda agent, seed: agent.build(seed),
    make_driver=drive_by_answers,
    frame_noun="timestep",
    compute_score=compute_score,
    score_columns={
        "reward": "cumulative_reward",
        "game score": "cumulative_game_score",
        "final": "final_score",
        "plasticity": "plasticity_mean",
    },
    scored_on="all rewards; the final score on the {windows}",
    explain_game=_explain_game,
    typical_suite="control-v1",
)
