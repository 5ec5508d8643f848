"""The result of an export; agents, tasks and models of an atlas."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from longplay.cli.layout import add_row, format_number, make_table

if TYPE_CHECKING:
    from longplay.eval_log.export import Exported
    from longplay.lab.atlas.atlas import Atlas
    from longplay.lab.atlas.eee import ExportedFiles

_MOST_ROWS = 20


def export_to_json(
    jsonl: Path | None,
    level: str,
    exported: Exported | None,
    log: Path | None,
    files: ExportedFiles | None,
) -> dict[str, Any]:
    """The result of an export."""
    told: dict[str, Any] = {"level": level}
    if exported is not None:
        told["jsonl"] = str(jsonl)
        told["records"] = exported.lines
        told["errored"] = exported.errored
        told["no_evidence"] = list(exported.no_evidence)
    if log is not None:
        told["log"] = str(log)
    if files is not None:
        told["eee"] = {
            "aggregate": str(files.aggregate),
            "samples": str(files.samples),
            "rows": files.rows,
            "errored": files.errored,
        }
    return told


def show_export(
    jsonl: Path | None,
    exported: Exported | None,
    log: Path | None,
    files: ExportedFiles | None,
    completed_only: bool,
) -> Iterator[RenderableType]:
    """The result of an export, with the runs that have an error or no evidence."""
    if exported is not None:
        yield Text(f"{_count(exported.lines, 'record')} -> {jsonl}")
        yield from _show_errored(exported.errored, completed_only)
        yield from _show_no_evidence(exported.no_evidence)
    if log is not None:
        yield Text(f"log -> {log}")
    if files is not None:
        yield Text(f"{_count(files.rows, 'sample')} -> {files.samples}")
        yield Text(f"results -> {files.aggregate}")
        yield from _show_errored(files.errored, completed_only)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _show_errored(errored: int, completed_only: bool) -> Iterator[Text]:
    if errored:
        where = "left out" if completed_only else "among them; see error_type"
        yield Text(f"{errored:,} with an error, {where}", "yellow")


def _show_no_evidence(runs: Sequence[str]) -> Iterator[Text]:
    if runs:
        others = "" if len(runs) == 1 else f" and {len(runs) - 1:,} more"
        reason = "no evidence (no digests or hashes, only claimed)"
        yield Text(f"{reason}: {runs[0]}{others}", "yellow")


def show_atlas(atlas: Atlas) -> Iterator[RenderableType]:
    """The best agents, the most difficult tasks, and notes."""
    yield _show_agents(atlas)
    if atlas.rasch is not None:
        yield _show_tasks(atlas)
    for line in _describe(atlas):
        yield Padding(Text(line, "dim"), (0, 0, 0, 1))


def _show_agents(atlas: Atlas) -> RenderableType:
    from longplay.lab.atlas.atlas import list_agents

    matrix = atlas.matrix
    table = make_table(
        f"{_count(len(matrix.agents), 'agent')} × {_count(len(matrix.tasks), 'task')}",
        *("agent", "tasks", "errored", "standardised reward", "ability"),
    )
    for row, _ in zip(list_agents(atlas), range(_MOST_ROWS), strict=False):
        add_row(
            table,
            row["agent"],
            f"{row['tasks']:,}",
            f"{row['errored']:,}" if row["errored"] else "",
            format_number(row["standardised_reward"], 3),
            _format_estimate(row["ability"], row["ability_se"]),
        )
    return table


def _show_tasks(atlas: Atlas) -> RenderableType:
    from longplay.lab.atlas.atlas import list_tasks

    table = make_table("most difficult tasks", "task", "agents", "difficulty")
    for row, _ in zip(list_tasks(atlas), range(_MOST_ROWS), strict=False):
        difficulty = _format_estimate(row["difficulty"], row["difficulty_se"])
        add_row(table, row["task_id"], f"{row['agents']:,}", difficulty)
    return table


def _format_estimate(value: float | None, error: float | None) -> str:
    return "–" if value is None else f"{value:z.2f} ±{error:.2f}"


def _describe(atlas: Atlas) -> Iterator[str]:
    from longplay.lab.atlas.atlas import describe_atlas

    matrix, held_out = atlas.matrix, atlas.held_out
    total = len(matrix.agents) * len(matrix.tasks)
    yield f"{len(matrix.reward):,} of {total:,} entries; ± is the standard error"
    if atlas.response is not None:
        yield f"abilities and difficulties: Rasch model of {atlas.response}, in logits"
    if held_out is not None:
        yield (
            f"held-out error {held_out.model:.3f} deviations; row and column means "
            f"{held_out.baseline:.3f} ({held_out.entries:,} entries)"
        )
    yield from describe_atlas(atlas)
