"""Commands of exported records: export, atlas, findings."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.padding import Padding
from rich.text import Text

from longplay.cli import export_tables
from longplay.cli.guard import (
    Command,
    CommandGroup,
    Directory,
    Json,
    Quiet,
    check_output,
    guard,
    print_json,
    print_tables,
    stdout_kept_clean,
)
from longplay.cli.progress import ProgressLine
from longplay.contract.files import write_file
from longplay.contract.layout import find_started_runs
from longplay.contract.rundir import RunDirectory
from longplay.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from longplay.eval_log.export import Exported, ExportOptions
    from longplay.eval_log.log import EvalLog
    from longplay.lab.atlas.atlas import Atlas
    from longplay.lab.atlas.eee import ExportedFiles, Submission


def export(
    directory: Directory,
    jsonl: Annotated[
        Path | None, typer.Option(help="File to write, one record per line.")
    ] = None,
    level: Annotated[
        str, typer.Option(help="One record per run or per visit.", metavar="run|visit")
    ] = "run",
    completed_only: Annotated[
        bool, typer.Option("--completed-only", help="Leave out runs with an error.")
    ] = False,
    description: Annotated[
        str | None,
        typer.Option(help="Describe the agent (kept in experiment_record.json)."),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for a copy of the records."),
    ] = None,
    plain: Annotated[
        bool,
        typer.Option(
            "--plain", help="Leave out `_type`, which another harness would import."
        ),
    ] = False,
    eee: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the files of Every Eval Ever."),
    ] = None,
    organization: Annotated[
        str | None, typer.Option(help="Who made the results; needed by --eee.")
    ] = None,
    relationship: Annotated[
        str | None,
        typer.Option(
            metavar="first_party|third_party|collaborative|other",
            help="Relationship of the organization to the agent; needed by --eee.",
        ),
    ] = None,
    partial: Annotated[
        bool,
        typer.Option(
            "--partial", help="Allow planned runs to be missing or unfinished."
        ),
    ] = False,
    require: Annotated[
        str | None,
        typer.Option(
            metavar="replayed|re-executed",
            help="Verify every run first; export only if all reach this level.",
        ),
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(help="With --require re-executed: the agent, if not built in."),
    ] = None,
    agent_name: Annotated[
        str | None, typer.Option(help="Of another tool's run: name of its agent.")
    ] = None,
    suite_name: Annotated[
        str | None, typer.Option(help="Of another tool's run: name of its suite.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of another tool's run: its seed.")
    ] = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Export the EvalLog of an experiment: one JSONL file, or Every Eval Ever."""
    from longplay.eval_log.export import ExportOptions, export_jsonl
    from longplay.eval_log.log import EvalLog, describe_agent
    from longplay.eval_log.run_records import experiment_of, is_saved_log

    has_runs = not is_saved_log(directory)
    runs = find_started_runs(directory) if has_runs else []
    if jsonl is None and eee is None and log is None:
        raise ConfigError("expected --jsonl FILE, --log DIR or --eee DIR, found none")
    check_output("--jsonl", jsonl)
    check_output("--log", log)
    check_output("--eee", eee)
    _check_requirement(require, agent)
    options = ExportOptions(level, partial, require, completed_only, plain)  # type: ignore[arg-type]
    submission = _make_submission(eee, organization, relationship, options)
    records = _read_foreign(directory, agent_name, suite_name, seed)
    if eee is not None and (records is not None or not has_runs):
        raise ConfigError(
            f"--eee: expected an experiment of longplay, whose scores it averages, "
            f"found records without scores in {directory}; --jsonl exports them"
        )
    if level == "visit" and records is not None:
        raise ConfigError(
            f"--level visit: expected runs of longplay, found a run of another tool, "
            f"which has one record, in {directory}"
        )
    if description is not None:
        describe_agent(directory, description)
    if require is not None:
        _certify(runs, require, agent, quiet)
    exported: Exported | None = None
    if jsonl is not None:
        exported = export_jsonl(directory, jsonl, options, records)
    if log is not None:
        records = records or EvalLog.load(experiment_of(directory))
        records.save(log, plain=plain)
    files: ExportedFiles | None = None
    if eee is not None and submission is not None:
        from longplay.lab.atlas.eee import export_eee

        files = export_eee(directory, eee, submission)
    if as_json:
        print_json(export_tables.export_to_json(jsonl, level, exported, log, files))
    else:
        print_tables(
            *export_tables.show_export(jsonl, exported, log, files, completed_only)
        )


def _read_foreign(
    directory: Path, agent: str | None, suite: str | None, seed: int | None
) -> EvalLog | None:
    """The records of another tool's run; None for runs and logs of longplay."""
    from longplay.eval_log.foreign import ForeignNames, is_foreign, make_foreign_log

    if not is_foreign(directory):
        if any(given is not None for given in (agent, suite, seed)):
            raise ConfigError(
                "--agent-name, --suite-name and --seed: only for a run directory of "
                "another tool"
            )
        return None
    known = RunDirectory(directory).config.model_extra or {}
    agent = agent or known.get("agent_name")
    if agent is None or suite is None:
        raise ConfigError(
            f"{directory}: found a run of another tool, which does not say what was "
            "played; expected --agent-name and --suite-name"
        )
    return make_foreign_log(directory, ForeignNames(agent, suite, seed))


def _check_requirement(require: str | None, agent: str | None) -> None:
    if require not in (None, "replayed", "re-executed"):
        raise ConfigError(
            f"--require: expected replayed or re-executed, found {require!r}"
        )
    if agent is not None and require != "re-executed":
        raise ConfigError("--agent: only with --require re-executed")


def _make_submission(
    eee: Path | None,
    organization: str | None,
    relationship: str | None,
    options: ExportOptions,
) -> Submission | None:
    from longplay.lab.atlas.eee import Submission

    if eee is None:
        if organization is not None or relationship is not None:
            raise ConfigError("--organization and --relationship: only with --eee DIR")
        return None
    if organization is None or relationship is None:
        raise ConfigError("--eee: expected --organization and --relationship as well")
    return Submission(organization, relationship, options)


def _certify(runs: Sequence[Path], level: str, agent: str | None, quiet: bool) -> None:
    """Verifies the runs that have ended; `export` then reads the verdicts."""
    from longplay.eval_log.run_records import ENDED
    from longplay.verify.verification import certify

    for run_dir in runs:
        status = RunDirectory(run_dir).status
        if status is not None and status.state not in ENDED:
            continue
        with ProgressLine(quiet=quiet) as progress, stdout_kept_clean():
            certify(
                run_dir,
                level,  # type: ignore[arg-type]
                agent,
                workers=os.cpu_count() or 1,
                observer=progress.show_replay,
            )


def atlas(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="JSONL…",
            help="Exported records, or experiment directories.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder to create."),
    ] = None,
    random: Annotated[
        str, typer.Option(metavar="AGENT", help="The agent that others should beat.")
    ] = "random",
    rank: Annotated[int, typer.Option(min=1, help="Number of latent factors.")] = 2,
    as_json: Json = False,
) -> None:
    """Fit abilities and difficulties to the matrix of agents and tasks."""
    from longplay.lab.atlas.atlas import make_atlas, summarise_atlas, write_atlas
    from longplay.lab.atlas.matrix import read_matrix

    check_output("--output", output)
    fitted = make_atlas(read_matrix(paths), random, rank)
    problem = None
    if output is not None:
        write_atlas(output, fitted)
        problem = _draw_atlas(fitted, output / "atlas.pdf")
    if as_json:
        print_json(summarise_atlas(fitted))
        return
    print_tables(*export_tables.show_atlas(fitted))
    if problem is not None:
        print_tables(Padding(Text(problem, "yellow"), (0, 0, 0, 1)))


def _draw_atlas(fitted: Atlas, path: Path) -> str | None:
    """Writes the figure; returns why there is none."""
    from longplay.lab.report.draw.atlas_drawing import draw_atlas
    from longplay.lab.report.draw.paper import render_paper

    try:
        write_file(path, render_paper(draw_atlas(fitted), "pdf", 2))
    except (ConfigError, MissingExtraError) as error:
        return f"no figure: {error}"
    return None


findings_app = typer.Typer(
    cls=CommandGroup,
    help="Add a reviewer's or an LLM investigator's findings to records.",
    no_args_is_help=True,
)


def apply(
    directory: Annotated[
        Path, typer.Argument(metavar="PATH", help="Experiment directory.")
    ],
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.jsonl", help="One line per run, by trajectory_id."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Merge findings and verifiers into the records of an experiment."""
    from longplay.eval_log.assessments import apply_findings

    applied = apply_findings(directory, file)
    if as_json:
        print_json({"runs": applied.runs, "investigator": applied.has_investigator})
        return
    count = len(applied.runs)
    words = f"{count:,} {'record' if count == 1 else 'records'} changed"
    if applied.has_investigator:
        words += "; the experiment names its investigator"
    print_tables(Text(words))


findings_app.command("apply", cls=Command)(guard(apply))
