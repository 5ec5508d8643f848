"""The streaming score: what an agent earns at the end, forgets and picks up.

One pass over events.jsonl collects the rewards that are not zero; everything else is
arithmetic on a few windows per visit. docs/scoring.md works out an example by hand.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from longplay.contract.files import describe_invalid, write_document
from longplay.contract.fingerprint import contract_hash
from longplay.contract.records import RunConfig, ScheduledVisit, Score, ScoringDefaults
from longplay.contract.rundir import (
    FRAMES_FINGERPRINT,
    RunDirectory,
    fingerprint_frames,
    read_run,
)
from longplay.errors import (
    ConfigError,
    DocumentError,
    IncompleteRunError,
    UnknownNameError,
)
from longplay.scoring.metrics import (
    Rewards,
    Span,
    final_score,
    mean_or_none,
    median_or_none,
)


@dataclass(frozen=True)
class PlayedVisit:
    """A visit of the schedule, and the frames it covers."""

    visit: ScheduledVisit
    span: Span


@dataclass(frozen=True)
class Play:
    """What a score is computed from."""

    config: RunConfig
    visits: tuple[PlayedVisit, ...]
    rewards: Rewards
    terminated_ends: np.ndarray[Any, np.dtype[np.int64]]
    fps: float | None

    @property
    def frames(self) -> int:
        """Frames that count."""
        return sum(played.span.length for played in self.visits)

    def visits_of(self, game_id: str) -> list[PlayedVisit]:
        """A game's visits, in order."""
        return [p for p in self.visits if p.visit.game_id == game_id]


@dataclass(frozen=True)
class GameExplanation:
    """The visits and windows behind one game's numbers."""

    score_visit: PlayedVisit | None
    score_window: Span | None
    revisits: tuple[tuple[Span, Span], ...]
    plasticity: tuple[Span, Span] | None


def played_visits(config: RunConfig) -> tuple[PlayedVisit, ...]:
    """The schedule's visits with the frames they cover."""
    ends = list(itertools.accumulate(v.visit_frames for v in config.schedule))
    return tuple(
        PlayedVisit(visit, Span(end - visit.visit_frames, end - 1))
        for visit, end in zip(config.schedule, ends, strict=True)
    )


def explain_game(play: Play, game_id: str) -> GameExplanation:
    """Finds the windows that a game's score, forgetting and plasticity come from."""
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
            # Visits next to each other are one long visit: nothing was in between.
            if after.visit.visit_idx > before.visit.visit_idx + 1
        ),
        plasticity=(first[0].span.head(n), first[0].span.tail(n)) if first else None,
    )


def compute_score(play: Play) -> Score:
    """Computes every number of score.json."""
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
    left_out = tuple(v.visit_idx for v in config.schedule[len(play.visits) :])
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
        complete=not left_out,
        incomplete_visits=left_out,
    )


def read_play(run: RunDirectory, *, partial: bool = False) -> Play:
    """Reads from a run directory what its score needs.

    Args:
        run: The run.
        partial: Take the visits that were played to their end, if not all were.

    Raises:
        IncompleteRunError: Frames are missing, and `partial` was not asked for.
        DocumentError: A file is missing or broken.
    """
    config = run.config
    scan = _scan_events(run)
    if scan.last_frame + 1 < config.total_frames and not partial:
        reached = (
            f"its last frame is {scan.last_frame}" if scan.count else "it has no frame"
        )
        raise IncompleteRunError(
            f"{run.path}: the run is not complete: {reached} of "
            f"0 … {config.total_frames - 1}. Play it again with `longplay run`, or "
            f"score the visits that were played to their end with --partial"
        )
    visits = tuple(p for p in played_visits(config) if p.span.end <= scan.last_frame)
    return Play(
        config=config,
        visits=visits,
        rewards=scan.rewards,
        terminated_ends=_read_terminated_ends(run),
        fps=_read_fps(run, scan.count, scan.clock_s),
    )


@dataclass(frozen=True)
class _Scan:
    """What one pass over events.jsonl brings in."""

    count: int
    last_frame: int
    rewards: Rewards
    clock_s: float | None


def _scan_events(run: RunDirectory) -> _Scan:
    """Reads the rewards that are not zero, and sees that no frame is missing."""
    count, null_count, last, fingerprint, frames, values, clock_s = (
        run.events.aggregate(
            f"""count(*), count(*) - count(global_frame_idx + reward),
            max(global_frame_idx), {FRAMES_FINGERPRINT},
            list(global_frame_idx) FILTER (WHERE reward <> 0),
            list(reward) FILTER (WHERE reward <> 0),
            max(TRY_CAST(wallclock_time AS DOUBLE))
            - min(TRY_CAST(wallclock_time AS DOUBLE))""",
            needs=("global_frame_idx", "reward", "wallclock_time"),
        )
    )
    if run.events.is_torn and null_count:  # the torn line itself
        count, null_count = count - 1, null_count - 1
    last_frame = -1 if last is None else int(last)
    is_gapless = fingerprint == fingerprint_frames(count)
    if null_count or not is_gapless or last_frame >= run.config.total_frames:
        raise DocumentError(
            f"events.jsonl: expected frames 0, 1, 2, … once each with a reward, found "
            f"{count} rows up to frame {last_frame}; `longplay validate` says more"
        )
    order = np.argsort(frames or [], kind="stable")
    rewards = Rewards(
        np.array(frames or [], np.int64)[order],
        np.array(values or [], np.float64)[order],
    )
    return _Scan(count, last_frame, rewards, clock_s)


def _read_terminated_ends(run: RunDirectory) -> Any:
    (ends,) = run.episodes.aggregate(
        "list(end_global_frame_idx) FILTER (WHERE ended_by = 'terminated')",
        needs=("end_global_frame_idx", "ended_by"),
    )
    return np.array(ends or [], np.int64)


def _read_fps(run: RunDirectory, frames: int, clock_s: float | None) -> float | None:
    if run.summary is not None:
        return run.summary.fps
    return (frames - 1) / clock_s if clock_s else None


def change_scoring(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    """The config with other windows or weights, and the hash that belongs to them."""
    changes = {name: value for name, value in changes.items() if value is not None}
    if not changes:
        return config
    for name in changes:
        if name not in ScoringDefaults.model_fields:
            known = ScoringDefaults.model_fields
            raise UnknownNameError("scoring setting", name, known)
    defaults = config.scoring_defaults.model_dump() | changes
    try:
        scoring = ScoringDefaults.model_validate(defaults)
    except ValidationError as error:
        raise ConfigError(describe_invalid(error)) from error
    changed = config.model_copy(update={"scoring_defaults": scoring})
    return changed.model_copy(
        update={"benchmark_contract_hash": contract_hash(changed)}
    )


def score_run(
    directory: str | Path, *, partial: bool = False, **scoring_changes: Any
) -> Score:
    """Scores a run directory, or the one run of an experiment; writes nothing.

    Args:
        directory: Where the run is.
        partial: Count only the visits that were played to their end.
        **scoring_changes: Other `window_frames`, `revisit_frames`, `bottom_k_frac` or
            `final_score_weights` than the run's own.
    """
    run = read_run(directory)
    run.config = change_scoring(run.config, scoring_changes)
    return compute_score(read_play(run, partial=partial))


def write_score(run_dir: Path, score: Score) -> None:
    """Writes score.json, which only ever holds a whole run's own score."""
    write_document(run_dir / "score.json", score)
