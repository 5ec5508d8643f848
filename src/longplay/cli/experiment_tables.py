"""The runs of an experiment as tables and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType

from longplay.cli.score_tables import describe_random_changes, describe_results
from longplay.contract.documents import RunStatus, Score
from longplay.contract.rundir import RunDirectory
from longplay.lab.analysis.intervals import FEWEST_FOR_INTERVAL, estimate_mean
from longplay.runs.progress import describe_learning
from longplay.scoring.baselines import random_baseline
from longplay.scoring.prediction_baselines import prediction_baselines
from longplay.tables import TextTable, count, format_number, indent, make_cell
from longplay.tracks.catalogue import track_of

if TYPE_CHECKING:
    from longplay.experiments.job import RunResult
    from longplay.runs.status import RunView

STATE_STYLES = {"COMPLETED": "green", "FAILED": "red", "STALE": "red"}


def _aggregate(scores: Sequence[float]) -> dict[str, Any]:
    estimate = estimate_mean(scores)
    if estimate is None:
        return {"n": 0, "mean": None, "low": None, "high": None, "method": "none"}
    return estimate.model_dump(mode="json")


def headlines_of(views: Sequence[RunView]) -> list[float]:
    """The headlines of the completed runs that have one."""
    headlines = [score.headline for view in views if (score := _score_of(view))]
    return [value for value in headlines if value is not None]


def _score_of(view: RunView) -> Score | None:
    return RunDirectory(view.run_dir).score if view.state == "COMPLETED" else None


def experiment_to_json(directory: Path, views: Sequence[RunView]) -> dict[str, Any]:
    """An experiment as JSON."""
    return {
        "experiment_dir": str(directory),
        "runs": [
            {
                **view.to_json(),
                "run_dir": str(view.run_dir),
                "score": _score_to_json(view),
            }
            for view in views
        ],
        "aggregate": _aggregate(headlines_of(views)),
    }


def results_to_json(
    directory: Path, views: Sequence[RunView], results: Sequence[RunResult]
) -> dict[str, Any]:
    """An experiment as JSON, with the results of the runs just played."""
    document = experiment_to_json(directory, views)
    by_seed = {result.seed: result for result in results}
    for entry in document["runs"]:
        result = by_seed.get(entry["seed"])
        report = result and result.report
        entry["valid"] = result and result.is_valid
        entry["validation"] = report and report.to_json()
        entry["refused"] = result.error if result and result.is_refused else None
        entry["resumed_from"] = result and result.resumed_from
    return document


def _score_to_json(view: RunView) -> dict[str, Any] | None:
    score = _score_of(view)
    return None if score is None else score.model_dump(mode="json")


def show_experiment(directory: Path, views: Sequence[RunView]) -> list[RenderableType]:
    """One row per seed, and their mean."""
    columns = _choose_columns(views)
    rows = []
    for view in views:
        score = _score_of(view)
        numbers = [getattr(score, name) for name in columns.values()] if score else []
        rows.append((str(view.plan.seed), view.state, *map(format_number, numbers)))
    heads = ("seed", "state", *columns)
    table = TextTable.of(str(directory), heads, rows, names=0, texts=(1,))
    lines = (
        _describe_aggregate(views),
        _describe_random(views[0]),
        _describe_predictors(views[0]),
        _describe_nulls(views),
        *describe_results(views[0].plan.config),
    )
    return [replace(table, notes=tuple(filter(None, lines))), *describe_errors(views)]


def _choose_columns(views: Sequence[RunView]) -> Mapping[str, str]:
    """Heading -> key; rollout values come first if all runs use the same ones."""
    columns = track_of(views[0].plan.config).score_columns
    scores = [score for view in views if (score := _score_of(view)) is not None]
    digests = {getattr(score, "rollouts_sha256", None) for score in scores}
    if len(digests) == 1 and None not in digests:
        return {"value nmse": "value_nmse", **columns}
    return columns


def _describe_nulls(views: Sequence[RunView]) -> str:
    """Games that a mean leaves out, because their values are nearly constant."""
    scores = [score for view in views if (score := _score_of(view)) is not None]
    nulls = sum(
        list((getattr(score, "per_game_value_nmse", None) or {}).values()).count(None)
        for score in scores
    )
    if not nulls:
        return ""
    return f"no value nmse for games with nearly constant values: {nulls} in all runs"


def describe_errors(views: Sequence[RunView]) -> list[RenderableType]:
    """The error of each failed run."""
    return [
        indent(f"seed {view.plan.seed}: {view.status.error.message}", "red")
        for view in views
        if view.status is not None and view.status.error is not None
    ]


def describe_remaining(
    views: Sequence[RunView], results: Sequence[RunResult]
) -> list[RenderableType]:
    """How runs were resumed, and which still need attention."""
    shown = {
        view.status.error.message for view in views if view.status and view.status.error
    }
    lines = describe_failures(
        (f"seed {result.seed}", result)
        for result in results
        if result.error not in shown
    )
    lines += [
        describe_other_process(f"seed {view.plan.seed}", view.status, "retry")
        for view in views
        if view.state in ("RUNNING", "QUEUED")
        and view.status is not None
        and not view.is_pending
    ]
    notes = [
        f"seed {result.seed} {result.resumed_from}"
        for result in results
        if result.resumed_from is not None
    ]
    if not results and all(view.state == "COMPLETED" for view in views):
        notes.append("already complete; `longplay retry --completed` plays it again")
    return [
        *map(indent, notes),
        *(indent(line, "yellow") for line in lines),
    ]


def describe_failures(results: Iterable[tuple[str, RunResult]]) -> list[str]:
    """The errors of results, by name, and then those that are not valid."""
    named = list(results)
    lines = [f"{name}: {run.error}" for name, run in named if run.error is not None]
    lines += [
        f"{name}: invalid; run `longplay validate` on its folder"
        for name, run in named
        if run.is_valid is False
    ]
    return lines


def describe_other_process(name: str, status: RunStatus, remedy: str) -> str:
    """Names the process that plays a run, and what to do if it died."""
    return (
        f"{name}: running in another process ({status.host}, pid {status.pid}); if "
        f"that process died, {remedy} with a lower --stall-timeout"
    )


def _describe_aggregate(views: Sequence[RunView]) -> str:
    scores = headlines_of(views)
    total = _aggregate(scores)
    if total["mean"] is None:
        return "no mean: no run is complete"
    track = track_of(views[0].plan.config)
    name = track.headline.replace("_", " ")
    if track.less_is_better:
        name += " (lower is better)"
    seeds = count(len(scores), "seed")
    text = f"{name}: {format_number(total['mean'])}, mean of {seeds}"
    if total["low"] is None:
        return f"{text}, no interval from fewer than {FEWEST_FOR_INTERVAL}"
    low, high = format_number(total["low"]), format_number(total["high"])
    return f"{text}, 95 % interval {low} … {high} ({total['method']})"


def _describe_random(view: RunView) -> str:
    baseline = random_baseline(view.plan.suite_name)
    if baseline is None or baseline.suite_id != view.plan.suite_name:
        return ""
    seeds = count(len(baseline.seeds), "seed")
    text = f"random agent: {format_number(baseline.headline)}, mean of {seeds}"
    if baseline.forgetting is None:
        return text
    return f"{text}; {describe_random_changes(baseline)}"


def _describe_predictors(view: RunView) -> str:
    plan = view.plan
    baselines = prediction_baselines(plan.suite_name, plan.config.reference_sha256)
    if not baselines:
        return ""
    figures = (f"{b.label} {format_number(b.errors.nmse.mean)}" for b in baselines)
    seeds = count(len(baselines[0].seeds), "seed")
    return f"nmse of the baselines: {', '.join(figures)}; mean of {seeds}"


def show_status(views: Sequence[RunView]) -> Group:
    """The progress of every run, and its error if it failed."""
    return Group(
        _status_table(views),
        *_describe_learning(views),
        *_describe_states(views),
        *describe_errors(views),
    )


def _describe_states(views: Sequence[RunView]) -> list[RenderableType]:
    """The size of what runs have kept of their agents."""
    size_bytes = sum(view.kept_agent_bytes for view in views)
    if not size_bytes:
        return []
    return [indent(f"states of the agent: {size_bytes / 1e6:,.3g} MB kept")]


def _describe_learning(views: Sequence[RunView]) -> list[RenderableType]:
    """Reward rate and metrics of the runs in progress."""
    lines = []
    for view in views:
        if view.state == "RUNNING" and (status := view.status) is not None:
            noun = track_of(view.plan.config).frame_noun
            numbers = describe_learning(status.reward_rate, status.metrics, noun)
            if numbers:
                lines.append(f"seed {view.plan.seed}: {', '.join(numbers)}")
    return [*map(indent, lines)]


def _status_table(views: Sequence[RunView]) -> TextTable:
    from longplay.runs.status import describe_age

    unit = track_of(views[0].plan.config).frame_noun if views else "frame"
    columns = ("seed", "state", "game", unit, "fps", "heartbeat", "retries")
    rows: list[tuple[Any, ...]] = []
    for view in views:
        state = make_cell(view.state, STATE_STYLES.get(view.state, ""))
        rows.append((str(view.plan.seed), state))
        if (status := view.status) is not None:
            rows[-1] += (
                status.game_id or "",
                f"{status.frame:,}/{status.frames_total:,}",
                "" if status.fps is None else f"{status.fps:,.0f}",
                describe_age(status.heartbeat_utc),
                status.retries,
            )
    return TextTable.of("", columns, rows, names=0, texts=(1, 2))
