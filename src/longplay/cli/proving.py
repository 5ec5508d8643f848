"""Commands that verify: verify, pack, unpack, doctor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from longplay.cli import proof_tables
from longplay.cli.guard import (
    Debug,
    Directory,
    Json,
    ProbedRun,
    Quiet,
    check_output,
    error_to_json,
    print_error,
    print_json,
    print_runs,
    print_tables,
    stdout_kept_clean,
)
from longplay.cli.isolation import (
    AgentEnv,
    AgentMemory,
    SandboxAllow,
    StepTimeout,
    make_isolation,
)
from longplay.cli.probing import opened_run
from longplay.cli.progress import ProgressLine
from longplay.cli.study_checks import Check, check_study
from longplay.contract.rundir import (
    PACK_SUFFIX,
    find_run,
    find_runs,
    is_pack,
    is_study,
)
from longplay.errors import ConfigError, LongplayError

if TYPE_CHECKING:
    from longplay.agents.isolation.levels import Isolation
    from longplay.verify.pack_file import Manifest
    from longplay.verify.verification import Verification

Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Worker processes (default: all cores)."),
]


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
    isolate: Annotated[
        str | None,
        typer.Option(
            metavar="none|process|sandbox",
            help="With --reexecute: how the agent is isolated (default: sandbox).",
        ),
    ] = None,
    sandbox_allow: SandboxAllow = None,
    agent_env: AgentEnv = None,
    step_timeout: StepTimeout = None,
    agent_memory: AgentMemory = None,
    of: ProbedRun = None,
    debug: Debug = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Replay a run or a pack and compare every frame; records the result of a run."""
    if visit and reexecute:
        raise ConfigError(
            "--visit: not with --reexecute: an agent runs from start to end"
        )
    limits = (sandbox_allow, agent_env, step_timeout, agent_memory)
    level = "none" if debug else isolate
    if not reexecute:
        _refuse({"--agent": agent, "--isolate": isolate})
    isolation = _isolate_agent(level, limits) if reexecute else None
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
        proof_tables.show_verification(verdict),
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


def _refuse(options: Mapping[str, object]) -> None:
    """Refuses options that need an agent."""
    for name, value in options.items():
        if value is not None:
            raise ConfigError(f"{name}: only with --reexecute")


def _isolate_agent(level: str | None, limits: tuple[Any, ...]) -> Isolation:
    try:
        return make_isolation(level or "sandbox", *limits)
    except ConfigError as error:
        if level is not None:
            raise
        raise ConfigError(
            f"{error}; with --isolate process or none the run is only re-executed "
            "(unconfined)"
        ) from error


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
    _print_packed(target, manifest, as_json)


def _print_packed(target: Path, manifest: Manifest, as_json: bool) -> None:
    size_bytes = target.stat().st_size
    if as_json:
        print_json(
            {
                "file": str(target),
                "bytes": size_bytes,
                "run_bytes": manifest.run_bytes,
            }
        )
    else:
        print_tables(proof_tables.pack_line(target, size_bytes, manifest.run_bytes))


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
    if as_json:
        print_json({"run_dir": str(target)})
    else:
        print_tables(Text(f"restored, every row identical: {target}"))


def doctor(as_json: Json = False) -> None:
    """Check that this machine's emulator is the one the scores were made with."""
    from longplay.verify.doctor import diagnose

    with ProgressLine(quiet=as_json) as progress:
        diagnosis = diagnose(Path.cwd(), progress.show_words)
    if as_json:
        print_json(diagnosis.to_json())
    else:
        print_tables(*proof_tables.show_diagnosis(diagnosis))
    if not diagnosis.is_healthy:
        raise typer.Exit(1)
