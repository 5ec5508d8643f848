"""Commands that make something to start from: new-agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from longplay.cli.guard import print_tables


def new_agent(
    file: Annotated[
        Path, typer.Argument(metavar="FILE.py", help="File to make; never overwritten.")
    ],
    template: Annotated[
        str,
        typer.Option(help="control, streaming, prediction, stream-q or dqn."),
    ] = "control",
) -> None:
    """Write a starting file for an agent of your own."""
    from longplay.learners.templates import write_template

    write_template(template, file)
    print_tables(Text(f"{file} is written; next: longplay check-agent {file}"))
