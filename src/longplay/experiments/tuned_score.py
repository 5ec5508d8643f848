"""A tuning run -> the number that tuning maximises.

    control, streaming   mean over the games visited so far of z over all their frames;
                         of a game without z, x / b
    prediction           -nmse, mean over the games visited so far

x / b is computed as 1 + (x - b) / |b|, which is the same where b is positive, and still
grows with x where the random agent loses points (Pong). A game with neither is left out
and listed with the reason; if none is left there is no number, and an error says why.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longplay.contract.config import RunConfig
from longplay.contract.curves import group_visits
from longplay.contract.documents import Document, TuningRecord, TuningUnit
from longplay.contract.files import write_document
from longplay.contract.rundir import RunDirectory
from longplay.errors import IncompleteRunError
from longplay.scoring.anchors import Anchors, shipped_anchors
from longplay.scoring.baselines import random_baseline
from longplay.scoring.normalisation import make_scale
from longplay.scoring.rates import VisitTotals
from longplay.tracks.catalogue import track_of
from longplay.validation import RunRows


class TuningScore(Document):
    """The metric that tuning maximises.

    Attributes:
        value: Mean over games.
        per_game: Game -> its part of the mean.
        units: Game -> the unit of its part.
        left_out: Game visited -> why it has no part.
    """

    value: float
    per_game: dict[str, float]
    units: dict[str, TuningUnit]
    left_out: dict[str, str]


@dataclass(frozen=True)
class _Part:
    value: float
    unit: TuningUnit


def score_play(
    totals: VisitTotals, suite: str, anchors: Anchors, lower: Mapping[str, float]
) -> TuningScore:
    """The metric of a control or streaming run, complete or stopped anywhere.

    Args:
        totals: The started visits.
        suite: The suite whose anchors are used.
        anchors: May lack the suite.
        lower: Game -> the random agent's rate, for games without z.

    Raises:
        IncompleteRunError: No game has a number.
    """
    games = tuple(dict.fromkeys(totals.games))
    scale = make_scale(anchors, suite, games)
    rates = totals.rates_by_game(games)
    parts: dict[str, _Part] = {}
    left_out: dict[str, str] = {}
    for game, rate, z in zip(games, rates, scale.normalise(rates), strict=True):
        part = _part_of(float(rate), float(z), lower.get(game))
        if isinstance(part, _Part):
            parts[game] = part
        else:
            left_out[game] = part
    return _mean_of(parts, left_out)


def _part_of(rate: float, z: float, lower: float | None) -> _Part | str:
    """A game's part of the mean, or why it has none."""
    if math.isnan(rate):
        return "no frame was played"
    if not math.isnan(z):
        return _Part(z, "z")
    if lower is None:
        return "no z, and the random agent's rate is not known"
    if lower == 0:
        return "no z, and the random agent's rate is 0"
    return _Part(1 + (rate - lower) / abs(lower), "x / b")


def score_predictions(nmse: Mapping[str, float | None]) -> TuningScore:
    """The metric of a prediction run from its errors, as far as it was played.

    Raises:
        IncompleteRunError: No game has an error.
    """
    known = {g: _Part(-e, "-nmse") for g, e in nmse.items() if e is not None}
    why = "its targets are nearly constant so far"
    return _mean_of(known, {g: why for g, error in nmse.items() if error is None})


def _mean_of(parts: Mapping[str, _Part], left_out: dict[str, str]) -> TuningScore:
    if not parts:
        reasons = "; ".join(f"{game}: {why}" for game, why in left_out.items())
        raise IncompleteRunError(
            "tuning: expected a game with a number, found none"
            + (f" ({reasons})" if reasons else "")
        )
    return TuningScore(
        value=math.fsum(part.value for part in parts.values()) / len(parts),
        per_game={game: part.value for game, part in parts.items()},
        units={game: part.unit for game, part in parts.items()},
        left_out=left_out,
    )


def score_tuning(run: RunDirectory, anchors: Anchors) -> TuningScore:
    """The metric of a run directory, complete or stopped anywhere.

    Control and streaming runs are scored from run_summary.json, prediction runs from
    the curves of the visits that ended.

    Args:
        run: With run_summary.json.
        anchors: Usually `shipped_anchors()`.

    Raises:
        IncompleteRunError: It has no summary, or no game has a number.
    """
    if run.summary is None:
        raise IncompleteRunError(f"{run.path}: expected a run_summary.json, found none")
    if track_of(run.config).predicts:
        # A stopped run has a summary of the visits it played, and errors of all.
        games = group_visits([visit.game_id for visit in run.summary.visits])
        curves = run.curves
        if curves is None:
            raise IncompleteRunError(f"{run.path}: expected curves, found none")
        nmse = curves.pool(games.values()).normalised_errors()
        played = zip(games, nmse, strict=True)
        return score_predictions(
            {game: None if np.isnan(e) else float(e) for game, e in played}
        )
    suite = run.config.suite or ""
    return score_play(
        VisitTotals.from_summary(run.summary), suite, anchors, _lower(anchors, suite)
    )


def _lower(anchors: Anchors, suite: str) -> dict[str, float]:
    """The random agent's rates: the anchors', else those of the shipped baselines."""
    if suite in anchors.suites:
        return {g: entry.lower for g, entry in anchors.suites[suite].games.items()}
    baseline = random_baseline(suite)
    return {} if baseline is None else baseline.rates


def has_scale(config: RunConfig) -> bool:
    """Whether a game of a run can have a part of the metric."""
    if track_of(config).predicts:
        return True
    anchors, suite = shipped_anchors(), config.suite or ""
    lower = _lower(anchors, suite)
    return suite in anchors.suites or any(lower.get(game) for game in config.games)


def write_tuning(run_dir: Path, _: RunRows) -> Path:
    """Writes tuning.json of a tuning run; returns the file."""
    run = RunDirectory(run_dir)
    frames = run.config.total_frames
    try:
        score = score_tuning(run, shipped_anchors())
    except IncompleteRunError as error:
        record = TuningRecord(
            stop_frame=frames,
            value=None,
            per_game={},
            units={},
            left_out={},
            reason=str(error),
        )
    else:
        record = TuningRecord(stop_frame=frames, **score.model_dump())
    path = run_dir / "tuning.json"
    write_document(path, record)
    return path
