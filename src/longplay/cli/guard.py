"""What every command shares: options, how it prints, how its errors end it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from longplay.errors import LongplayError, RunCancelled

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="An experiment or a run directory.")
]
AgentFilePatterns = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-files",
        metavar="GLOB",
        help="More files of the agent: weights, modules with computed names.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]


def print_json(document: Any) -> None:
    """Prints one JSON document on standard output."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_runs(documents: list[dict[str, Any]]) -> None:
    """One object for one run, a list for an experiment of several."""
    print_json(documents[0] if len(documents) == 1 else documents)


def print_tables(*renderables: RenderableType) -> None:
    """Prints what is meant for people."""
    console = Console()
    for renderable in renderables:
        console.print(renderable)


def error_to_json(error: LongplayError) -> dict[str, Any]:
    """An error for machines."""
    where = {"run_dir": str(error.run_dir)} if error.run_dir else {}
    return {"error": {"type": type(error).__name__, "message": str(error), **where}}


def print_error(error: LongplayError, as_json: bool) -> None:
    """Prints an error, as JSON on standard output if that was asked for."""
    if as_json:
        print_json(error_to_json(error))
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


def is_inside(path: Path, folder: Path) -> bool:
    """Whether a file would be in a folder."""
    return path.resolve().is_relative_to(folder.resolve())


@contextlib.contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """Sends what C code and subprocesses of an agent print to standard error.

    What Python prints is kept beside the run; this is for what goes around Python.
    """
    sys.stdout.flush()
    real_stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(real_stdout, 1)
        os.close(real_stdout)
