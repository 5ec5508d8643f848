"""Shared by all commands: options, printing, and errors turned into exit codes."""

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
from typer.core import TyperCommand, TyperGroup

from longplay.errors import LongplayError, RunCancelled

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Experiment or run directory.")
]
AgentFilePatterns = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-files",
        metavar="GLOB",
        help="More files of the agent, such as weights or plugins.",
    ),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Run the agent in this process; it may print and use breakpoint().",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Hide progress.")]


def _hide_flag_types(params: list[Any]) -> list[Any]:
    """Flags take no value: the help shows `--quiet`, not `--quiet <bool>`."""
    for param in params:
        if getattr(param, "is_flag", False):
            param.metavar = ""
    return params


class Command(TyperCommand):
    """A command whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments, `--help` included."""
        return _hide_flag_types(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """A group of commands whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments, `--help` included."""
        return _hide_flag_types(super().get_params(ctx))


def print_json(document: Any) -> None:
    """Prints one JSON document on standard output."""
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False))


def print_runs(documents: list[dict[str, Any]]) -> None:
    """One object for one run, a list for an experiment of several."""
    print_json(documents[0] if len(documents) == 1 else documents)


def print_tables(*renderables: RenderableType) -> None:
    """Prints tables and text for people."""
    console = Console()
    for renderable in renderables:
        console.print(renderable)


def error_to_json(error: LongplayError) -> dict[str, Any]:
    """An error as JSON."""
    found = {"run_dir": error.run_dir, "continue_with": error.continue_with}
    known = {name: str(value) for name, value in found.items() if value is not None}
    return {"error": {"type": type(error).__name__, "message": str(error), **known}}


def print_error(error: LongplayError, as_json: bool) -> None:
    """Prints an error, as JSON on standard output if requested."""
    if as_json:
        print_json(error_to_json(error))
        return
    message = Text.assemble(("error: ", "bold red"), str(error))
    if error.run_dir is not None:
        message.append(f"\nrecorded so far: {error.run_dir}")
    if error.continue_with is not None:
        message.append(f"\ncontinue with: {error.continue_with}")
    Console(stderr=True).print(message, soft_wrap=True)


def guard(function: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command: errors become a message and an exit code."""

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
    """Whether a path is inside a folder."""
    return path.resolve().is_relative_to(folder.resolve())


@contextlib.contextmanager
def stdout_kept_clean() -> Iterator[None]:
    """Redirects output of an agent's C code and subprocesses to standard error.

    Python's own output is captured with the run; this covers file descriptor 1.
    """
    sys.stdout.flush()
    real_stdout = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        os.dup2(real_stdout, 1)
        os.close(real_stdout)
