"""What all tables have in common."""

from __future__ import annotations

from rich.console import Console

from longplay.cli.layout import add_row, make_table


def test_a_title_may_be_wider_than_its_table() -> None:
    table = make_table(
        "a suite, a seed, and an agent with a long name", "game", "score"
    )
    add_row(table, "pong", "21")
    console = Console(width=60)
    with console.capture() as capture:
        console.print(table)
    assert [line.strip() for line in capture.get().splitlines()] == [
        "a suite, a seed, and an agent with a long name",
        "game  score",
        "pong     21",
    ]
