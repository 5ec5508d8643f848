"""Commands of exported records: export, atlas, findings."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from longplay.cli.progress import ProgressLine
from longplay.cli.toolkit import (
    Command,
    CommandGroup,
    Directory,
    Json,
    Quiet,
    check_output,
    guard,
    print_answer,
    stdout_kept_clean,
)
from longplay.contract.files import write_file
from longplay.contract.layout import find_started_runs
from longplay.contract.rundir import RunDirectory
from longplay.errors import ConfigError, MissingExtraError
from longplay.tables import TextTable, count, format_number, indent

if TYPE_CHECKING:
    from longplay.eval_log.export import Exported, ExportOptions
    from longplay.eval_log.log import EvalLog
    from longplay.lab.atlas.atlas import Atlas
    from longplay.lab.atlas.eee import ExportedFiles, Submission

# Of a table; the files of an atlas have all.
_MOST_ROWS = 20


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
        str | None, typer.Option(help="For a run of another tool: its agent's name.")
    ] = None,
    suite_name: Annotated[
        str | None, typer.Option(help="For a run of another tool: its suite's name.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="For a run of another tool: its seed.")
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
    made = _Made(level, jsonl, log, completed_only)
    if jsonl is not None:
        made.exported = export_jsonl(directory, jsonl, options, records)
    if log is not None:
        records = records or EvalLog.load(experiment_of(directory))
        records.save(log, plain=plain)
    if eee is not None and submission is not None:
        from longplay.lab.atlas.eee import export_eee

        made.files = export_eee(directory, eee, submission)
    print_answer(as_json, made.to_json(), made.show())


@dataclass
class _Made:
    """The result of an export."""

    level: str
    jsonl: Path | None
    log: Path | None
    completed_only: bool
    exported: Exported | None = None
    files: ExportedFiles | None = None

    def to_json(self) -> dict[str, Any]:
        """What was written, and how many records."""
        document: dict[str, Any] = {"level": self.level}
        if self.exported is not None:
            document["jsonl"] = str(self.jsonl)
            document["records"] = self.exported.lines
            document["errored"] = self.exported.errored
            document["no_evidence"] = list(self.exported.no_evidence)
        if self.log is not None:
            document["log"] = str(self.log)
        if (files := self.files) is not None:
            document["eee"] = {
                "aggregate": str(files.aggregate),
                "samples": str(files.samples),
                "rows": files.rows,
                "errored": files.errored,
            }
        return document

    def show(self) -> Iterator[RenderableType]:
        """The same, with the runs that have an error or no evidence."""
        if self.exported is not None:
            yield Text(f"{count(self.exported.lines, 'record')} -> {self.jsonl}")
            yield from self._show_errored(self.exported.errored)
            yield from _show_no_evidence(self.exported.no_evidence)
        if self.log is not None:
            yield Text(f"log -> {self.log}")
        if self.files is not None:
            yield Text(f"{count(self.files.rows, 'sample')} -> {self.files.samples}")
            yield Text(f"results -> {self.files.aggregate}")
            yield from self._show_errored(self.files.errored)

    def _show_errored(self, errored: int) -> Iterator[Text]:
        if errored:
            where = "left out" if self.completed_only else "among them; see error_type"
            yield Text(f"{errored:,} with an error, {where}", "yellow")


def _show_no_evidence(runs: Sequence[str]) -> Iterator[Text]:
    if runs:
        others = "" if len(runs) == 1 else f" and {len(runs) - 1:,} more"
        reason = "no evidence (no digests or hashes, only claimed)"
        yield Text(f"{reason}: {runs[0]}{others}", "yellow")


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
    from longplay.verify.verification import reexecute, verify_run, write_verification

    workers = os.cpu_count() or 1
    for run_dir in runs:
        status = RunDirectory(run_dir).status
        if status is not None and status.state not in ENDED:
            continue
        with ProgressLine(quiet=quiet) as progress, stdout_kept_clean():
            if level == "re-executed":
                verdict = reexecute(run_dir, agent, workers=workers)
            else:
                show = progress.show_replay
                verdict = verify_run(run_dir, workers=workers, observer=show)
            write_verification(verdict)


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
        str,
        typer.Option(
            metavar="AGENT", help="The random agent, which others should beat."
        ),
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
    problems = [] if problem is None else [indent(problem, "yellow")]
    tables = itertools.chain(_show_atlas(fitted), problems)
    print_answer(as_json, summarise_atlas(fitted), tables)


def _show_atlas(atlas: Atlas) -> Iterator[RenderableType]:
    """The best agents, the most difficult tasks, and notes."""
    from longplay.lab.atlas.atlas import list_agents, list_tasks

    matrix = atlas.matrix
    agents, tasks = count(len(matrix.agents), "agent"), count(len(matrix.tasks), "task")
    yield TextTable.of_items(
        f"{agents} × {tasks}",
        itertools.islice(list_agents(atlas), _MOST_ROWS),
        ("agent", lambda row: row["agent"]),
        ("tasks", lambda row: row["tasks"]),
        ("errored", lambda row: row["errored"] or ""),
        (
            "standardised reward",
            lambda row: format_number(row["standardised_reward"], 3),
        ),
        ("ability", lambda row: _format_estimate(row["ability"], row["ability_se"])),
    )
    if atlas.rasch is not None:
        yield TextTable.of_items(
            "most difficult tasks",
            itertools.islice(list_tasks(atlas), _MOST_ROWS),
            ("task", lambda row: row["task_id"]),
            ("agents", lambda row: row["agents"]),
            (
                "difficulty",
                lambda row: _format_estimate(row["difficulty"], row["difficulty_se"]),
            ),
        )
    yield from map(indent, _describe(atlas))


def _format_estimate(value: float | None, error: float | None) -> str:
    return "–" if value is None else f"{value:z.2f} ±{error:.2f}"


def _describe(atlas: Atlas) -> Iterator[str]:
    from longplay.lab.atlas.atlas import describe_atlas

    matrix, held_out = atlas.matrix, atlas.held_out
    total = len(matrix.agents) * len(matrix.tasks)
    yield f"{len(matrix.reward):,} of {total:,} entries; ± is the standard error"
    if atlas.response is not None:
        yield f"abilities and difficulties: Rasch model of {atlas.response}, in logits"
    if held_out is not None:
        yield (
            f"held-out error {held_out.model:.3f} deviations; row and column means "
            f"{held_out.baseline:.3f} ({held_out.entries:,} entries)"
        )
    yield from describe_atlas(atlas)


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
    text = f"{count(len(applied.runs), 'record')} changed"
    if applied.has_investigator:
        text += "; the experiment names its investigator"
    document = {"runs": applied.runs, "investigator": applied.has_investigator}
    print_answer(as_json, document, [Text(text)])


findings_app.command("apply", cls=Command)(guard(apply))
