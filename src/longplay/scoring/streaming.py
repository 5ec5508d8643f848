"""The streaming score: final reward rates, forgetting and plasticity.

Pure arithmetic on windows of visits. docs/scoring.md works out an example by hand.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from longplay.contract.documents import Score
from longplay.contract.fingerprint import contract_hash
from longplay.scoring.metrics import (
    Span,
    final_score,
    mean_or_none,
    median_or_none,
)
from longplay.scoring.play import Play, PlayedVisit


@dataclass(frozen=True)
class GameExplanation:
    """The visits and windows behind one game's numbers."""

    score_visit: PlayedVisit | None
    score_window: Span | None
    revisits: tuple[tuple[Span, Span], ...]
    plasticity: tuple[Span, Span] | None


def explain_game(play: Play, game_id: str) -> GameExplanation:
    """Finds the windows behind a game's score, forgetting and plasticity."""
    scoring = play.config.scoring_defaults
    visits = play.visits_of(game_id)
    last_cycle = max((p.visit.cycle_idx for p in play.visits), default=None)
    scored = [p for p in visits if p.visit.cycle_idx == last_cycle]
    first = [p for p in visits if p.visit.cycle_idx == 0]
    n = scoring.revisit_frames
    return GameExplanation(
        score_visit=scored[-1] if scored else None,
        score_window=scored[-1].span.tail(scoring.window_frames) if scored else None,
        revisits=tuple(
            (before.span.tail(n), after.span.head(n))
            for before, after in itertools.pairwise(visits)
            # Adjacent visits count as one long visit: no other game was in between.
            if after.visit.visit_idx > before.visit.visit_idx + 1
        ),
        plasticity=(first[0].span.head(n), first[0].span.tail(n)) if first else None,
    )


def compute_score(play: Play) -> Score:
    """Computes every number of a v1 score.json."""
    config, rate = play.config, play.rewards.rate
    scores: dict[str, float] = {}
    forgetting: dict[str, float] = {}
    plasticity: dict[str, float] = {}
    episode_counts = dict.fromkeys(config.games, 0)
    visit_frames = dict.fromkeys(config.games, 0)
    for game_id in config.games:
        why = explain_game(play, game_id)
        if why.score_visit is not None and why.score_window is not None:
            span = why.score_visit.span
            scores[game_id] = rate(why.score_window)
            visit_frames[game_id] = span.length
            ends = play.terminated_ends
            episode_counts[game_id] = int(
                ((ends >= span.start) & (ends <= span.end)).sum()
            )
        losses = [rate(pre) - rate(post) for pre, post in why.revisits]
        if losses:
            forgetting[game_id] = math.fsum(losses) / len(losses)
        if why.plasticity is not None:
            early, late = why.plasticity
            plasticity[game_id] = rate(late) - rate(early)
    defaults = config.scoring_defaults
    final, mean, bottom = final_score(
        scores, defaults.bottom_k_frac, defaults.final_score_weights
    )
    missing = tuple(v.visit_idx for v in config.played_schedule[len(play.visits) :])
    return Score(
        final_score=final,
        mean_score=mean,
        bottom_k_score=bottom,
        per_game_scores=scores,
        per_game_episode_counts=episode_counts,
        per_game_visit_frames=visit_frames,
        forgetting_index_mean=mean_or_none(list(forgetting.values())),
        forgetting_index_median=median_or_none(list(forgetting.values())),
        per_game_forgetting=forgetting,
        plasticity_mean=mean_or_none(list(plasticity.values())),
        plasticity_median=median_or_none(list(plasticity.values())),
        per_game_plasticity=plasticity,
        fps=play.fps,
        frames=play.frames,
        benchmark_contract_version=config.benchmark_contract_version,
        benchmark_contract_hash=contract_hash(config),
        complete=not missing,
        incomplete_visits=missing,
    )
