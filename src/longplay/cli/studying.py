"""`longplay study`: run, watch and show many agents on many suites."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longplay.cli import study_tables
from longplay.cli.options import (
    PlaceOptions,
    RecordOptions,
    StallTimeout,
    describe_run_options,
)
from longplay.cli.progress import ProgressLine
from longplay.cli.reading import show_study_status
from longplay.cli.supervision import announce_directory
from longplay.cli.toolkit import (
    Command,
    CommandGroup,
    Json,
    Quiet,
    check_output,
    guard,
    print_json,
    print_tables,
    stdout_dropped,
    stdout_kept_clean,
)
from longplay.errors import ConfigError, RunCancelled, RunPreempted
from longplay.tables import count

if TYPE_CHECKING:
    from longplay.experiments.job import Job
    from longplay.lab.studies.study import OpenCells, Play, Study, StudyResult

study_app = typer.Typer(
    cls=CommandGroup,
    help="Studies: many agents on many suites, with tuning. Run, watch, show results.",
    no_args_is_help=True,
)

StudyPath = Annotated[
    Path, typer.Argument(metavar="DIR|FILE.toml", help="Directory or file of a study.")
]


def _command(function: Callable[..., None]) -> Callable[..., None]:
    return study_app.command(function.__name__, cls=Command)(guard(function))


@_command
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE.toml", help="The study.")],
    out: Annotated[
        Path | None, typer.Option(help="Study directory (default: runs/NAME).")
    ] = None,
    *,
    place: PlaceOptions,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Play one of N parts, as in a job array."),
    ] = None,
    recording: RecordOptions,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and write nothing.")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run a study, or the rest of it: the same command continues a stopped one."""
    from longplay.lab.studies.study import WHOLE, Shard, Study

    check_output("--out", out)
    part = WHOLE if shard is None else Shard.parse(shard)
    if place.is_ray and shard is not None:
        raise ConfigError(
            "--shard: cannot be combined with --ray, which shares the runs itself"
        )
    options = recording.make()
    with stdout_kept_clean():
        study = Study.from_file(file, out, place.stall_timeout, options)
        if dry_run or not place.is_ray:  # a cluster may have what this machine lacks
            study.check_start()
    if dry_run:
        _show_plan(study, (place.ray or 1) * part.count, as_json)
        return
    announce_directory(study.path)
    with (
        ProgressLine(quiet=quiet, note=study.plan.describe_seeds()) as progress,
        stdout_kept_clean(),
        stdout_dropped() if place.is_ray else contextlib.nullcontext(),
        _playing(study, place, progress) as play,
    ):
        try:
            result = study.run(play, part)
        except (RunCancelled, RunPreempted) as error:
            error.run_dir = study.path if study.path.exists() else None
            command = ["longplay", "study", "run", str(file)]
            command += [] if out is None else ["--out", str(out)]
            command += [] if shard is None else ["--shard", shard]
            command += [*place.describe(), *describe_run_options(options)]
            error.continue_with = shlex.join(command)
            raise
    _show_result(study, result, as_json)


def _show_plan(study: Study, workers: int, as_json: bool) -> None:
    if as_json:
        print_json(study_tables.plan_to_json(study, workers))
    else:
        print_tables(*study_tables.show_plan(study, workers))


@contextlib.contextmanager
def _playing(
    study: Study, place: PlaceOptions, progress: ProgressLine
) -> Iterator[Play]:
    """The way in which the runs of a study are played."""
    from longplay.lab.studies.study import play_here, play_on_ray
    from longplay.runs.signals import defer_preemption

    def show(cells: OpenCells, jobs: Sequence[Job]) -> None:
        names = ", ".join(cells.name_job(job) for job in jobs)
        played = count(len(cells.result.results), "run")
        progress.show_text(f"{played} played · {names or 'waiting'}")

    if not place.is_ray:
        with defer_preemption():
            yield play_here(progress, validation_workers=os.cpu_count() or 1)
        return
    with play_on_ray(study, place.make_ray(), show) as play:
        yield play


def _show_result(study: Study, result: StudyResult, as_json: bool) -> None:
    """Shows the study; exits 1 if a run failed, 75 if the command has to run again."""
    if as_json:
        print_json(study_tables.study_to_json(study))
    else:
        print_tables(*study_tables.show_study(study))
        print_tables(*study_tables.describe_rest(result))
    if result.is_failed:
        raise typer.Exit(1)
    if result.unfinished:
        raise typer.Exit(RunPreempted.exit_code)


@_command
def status(
    study: StudyPath,
    stall_timeout: StallTimeout = 600.0,
    as_json: Json = False,
) -> None:
    """Show the progress of every cell of a study; live on a terminal."""
    from longplay.lab.studies.directory import read_study

    show_study_status(read_study(study, stall_timeout), as_json=as_json)


@_command
def show(study: StudyPath, as_json: Json = False) -> None:
    """Show the results of a study and the hyper-parameters that tuning chose."""
    from longplay.lab.studies.directory import read_study

    found = read_study(study)
    if as_json:
        print_json(study_tables.study_to_json(found))
    else:
        print_tables(*study_tables.show_study(found))
