"""Studies as tables and as JSON: the plan, the progress, the results."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from longplay.cli.catalogue_tables import plan_cost
from longplay.cli.experiment_tables import headlines_of
from longplay.cli.layout import add_row, format_number, make_facts, make_table
from longplay.cli.progress import format_seconds
from longplay.errors import IncompleteRunError
from longplay.tracks.catalogue import track_of

if TYPE_CHECKING:
    from longplay.lab.analysis.intervals import Estimate
    from longplay.lab.studies.directory import StudyDirectory
    from longplay.lab.studies.plan import Cell
    from longplay.lab.studies.study import StudyResult
    from longplay.runs.status import RunView

_SHOWN_ERRORS = 10
_STATE_STYLES = {"COMPLETED": "green", "FAILED": "red", "STALE": "red"}


def describe_args(args: Mapping[str, Any]) -> str:
    """`epsilon=0.1 hidden=32`."""
    return " ".join(f"{name}={json.dumps(value)}" for name, value in args.items())


def part_of(cell: Cell) -> str:
    """Which part of the study a cell belongs to."""
    return "tuning" if cell.is_tuning else "result"


def _indent(text: str, style: str) -> Padding:
    return Padding(Text(text, style), (0, 0, 0, 1))


# --- the plan -----------------------------------------------------------------------


def _cost_of(study: StudyDirectory, cell: Cell) -> dict[str, float]:
    """Frames, seconds and bytes of all runs of a cell."""
    total: Counter[str] = Counter()
    for plan in study.plans_of(cell):
        total.update(plan_cost(plan))
    return {"runs": len(cell.seeds), **total}


def _add_costs(study: StudyDirectory) -> dict[str, float]:
    total: Counter[str] = Counter()
    for cell in study.plan.all_cells:
        total.update(_cost_of(study, cell))
    return {"cells": len(study.plan.all_cells), **total}


def plan_to_json(study: StudyDirectory, workers: int) -> dict[str, Any]:
    """The plan of a study as JSON."""
    total = _add_costs(study)
    return {
        "study": study.plan.name,
        "study_dir": str(study.path),
        "cells": [
            {
                "folder": cell.folder,
                "part": part_of(cell),
                "agent": cell.agent,
                "suite": cell.suite,
                "args": cell.args,
                "seeds": list(cell.seeds),
                **_cost_of(study, cell),
            }
            for cell in study.plan.all_cells
        ],
        "total": {
            **total,
            "workers": workers,
            "expected_hours": total["expected_seconds"] / workers / 3600,
        },
    }


def show_plan(study: StudyDirectory, workers: int) -> list[RenderableType]:
    """The cells of a study, and what they cost."""
    table = make_table(
        f"study {study.plan.name}",
        *("part", "agent", "suite", "arguments", "runs", "frames"),
        left=(0, 1, 2, 3),
    )
    for cell in study.plan.all_cells:
        args = "chosen by tuning" if cell.candidates else describe_args(cell.args)
        cost = _cost_of(study, cell)
        names = part_of(cell), cell.agent, cell.suite, args
        add_row(table, *names, f"{cost['runs']:,}", f"{cost['frames']:,}")
    total = _add_costs(study)
    seconds = total["expected_seconds"] / workers
    one = "1 worker" if workers == 1 else f"{workers} workers"
    facts = make_facts(
        ("cells", f"{total['cells']:,}"),
        ("runs", f"{total['runs']:,}"),
        ("frames", f"{total['frames']:,}"),
        (
            "time",
            f"about {seconds / 3600:,.2g} h on {one}; plus the agents' own computation",
        ),
        ("disk", f"about {total['expected_bytes'] / 1e6:,.0f} MB"),
        ("folder", str(study.path)),
    )
    return [table, facts, Text("dry run: nothing was written", "dim")]


# --- the progress -------------------------------------------------------------------


@dataclass(frozen=True)
class _Progress:
    """The runs of a cell, or of several, added up."""

    states: Counter[str]
    frames: int
    frames_total: int
    fps: float

    @classmethod
    def add_up(cls, views: Sequence[RunView]) -> _Progress:
        return cls(
            Counter(view.state for view in views),
            sum(view.status.frame for view in views if view.status),
            sum(view.plan.config.total_frames for view in views),
            sum(
                view.status.fps or 0.0
                for view in views
                if view.status and view.state == "RUNNING"
            ),
        )

    @property
    def runs(self) -> str:
        return f"{self.states['COMPLETED']}/{self.states.total()}"

    @property
    def others(self) -> str:
        """`2 running, 1 failed`."""
        states = ("RUNNING", "FAILED", "STALE", "CANCELLED")
        return ", ".join(
            f"{self.states[state]} {state.lower()}"
            for state in states
            if self.states[state]
        )

    @property
    def share(self) -> str:
        return f"{self.frames / self.frames_total:.0%}"

    @property
    def time_left(self) -> str:
        if not self.fps:
            return ""
        return format_seconds((self.frames_total - self.frames) / self.fps)


def view_cells(study: StudyDirectory) -> dict[str, list[RunView]]:
    """Folder of a cell -> the progress of its runs."""
    return {cell.folder: study.view(cell) for cell in study.plan.all_cells}


def status_to_json(
    study: StudyDirectory, views: Mapping[str, Sequence[RunView]]
) -> dict[str, Any]:
    """The progress of a study as JSON."""
    return {
        "study": study.plan.name,
        "study_dir": str(study.path),
        "states": _Progress.add_up([v for vs in views.values() for v in vs]).states,
        "cells": [
            {
                "folder": cell.folder,
                "part": part_of(cell),
                "agent": cell.agent,
                "suite": cell.suite,
                "args": study.read_args(cell),
                "runs": [_view_to_json(view) for view in views[cell.folder]],
            }
            for cell in study.plan.all_cells
        ],
    }


def _view_to_json(view: RunView) -> dict[str, Any]:
    status = view.status
    return {
        "seed": view.plan.seed,
        "state": view.state,
        "frame": status.frame if status else 0,
        "frames_total": view.plan.config.total_frames,
        "game_id": status and status.game_id,
        "fps": status and status.fps,
        "heartbeat_utc": status and status.heartbeat_utc,
        "retries": status.retries if status else 0,
        "error": status.error.model_dump() if status and status.error else None,
    }


def show_status(study: StudyDirectory, views: Mapping[str, Sequence[RunView]]) -> Group:
    """One row per cell, the totals, and the first errors."""
    table = make_table(
        f"study {study.plan.name}",
        *("part", "agent", "suite", "arguments", "runs", "", "frames", "fps"),
        left=(0, 1, 2, 3, 5),
    )
    for cell in study.plan.all_cells:
        progress = _Progress.add_up(views[cell.folder])
        args = study.read_args(cell)
        add_row(
            table,
            part_of(cell),
            cell.agent,
            cell.suite,
            Text("waits for tuning", "dim") if args is None else describe_args(args),
            Text(progress.runs, _style_of(progress)),
            progress.others,
            progress.share,
            f"{progress.fps:,.0f}" if progress.fps else "",
        )
    total = _Progress.add_up([view for found in views.values() for view in found])
    parts = (
        f"{total.runs} runs complete",
        total.others,
        f"{total.share} of the frames",
    )
    left = f"{total.time_left} left" if total.time_left else ""
    words = " · ".join(filter(None, (*parts, left)))
    return Group(table, _indent(words, "bold"), *_describe_errors(study, views))


def _style_of(progress: _Progress) -> str:
    for state in ("FAILED", "STALE"):
        if progress.states[state]:
            return _STATE_STYLES[state]
    is_complete = progress.states["COMPLETED"] == progress.states.total()
    return _STATE_STYLES["COMPLETED"] if is_complete else ""


def _describe_errors(
    study: StudyDirectory, views: Mapping[str, Sequence[RunView]]
) -> list[RenderableType]:
    errors = [
        f"{folder} seed {view.plan.seed}: {view.status.error.message}"
        for folder, found in views.items()
        for view in found
        if view.status is not None and view.status.error is not None
    ]
    lines: list[RenderableType] = [_indent(e, "red") for e in errors[:_SHOWN_ERRORS]]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(_indent(f"… and {len(errors) - _SHOWN_ERRORS} more", "red"))
    return lines


# --- the results --------------------------------------------------------------------


def show_study(study: StudyDirectory) -> list[RenderableType]:
    """What tuning chose, and the result of every cell."""
    tables = [_tuning_table(study)] if study.plan.tuning else []
    notes = [_describe_headlines(study), str(study.path)]
    return [*tables, _results_table(study), *(_indent(note, "dim") for note in notes)]


def _describe_headlines(study: StudyDirectory) -> str:
    """`mean: final score on the streaming track, …`."""
    tracks = [track_of(study.plans_of(cell)[0].config) for cell in study.plan.cells]
    names = {track.name: track.headline.replace("_", " ") for track in tracks}
    parts = (f"{headline} on the {name} track" for name, headline in names.items())
    return f"mean: {', '.join(parts)}"


def study_to_json(study: StudyDirectory) -> dict[str, Any]:
    """Choices and results of a study as JSON."""
    tuning = study.plan.tuning
    return {
        "study": study.plan.name,
        "study_dir": str(study.path),
        "file_sha256": study.plan.file_sha256,
        "tuning": None
        if tuning is None
        else {"metric": tuning.metric, "rule": tuning.rule, "points": _points(study)},
        "cells": [_result_to_json(study, cell) for cell in study.plan.cells],
    }


def _result_to_json(study: StudyDirectory, cell: Cell) -> dict[str, Any]:
    views = study.view(cell)
    headline = track_of(views[0].plan.config).headline
    estimate = _estimate(views)
    return {
        "folder": cell.folder,
        "agent": cell.agent,
        "suite": cell.suite,
        "args": study.read_args(cell),
        "tuning_frames": study.count_tuning_frames(cell),
        "states": Counter(view.state for view in views),
        "headline": headline,
        "estimate": None if estimate is None else estimate.model_dump(mode="json"),
    }


def _estimate(views: Sequence[RunView]) -> Estimate | None:
    from longplay.lab.analysis.intervals import estimate_mean

    return estimate_mean(headlines_of(views))


def _points(study: StudyDirectory) -> list[dict[str, Any]]:
    """Every point of every grid, with its value and whether it was chosen."""
    return list(_iter_points(study))


def _iter_points(study: StudyDirectory) -> Iterator[dict[str, Any]]:
    for cell in study.plan.cells:
        chosen, values = None, {}
        if cell.candidates and (points := study.read_points(cell)) is not None:
            values = {point.name: point for point in points}
            try:
                chosen = study.find_choice(cell)
            except IncompleteRunError:
                chosen = None
        for candidate in study.candidates_of(cell):
            point = values.get(candidate.folder)
            yield {
                "folder": candidate.folder,
                "agent": cell.agent,
                "suite": cell.suite,
                "args": candidate.args,
                "values": None if point is None else list(point.values),
                "value": None if point is None else point.value,
                "chosen": candidate == chosen,
            }


def _tuning_table(study: StudyDirectory) -> Table:
    tuning = study.plan.tuning
    assert tuning is not None
    title = f"tuning: {tuning.metric} over {tuning.fraction:.0%} of the stream"
    columns = ("agent", "suite", "arguments", "seeds", "value", "")
    table = make_table(title, *columns, left=(0, 1, 2, 5))
    for point in _iter_points(study):
        is_ended = point["values"] is not None
        value = format_number(point["value"]) if is_ended else "…"
        add_row(
            table,
            point["agent"],
            point["suite"],
            describe_args(point["args"]),
            str(len(tuning.seeds)),
            value if point["value"] is not None or not is_ended else "excluded",
            Text("chosen", "green") if point["chosen"] else "",
        )
    return table


def _results_table(study: StudyDirectory) -> Table:
    columns = ["agent", "suite", "arguments", "runs", "mean", "95 % interval"]
    columns += ["tuning"] * (study.plan.tuning is not None)
    table = make_table(f"study {study.plan.name}", *columns, left=(0, 1, 2))
    for cell in study.plan.cells:
        views = study.view(cell)
        args, estimate = study.read_args(cell), _estimate(views)
        interval = ""
        if estimate is not None and estimate.low is not None:
            low, high = format_number(estimate.low), format_number(estimate.high)
            interval = f"{low} … {high}"
        add_row(
            table,
            cell.agent,
            cell.suite,
            Text("waits for tuning", "dim") if args is None else describe_args(args),
            _Progress.add_up(views).runs,
            format_number(None if estimate is None else estimate.mean),
            interval,
            *([f"{frames:,}"] if (frames := study.count_tuning_frames(cell)) else []),
        )
    return table


def describe_rest(result: StudyResult) -> list[RenderableType]:
    """What still needs attention after the study was played."""
    lines = [
        f"{cell.folder} seed {run.seed}: {run.error}"
        for cell, run in result.results
        if run.error is not None
    ]
    lines += [
        f"{cell.folder} seed {run.seed}: invalid; run `longplay validate` on its folder"
        for cell, run in result.results
        if run.is_valid is False
    ]
    lines += result.problems
    lines += [
        f"{view.run_dir}: in progress in another process ({view.status.host}, pid "
        f"{view.status.pid}); if that died, run this command again with a lower "
        "--stall-timeout"
        for view in result.unfinished
        if view.status is not None and not view.is_pending
    ]
    if result.left:
        are = "run is" if result.left == 1 else "runs are"
        lines.append(f"{result.left} {are} left for other processes")
    if result.waiting:
        lines.append(
            "arguments are chosen when all tuning runs are complete; run this command "
            "again then"
        )
    return [_indent(line, "yellow") for line in lines]
