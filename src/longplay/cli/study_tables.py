"""Studies as tables and as JSON: the plan, the progress, the results, the checks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from longplay.cli.catalogue import plan_cost
from longplay.cli.experiment_tables import (
    STATE_STYLES,
    describe_failures,
    describe_other_process,
    headlines_of,
)
from longplay.cli.toolkit import error_to_json, print_runs, print_tables
from longplay.contract.names import describe_args
from longplay.errors import IncompleteRunError, LongplayError, NotARunError
from longplay.lab.analysis.intervals import Estimate, estimate_mean
from longplay.runs.progress import format_seconds
from longplay.tables import (
    TextTable,
    Value,
    count,
    format_number,
    indent,
    make_cell,
    make_facts,
)
from longplay.tracks.catalogue import track_of

if TYPE_CHECKING:
    from longplay.lab.studies.directory import StudyDirectory
    from longplay.lab.studies.plan import Cell
    from longplay.lab.studies.study import StudyResult
    from longplay.runs.status import RunView

_SHOWN_ERRORS = 10


def _nouns_of(study: StudyDirectory) -> str:
    """`frames`, `timesteps`, or both where the study has suites of both."""
    configs = [study.plans_of(cell)[0].config for cell in study.plan.cells]
    return "/".join(sorted({f"{track_of(config).frame_noun}s" for config in configs}))


def _part_of(cell: Cell) -> str:
    """Which part of the study a cell belongs to."""
    return "tuning" if cell.is_tuning else "result"


def _cell_to_json(cell: Cell, args: Mapping[str, Any] | None) -> dict[str, Any]:
    return {
        "folder": cell.folder,
        "part": _part_of(cell),
        "agent": cell.agent,
        "suite": cell.suite,
        "args": args,
    }


def _args_cell(args: Mapping[str, Any] | None) -> Value:
    if args is None:
        return make_cell("waits for tuning", "dim")
    return describe_args(args)


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
                **_cell_to_json(cell, cell.args),
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
    table = TextTable.of_items(
        f"study {study.plan.name}",
        study.plan.all_cells,
        ("part", _part_of),
        ("agent", lambda cell: cell.agent),
        ("suite", lambda cell: cell.suite),
        ("arguments", _describe_planned_args),
        ("runs", lambda cell: len(cell.seeds)),
        (_nouns_of(study), lambda cell: _cost_of(study, cell)["frames"]),
        names=3,
        texts=(3,),
    )
    total = _add_costs(study)
    hours = total["expected_seconds"] / workers / 3600
    time = f"about {hours:,.2g} h on {count(workers, 'worker')}"
    facts = make_facts(
        ("cells", f"{total['cells']:,}"),
        ("runs", f"{total['runs']:,}"),
        (_nouns_of(study), f"{total['frames']:,}"),
        ("time", f"{time}; plus the agents' own computation"),
        ("disk", f"about {total['expected_bytes'] / 1e6:,.0f} MB"),
        ("folder", str(study.path)),
    )
    note = study.plan.describe_seeds()
    notes = ("dry run: nothing was written", *([] if note is None else [note]))
    return [table, facts, *(Text(text, "dim") for text in notes)]


def _describe_planned_args(cell: Cell) -> str:
    return "chosen by tuning" if cell.candidates else describe_args(cell.args)


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
                **_cell_to_json(cell, study.read_args(cell)),
                "runs": [view.to_json() for view in views[cell.folder]],
            }
            for cell in study.plan.all_cells
        ],
    }


def show_status(study: StudyDirectory, views: Mapping[str, Sequence[RunView]]) -> Group:
    """One row per cell, the totals, and the first errors."""
    rows = []
    for cell in study.plan.all_cells:
        progress = _Progress.add_up(views[cell.folder])
        rows.append(
            (
                _part_of(cell),
                cell.agent,
                cell.suite,
                _args_cell(study.read_args(cell)),
                make_cell(progress.runs, _style_of(progress)),
                progress.others,
                progress.share,
                f"{progress.fps:,.0f}" if progress.fps else "",
            )
        )
    played = _nouns_of(study)
    columns = ("part", "agent", "suite", "arguments", "runs", "", played, "fps")
    title = f"study {study.plan.name}"
    table = TextTable.of(title, columns, rows, names=3, texts=(3, 5))
    total = _Progress.add_up([view for found in views.values() for view in found])
    parts = (
        f"{total.runs} runs complete",
        total.others,
        f"{total.share} of the {played}",
        f"{total.time_left} left" if total.time_left else "",
    )
    text = " · ".join(filter(None, parts))
    return Group(table, indent(text, "bold"), *_describe_errors(views))


def _style_of(progress: _Progress) -> str:
    for state in ("FAILED", "STALE"):
        if progress.states[state]:
            return STATE_STYLES[state]
    is_complete = progress.states["COMPLETED"] == progress.states.total()
    return STATE_STYLES["COMPLETED"] if is_complete else ""


def _describe_errors(views: Mapping[str, Sequence[RunView]]) -> list[RenderableType]:
    errors = [
        f"{folder} seed {view.plan.seed}: {view.status.error.message}"
        for folder, found in views.items()
        for view in found
        if view.status is not None and view.status.error is not None
    ]
    lines: list[RenderableType] = [indent(e, "red") for e in errors[:_SHOWN_ERRORS]]
    if len(errors) > _SHOWN_ERRORS:
        lines.append(indent(f"… and {len(errors) - _SHOWN_ERRORS} more", "red"))
    return lines


# --- the results --------------------------------------------------------------------


def show_study(study: StudyDirectory) -> list[RenderableType]:
    """What tuning chose, and the result of every cell."""
    tables = [_tuning_table(study)] if study.plan.tuning else []
    notes = [_describe_headlines(study), str(study.path)]
    return [*tables, replace(_results_table(study), notes=tuple(notes))]


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
        else {
            "metric": tuning.metric,
            "rule": tuning.rule,
            "points": [*_iter_points(study)],
        },
        "cells": [_result_to_json(study, cell) for cell in study.plan.cells],
    }


def _result_to_json(study: StudyDirectory, cell: Cell) -> dict[str, Any]:
    views = study.view(cell)
    headline = track_of(views[0].plan.config).headline
    estimate = estimate_mean(headlines_of(views))
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


def _tuning_table(study: StudyDirectory) -> TextTable:
    tuning = study.plan.tuning
    assert tuning is not None
    return TextTable.of_items(
        f"tuning: {tuning.metric} over {tuning.fraction:.0%} of the stream",
        _iter_points(study),
        ("agent", lambda point: point["agent"]),
        ("suite", lambda point: point["suite"]),
        ("arguments", lambda point: describe_args(point["args"])),
        ("seeds", lambda point: len(tuning.seeds)),
        ("value", _describe_point),
        ("", lambda point: make_cell("chosen" if point["chosen"] else "", "green")),
        names=2,
        texts=(2, 5),
    )


def _describe_point(point: Mapping[str, Any]) -> str:
    """The value of a point of a grid; `…` until all its runs have ended."""
    if point["values"] is None:
        return "…"
    return "excluded" if point["value"] is None else format_number(point["value"])


def _results_table(study: StudyDirectory) -> TextTable:
    columns = ["agent", "suite", "arguments", "runs", "mean", "95 % interval"]
    columns += ["tuning"] * (study.plan.tuning is not None)
    rows = []
    for cell in study.plan.cells:
        views = study.view(cell)
        estimate = estimate_mean(headlines_of(views))
        tuning_frames = study.count_tuning_frames(cell)
        row: list[Value] = [cell.agent, cell.suite, _args_cell(study.read_args(cell))]
        row += [_Progress.add_up(views).runs, estimate.mean if estimate else None]
        row.append(_describe_interval(estimate))
        rows.append(row + [tuning_frames] * bool(tuning_frames))
    return TextTable.of(f"study {study.plan.name}", columns, rows, names=2, texts=(2,))


def _describe_interval(estimate: Estimate | None) -> str:
    if estimate is None or estimate.low is None:
        return ""
    return f"{format_number(estimate.low)} … {format_number(estimate.high)}"


def describe_rest(result: StudyResult) -> list[RenderableType]:
    """What still needs attention after the study was played."""
    lines = describe_failures(
        (f"{cell.folder} seed {run.seed}", run) for cell, run in result.results
    )
    lines += result.problems
    lines += [
        describe_other_process(str(view.run_dir), view.status, "run this command again")
        for view in result.unfinished
        if view.status is not None and not view.is_pending
    ]
    if result.left:
        lines.append(f"{count(result.left, 'run')} left for other processes")
    if result.waiting:
        lines.append(
            "arguments are chosen when all tuning runs are complete; run this command "
            "again then"
        )
    return [indent(line, "yellow") for line in lines]


# --- the checks ---------------------------------------------------------------------


@dataclass(frozen=True)
class Check:
    """The result of checking one run.

    Attributes:
        text: The result in a few words.
        frames: How many rows were checked; None if it could not be checked.
        document: The result as JSON.
        details: What to print of a run that did not pass.
        exit_code: 0 if it passed.
    """

    text: str
    frames: int | None
    document: dict[str, Any]
    details: Sequence[RenderableType]
    exit_code: int

    @classmethod
    def of_error(cls, run_dir: Path, error: LongplayError) -> Check:
        """Of a run that cannot be checked."""
        document = {"run_dir": str(run_dir), **error_to_json(error)}
        details = (Text(str(run_dir), "dim"), Text(f" {error}", "red"))
        return cls("cannot be checked", None, document, details, error.exit_code)


def check_study(
    directory: Path, check_run: Callable[[Path], Check], *, as_json: bool
) -> None:
    """Checks every run of a study that was started, and prints one table.

    Exits with 1 if a run did not pass, or with the code of an error that kept one from
    being checked.
    """
    from longplay.lab.studies.directory import read_study

    study = read_study(directory)
    runs = _list_started(study)
    checks = [_try_check(check_run, run_dir) for _, run_dir in runs]
    if as_json:
        print_runs([check.document for check in checks])
    else:
        names = [names for names, _ in runs]
        print_tables(*_show_checks(study, names, checks))
        for check in checks:
            print_tables(*(check.details if check.exit_code else ()))
    if exit_code := max(check.exit_code for check in checks):
        raise typer.Exit(exit_code)


def _try_check(check_run: Callable[[Path], Check], run_dir: Path) -> Check:
    try:
        return check_run(run_dir)
    except LongplayError as error:  # the other runs can still be checked
        return Check.of_error(run_dir, error)


def _list_started(study: StudyDirectory) -> list[tuple[tuple[str, ...], Path]]:
    """Names and directory of every run that was started; those of tuning first."""
    found: list[tuple[tuple[str, ...], Path]] = []
    for cell in study.plan.all_cells:
        args = describe_args(study.read_args(cell) or {})
        names = _part_of(cell), cell.agent, cell.suite, args
        found += [
            ((*names, str(view.plan.seed)), view.run_dir)
            for view in study.view(cell)
            if view.status is not None
        ]
    if not found:
        raise NotARunError(
            f"{study.path}: expected a study with runs, found none that was started"
        )
    return found


def _show_checks(
    study: StudyDirectory, names: Sequence[tuple[str, ...]], checks: Sequence[Check]
) -> list[RenderableType]:
    """One row per run, and the totals."""
    rows = [
        (*row, check.frames, make_cell(check.text, _check_style(check.exit_code == 0)))
        for row, check in zip(names, checks, strict=True)
    ]
    columns = ("part", "agent", "suite", "arguments", "seed", "rows", "result")
    title = f"study {study.plan.name}"
    table = TextTable.of(title, columns, rows, names=3, texts=(3, 6))
    passed = sum(check.exit_code == 0 for check in checks)
    planned = sum(len(cell.seeds) for cell in study.plan.all_cells)
    text = f"{passed} of {count(len(checks), 'run')} passed"
    if missing := planned - len(checks):
        text += f"; {count(missing, 'planned run')} not started"
    return [table, indent(text, _check_style(passed == len(checks)))]


def _check_style(passed: bool) -> str:
    return "green" if passed else "bold red"
