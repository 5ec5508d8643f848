"""What every command shares: how it prints, and how its errors end it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from longplay.errors import LongplayError, RunCancelled


def print_json(document: Any) -> None:
    """Prints one JSON document on standard output."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_tables(*renderables: RenderableType) -> None:
    """Prints what is meant for people."""
    console = Console()
    for renderable in renderables:
        console.print(renderable)


def print_error(error: LongplayError, as_json: bool) -> None:
    """Prints an error, as JSON on standard output if that is what was asked for."""
    if as_json:
        where = {"run_dir": str(error.run_dir)} if error.run_dir else {}
        entry = {"type": type(error).__name__, "message": str(error), **where}
        print_json({"error": entry})
        return
    message = Text.assemble(("error: ", "bold red"), str(error))
    if error.run_dir is not None:
        message.append(f"\nwhat was recorded: {error.run_dir}")
    Console(stderr=True).print(message, soft_wrap=True)


def guard(function: Callable[..., None]) -> Callable[..., None]:
    """A command whose errors become a message and an exit code."""

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except LongplayError as error:
            print_error(error, bool(kwargs.get("as_json")))
            raise typer.Exit(error.exit_code) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(RunCancelled.exit_code) from error

    return guarded
