"""The command status: the progress of an experiment or a study, live on a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.live import Live

from longplay.cli import experiment_tables, study_tables
from longplay.cli.guard import DirectoryOrStudy, Json, SafeConsole, print_json
from longplay.cli.running import StallTimeout
from longplay.contract.rundir import is_study

if TYPE_CHECKING:
    from longplay.lab.studies.directory import StudyDirectory
    from longplay.runs.status import RunView


def status(
    directory: DirectoryOrStudy,
    stall_timeout: StallTimeout = 600.0,
    as_json: Json = False,
) -> None:
    """Show the progress of an experiment or a study; live on a terminal."""
    from longplay.experiments.experiment import view_runs
    from longplay.lab.studies.directory import read_study

    if is_study(directory):
        show_study_status(read_study(directory, stall_timeout), as_json=as_json)
        return
    if as_json:
        print_json([view.to_json() for view in view_runs(directory, stall_timeout)])
        return

    def read() -> tuple[RenderableType, list[RunView]]:
        views = view_runs(directory, stall_timeout)
        return experiment_tables.show_status(views), views

    _show_live(read)


def show_study_status(study: StudyDirectory, *, as_json: bool) -> None:
    """Shows the progress of every cell of a study; live on a terminal."""
    if as_json:
        print_json(study_tables.status_to_json(study, study_tables.view_cells(study)))
        return

    def read() -> tuple[RenderableType, list[RunView]]:
        cells = study_tables.view_cells(study)
        views = [view for found in cells.values() for view in found]
        return study_tables.show_status(study, cells), views

    _show_live(read)


def _show_live(read: Callable[[], tuple[RenderableType, list[RunView]]]) -> None:
    """Shows a table of runs; on a terminal until no run is left to play."""
    console = SafeConsole()
    if not console.is_terminal:
        console.print(read()[0])
        return
    with Live(console=console, auto_refresh=False) as live:
        while True:
            started_s = time.process_time()
            table, views = read()
            live.update(table, refresh=True)
            if not any(view.state in ("QUEUED", "RUNNING") for view in views):
                return
            # Many runs are read less often.
            time.sleep(max(1.0, 10 * (time.process_time() - started_s)))
