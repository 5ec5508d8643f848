"""The command line: every command, in the order the help lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from longplay.cli import (
    catalogue,
    comparing,
    exporting,
    probing,
    proving,
    reading,
    running,
    watching,
)
from longplay.cli.studying import study_app
from longplay.cli.toolkit import Command, CommandGroup, guard
from longplay.provenance import longplay_version

app = typer.Typer(
    name="longplay",
    cls=CommandGroup,
    help="A continual-learning benchmark on Atari: run, resume, score, verify.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(study_app, name="study")
app.add_typer(catalogue.reference_app, name="reference")
app.add_typer(exporting.findings_app, name="findings")

# The help lists them in this order.
_COMMANDS = (
    running.run,
    running.resume,
    running.retry,
    reading.status,
    probing.probe,
    exporting.export,
    reading.validate,
    reading.score,
    reading.show,
    comparing.compare,
    comparing.table,
    comparing.plot,
    comparing.report,
    comparing.leaderboard,
    exporting.atlas,
    watching.view,
    watching.video,
    proving.verify,
    proving.pack,
    proving.unpack,
    proving.doctor,
    catalogue.suites,
    catalogue.settings,
    catalogue.games,
    catalogue.agents,
    catalogue.new_agent,
    catalogue.check_agent,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"longplay {longplay_version()}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """A continual-learning benchmark on Atari: run, resume, score, verify."""


for _command in _COMMANDS:
    _name = _command.__name__.replace("_", "-")
    app.command(_name, cls=Command)(guard(_command))
