"""One run as tables and as JSON: its result, its visits, its validity, its trust."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from longplay.cli.score_tables import shipped_to_json, show_score
from longplay.contract.config import RunConfig
from longplay.contract.documents import ProbeRecord, TuningRecord
from longplay.contract.files import read_document
from longplay.contract.rundir import RunDirectory, list_changed
from longplay.lab.analysis.intervals import standard_error
from longplay.scoring.baselines import RandomBaseline, random_baseline
from longplay.scoring.prediction_baselines import prediction_baselines
from longplay.tables import (
    TextTable,
    Value,
    count,
    format_number,
    make_cell,
    make_facts,
)
from longplay.tracks.catalogue import track_of

if TYPE_CHECKING:
    from rich.padding import Padding

    from longplay.tracks.base import Explanation
    from longplay.validation import Report

# Of a table; `show --json` has all. The longest suite of the catalogue has 24.
_MOST_VISITS = 500


def show_run(run: RunDirectory) -> list[RenderableType]:
    """The result of a run."""
    if run.score is not None:
        return [*show_score(run.score, run.config)]
    if run.config.is_tuning:
        return [_show_tuning(run)]
    if run.config.probe is not None:
        return [_show_probe(run)]
    why: str = run.status.state if run.status else "no status"
    if not run.config.is_longplay:
        why = "run of another tool; score it with `longplay score`"
    return [Text(f"{run.path.name}: not scored ({why})", "yellow")]


def _show_probe(run: RunDirectory) -> RenderableType:
    """The result of a probe: its games, each a mean over branches."""
    path, probe = run.path / "probe.json", run.config.probe
    assert probe is not None
    title = f"{run.path.name}: probe of {probe.of.suite}, seed {probe.of.seed}"
    if not path.is_file():
        return Text(f"{title}, no result", "yellow")
    found: dict[str, list[float]] = {}
    for branch in read_document(path, ProbeRecord).branches:
        values = found.setdefault(branch.game_id, [])
        values += [] if branch.x is None else [branch.x]
    rows = [
        (game, len(x), statistics.fmean(x) if x else None, standard_error(x))
        for game, x in found.items()
    ]
    columns = ("game", "branches", "mean", "standard error")
    return TextTable.of(title, columns, rows)


def _show_tuning(run: RunDirectory) -> Text:
    """The result of a tuning run."""
    path = run.path / "tuning.json"
    frames = count(run.config.total_frames, track_of(run.config).frame_noun)
    played = f"{run.path.name}: tuning run, {frames}"
    if not path.is_file():
        return Text(f"{played}, no result", "yellow")
    found = read_document(path, TuningRecord)
    if found.value is None:
        return Text(f"{played}, no value: {found.reason}", "yellow")
    units = " and ".join(dict.fromkeys(found.units.values()))
    games = count(len(found.per_game), "game")
    return Text(f"{played}, {units} {found.value:.4g} (mean of {games})")


def show_details(run: RunDirectory) -> list[RenderableType]:
    """What `show` adds: the visits, the agent's metrics and the provenance."""
    return [Text(), _table_visits(run), *_show_metrics(run), _provenance(run)]


def _table_visits(run: RunDirectory) -> TextTable:
    unit = track_of(run.config).frame_noun
    played = {v.visit_idx: v for v in run.summary.visits} if run.summary else {}
    schedule = run.config.played_schedule
    rows: list[list[Value]] = []
    for visit, frames in zip(schedule[:_MOST_VISITS], _count_frames(run), strict=False):
        planned = visit.visit_frames
        done = f"{frames:,}" + ("" if frames == planned else f"/{planned:,}")
        place = (visit.visit_idx, visit.cycle_idx, visit.game_id, done)
        if (seen := played.get(visit.visit_idx)) is not None:
            rate = seen.reward_sum / seen.frames if seen.frames else None
            reward, time = f"{seen.reward_sum:g}", f"{seen.wall_time_s:.1f}"
            rows.append([*place, reward, rate, seen.episodes, time])
        else:
            unknown = [None] * 4 if frames else []
            rows.append([make_cell(value, "dim") for value in (*place, *unknown)])
    heads = ("visit", "cycle", "game", f"{unit}s", "reward", f"per {unit}", "episodes")
    table = TextTable.of("visits", (*heads, "s"), rows, names=0, texts=(2,))
    if (more := len(schedule) - _MOST_VISITS) > 0:
        return replace(table, notes=(f"… and {count(more, 'more visit')}",))
    return table


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
    rows: list[list[Value]] = [
        [v.visit_idx, v.game_id, *(format_number(v.metrics.get(n)) for n in names)]
        for v in visits[:_MOST_VISITS]
    ]
    title, columns = "metrics of the agent", ("visit", "game", *heads)
    return [Text(), TextTable.of(title, columns, rows, names=2)]


def _provenance(run: RunDirectory) -> Padding:
    config = run.config
    rows = [("run", str(run.path))]
    if (status := run.status) is not None:
        at = f"{status.frame:,}/{status.frames_total:,}"
        rows.append(("state", f"{status.state}, {track_of(config).frame_noun} {at}"))
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
        "random": baseline and _baseline_to_json(baseline),
        "baselines": _predictors_to_json(run.config),
        "results": shipped_to_json(run.config),
    }


def _predictors_to_json(config: RunConfig) -> dict[str, Any] | None:
    found = prediction_baselines(config.suite, config.reference_sha256)
    return {baseline.name: asdict(baseline) for baseline in found} or None


def _baseline_to_json(baseline: RandomBaseline) -> dict[str, Any]:
    document = {
        "suite": baseline.suite_id,
        "seeds": baseline.seeds,
        "final_score": baseline.final_score,
        "rates": baseline.rates,
        "scores": baseline.scores,
    }
    if baseline.totals:
        document["cumulative_reward"] = baseline.cumulative_reward
        document["cumulative_game_score"] = baseline.cumulative_game_score
        document["totals"] = {g: asdict(found) for g, found in baseline.totals.items()}
    return document


# --- validation -----------------------------------------------------------------


def report_line(report: Report) -> Text:
    """The result of a validation in one line."""
    if report.is_valid:
        kind = "valid run of another tool" if report.findings.is_foreign else "valid"
        return Text(f" ✓ {kind}: {count(report.frames, 'row')} checked", "green")
    findings = count(sum(report.findings.counts.values()), "finding")
    return Text(f" ✗ not valid: {findings}", "bold red")


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
        rows = [
            (number, kind, "\n".join(str(f) for f in shown if f.kind == kind))
            for kind, number in counts.most_common()
        ]
        if rows:
            columns = ("count", "kind", "first found at")
            parts.append(TextTable.of(title, columns, rows, names=0, texts=(1, 2)))
    return parts


def show_explanation(game_id: str, explanation: Explanation) -> list[RenderableType]:
    """How a game's numbers are computed, as a table."""
    rows = [
        [_explain_cell(row[key]) for key in explanation.headings]
        for row in explanation.rows
    ]
    columns = tuple(explanation.headings.values())
    table = TextTable.of(f"how {game_id} is scored", columns, rows)
    return [Text(), replace(table, notes=(explanation.rule,))]


def _explain_cell(value: Any) -> str | int:
    is_plain = isinstance(value, (str, int))
    return value if is_plain else format_number(value, digits=6)


# --- trust ----------------------------------------------------------------------


def trust_to_json(run: RunDirectory, sha256: Mapping[str, str]) -> dict[str, Any]:
    """The trust level of a run as JSON."""
    record = run.verification
    return {
        "verification": record and record.model_dump(mode="json"),
        "changed_since": list_changed(record, sha256) if record else [],
    }


def trust_line(run: RunDirectory, sha256: Mapping[str, str]) -> Text:
    """The trust level of a run.

    Args:
        run: The run, with its verification.json.
        sha256: The current hashes of its files, compared with the verified ones.
    """
    record = run.verification
    if not run.config.is_longplay:
        text = " claimed: a run of another tool, which cannot be replayed"
        return Text(text, "dim")
    if record is None:
        return Text(" claimed: not verified yet (`longplay verify`)", "dim")
    if changed := list_changed(record, sha256):
        text = f" claimed: changed since it was verified: {', '.join(changed)}"
        return Text(text, "bold red")
    if not record.passed:
        why = record.first_difference or ", ".join(record.findings)
        return Text(f" claimed: verification failed: {why}", "bold red")
    frames = count(record.frames, track_of(run.config).frame_noun)
    by = f"longplay {record.versions.get('longplay')}"
    return Text(f" {record.level}: {frames}, by {by}", "green")


def pack_line(path: Path, size_bytes: int, run_bytes: int) -> Text:
    """`run.longplay: 164,210 bytes for a run of 330,000,000 (1 : 2,009)`."""
    ratio = round(run_bytes / size_bytes)
    return Text(
        f" {path}: {size_bytes:,} bytes for a run of {run_bytes:,} (1 : {ratio:,})",
        "dim",
    )
