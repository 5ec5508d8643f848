"""A score -> a table: each game next to the baselines, and the totals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from longplay.cli.layout import add_row, format_number, make_table
from longplay.cli.result_lines import describe_results
from longplay.contract.config import RunConfig
from longplay.contract.documents import ControlScore, PredictionScore, Score
from longplay.errors import show_name
from longplay.scoring.baselines import RandomBaseline, random_baseline
from longplay.scoring.prediction_baselines import (
    PredictorBaseline,
    prediction_baselines,
    privileged_network,
)
from longplay.tracks.catalogue import track_of

_Tabulate = Callable[[Any, RunConfig], Table]
_Caption = Callable[[Score, RunConfig], Iterator[str]]


def show_score(score: Score, config: RunConfig) -> list[RenderableType]:
    """The table of the run's track, and a caption that explains its columns."""
    table, captions = _TABLES.get(type(score), (_tabulate_totals, _caption_nothing))
    lines = [*captions(score, config), *_caption_play(score, config)]
    # A part of a run is not comparable.
    lines += describe_results(config) if score.complete else ()
    tables = [table(score, config)]
    if isinstance(score, PredictionScore) and score.rollouts_sha256 is not None:
        tables.insert(0, _tabulate_values(score, config))
    return [*tables, *(Text(f" {line}", "dim") for line in lines)]


def _tabulate_streaming(score: Score, config: RunConfig) -> Table:
    baseline = random_baseline(config.suite or "")
    rates = baseline.rates if baseline else {}
    table = make_table(
        _describe_run(config),
        "game",
        "score",
        "random",
        "forgetting",
        "plasticity",
        "game overs",
        "frames",
    )
    for game in config.games:
        add_row(
            table,
            game,
            format_number(score.per_game_scores.get(game)),
            format_number(rates.get(game)),
            format_number(score.per_game_forgetting.get(game)),
            format_number(score.per_game_plasticity.get(game)),
            str(score.per_game_episode_counts.get(game, 0)),
            f"{score.per_game_visit_frames.get(game, 0):,}",
        )
    add_row(
        table,
        "mean",
        format_number(score.mean_score),
        "",
        format_number(score.forgetting_index_mean),
        format_number(score.plasticity_mean),
    )
    add_row(table, "bottom-k", format_number(score.bottom_k_score))
    is_same_suite = baseline is not None and baseline.suite_id == config.suite
    add_row(
        table,
        Text("final score", "bold"),
        Text(format_number(score.final_score), "bold green"),
        format_number(
            baseline.final_score
            if baseline and is_same_suite and score.complete
            else None
        ),
    )
    return table


def _tabulate_control(score: Any, config: RunConfig) -> Table:
    """Delivered reward and game score per game, next to the random agent's."""
    baseline = _own_baseline(config)
    columns = (
        "game",
        "reward",
        "random",
        "game score",
        "random",
        "game overs",
        "timesteps",
    )
    table = make_table(_describe_run(config), *columns)
    for game in config.games:
        random = baseline.totals.get(game) if baseline else None
        add_row(
            table,
            game,
            format_number(score.per_game_cumulative_reward.get(game)),
            format_number(random.reward if random else None),
            format_number(score.per_game_cumulative_game_score.get(game)),
            format_number(random.game_score if random else None),
            str(score.per_game_episode_counts.get(game, 0)),
            f"{score.per_game_visit_frames.get(game, 0):,}",
        )
    total = baseline if score.complete else None  # a partial total is not comparable
    add_row(
        table,
        Text("total", "bold"),
        Text(format_number(score.cumulative_reward), "bold green"),
        format_number(total.cumulative_reward if total else None),
        Text(format_number(score.cumulative_game_score), "bold"),
        format_number(total.cumulative_game_score if total else None),
    )
    return table


def _tabulate_prediction(score: Any, config: RunConfig) -> Table:
    """Errors per game and their means, next to those of the baselines.

    All visits have the same length, so no column shows it.
    """
    baselines = _prediction_baselines(score, config)
    # Wrapped to fit the table into 80 columns.
    labels = [baseline.label.replace(" ", "\n") for baseline in baselines]
    columns = ("game", "nmse", *labels, "mse", "return\nmse", "game\novers")
    table = make_table(_describe_run(config), *columns)
    for game in config.games:
        add_row(
            table,
            game,
            format_number(score.per_game_nmse.get(game)),
            *_format_beside(baseline.nmse_of(game) for baseline in baselines),
            format_number(score.per_game_mse.get(game)),
            format_number(score.per_game_return_mse.get(game)),
            str(score.per_game_episode_counts.get(game, 0)),
        )
    add_row(
        table,
        Text("mean", "bold"),
        Text(format_number(score.nmse), "bold green"),
        *_format_beside(baseline.errors.nmse.mean for baseline in baselines),
        format_number(score.mse),
        format_number(score.return_mse),
    )
    medians = _format_beside(baseline.median_nmse.mean for baseline in baselines)
    add_row(table, "median", format_number(score.median_nmse), *medians)
    for baseline in baselines:
        _add_baseline(table, baseline, len(baselines))
    return table


def _tabulate_values(score: Any, config: RunConfig) -> Table:
    """Errors against rollout values, of the games that have them, beside others'."""
    beside = _value_baselines(score, config)
    labels = [label.replace(" ", "\n") for label in beside]
    columns = ("game", "value nmse", *labels, "value mse")
    table = make_table(f"{_describe_run(config)}: rollout values", *columns)
    for game, mse in score.per_game_value_mse.items():
        others = (of_game(game) for of_game, _ in beside.values())
        add_row(
            table,
            game,
            format_number(score.per_game_value_nmse[game]),
            *_format_beside(others),
            format_number(mse),
        )
    add_row(
        table,
        Text("mean", "bold"),
        Text(format_number(score.value_nmse), "bold green"),
        *_format_beside(mean for _, mean in beside.values()),
        format_number(score.value_mse),
    )
    add_row(table, "median", format_number(score.median_value_nmse))
    return table


_OfGame = Callable[[str], float | None]


def _value_baselines(
    score: Any, config: RunConfig
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


def _format_beside(errors: Iterable[float | None]) -> list[str]:
    """A baseline's errors, with fewer digits than the run's own."""
    return [format_number(error, digits=4) for error in errors]


def _add_baseline(table: Table, baseline: PredictorBaseline, beside: int) -> None:
    """A row with a baseline's errors over all games."""
    errors = baseline.errors
    add_row(
        table,
        baseline.label,
        format_number(errors.nmse.mean),
        *([""] * beside),
        format_number(errors.mse.mean),
        format_number(errors.return_mse.mean),
        style="dim",
    )


def _prediction_baselines(score: Score, config: RunConfig) -> list[PredictorBaseline]:
    """Baselines of a complete run: means over other games are not comparable."""
    if not score.complete:
        return []
    return prediction_baselines(config.suite, config.reference_sha256)


def _own_baseline(config: RunConfig) -> RandomBaseline | None:
    """Totals depend on the suite's length: only its own baseline is comparable."""
    baseline = random_baseline(config.suite or "")
    is_own = baseline is not None and baseline.suite_id == config.suite
    return baseline if is_own else None


def _describe_run(config: RunConfig) -> str:
    if config.agent is None:
        return "run of another tool"
    agent = show_name(str(config.agent.config.get("_type")))
    return f"{show_name(config.suite or '')}, seed {config.seed}, {agent}"


def _caption_rates(score: Score, config: RunConfig) -> Iterator[str]:
    window = config.scoring_defaults.window_frames
    yield f"score: reward per frame, last {window:,} frames of a game's last visit"
    baseline = random_baseline(config.suite or "")
    if baseline is not None:
        seeds = len(baseline.seeds)
        differs = "" if baseline.suite_id == config.suite else ", other settings"
        suite_id = baseline.suite_id
        yield f"random: the random agent on {suite_id}, {seeds} seeds{differs}"
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
        yield f"random: the random agent, mean of {len(baseline.seeds)} seeds"


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
        names = f"{', '.join(others)} and {last}"
        yield f"{names}: nmse of the baselines, mean of {len(baselines[0].seeds)} seeds"


# Type of score -> its table and its caption.
_TABLES: Mapping[type[Score], tuple[_Tabulate, _Caption]] = {
    Score: (_tabulate_streaming, _caption_rates),
    ControlScore: (_tabulate_control, _caption_totals),
    PredictionScore: (_tabulate_prediction, _caption_errors),
}


def _tabulate_totals(score: Score, config: RunConfig) -> Table:
    """The totals of a score that has no table of its own."""
    track = track_of(config)
    table = make_table(_describe_run(config), "", track.name)
    for heading, key in track.score_columns.items():
        is_headline = key == track.headline
        value = Text(format_number(getattr(score, key)), "bold" if is_headline else "")
        add_row(table, heading, value)
    return table


def _caption_nothing(score: Score, config: RunConfig) -> Iterator[str]:
    """No caption: the headings are all there is to explain."""
    return iter(())


def _caption_play(score: Score, config: RunConfig) -> Iterator[str]:
    fps = "" if score.fps is None else f", {score.fps:,.0f} fps"
    yield f"{score.frames:,} {track_of(config).frame_noun}s{fps}"
    if not score.complete:
        missing = ", ".join(map(str, score.incomplete_visits))
        yield f"PARTIAL: visits {missing} are incomplete"
