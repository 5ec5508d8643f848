"""Commands of exported records: export, atlas, findings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.padding import Padding
from rich.text import Text

from longplay.cli.atlas_tables import show_atlas
from longplay.cli.guard import (
    Command,
    CommandGroup,
    Directory,
    Json,
    guard,
    is_inside,
    print_json,
    print_tables,
)
from longplay.contract.files import write_file
from longplay.contract.layout import find_started_runs
from longplay.errors import ConfigError, MissingExtraError

if TYPE_CHECKING:
    from longplay.eval_log.atlas import Atlas
    from longplay.eval_log.eee import Submission


def export(
    directory: Directory,
    jsonl: Annotated[
        Path | None, typer.Option(help="File to write, one record per line.")
    ] = None,
    level: Annotated[
        str, typer.Option(help="One record per run or per visit.", metavar="run|visit")
    ] = "run",
    completed_only: Annotated[
        bool,
        typer.Option("--completed-only", help="Leave out runs with an error."),
    ] = False,
    description: Annotated[
        str | None,
        typer.Option(help="Describe the agent (kept in experiment_record.json)."),
    ] = None,
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
            help="Of the organization to the agent; needed by --eee.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Export the EvalLog of an experiment: one JSONL file, or Every Eval Ever."""
    from longplay.eval_log import export as eval_log

    if jsonl is None and eee is None:
        raise ConfigError("expected --jsonl FILE or --eee DIR, found neither")
    submission = _make_submission(
        eee, organization, relationship, level, completed_only
    )
    _check_outside(directory, jsonl, "--jsonl")
    _check_outside(directory, eee, "--eee")
    if description is not None:
        eval_log.describe_agent(directory, description)
    told: dict[str, Any] = {}
    if jsonl is not None:
        exported = eval_log.export_records(
            directory,
            jsonl,
            level,  # type: ignore[arg-type]
            completed_only=completed_only,
        )
        told = {"jsonl": str(jsonl), "level": level, "records": exported.lines}
        told["errored"] = exported.errored
    if submission is not None and eee is not None:
        from longplay.eval_log.eee import export_eee

        files = export_eee(directory, eee, submission)
        told["eee"] = {
            "aggregate": str(files.aggregate),
            "samples": str(files.samples),
            "rows": files.rows,
            "errored": files.errored,
        }
    if as_json:
        print_json(told)
    else:
        print_tables(*_describe_export(told, completed_only))


def _make_submission(
    eee: Path | None,
    organization: str | None,
    relationship: str | None,
    level: str,
    completed_only: bool,
) -> Submission | None:
    if eee is None:
        if organization is not None or relationship is not None:
            raise ConfigError("--organization and --relationship: only with --eee DIR")
        return None
    if organization is None or relationship is None:
        raise ConfigError("--eee: expected --organization and --relationship as well")
    from longplay.eval_log.eee import Submission

    return Submission(organization, relationship, level, completed_only)  # type: ignore[arg-type]


def _check_outside(directory: Path, path: Path | None, option: str) -> None:
    """Refuses to write into the experiment's own files."""
    own = (*find_started_runs(directory), *directory.glob("*.json"))
    if path is not None and any(is_inside(path, place) for place in own):
        raise ConfigError(
            f"{option}: {path} is part of the experiment; choose another file"
        )


def _describe_export(told: dict[str, Any], completed_only: bool) -> Iterator[Text]:
    parts = [(told, "record", told.get("jsonl"))]
    if "eee" in told:
        parts.append((told["eee"], "sample", told["eee"]["samples"]))
    for part, noun, target in parts:
        if target is None:
            continue
        count, errored = part.get("records", part.get("rows")), part["errored"]
        yield Text(f"{count:,} {noun}{'' if count == 1 else 's'} -> {target}")
        if errored:
            where = "left out" if completed_only else "with an error; see error_type"
            yield Text(f"{errored:,} {where}", "yellow")


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
    from longplay.eval_log.atlas import make_atlas, summarise_atlas, write_atlas
    from longplay.eval_log.matrix import read_matrix

    fitted = make_atlas(read_matrix(paths), random, rank)
    problem = None
    if output is not None:
        write_atlas(output, fitted)
        problem = _draw_atlas(fitted, output / "atlas.pdf")
    if as_json:
        print_json(summarise_atlas(fitted))
        return
    print_tables(*show_atlas(fitted))
    if problem is not None:
        print_tables(Padding(Text(problem, "yellow"), (0, 0, 0, 1)))


def _draw_atlas(fitted: Atlas, path: Path) -> str | None:
    """Writes the figure; returns why there is none."""
    from longplay.report.atlas_drawing import draw_atlas
    from longplay.report.paper import render_paper

    try:
        write_file(path, render_paper(draw_atlas(fitted), "pdf", 2))
    except (ConfigError, MissingExtraError) as error:
        return f"no figure: {error}"
    return None


findings_app = typer.Typer(
    cls=CommandGroup,
    help="Add findings of a person or an investigator to records.",
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
