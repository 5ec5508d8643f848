"""What all commands share: printing, option groups, errors turned into exit codes."""

from __future__ import annotations

import contextlib
import errno
import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import is_dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text
from typer.core import TyperCommand, TyperGroup

from longplay.contract.layout import find_owner
from longplay.errors import (
    ConfigError,
    LongplayError,
    RunCancelled,
    escape_controls,
    escape_lines,
)

Directory = Annotated[
    Path, typer.Argument(metavar="DIR", help="Experiment or run directory.")
]
DirectoryOrStudy = Annotated[
    Path, typer.Argument(metavar="DIR", help="Experiment, run or study directory.")
]
AgentFilePatterns = Annotated[
    list[str] | None,
    typer.Option(
        "--agent-files",
        metavar="GLOB",
        help="More files of the agent, such as weights or plugins.",
    ),
]
ProbedRun = Annotated[
    Path | None,
    typer.Option(
        "--of",
        metavar="RUN",
        help="For a probe: the probed run or its pack (default: found by its folder).",
    ),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        help="Run the agent in this process; it may print and use breakpoint().",
    ),
]
Styles = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Colours and markers of agents, *.toml."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Hide progress.")]


class _WithoutFlagTypes:
    """Help that shows `--quiet`, not `--quiet <bool>`: flags take no value."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments, `--help` included."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Command(_WithoutFlagTypes, TyperCommand):
    """A command whose help shows flags without a type."""


class CommandGroup(_WithoutFlagTypes, TyperGroup):
    """A group of commands whose help shows flags without a type."""


class SafeConsole(Console):
    """A console that shows control characters of names and messages as escapes.

    A run directory may come from someone else, and a terminal would execute them.
    """

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """Segments without control characters, except for line ends and styles."""
        for segment in super().render(renderable, options):
            if segment.control is not None:
                yield segment
                continue
            # One segment per line: Rich takes quadratic time to split a long one.
            *lines, last = segment.text.split("\n")
            for line in lines:
                yield Segment(f"{escape_controls(line)}\n", segment.style)
            if last:
                yield Segment(escape_controls(last), segment.style)


def print_json(document: Any) -> None:
    """Prints one JSON document on standard output."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    if escape_lines(text) != text:
        # Invisible characters, and lone surrogates, which cannot be encoded.
        text = json.dumps(document, indent=2, allow_nan=False)
    typer.echo(text)


def print_runs(documents: list[dict[str, Any]]) -> None:
    """One object for one run, a list for an experiment of several."""
    print_json(documents[0] if len(documents) == 1 else documents)


def print_tables(*renderables: RenderableType) -> None:
    """Prints tables and text for people."""
    console = SafeConsole()
    for renderable in renderables:
        console.print(renderable)


def print_answer(
    as_json: bool, document: Any, renderables: Iterable[RenderableType]
) -> None:
    """Prints the answer of a command: one JSON document, or tables for people."""
    if as_json:
        print_json(document)
    else:
        print_tables(*renderables)


def error_to_json(error: LongplayError) -> dict[str, Any]:
    """An error as JSON."""
    found = {"run_dir": error.run_dir, "continue_with": error.continue_with}
    known = {name: str(value) for name, value in found.items() if value is not None}
    message = _describe(error)
    return {"error": {"type": type(error).__name__, "message": message, **known}}


def _describe(error: LongplayError) -> str:
    """The message; an option that Python has, too, is named as on the command line."""
    is_option = isinstance(error, ConfigError) and error.option is not None
    return f"--{error}" if is_option else str(error)


def print_error(error: LongplayError, as_json: bool) -> None:
    """Prints an error, as JSON on standard output if requested."""
    if as_json:
        print_json(error_to_json(error))
        return
    message = Text.assemble(("error: ", "bold red"), _describe(error))
    if error.run_dir is not None:
        message.append(f"\nrecorded so far: {error.run_dir}")
    if error.continue_with is not None:
        message.append(f"\ncontinue with: {error.continue_with}")
    SafeConsole(stderr=True).print(message, soft_wrap=True)


def print_warning(text: str) -> None:
    """Prints a warning on standard error."""
    message = Text.assemble(("warning: ", "bold yellow"), text)
    SafeConsole(stderr=True).print(message, soft_wrap=True)


def print_note(text: str) -> None:
    """Prints a line that the user should know, on standard error."""
    SafeConsole(stderr=True).print(Text(text, "dim"), soft_wrap=True)


def guard(function: Callable[..., None]) -> Callable[..., None]:
    """Wraps a command: errors become a message and an exit code.

    A parameter whose type is a dataclass, a group of options, is replaced by its
    fields on the command line.
    """
    signature = inspect.signature(function, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if is_dataclass(parameter.annotation)
    }

    @functools.wraps(function)
    def guarded(**given: Any) -> None:
        as_json = bool(given.get("as_json"))
        try:
            with _reporting_refusals(), _reporting_errors(as_json):
                for name, group in groups.items():
                    own = inspect.signature(group).parameters
                    given[name] = group(**{key: given.pop(key) for key in own})
                function(**given)
                sys.stdout.flush()
        except KeyboardInterrupt as error:
            raise typer.Exit(RunCancelled.exit_code) from error

    expanded = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, parameter in signature.parameters.items()
        for option in (
            inspect.signature(groups[name], eval_str=True).parameters.values()
            if name in groups
            else [parameter]
        )
    ]
    guarded.__signature__ = signature.replace(parameters=expanded)  # type: ignore[attr-defined]
    return guarded


@contextlib.contextmanager
def _reporting_errors(as_json: bool) -> Iterator[None]:
    """Prints longplay's own errors, and exits with their code."""
    try:
        yield
    except LongplayError as error:
        print_error(error, as_json)
        sys.stdout.flush()
        raise typer.Exit(error.exit_code) from error


@contextlib.contextmanager
def _reporting_refusals() -> Iterator[None]:
    """Prints what the operating system refused, be it the output of a command."""
    try:
        yield
    except BrokenPipeError:
        raise  # `longplay … | head`: Typer ends the command quietly
    except (OSError, MemoryError) as error:
        _discard_output()
        print_error(LongplayError(_describe_refusal(error)), as_json=False)
        is_usage = isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG
        raise typer.Exit(2 if is_usage else 1) from error


def _describe_refusal(error: OSError | MemoryError) -> str:
    """What the operating system refused, in words."""
    if isinstance(error, MemoryError):
        return "not enough memory"
    where = "" if error.filename is None else f"{error.filename}: "
    return f"{where}{error.strerror or error}"


def _discard_output() -> None:
    """Drops what standard output refused, so that Python's exit does not try again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def check_output(option: str, path: Path | None) -> None:
    """Refuses an output path that belongs to an experiment.

    Raises:
        ConfigError: Writing there would damage a run or the plan of an experiment.
    """
    owner = None if path is None else find_owner(path)
    if owner is not None:
        raise ConfigError(
            f"{option}: {path} is part of the experiment {owner}; choose another path"
        )


@contextlib.contextmanager
def stdout_dropped() -> Iterator[None]:
    """Drops what Python code prints in this process.

    A thread of Ray prints whole logs there when a node is lost, at every log level.
    """
    with (
        Path(os.devnull).open("w", encoding="utf-8") as sink,
        contextlib.redirect_stdout(sink),
    ):
        yield


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
