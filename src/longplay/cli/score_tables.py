"""A score -> tables: each game beside the baselines, the totals, shipped results."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from longplay.contract.config import RunConfig
from longplay.contract.documents import ControlScore, PredictionScore, Score
from longplay.errors import show_name
from longplay.lab.analysis.results import shipped_results
from longplay.lab.report.tables import format_estimate
from longplay.scoring.baselines import RandomBaseline, random_baseline
from longplay.scoring.prediction_baselines import (
    PredictorBaseline,
    prediction_baselines,
    privileged_network,
)
from longplay.tables import Column, TextTable, count, format_number, make_cell
from longplay.tracks.catalogue import track_of

_Tabulate = Callable[[Any, RunConfig], TextTable]
_Caption = Callable[[Score, RunConfig], Iterator[str]]
_OfGame = Callable[[str], float | None]
_GAME: Column[str] = ("game", str)
_BOLD, _HEADLINE = "bold", "bold green"


def show_score(score: Score, config: RunConfig) -> list[TextTable]:
    """The table of the run's track, and notes that explain its columns."""
    tabulate, caption = _TABLES.get(type(score), (_tabulate_totals, _caption_nothing))
    notes = [*caption(score, config), *_caption_play(score, config)]
    # A part of a run is not comparable.
    notes += describe_results(config) if score.complete else ()
    tables = [replace(tabulate(score, config), notes=tuple(notes))]
    if isinstance(score, PredictionScore) and score.rollouts_sha256 is not None:
        tables.insert(0, _tabulate_values(score, config))
    return tables


def _tabulate_streaming(score: Score, config: RunConfig) -> TextTable:
    baseline = random_baseline(config.suite or "")
    table = TextTable.of_items(
        _describe_run(config),
        config.games,
        _GAME,
        ("score", score.per_game_scores.get),
        ("random", (baseline.rates if baseline else {}).get),
        ("forgetting", score.per_game_forgetting.get),
        ("plasticity", score.per_game_plasticity.get),
        ("game overs", lambda game: score.per_game_episode_counts.get(game, 0)),
        ("frames", lambda game: score.per_game_visit_frames.get(game, 0)),
    )
    own = _own_baseline(config) if score.complete else None
    changes = score.forgetting_index_mean, score.plasticity_mean
    return table.add_rows(
        ("mean", score.mean_score, "", *changes),
        ("bottom-k", score.bottom_k_score),
        (
            make_cell("final score", _BOLD),
            make_cell(score.final_score, _HEADLINE),
            own.final_score if own else None,
        ),
    )


def _tabulate_control(score: ControlScore, config: RunConfig) -> TextTable:
    """Delivered reward and game score per game, beside the random agent's."""
    baseline = _own_baseline(config)
    totals = baseline.totals if baseline else {}
    table = TextTable.of_items(
        _describe_run(config),
        config.games,
        _GAME,
        ("reward", score.per_game_cumulative_reward.get),
        ("random", lambda g: totals[g].reward if g in totals else None),
        ("game score", score.per_game_cumulative_game_score.get),
        ("random", lambda g: totals[g].game_score if g in totals else None),
        ("game overs", lambda game: score.per_game_episode_counts.get(game, 0)),
        ("timesteps", lambda game: score.per_game_visit_frames.get(game, 0)),
    )
    total = baseline if score.complete else None  # a partial total is not comparable
    return table.add_rows(
        (
            make_cell("total", _BOLD),
            make_cell(score.cumulative_reward, _HEADLINE),
            total.cumulative_reward if total else None,
            make_cell(score.cumulative_game_score, _BOLD),
            total.cumulative_game_score if total else None,
        )
    )


def _tabulate_prediction(score: PredictionScore, config: RunConfig) -> TextTable:
    """Errors per game and their means, beside those of the baselines.

    All visits have the same length, so no column shows it.
    """
    baselines = _prediction_baselines(score, config)
    table = TextTable.of_items(
        _describe_run(config),
        config.games,
        _GAME,
        ("nmse", score.per_game_nmse.get),
        *(_column_beside(b.label, b.nmse_of) for b in baselines),
        ("mse", score.per_game_mse.get),
        ("return\nmse", score.per_game_return_mse.get),
        ("game\novers", lambda game: score.per_game_episode_counts.get(game, 0)),
    )
    return table.add_rows(
        (
            make_cell("mean", _BOLD),
            make_cell(score.nmse, _HEADLINE),
            *(format_number(b.errors.nmse.mean, digits=4) for b in baselines),
            score.mse,
            score.return_mse,
        ),
        (
            "median",
            score.median_nmse,
            *(format_number(b.median_nmse.mean, digits=4) for b in baselines),
        ),
        *(_row_of_baseline(baseline, len(baselines)) for baseline in baselines),
    )


def _tabulate_values(score: PredictionScore, config: RunConfig) -> TextTable:
    """Errors against rollout values, of the games that have them, beside others'."""
    beside = _value_baselines(score, config)
    errors = score.per_game_value_mse or {}
    table = TextTable.of_items(
        f"{_describe_run(config)}: rollout values",
        errors,
        _GAME,
        ("value nmse", (score.per_game_value_nmse or {}).get),
        *(_column_beside(label, of_game) for label, (of_game, _) in beside.items()),
        ("value mse", errors.get),
    )
    return table.add_rows(
        (
            make_cell("mean", _BOLD),
            make_cell(score.value_nmse, _HEADLINE),
            *(format_number(mean, digits=4) for _, mean in beside.values()),
            score.value_mse,
        ),
        ("median", score.median_value_nmse),
    )


def _tabulate_totals(score: Score, config: RunConfig) -> TextTable:
    """The totals of a score that has no table of its own."""
    track = track_of(config)
    rows = [
        (heading, make_cell(getattr(score, key), _BOLD * (key == track.headline)))
        for heading, key in track.score_columns.items()
    ]
    return TextTable.of(_describe_run(config), ("", track.name), rows)


def _column_beside(label: str, error_of: _OfGame) -> Column[str]:
    """A baseline's errors, with fewer digits than the run's own.

    The heading is wrapped to fit the table into 80 columns.
    """
    return label.replace(" ", "\n"), lambda game: format_number(error_of(game), 4)


def _row_of_baseline(baseline: PredictorBaseline, beside: int) -> list[Any]:
    """A baseline's errors over all games."""
    errors = baseline.errors
    values = (errors.nmse.mean, *[""] * beside, errors.mse.mean, errors.return_mse.mean)
    return [make_cell(value, "dim") for value in (baseline.label, *values)]


# --- baselines ------------------------------------------------------------------


def _value_baselines(
    score: PredictionScore, config: RunConfig
) -> dict[str, tuple[_OfGame, float | None]]:
    """Label -> errors by game, and their mean; with the same rollout values alone."""
    found: dict[str, tuple[_OfGame, float | None]] = {}
    if not score.complete:
        return found
    for baseline in _prediction_baselines(score, config):
        errors = baseline.errors.value_nmse
        if errors is not None and baseline.rollouts_sha256 == score.rollouts_sha256:
            found[baseline.label] = (baseline.value_nmse_of, errors.mean)
    network = privileged_network(config.suite, score.rollouts_sha256)
    if network is not None:
        found["network"] = (network.nmse_of, network.value_nmse.mean)
    return found


def _prediction_baselines(score: Score, config: RunConfig) -> list[PredictorBaseline]:
    """Baselines of a complete run: means over other games are not comparable."""
    if not score.complete:
        return []
    return prediction_baselines(config.suite, config.reference_sha256)


def _own_baseline(config: RunConfig) -> RandomBaseline | None:
    """Totals depend on the suite's length: only its own baseline is comparable."""
    baseline = random_baseline(config.suite or "")
    return baseline if baseline and baseline.suite_id == config.suite else None


def describe_results(config: RunConfig) -> list[str]:
    """The headlines of longplay's own agents on the official seeds of a suite.

    A customised suite has none.
    """
    found = shipped_results().headlines_of(config.suite or "")
    if not found:
        return []
    track = track_of(config)
    order = sorted(
        found, key=lambda agent: found[agent].mean, reverse=not track.less_is_better
    )
    # An agent and its number stay on one line.
    parts = (f"{agent} {format_estimate(found[agent])}" for agent in order)
    text = ", ".join(part.replace(" ", "\xa0") for part in parts)
    text = f"{track.headline.replace('_', ' ')} on official seeds: {text}"
    lines = textwrap.wrap(text, 78, subsequent_indent="  ", break_on_hyphens=False)
    return [line.replace("\xa0", " ") for line in lines]


def shipped_to_json(config: RunConfig) -> dict[str, Any] | None:
    """Agent -> its headline on the official seeds."""
    found = shipped_results().headlines_of(config.suite or "")
    return {name: found[name].model_dump(mode="json") for name in found} or None


# --- captions -------------------------------------------------------------------


def _describe_run(config: RunConfig) -> str:
    if config.agent is None:
        return "run of another tool"
    suite = show_name(config.suite or "")
    return f"{suite}, seed {config.seed}, {config.agent.shown_name}"


def _caption_rates(score: Score, config: RunConfig) -> Iterator[str]:
    window = config.scoring_defaults.window_frames
    yield f"score: final reward rate, last {window:,} frames of a game's last visit"
    baseline = random_baseline(config.suite or "")
    if baseline is not None:
        differs = "" if _own_baseline(config) else ", other settings"
        seeds = count(len(baseline.seeds), "seed")
        yield f"random: the random agent on {baseline.suite_id}, {seeds}{differs}"
        if not differs:
            yield describe_random_changes(baseline)
    yield from _caption_windows(config)


def describe_random_changes(baseline: RandomBaseline) -> str:
    """What resets alone do to the rate of the random agent."""
    forgetting = format_number(baseline.forgetting, digits=3)
    plasticity = format_number(baseline.plasticity, digits=3)
    return f"the random agent's forgetting: {forgetting}, plasticity: {plasticity}"


def _caption_windows(config: RunConfig) -> Iterator[str]:
    """Says where the first and the last window of a visit are not two windows."""
    revisit_frames = config.scoring_defaults.revisit_frames
    shortest = min(visit.visit_frames for visit in config.schedule)
    if shortest <= revisit_frames:
        yield f"windows of {revisit_frames:,} frames cover whole visits: no plasticity"
    elif shortest < 2 * revisit_frames:
        yield f"windows of {revisit_frames:,} frames overlap in a visit of {shortest:,}"


def _caption_totals(score: Score, config: RunConfig) -> Iterator[str]:
    rule = "signs of game rewards" if config.reward == "sign" else "game rewards"
    yield f"reward: sum of delivered rewards ({rule})"
    baseline = _own_baseline(config)
    if baseline is not None:
        seeds = count(len(baseline.seeds), "seed")
        yield f"random: the random agent, mean of {seeds}"


def _caption_errors(score: Score, config: RunConfig) -> Iterator[str]:
    if isinstance(score, PredictionScore) and score.per_game_value_nmse is not None:
        missing = list(score.per_game_value_nmse.values()).count(None)
        yield "value mse: squared error against rollout values, sampling noise removed"
        yield "value nmse: value mse / variance of values; the best constant scores 1"
        if missing:
            yield f"no value nmse for games with nearly constant values: {missing}"
        if "network" in _value_baselines(score, config):
            yield "network: the reference's own, which sees the console's memory"
    yield "mse: squared error against reference values; lower is better"
    yield "nmse: mse / variance of the values; the best constant scores 1"
    yield "return mse: squared error against returns, up to the last game over"
    baselines = _prediction_baselines(score, config)
    if baselines:
        *others, last = (baseline.label for baseline in baselines)
        seeds = count(len(baselines[0].seeds), "seed")
        names = f"{', '.join(others)} and {last}"
        yield f"{names}: nmse of the baselines, mean of {seeds}"


def _caption_nothing(score: Score, config: RunConfig) -> Iterator[str]:
    """No caption: the headings are all there is to explain."""
    return iter(())


def _caption_play(score: Score, config: RunConfig) -> Iterator[str]:
    fps = "" if score.fps is None else f", {score.fps:,.0f} fps"
    yield f"{count(score.frames, track_of(config).frame_noun)}{fps}"
    if not score.complete:
        missing = ", ".join(map(str, score.incomplete_visits))
        yield f"PARTIAL: visits {missing} are incomplete"


# Type of score -> its table and its caption.
_TABLES: Mapping[type[Score], tuple[_Tabulate, _Caption]] = {
    Score: (_tabulate_streaming, _caption_rates),
    ControlScore: (_tabulate_control, _caption_totals),
    PredictionScore: (_tabulate_prediction, _caption_errors),
}
