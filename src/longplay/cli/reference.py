"""`longplay reference show`: the reference policies of the prediction track."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.table import Table

from longplay.cli.guard import (
    Command,
    CommandGroup,
    Json,
    guard,
    print_json,
    print_tables,
)
from longplay.cli.layout import add_row, make_table

if TYPE_CHECKING:
    from longplay.reference.facts import ReferenceFacts

reference_app = typer.Typer(
    cls=CommandGroup,
    help="Show the reference policies and values of the prediction track.",
    no_args_is_help=True,
)


@reference_app.callback()
def reference() -> None:
    """Keeps `show` a command of its own."""


@reference_app.command("show", cls=Command)
@guard
def show(as_json: Json = False) -> None:
    """Show the shipped references."""
    from longplay.reference.library import read_all_facts

    facts = read_all_facts()
    if as_json:
        print_json([entry.model_dump(mode="json") for entry in facts])
    else:
        print_tables(references_table(facts))


def references_table(references: list[ReferenceFacts]) -> Table:
    """One row per game: the score of the policy and the accuracy of its values."""
    from longplay.reference.facts import describe_r2

    columns = ("game", "score", "random", "value std", "RMSE", "R²", "rollout R²")
    table = make_table("Reference policies and values", *columns)
    for facts in references:
        audit = facts.audit.summary
        add_row(
            table,
            facts.game,
            facts.policy.score.describe(),
            facts.policy.random_score.describe(),
            f"{audit.value_std:.3f}",
            f"{audit.rmse_corrected:.3f}",
            describe_r2(audit.r2_corrected),
            describe_r2(facts.rollouts.audit.r2 if facts.rollouts else None),
        )
    return table
