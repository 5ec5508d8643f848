"""Commands that create files to start from: new-agent."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from longplay.cli.guard import check_output, print_tables


def new_agent(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.py", help="File to create; never overwritten."),
    ],
    template: Annotated[
        str,
        typer.Option(help="control, streaming, prediction, torch, stream-q or dqn."),
    ] = "control",
) -> None:
    """Write a template for your own agent."""
    from longplay.learners.templates import write_template

    check_output("FILE.py", file)
    write_template(template, file)
    print_tables(Text(f"wrote {file}; next: longplay check-agent {file}"))
