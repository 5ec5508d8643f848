"""Agents, tasks and models of an atlas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from longplay.cli.layout import add_row, format_number, make_table

if TYPE_CHECKING:
    from longplay.eval_log.atlas import Atlas

_MOST_ROWS = 20


def show_atlas(atlas: Atlas) -> Iterator[RenderableType]:
    """The best agents, the most difficult tasks, and notes."""
    yield _show_agents(atlas)
    if atlas.rasch is not None:
        yield _show_tasks(atlas)
    for line in _describe(atlas):
        yield Padding(Text(line, "dim"), (0, 0, 0, 1))


def _show_agents(atlas: Atlas) -> RenderableType:
    from longplay.eval_log.atlas import list_agents

    matrix = atlas.matrix
    table = make_table(
        f"{len(matrix.agents):,} agents × {len(matrix.tasks):,} tasks",
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
    from longplay.eval_log.atlas import list_tasks

    table = make_table("most difficult tasks", "task", "agents", "difficulty")
    for row, _ in zip(list_tasks(atlas), range(_MOST_ROWS), strict=False):
        difficulty = _format_estimate(row["difficulty"], row["difficulty_se"])
        add_row(table, row["task_id"], f"{row['agents']:,}", difficulty)
    return table


def _format_estimate(value: float | None, error: float | None) -> str:
    return "–" if value is None else f"{value:.2f} ±{error:.2f}"


def _describe(atlas: Atlas) -> Iterator[str]:
    from longplay.eval_log.atlas import describe_atlas

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
