"""Results -> tables for people, and the same as plain data for machines."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from longplay.agents.base import BUILT_IN_AGENTS, list_agents
from longplay.cli.layout import add_row, format_number, make_table
from longplay.cli.score_tables import show_score
from longplay.console.games import GAMES, REFUSED_GAMES
from longplay.contract.records import RunConfig, Score
from longplay.contract.rundir import RunDirectory
from longplay.plan import RunPlan
from longplay.scoring.baselines import RandomBaseline, expected_seconds, random_baseline
from longplay.scoring.metrics import bootstrap_interval, mean_or_none
from longplay.scoring.prediction_baselines import prediction_baselines
from longplay.suites import SUITES

if TYPE_CHECKING:
    from longplay.agents.conformance import Check
    from longplay.harness.job import Outcome
    from longplay.harness.status import RunView
    from longplay.scoring.metrics import Span
    from longplay.scoring.play import Play
    from longplay.validation import Report


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:,.0f} min"


def _megabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:,.0f} MB"


# --- plans and catalogues -------------------------------------------------------


def _plan_cost(plan: RunPlan) -> dict[str, float]:
    frames = plan.config.total_frames
    return {
        "frames": frames,
        "expected_seconds": expected_seconds(plan.suite_name, frames),
        "expected_bytes": plan.expected_bytes,
    }


def plan_to_json(plan: RunPlan) -> dict[str, Any]:
    """A plan for machines."""
    config = plan.config.model_dump(mode="json", exclude_none=True)
    return {"task_id": plan.task_id, **config, **_plan_cost(plan)}


def show_plan(plan: RunPlan) -> list[RenderableType]:
    """A plan for people."""
    config = plan.config
    cost = _plan_cost(plan)
    schedule = make_table(
        f"{plan.suite_name}, seed {plan.seed}",
        "visit",
        "cycle",
        "game",
        "frames",
        "first frame",
        left=(2,),
    )
    first = 0
    for visit in config.schedule:
        add_row(
            schedule,
            str(visit.visit_idx),
            str(visit.cycle_idx),
            visit.game_id,
            f"{visit.visit_frames:,}",
            f"{first:,}",
        )
        first += visit.visit_frames
    scoring = config.scoring_defaults
    facts = _facts(
        ("frames", f"{config.total_frames:,}"),
        (
            "decisions",
            _describe_decisions(config),
        ),
        (
            "scored on",
            f"last {scoring.window_frames:,} frames; forgetting and plasticity on "
            f"{scoring.revisit_frames:,}",
        ),
        ("contract hash", config.benchmark_contract_hash),
        ("disk", f"about {_megabytes(cost['expected_bytes'])}"),
        (
            "time",
            f"about {_minutes(cost['expected_seconds'])} for the random agent; "
            "a learning one takes its own time",
        ),
    )
    return [schedule, facts, Text("dry run: nothing was written", "dim")]


def _describe_decisions(config: RunConfig) -> str:
    interval, delay = config.decision_interval, config.delay
    unit, length = "frame", ""
    if config.frame_skip is not None:
        unit, length = "timestep", f" of {config.frame_skip} emulator frames"
    every = f"every {unit}" if interval == 1 else f"every {interval} {unit}s"
    when = f"applied {delay} {unit}s later" if delay else "at once"
    return f"{every}{length}, {when}"


def _facts(*rows: tuple[str, str]) -> Padding:
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim")
    grid.add_column(overflow="fold")
    for name, value in rows:
        add_row(grid, name, value)
    return Padding(grid, (1, 0, 1, 1))


def suite_to_json(plan: RunPlan) -> dict[str, Any]:
    """A suite for machines."""
    return {
        "suite": plan.suite_name,
        "purpose": plan.suite.purpose,
        "settings": plan.suite.settings,
        **_plan_cost(plan),
    }


def suites_table(plans: Sequence[RunPlan]) -> Table:
    """The catalogue for people."""
    table = make_table(
        "",
        "suite",
        "games",
        "cycles",
        "frames",
        "time",
        "disk",
        "what for",
        left=(0, 6),
    )
    for plan in plans:
        cost = _plan_cost(plan)
        add_row(
            table,
            plan.suite_name,
            str(len(plan.suite.games)),
            str(plan.suite.num_cycles),
            f"{cost['frames']:,}",
            _minutes(cost["expected_seconds"]),
            _megabytes(cost["expected_bytes"]),
            plan.suite.purpose,
        )
    table.caption = "time: random agent, one core of the machine it was measured on"
    table.caption_justify = "left"
    return table


def list_games() -> list[dict[str, Any]]:
    """Every game of the emulator, playable ones first."""
    playable = [
        {
            "game": game,
            "playable": True,
            "suites": [s for s, suite in SUITES.items() if game in suite.games],
        }
        for game in sorted(GAMES)
    ]
    refused = [
        {"game": game, "playable": False, "reason": reason}
        for game, reason in sorted(REFUSED_GAMES.items())
    ]
    return playable + refused


def games_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The games for people."""
    table = make_table("", "game", "suites", left=(0, 1))
    for row in rows:
        if row["playable"]:
            add_row(table, row["game"], ", ".join(row["suites"]))
        else:
            add_row(table, Text(row["game"], "dim"), Text(row["reason"], "dim"))
    return table


def list_named_agents() -> list[dict[str, Any]]:
    """Agents with a name; only our own are imported to be described."""
    rows = []
    for name, location in sorted(list_agents().items()):
        summary = ""
        if name in BUILT_IN_AGENTS:
            module, _, attribute = location.partition(":")
            doc = getattr(importlib.import_module(module), attribute).__doc__
            summary = (doc or "").splitlines()[0]
        rows.append({"agent": name, "location": location, "summary": summary})
    return rows


def agents_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The agents for people."""
    table = make_table("", "agent", "what it does", left=(0, 1))
    for row in rows:
        add_row(table, row["agent"], row["summary"] or row["location"])
    table.caption = "or your own: file.py[:Agent], module:Agent"
    table.caption_justify = "left"
    return table


def checklist_table(reference: str, checks: Sequence[Check]) -> Table:
    """The agent contract as a checklist."""
    table = make_table(reference, "", "the agent …", "", left=(0, 1, 2))
    marks = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "dim")}
    for check in checks:
        add_row(table, Text(*marks[check.passed]), check.sentence, check.detail)
    table.columns[1].no_wrap = True
    return table


# --- runs -----------------------------------------------------------------------


def show_run(run: RunDirectory) -> list[RenderableType]:
    """The result of a run."""
    if run.score is not None:
        return show_score(run.score, run.config)
    state = run.status.state if run.status else "no status"
    return [Text(f"{run.path.name}: not scored ({state})", "yellow")]


def show_details(run: RunDirectory) -> list[RenderableType]:
    """What `show` adds: the visits, and where the run comes from."""
    columns = (
        "visit",
        "cycle",
        "game",
        "frames",
        "reward",
        "per frame",
        "episodes",
        "s",
    )
    table = make_table("visits", *columns, left=(2,))
    played = {v.visit_idx: v for v in run.summary.visits} if run.summary else {}
    for visit in run.config.schedule:
        place = [str(visit.visit_idx), str(visit.cycle_idx), visit.game_id]
        seen = played.get(visit.visit_idx)
        if seen is None:
            add_row(table, *place, f"0/{visit.visit_frames:,}", style="dim")
            continue
        is_whole = seen.frames == visit.visit_frames
        add_row(
            table,
            *place,
            f"{seen.frames:,}" + ("" if is_whole else f"/{visit.visit_frames:,}"),
            f"{seen.reward_sum:g}",
            format_number(seen.reward_sum / seen.frames if seen.frames else None),
            str(seen.episodes),
            f"{seen.wall_time_s:.1f}",
        )
    return [Text(), table, *_show_metrics(run), _provenance(run)]


def _show_metrics(run: RunDirectory) -> list[RenderableType]:
    """What the agent itself reported, visit by visit."""
    visits = run.summary.visits if run.summary else ()
    names = sorted({name for visit in visits for name in visit.metrics})
    if not names:
        return []
    table = make_table("metrics of the agent", "visit", "game", *names, left=(1,))
    for visit in visits:
        numbers = (format_number(visit.metrics.get(name)) for name in names)
        add_row(table, str(visit.visit_idx), visit.game_id, *numbers)
    return [Text(), table]


def _provenance(run: RunDirectory) -> Padding:
    config = run.config
    rows = [("run", str(run.path))]
    if run.status is not None:
        status = run.status
        rows.append(
            ("state", f"{status.state}, frame {status.frame:,}/{status.frames_total:,}")
        )
        if status.error is not None:
            rows.append(("error", f"{status.error.type}: {status.error.message}"))
    if run.summary is not None:
        rows.append(("played", f"{run.summary.started_utc} – {run.summary.ended_utc}"))
    rows.append(("contract hash", config.benchmark_contract_hash))
    if config.agent is not None:
        rows.append(("agent id", config.agent.agent_id))
        if config.agent.config.get("args"):
            rows.append(("agent args", str(config.agent.config["args"])))
    if config.versions is not None:
        versions = ", ".join(f"{k} {v}" for k, v in config.versions.items())
        rows.append(("versions", versions))
    if config.git is not None and config.git.commit is not None:
        dirty = " (dirty)" if config.git.is_dirty else ""
        rows.append(("git", f"{config.git.commit}{dirty}"))
    return _facts(*rows)


def run_to_json(run: RunDirectory) -> dict[str, Any]:
    """A run for machines: its documents, and the baselines' figures."""
    baseline = random_baseline(run.config.suite or "")
    documents = {
        "config": run.config,
        "summary": run.summary,
        "score": run.score,
        "status": run.status,
    }
    return {
        "run_dir": str(run.path),
        **{
            name: document and document.model_dump(mode="json")
            for name, document in documents.items()
        },
        "random": baseline
        and {
            "suite": baseline.suite_id,
            "seeds": baseline.seeds,
            "final_score": baseline.final_score,
            "rates": baseline.rates,
            "scores": baseline.scores,
            **_totals_to_json(baseline),
        },
        "baselines": _predictors_to_json(run.config),
    }


def _predictors_to_json(config: RunConfig) -> dict[str, Any] | None:
    found = prediction_baselines(config.suite, config.reference_sha256)
    return {baseline.name: asdict(baseline) for baseline in found} or None


def _totals_to_json(baseline: RandomBaseline) -> dict[str, Any]:
    if not baseline.totals:
        return {}
    return {
        "cumulative_reward": baseline.cumulative_reward,
        "cumulative_game_score": baseline.cumulative_game_score,
        "totals": {game: asdict(totals) for game, totals in baseline.totals.items()},
    }


# --- experiments ----------------------------------------------------------------

# Below this many seeds an interval would say more about the bootstrap than the agent.
_SEEDS_FOR_INTERVAL = 3


# What an experiment shows of each run: heading -> key of score.json.
_SCORE_COLUMNS = {
    "streaming": {
        "final": "final_score",
        "mean": "mean_score",
        "bottom-k": "bottom_k_score",
        "forgetting": "forgetting_index_mean",
        "plasticity": "plasticity_mean",
    },
    "control": {
        "reward": "cumulative_reward",
        "game score": "cumulative_game_score",
        "final": "final_score",
        "plasticity": "plasticity_mean",
    },
    "prediction": {
        "nmse": "nmse",
        "median nmse": "median_nmse",
        "mse": "mse",
        "return mse": "return_mse",
    },
}


def _aggregate(scores: Sequence[float]) -> dict[str, float | None]:
    interval: tuple[float | None, float | None] = (None, None)
    if len(scores) >= _SEEDS_FOR_INTERVAL:
        interval = bootstrap_interval(scores)
    return {
        "n": len(scores),
        "mean": mean_or_none(scores),
        "low": interval[0],
        "high": interval[1],
    }


def _headlines(views: Sequence[RunView]) -> list[float]:
    """The number that runs of the track are compared by, of those that have one."""
    headlines = [score.headline for view in views if (score := _score_of(view))]
    return [value for value in headlines if value is not None]


def _score_of(view: RunView) -> Score | None:
    return RunDirectory(view.run_dir).score if view.state == "COMPLETED" else None


def experiment_to_json(directory: Path, views: Sequence[RunView]) -> dict[str, Any]:
    """An experiment for machines."""
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
        "aggregate": _aggregate(_headlines(views)),
    }


def _score_to_json(view: RunView) -> dict[str, Any] | None:
    score = _score_of(view)
    return None if score is None else score.model_dump(mode="json")


def show_experiment(directory: Path, views: Sequence[RunView]) -> list[RenderableType]:
    """One row per seed, and what they come to."""
    columns = _SCORE_COLUMNS[views[0].plan.suite.track]
    table = make_table(str(directory), "seed", "state", *columns, left=(1,))
    for view in views:
        score = _score_of(view)
        numbers = (
            () if score is None else (getattr(score, name) for name in columns.values())
        )
        add_row(table, str(view.plan.seed), view.state, *map(format_number, numbers))
    lines = [
        _describe_aggregate(views),
        _describe_random(views[0]),
        _describe_predictors(views[0]),
    ]
    notes = [_indent(line, "dim") for line in lines if line]
    return [table, *notes, *describe_errors(views)]


def describe_errors(views: Sequence[RunView]) -> list[RenderableType]:
    """What went wrong, run by run."""
    return [
        _indent(f"seed {view.plan.seed}: {view.status.error.message}", "red")
        for view in views
        if view.status is not None and view.status.error is not None
    ]


def _indent(text: str, style: str) -> Padding:
    """A paragraph that stays off the edge, however long it is."""
    return Padding(Text(text, style), (0, 0, 0, 1))


def describe_leftovers(
    views: Sequence[RunView], outcomes: Sequence[Outcome]
) -> list[RenderableType]:
    """How runs were taken up, and what is left to do."""
    told = {
        view.status.error.message for view in views if view.status and view.status.error
    }
    lines = [
        f"seed {outcome.seed}: {outcome.error}"
        for outcome in outcomes
        if outcome.error is not None and outcome.error not in told
    ]
    lines += [
        f"seed {outcome.seed}: findings; `longplay validate` on its folder names them"
        for outcome in outcomes
        if outcome.is_valid is False
    ]
    lines += [
        f"seed {view.plan.seed}: under way elsewhere ({view.status.host}, process "
        f"{view.status.pid}); if it is lost, --stall-timeout tells when to give it up"
        for view in views
        if view.state in ("RUNNING", "QUEUED")
        and view.status is not None
        and not view.is_to_do
    ]
    resumed = [
        f"seed {outcome.seed} {outcome.went_on}"
        for outcome in outcomes
        if outcome.went_on is not None
    ]
    return [
        *(_indent(line, "dim") for line in resumed),
        *(_indent(line, "yellow") for line in lines),
    ]


def _describe_aggregate(views: Sequence[RunView]) -> str:
    scores = _headlines(views)
    total = _aggregate(scores)
    if total["mean"] is None:
        return "no run is complete: no mean, no interval"
    name = views[0].plan.config.score_type.HEADLINE.replace("_", " ")
    seeds = "1 seed" if len(scores) == 1 else f"{len(scores)} seeds"
    words = f"{name}: {format_number(total['mean'])}, mean of {seeds}"
    if total["low"] is None:
        return f"{words}, no interval from fewer than {_SEEDS_FOR_INTERVAL}"
    low, high = format_number(total["low"]), format_number(total["high"])
    return f"{words}, 95 % interval {low} … {high} (bootstrap)"


def _describe_random(view: RunView) -> str:
    baseline = random_baseline(view.plan.suite_name)
    if baseline is None or baseline.suite_id != view.plan.suite_name:
        return ""
    seeds = len(baseline.seeds)
    return f"random agent: {format_number(baseline.headline)}, mean of {seeds} seeds"


def _describe_predictors(view: RunView) -> str:
    plan = view.plan
    baselines = prediction_baselines(plan.suite_name, plan.config.reference_sha256)
    if not baselines:
        return ""
    figures = (f"{b.label} {format_number(b.errors.nmse.mean)}" for b in baselines)
    seeds = len(baselines[0].seeds)
    return f"nmse of the baselines: {', '.join(figures)}; mean of {seeds} seeds"


def _describe_age(utc: str) -> str:
    """`12 s ago`, `3 h ago`."""
    age_s = (datetime.now(UTC) - datetime.fromisoformat(utc)).total_seconds()
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if age_s >= 2 * seconds:
            return f"{age_s / seconds:.0f} {unit} ago"
    return f"{max(age_s, 0):.0f} s ago"


def show_status(views: Sequence[RunView]) -> Group:
    """Where every run is, and what went wrong."""
    return Group(_status_table(views), *describe_errors(views))


def _status_table(views: Sequence[RunView]) -> Table:
    columns = ("seed", "state", "game", "frame", "fps", "heartbeat", "retries")
    table = make_table("", *columns, left=(1, 2))
    styles = {"COMPLETED": "green", "FAILED": "red", "STALE": "red"}
    for view in views:
        status = view.status
        cells: tuple[str, ...] = ()
        if status is not None:
            cells = (
                status.game_id or "",
                f"{status.frame:,}/{status.frames_total:,}",
                "" if status.fps is None else f"{status.fps:,.0f}",
                _describe_age(status.heartbeat_utc),
                str(status.retries),
            )
        state = Text(view.state, styles.get(view.state, ""))
        add_row(table, str(view.plan.seed), state, *cells)
    return table


# --- validation -----------------------------------------------------------------


def report_line(report: Report) -> Text:
    """The verdict in one line."""
    if report.is_valid:
        kind = "valid run of another tool" if report.findings.is_foreign else "valid"
        return Text(f" ✓ {kind}: {report.frames:,} frames judged", "green")
    count = sum(report.findings.counts.values())
    noun = "finding" if count == 1 else "findings"
    return Text(f" ✗ not valid: {count:,} {noun}", "bold red")


def show_report(report: Report) -> list[RenderableType]:
    """The verdict, the findings per kind, and the first few of each."""
    found = report.findings
    parts: list[RenderableType] = [
        Text(str(report.run_dir), "dim"),
        report_line(report),
    ]
    for title, counts, shown in (
        ("findings", found.counts, found.shown),
        ("notes (not findings in another tool's run)", found.note_counts, found.notes),
    ):
        if not counts:
            continue
        table = make_table(title, "count", "kind", "first places", left=(1, 2))
        table.columns[2].overflow = "fold"
        for kind, count in counts.most_common():
            places = [Text(str(f)) for f in shown if f.kind == kind]
            add_row(table, f"{count:,}", kind, Group(*places))
        parts.append(table)
    return parts


# --- explanation ----------------------------------------------------------------


def explanation_to_json(play: Play, game_id: str) -> list[dict[str, Any]]:
    """The windows behind a game's numbers, with their sums."""
    from longplay.scoring.streaming import explain_game

    why = explain_game(play, game_id)
    windows: list[tuple[str, Span | None]] = [("score", why.score_window)]
    for pre, post in why.revisits:
        windows += [("forgetting: pre", pre), ("forgetting: post", post)]
    if why.plasticity is not None:
        early, late = why.plasticity
        windows += [("plasticity: early", early), ("plasticity: late", late)]
    return [
        {
            "window": name,
            "visit_idx": next(
                p.visit.visit_idx
                for p in play.visits
                if p.span.start <= span.start <= p.span.end
            ),
            "first_frame": span.start,
            "last_frame": span.end,
            "frames": span.length,
            "reward_sum": play.rewards.total(span),
            "rate": play.rewards.rate(span),
        }
        for name, span in windows
        if span is not None
    ]


def show_explanation(play: Play, game_id: str) -> list[RenderableType]:
    """The sums behind a game's numbers, for people."""
    columns = ("window", "visit", "first frame", "last frame", "frames", "sum", "rate")
    table = make_table(f"why: {game_id}", *columns)
    for row in explanation_to_json(play, game_id):
        add_row(
            table,
            row["window"],
            str(row["visit_idx"]),
            f"{row['first_frame']:,}",
            f"{row['last_frame']:,}",
            f"{row['frames']:,}",
            f"{row['reward_sum']:g}",
            format_number(row["rate"]),
        )
    rule = " forgetting = mean of pre - post over revisits; plasticity = late - early"
    return [Text(), table, Text(rule, "dim")]
