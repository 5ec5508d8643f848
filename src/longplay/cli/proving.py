"""Commands that verify: verify, pack, unpack, doctor."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.padding import Padding
from rich.text import Text

from longplay.cli import run_tables
from longplay.cli.options import IsolationOptions
from longplay.cli.probing import opened_run
from longplay.cli.progress import ProgressLine
from longplay.cli.study_tables import Check, check_study
from longplay.cli.toolkit import (
    Debug,
    Directory,
    Json,
    ProbedRun,
    Quiet,
    check_output,
    error_to_json,
    print_answer,
    print_error,
    print_runs,
    print_tables,
    stdout_kept_clean,
)
from longplay.contract.rundir import (
    PACK_SUFFIX,
    find_run,
    find_runs,
    is_pack,
    is_study,
)
from longplay.errors import ConfigError, LongplayError
from longplay.tables import Cell, TextTable, count, make_cell

if TYPE_CHECKING:
    from longplay.agents.isolation.levels import Isolation
    from longplay.verify.doctor import Diagnosis, State, Symptom
    from longplay.verify.verification import Verification

Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Worker processes (default: all cores)."),
]


@dataclass(frozen=True)
class ReexecutionOptions(IsolationOptions):
    """How an agent that is run again is isolated."""

    isolate: Annotated[
        str | None,
        typer.Option(
            metavar="none|process|sandbox",
            help="With --reexecute: how the agent is isolated (default: sandbox).",
        ),
    ] = None

    def make_unless(self, debug: bool) -> Isolation:
        """The isolation that the options ask for; none for a debugger."""
        if debug:
            return replace(self, isolate="none").make()
        try:
            return self.make(default="sandbox")
        except ConfigError as error:
            if self.isolate is not None:
                raise
            raise ConfigError(
                f"{error}; with --isolate process or none the run is only re-executed "
                "(unconfined)"
            ) from error


def verify(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="An experiment, a run, a study or a packed run."
        ),
    ],
    workers: Workers = None,
    visit: Annotated[
        list[int] | None,
        typer.Option(
            metavar="K", help="Verify only this visit; the result is not kept."
        ),
    ] = None,
    reexecute: Annotated[
        bool,
        typer.Option(
            "--reexecute", help="Run the agent again and compare its decisions."
        ),
    ] = False,
    agent: Annotated[
        str | None,
        typer.Option(help="With --reexecute: the agent, unless it is built in."),
    ] = None,
    of: ProbedRun = None,
    *,
    isolating: ReexecutionOptions,
    debug: Debug = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Replay a run or a pack and compare every frame; records the result of a run."""
    if visit and reexecute:
        raise ConfigError(
            "--visit: not with --reexecute: an agent runs from start to end"
        )
    if not reexecute:
        _refuse_options({"agent": agent, **vars(isolating)})
    isolation = isolating.make_unless(debug) if reexecute else None
    how = _Judging(workers or os.cpu_count() or 1, visit or [], isolation, agent, quiet)
    if is_pack(directory) and (visit or reexecute):
        raise ConfigError(
            f"{'--visit' if visit else '--reexecute'}: not with a packed run; "
            f"`longplay unpack {directory}` first"
        )
    if is_study(directory):
        if agent is not None:
            raise ConfigError(
                f"--agent: {directory} is a study of several agents; name one of its "
                "cells"
            )
        check_study(directory, lambda run_dir: _check(run_dir, how), as_json=as_json)
        return
    with opened_run(of) as origin:
        _verify_experiment(directory, replace(how, origin=origin), as_json)


def _verify_experiment(directory: Path, how: _Judging, as_json: bool) -> None:
    """Verifies all runs of an experiment, or one; prints each result as it comes."""
    exit_code = 0
    documents: list[dict[str, Any]] = []
    runs = [directory] if is_pack(directory) else find_runs(directory)
    for run_dir in runs:
        if len(runs) > 1 and not as_json:
            print_tables(Text(run_dir.name, "bold"))
        try:
            check = _check(run_dir, how)
            documents.append(check.document)
            if not as_json:
                print_tables(*check.details)
            exit_code = max(exit_code, check.exit_code)
        except LongplayError as error:  # the other runs can still be verified
            exit_code = max(exit_code, error.exit_code)
            documents.append({"run_dir": str(run_dir), **error_to_json(error)})
            if not as_json:
                print_error(error, as_json)
    if as_json:
        print_runs(documents)
    if exit_code:
        raise typer.Exit(exit_code)


def _check(run_dir: Path, how: _Judging) -> Check:
    """Verifies a run; keeps the result if all of it was verified, and not in a pack."""
    from longplay.verify.verification import write_verification

    if is_pack(run_dir):
        verdict = _judge_pack(run_dir, how)
    else:
        verdict = _judge(run_dir, how)
        if verdict.is_whole:
            write_verification(verdict)
    return Check(
        verdict.level if verdict.passed else "does not reproduce",
        verdict.frames,
        verdict.to_json(),
        _show_verification(verdict),
        0 if verdict.passed else 1,
    )


@dataclass(frozen=True)
class _Judging:
    """How runs are verified."""

    workers: int
    visits: list[int]
    # None for a replay without the agent.
    isolation: Isolation | None
    agent: str | None
    quiet: bool
    # Of probes: the run that they are probes of.
    origin: Path | None = None


def _refuse_options(options: dict[str, object]) -> None:
    """Refuses options that need an agent."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"--{name.replace('_', '-')}: only with --reexecute")


def _judge(run_dir: Path, how: _Judging) -> Verification:
    from longplay.verify import verification

    with ProgressLine(quiet=how.quiet) as progress, stdout_kept_clean():
        if how.isolation is not None:
            return verification.reexecute(
                run_dir,
                how.agent,
                isolation=how.isolation,
                workers=how.workers,
                observer=progress,
                replay_observer=progress.show_replay,
                origin=how.origin,
            )
        return verification.verify_run(
            run_dir,
            workers=how.workers,
            visits=how.visits,
            observer=progress.show_replay,
            origin=how.origin,
        )


def _judge_pack(path: Path, how: _Judging) -> Verification:
    from longplay.verify.pack import replayed_pack

    with (
        ProgressLine(quiet=how.quiet) as progress,
        stdout_kept_clean(),
        replayed_pack(
            path,
            workers=how.workers,
            observer=progress.show_replay,
            origin=how.origin,
        ) as verification,
    ):
        return replace(verification, run_dir=path)


def pack(
    directory: Directory,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="File to create (default: RUN.longplay)."),
    ] = None,
    workers: Workers = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Verify a run and pack it into one small file."""
    from longplay.verify.pack import pack_run

    target = output or Path(f"{find_run(directory).name}{PACK_SUFFIX}")
    check_output("--output", target)
    with ProgressLine(quiet=quiet) as progress, stdout_kept_clean():
        manifest = pack_run(
            directory,
            target,
            workers=workers or os.cpu_count() or 1,
            observer=progress.show_replay,
        )
    size_bytes, run_bytes = target.stat().st_size, manifest.run_bytes
    document = {"file": str(target), "bytes": size_bytes, "run_bytes": run_bytes}
    line = run_tables.pack_line(target, size_bytes, run_bytes)
    print_answer(as_json, document, [line])


def unpack(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A packed run.")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", help="Folder to create (default: named after the file)."
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Restore a run directory by replaying a packed run."""
    from longplay.verify.pack import unpack_run

    target = output or Path(file.name.removesuffix(PACK_SUFFIX))
    check_output("--output", target)
    with ProgressLine(quiet=quiet) as progress, stdout_kept_clean():
        unpack_run(file, target, observer=progress.show_replay)
    line = Text(f"restored, every row identical: {target}")
    print_answer(as_json, {"run_dir": str(target)}, [line])


def doctor(as_json: Json = False) -> None:
    """Check that this machine's emulator is the one the scores were made with."""
    from longplay.verify.doctor import diagnose

    with ProgressLine(quiet=as_json) as progress:
        diagnosis = diagnose(Path.cwd(), progress.show_text)
    print_answer(as_json, diagnosis.to_json(), _show_diagnosis(diagnosis))
    if not diagnosis.is_healthy:
        raise typer.Exit(1)


# --- tables ---------------------------------------------------------------------


def _show_verification(verdict: Verification) -> list[RenderableType]:
    """The result of a verification as lines."""
    lines: list[RenderableType] = [_verdict_line(verdict)]
    if verdict.difference is not None:
        lines.append(Text(f"   first difference: {verdict.describe_difference()}"))
    if verdict.report is not None and not verdict.report.is_valid:
        lines += run_tables.show_report(verdict.report)
    return lines


def _verdict_line(verdict: Verification) -> Text:
    rows = count(verdict.frames, "row")
    if not verdict.is_whole:
        rows += f" of visit {', '.join(map(str, verdict.visits))}"
    if verdict.passed:
        text = f" ✓ verified: {rows} {verdict.level}, all identical to the log"
        return Text(text, "green")
    return Text(f" ✗ does not reproduce: {rows} checked", "bold red")


_MARKS: dict[State, tuple[str, str]] = {
    "ok": ("✓", "green"),
    "note": ("·", "yellow"),
    "differs": ("✗", "bold red"),
}


def _show_diagnosis(diagnosis: Diagnosis) -> list[RenderableType]:
    """A diagnosis as tables."""
    machine = TextTable.of_items(
        "machine",
        diagnosis.machine,
        ("", _mark),
        ("check", lambda symptom: symptom.name),
        ("here", lambda symptom: symptom.found),
        ("expected", lambda symptom: symptom.expected),
        names=2,
        texts=(2, 3),
    )
    games = TextTable.of(
        "games, here and as shipped",
        ("", "game", "reward", "memory", "reward", "memory"),
        [
            (_mark(game), game.name, *_halves(game.found), *_halves(game.expected))
            for game in diagnosis.games
        ],
        names=2,
        texts=(3, 5),
    )
    return [machine, Text(), games, *_show_meanings(diagnosis), _health(diagnosis)]


def _halves(text: str) -> tuple[str, str]:
    reward, _, memory = text.partition(" ")
    return reward, memory


def _mark(symptom: Symptom) -> Cell:
    return make_cell(*_MARKS[symptom.state])


def _show_meanings(diagnosis: Diagnosis) -> list[RenderableType]:
    """The consequence of each unexpected result."""
    meanings: list[RenderableType] = [
        Padding(Text(f"{symptom.name}: {symptom.meaning}"), (0, 0, 0, 3))
        for symptom in (*diagnosis.machine, *diagnosis.games)
        if symptom.meaning
    ]
    return [Text(), *meanings] if meanings else []


def _health(diagnosis: Diagnosis) -> Text:
    games = len(diagnosis.games)
    if diagnosis.is_healthy:
        text = f"\n ✓ healthy: {games} games play identically here"
        return Text(text, "green")
    ill = sum(symptom.state == "differs" for symptom in diagnosis.games)
    text = f"\n ✗ not healthy: {ill} of {games} games play differently here"
    return Text(text, "bold red")
