"""A score and the play it was made from -> the windows and weights it was made with.

The first scorer of contract v1 takes windows and weights from its command line, not
from config.json, and stamps the run's own hash all the same. Each setting shows in a
few numbers alone, so each is found by itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from longplay.contract.config import ScoringDefaults
from longplay.contract.documents import Score
from longplay.scoring.metrics import final_score
from longplay.scoring.play import Play
from longplay.scoring.streaming import explain_game

Reals = NDArray[np.float64]

# The defaults of that scorer, which most scores were made with.
_USUAL = ScoringDefaults(
    window_frames=5000,
    revisit_frames=2000,
    bottom_k_frac=0.25,
    final_score_weights=(0.5, 0.5),
)


def find_windows(play: Play, score: Score) -> ScoringDefaults | None:
    """Settings that give the numbers of a score; None if no settings do.

    Several may: the run's own and the usual ones come first. The caller computes the
    score with them to see whether all numbers agree.
    """
    known = (play.config.scoring_defaults, _USUAL)
    window = _choose(
        _fit(_tail_rates(play), score.per_game_scores),
        [settings.window_frames for settings in known],
    )
    revisit = _choose(
        _fit(_gains(play), score.per_game_plasticity),
        [settings.revisit_frames for settings in known],
    )
    shares = _find_shares(score, known)
    if window is None or revisit is None or shares is None:
        return None
    return ScoringDefaults(
        window_frames=window,
        revisit_frames=revisit,
        bottom_k_frac=shares[0],
        final_score_weights=shares[1],
    )


def _find_shares(
    score: Score, known: Iterable[ScoringDefaults]
) -> tuple[float, tuple[float, float]] | None:
    """The bottom-k fraction and the weights."""
    games = len(score.per_game_scores)
    fractions = [
        *(settings.bottom_k_frac for settings in known),
        *(k / games for k in range(1, games + 1)),
    ]
    weights = [settings.final_score_weights for settings in known]
    weights += _solve_weights(score)
    numbers = (score.final_score, score.mean_score, score.bottom_k_score)
    for share in itertools.product(fractions, weights):
        if _is_close(final_score(score.per_game_scores, *share), numbers):
            return share
    return None


def _solve_weights(score: Score) -> list[tuple[float, float]]:
    """The weights with sum 1 that give the final score, if there are any."""
    final, mean, bottom = score.final_score, score.mean_score, score.bottom_k_score
    if final is None or mean is None or bottom is None or mean == bottom:
        return []
    mean_w = round((final - bottom) / (mean - bottom), 9)  # people choose short ones
    return [(mean_w, round(1 - mean_w, 9))] if 0 <= mean_w <= 1 else []


def _tail_rates(play: Play) -> dict[str, Reals]:
    """Game -> rates over the last 1, 2, … frames of its scored visit."""
    visits = {game_id: explain_game(play, game_id) for game_id in play.config.games}
    return {
        game_id: _rates(play.rewards.spread(why.score_visit.span)[::-1])
        for game_id, why in visits.items()
        if why.score_visit is not None
    }


def _gains(play: Play) -> dict[str, Reals]:
    """Game -> plasticity with windows of 1, 2, … frames."""
    gains = {}
    for played in reversed(play.visits):
        if played.visit.cycle_idx == 0:
            rewards = play.rewards.spread(played.span)
            gains[played.visit.game_id] = _rates(rewards[::-1]) - _rates(rewards)
    return gains


def _rates(rewards: Reals) -> Reals:
    rates: Reals = np.cumsum(rewards) / np.arange(1, len(rewards) + 1)
    return rates


def _fit(curves: Mapping[str, Reals], found: Mapping[str, float]) -> NDArray[np.bool_]:
    """Whether windows of 1, 2, … frames give the numbers of all games."""
    longest = max(map(len, curves.values()), default=0)
    fits = np.full(longest, curves.keys() == found.keys())
    for game_id in curves.keys() & found.keys():
        # A window longer than the visit is the whole visit.
        values = np.pad(
            curves[game_id], (0, longest - len(curves[game_id])), mode="edge"
        )
        fits &= np.isclose(values, found[game_id], rtol=1e-9, atol=1e-12)
    return fits


def _choose(fits: NDArray[np.bool_], preferred: Iterable[int]) -> int | None:
    """A window that fits: one of the preferred, else the shortest."""
    for frames in preferred:
        if len(fits) and fits[min(frames, len(fits)) - 1]:
            return frames
    return int(np.argmax(fits)) + 1 if fits.any() else None


def _is_close(one: Iterable[float | None], two: Iterable[float | None]) -> bool:
    return all(
        a == b or (a is not None and b is not None and np.isclose(a, b, rtol=1e-9))
        for a, b in zip(one, two, strict=True)
    )
