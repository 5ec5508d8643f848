"""One run as tables and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from longplay.cli.layout import add_row, format_number, make_facts, make_table
from longplay.cli.result_lines import shipped_to_json
from longplay.cli.score_tables import show_score
from longplay.contract.config import RunConfig
from longplay.contract.documents import TuningRecord
from longplay.contract.files import read_document
from longplay.contract.rundir import RunDirectory
from longplay.scoring.baselines import RandomBaseline, random_baseline
from longplay.scoring.prediction_baselines import prediction_baselines
from longplay.tracks.catalogue import track_of

if TYPE_CHECKING:
    from longplay.tracks.base import Explanation
    from longplay.validation import Report

# Of a table; `show --json` has all. The longest suite of the catalogue has 24.
_MOST_VISITS = 500


def show_run(run: RunDirectory) -> list[RenderableType]:
    """The result of a run."""
    if run.score is not None:
        return show_score(run.score, run.config)
    if run.config.is_tuning:
        return [_show_tuning(run)]
    why: str = run.status.state if run.status else "no status"
    if not run.config.is_longplay:
        why = "run of another tool; score it with `longplay score`"
    return [Text(f"{run.path.name}: not scored ({why})", "yellow")]


def _show_tuning(run: RunDirectory) -> Text:
    """The result of a tuning run."""
    path = run.path / "tuning.json"
    unit = track_of(run.config).frame_noun
    played = f"{run.path.name}: tuning run, {run.config.total_frames:,} {unit}s"
    if not path.is_file():
        return Text(f"{played}, no result", "yellow")
    found = read_document(path, TuningRecord)
    if found.value is None:
        return Text(f"{played}, no value: {found.reason}", "yellow")
    units = " and ".join(dict.fromkeys(found.units.values()))
    games = len(found.per_game)
    return Text(f"{played}, {units} {found.value:.4g} (mean of {games} games)")


def show_details(run: RunDirectory) -> list[RenderableType]:
    """What `show` adds: the visits and the provenance."""
    unit = track_of(run.config).frame_noun
    columns = (
        "visit",
        "cycle",
        "game",
        f"{unit}s",
        "reward",
        f"per {unit}",
        "episodes",
        "s",
    )
    table = make_table("visits", *columns, left=(2,))
    played = {v.visit_idx: v for v in run.summary.visits} if run.summary else {}
    schedule = run.config.played_schedule
    shown = zip(schedule[:_MOST_VISITS], _count_frames(run), strict=False)
    for visit, frames in shown:
        place = [str(visit.visit_idx), str(visit.cycle_idx), visit.game_id]
        is_whole = frames == visit.visit_frames
        place.append(f"{frames:,}" + ("" if is_whole else f"/{visit.visit_frames:,}"))
        seen = played.get(visit.visit_idx)
        if seen is None:
            add_row(table, *place, *(["–"] * 4 if frames else []), style="dim")
            continue
        add_row(
            table,
            *place,
            f"{seen.reward_sum:g}",
            format_number(seen.reward_sum / seen.frames if seen.frames else None),
            str(seen.episodes),
            f"{seen.wall_time_s:.1f}",
        )
    more = len(schedule) - _MOST_VISITS
    note = [Text(f" … and {more:,} more visits", "dim")] if more > 0 else []
    return [Text(), table, *note, *_show_metrics(run), _provenance(run)]


def _count_frames(run: RunDirectory) -> list[int]:
    """Frames played in each visit.

    Without a summary they follow from the status of a run in progress, or from the
    number of rows of another tool's run.
    """
    schedule = run.config.played_schedule
    if run.summary is not None:
        played = {visit.visit_idx: visit.frames for visit in run.summary.visits}
        return [played.get(visit.visit_idx, 0) for visit in schedule]
    left = run.status.frame if run.status else _count_rows(run)
    frames = []
    for visit in schedule:
        frames.append(min(left, visit.visit_frames))
        left -= frames[-1]
    return frames


def _count_rows(run: RunDirectory) -> int:
    if not (run.path / "events.jsonl").is_file():
        return 0
    return len(run.events.numpy("global_frame_idx")["global_frame_idx"])


def _show_metrics(run: RunDirectory) -> list[RenderableType]:
    """The metrics the agent reported, per visit."""
    visits = run.summary.visits if run.summary else ()
    names = sorted({name for visit in visits for name in visit.metrics})
    if not names:
        return []
    # Long names take several lines rather than a column each of their width.
    heads = (name.replace("_", "_\n") for name in names)
    table = make_table("metrics of the agent", "visit", "game", *heads, left=(1,))
    for visit in visits[:_MOST_VISITS]:
        numbers = (format_number(visit.metrics.get(name)) for name in names)
        add_row(table, str(visit.visit_idx), visit.game_id, *numbers)
    return [Text(), table]


def _provenance(run: RunDirectory) -> Padding:
    config = run.config
    rows = [("run", str(run.path))]
    if run.status is not None:
        status, unit = run.status, track_of(config).frame_noun
        rows.append(
            (
                "state",
                f"{status.state}, {unit} {status.frame:,}/{status.frames_total:,}",
            )
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
    if (isolation := config.agent_isolation) is not None:
        allowed = "".join(f", allowed {path}" for path in isolation.allowed)
        rows.append(("isolation", f"{isolation.level}{allowed}"))
    if config.versions is not None:
        versions = ", ".join(f"{k} {v}" for k, v in config.versions.items())
        rows.append(("versions", versions))
    if config.git is not None and config.git.commit is not None:
        dirty = " (dirty)" if config.git.is_dirty else ""
        rows.append(("git", f"{config.git.commit}{dirty}"))
    return make_facts(*rows)


def run_to_json(run: RunDirectory) -> dict[str, Any]:
    """A run as JSON: its documents, and the baselines."""
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
        "results": shipped_to_json(run.config),
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


# --- validation -----------------------------------------------------------------


def report_line(report: Report) -> Text:
    """The result of a validation in one line."""
    if report.is_valid:
        kind = "valid run of another tool" if report.findings.is_foreign else "valid"
        return Text(f" ✓ {kind}: {report.frames:,} frames checked", "green")
    count = sum(report.findings.counts.values())
    noun = "finding" if count == 1 else "findings"
    return Text(f" ✗ not valid: {count:,} {noun}", "bold red")


def show_report(report: Report) -> list[RenderableType]:
    """The result, the findings per kind, and the first few of each."""
    found = report.findings
    parts: list[RenderableType] = [
        Text(str(report.run_dir), "dim"),
        report_line(report),
    ]
    for title, counts, shown in (
        ("findings", found.counts, found.shown),
        ("notes (not findings)", found.note_counts, found.notes),
    ):
        if not counts:
            continue
        table = make_table(title, "count", "kind", "first found at", left=(1, 2))
        table.columns[2].overflow = "fold"
        for kind, count in counts.most_common():
            places = [Text(str(f)) for f in shown if f.kind == kind]
            add_row(table, f"{count:,}", kind, Group(*places))
        parts.append(table)
    return parts


# --- explanation ----------------------------------------------------------------


def show_explanation(game_id: str, explanation: Explanation) -> list[RenderableType]:
    """How a game's numbers are computed, as a table."""
    table = make_table(f"how {game_id} is scored", *explanation.headings.values())
    for row in explanation.rows:
        add_row(table, *(_format_cell(row[key]) for key in explanation.headings))
    return [Text(), table, Text(f" {explanation.rule}", "dim")]


def _format_cell(value: Any) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,}" if isinstance(value, int) else format_number(value, digits=6)
