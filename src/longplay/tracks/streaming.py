"""The streaming track: an agent object answers every frame."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from longplay.contract.config import RunConfig
from longplay.contract.registry import get_contract_version
from longplay.driver import ActionDriver
from longplay.scoring.metrics import Span
from longplay.scoring.play import Play
from longplay.scoring.streaming import compute_score, explain_game
from longplay.tracks.base import Explanation, Track

WINDOWS_RULE = (
    "forgetting = mean of pre - post over revisits; plasticity = late - early"
)


def drive_by_answers(config: RunConfig) -> ActionDriver:
    """The driver of a run whose agent answers with actions."""
    return ActionDriver(config.contract.row_type)


def list_windows(play: Play, game_id: str) -> list[dict[str, Any]]:
    """The windows behind a game's score, forgetting and plasticity, with their sums."""
    return [
        describe_span(play, name, span) for name, span in _find_windows(play, game_id)
    ]


def _find_windows(play: Play, game_id: str) -> Iterator[tuple[str, Span]]:
    why = explain_game(play, game_id)
    if why.score_window is not None:
        yield "score", why.score_window
    for pre, post in why.revisits:
        yield "forgetting: pre", pre
        yield "forgetting: post", post
    if why.plasticity is not None:
        early, late = why.plasticity
        yield "plasticity: early", early
        yield "plasticity: late", late


def describe_span(play: Play, name: str, span: Span) -> dict[str, Any]:
    """A span of frames of one visit, with the sum and rate of its rewards."""
    visit_idx = next(
        played.visit.visit_idx
        for played in play.visits
        if played.span.start <= span.start <= played.span.end
    )
    return {
        "window": name,
        "visit_idx": visit_idx,
        "first_frame": span.start,
        "last_frame": span.end,
        "frames": span.length,
        "reward_sum": play.rewards.total(span),
        "rate": play.rewards.rate(span),
    }


def _explain_game(play: Play, game_id: str) -> Explanation:
    headings = {
        "window": "window",
        "visit_idx": "visit",
        "first_frame": "first frame",
        "last_frame": "last frame",
        "frames": "frames",
        "reward_sum": "sum",
        "rate": "rate",
    }
    return Explanation(list_windows(play, game_id), headings, WINDOWS_RULE)


_INFO_KEYS = (
    "lives",
    "action_space_n",
    "is_decision_frame",
    "global_frame_idx",
    "default_action_idx",
    "prev_applied_action_idx",
    "has_prev_applied_action",
)

STREAMING = Track(
    name="streaming",
    contract=get_contract_version("v1"),
    info_keys=_INFO_KEYS,
    env_info_keys=_INFO_KEYS,
    build_agent=lambda agent, seed: agent.build(seed),
    make_driver=drive_by_answers,
    frame_noun="frame",
    compute_score=compute_score,
    score_columns={
        "final": "final_score",
        "mean": "mean_score",
        "bottom-k": "bottom_k_score",
        "forgetting": "forgetting_index_mean",
        "plasticity": "plasticity_mean",
    },
    scored_on="{windows}",
    explain_game=_explain_game,
    typical_suite="stream-8x3-v1",
)
