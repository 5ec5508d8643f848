"""Commands that show runs: view."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer


def view(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…",
            help="Runs, experiments, studies, packs, or folders of them.",
        ),
    ],
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; the first free one by default."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Listen on this address; pages then require a token.",
        ),
    ] = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not open a browser.")
    ] = False,
) -> None:
    """Show runs in the browser: timelines, comparisons, every frame replayed."""
    from longplay.report.viewer.server import LOCAL, ServerOptions, serve

    def announce(address: str) -> None:
        typer.echo(f"{address}  (Ctrl-C stops)")
        if not no_open:
            webbrowser.open(address)

    try:
        serve(paths, ServerOptions(host or LOCAL, port), announce)
    except KeyboardInterrupt:
        return  # how a viewer ends
