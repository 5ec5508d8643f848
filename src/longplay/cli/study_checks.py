"""The runs of a study, validated or verified, in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from longplay.cli.guard import error_to_json, print_runs, print_tables
from longplay.cli.layout import add_row, make_table
from longplay.cli.study_tables import describe_args, part_of
from longplay.errors import LongplayError, NotARunError

if TYPE_CHECKING:
    from longplay.lab.studies.directory import StudyDirectory


@dataclass(frozen=True)
class Check:
    """The result of checking one run.

    Attributes:
        words: The result in a few words.
        frames: How many frames were checked; None if it could not be checked.
        document: The result as JSON.
        details: What to print of a run that did not pass.
        exit_code: 0 if it passed.
    """

    words: str
    frames: int | None
    document: dict[str, Any]
    details: Sequence[RenderableType]
    exit_code: int

    @classmethod
    def of_error(cls, run_dir: Path, error: LongplayError) -> Check:
        """Of a run that cannot be checked."""
        document = {"run_dir": str(run_dir), **error_to_json(error)}
        details = (Text(str(run_dir), "dim"), Text(f" {error}", "red"))
        return cls("cannot be checked", None, document, details, error.exit_code)


def check_study(
    directory: Path, check_run: Callable[[Path], Check], *, as_json: bool
) -> None:
    """Checks every run of a study that was started, and prints one table.

    Exits with 1 if a run did not pass, or with the code of an error that kept one from
    being checked.
    """
    from longplay.lab.studies.directory import read_study

    study = read_study(directory)
    runs = _list_started(study)
    checks = [_try_check(check_run, run_dir) for _, run_dir in runs]
    if as_json:
        print_runs([check.document for check in checks])
    else:
        names = [names for names, _ in runs]
        print_tables(*_show_checks(study, names, checks))
        for check in checks:
            print_tables(*(check.details if check.exit_code else ()))
    if exit_code := max(check.exit_code for check in checks):
        raise typer.Exit(exit_code)


def _try_check(check_run: Callable[[Path], Check], run_dir: Path) -> Check:
    try:
        return check_run(run_dir)
    except LongplayError as error:  # the other runs can still be checked
        return Check.of_error(run_dir, error)


def _list_started(study: StudyDirectory) -> list[tuple[tuple[str, ...], Path]]:
    """Names and directory of every run that was started; those of tuning first."""
    found: list[tuple[tuple[str, ...], Path]] = []
    for cell in study.plan.all_cells:
        args = describe_args(study.read_args(cell) or {})
        names = part_of(cell), cell.agent, cell.suite, args
        found += [
            ((*names, str(view.plan.seed)), view.run_dir)
            for view in study.view(cell)
            if view.status is not None
        ]
    if not found:
        raise NotARunError(
            f"{study.path}: expected a study with runs, found none that was started"
        )
    return found


def _show_checks(
    study: StudyDirectory, names: Sequence[tuple[str, ...]], checks: Sequence[Check]
) -> list[RenderableType]:
    """One row per run, and the totals."""
    table = make_table(
        f"study {study.plan.name}",
        *("part", "agent", "suite", "arguments", "seed", "frames", "result"),
        left=(0, 1, 2, 3, 6),
    )
    for row, check in zip(names, checks, strict=True):
        frames = "–" if check.frames is None else f"{check.frames:,}"
        style = "bold red" if check.exit_code else "green"
        add_row(table, *row, frames, Text(check.words, style))
    passed = sum(check.exit_code == 0 for check in checks)
    planned = sum(len(cell.seeds) for cell in study.plan.all_cells)
    words = f" {passed} of {len(checks)} runs passed"
    if missing := planned - len(checks):
        were = "run was" if missing == 1 else "runs were"
        words += f"; {missing} planned {were} not started"
    return [table, Text(words, "bold red" if passed < len(checks) else "green")]
