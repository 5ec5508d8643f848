"""Commands of exported records: export, atlas, findings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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


def export(
    directory: Directory,
    jsonl: Annotated[Path, typer.Option(help="File to write, one record per line.")],
    level: Annotated[
        str, typer.Option(help="One record per run or per visit.", metavar="run|visit")
    ] = "run",
    description: Annotated[
        str | None,
        typer.Option(help="Describe the agent (kept in experiment_record.json)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Export the EvalLog of an experiment as one JSONL file."""
    from longplay.eval_log import export as eval_log

    own = (*find_started_runs(directory), *directory.glob("*.json"))
    if any(is_inside(jsonl, path) for path in own):
        message = f"--jsonl: {jsonl} is part of the experiment; choose another file"
        raise ConfigError(message)
    if description is not None:
        eval_log.describe_agent(directory, description)
    lines = eval_log.export_jsonl(directory, jsonl, level)  # type: ignore[arg-type]
    if as_json:
        print_json({"jsonl": str(jsonl), "level": level, "records": lines})
    else:
        noun = "record" if lines == 1 else "records"
        print_tables(Text(f"{lines:,} {noun} -> {jsonl}"))


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
