"""The directory of a study -> its progress, the tuned values and the choices.

Nothing but the plan is stored: all of this is derived from the experiment directories
of the cells. No agent is imported.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from longplay.contract.files import read_document
from longplay.contract.layout import is_experiment, read_experiment_config, run_dir_of
from longplay.contract.names import folder_name
from longplay.contract.rundir import STUDY_FILE, RunDirectory, is_study
from longplay.errors import (
    ConsoleError,
    DocumentError,
    NotARunError,
    RecordingError,
    RunFailed,
)
from longplay.lab.studies.file import StudyFile, read_study_file
from longplay.lab.studies.plan import Cell, StudyPlan
from longplay.lab.studies.tuning import Point, choose_point, read_metric
from longplay.plan import RunPlan, plan_again
from longplay.runs.status import STALL_TIMEOUT_S, RunView, view_run

# Errors of the machine, not of the agent: the same run may succeed later.
_OF_THE_MACHINE = {
    error.__name__ for error in (RecordingError, ConsoleError, RunFailed)
} | {"WorkerLost"}
# The value of a run that has not ended.
_MISSING = object()


class StudyDirectory:
    """A study as read from the disk; no agent is imported."""

    def __init__(
        self,
        path: Path,
        plan: StudyPlan,
        stall_timeout_s: float = STALL_TIMEOUT_S,
    ) -> None:
        self.path = path
        self.plan = plan
        self.stall_timeout_s = stall_timeout_s
        self._plans: dict[tuple[str, int], RunPlan] = {}

    @cached_property
    def _cells(self) -> Mapping[str, Cell]:
        return {cell.folder: cell for cell in self.plan.all_cells}

    def directory_of(self, cell: Cell) -> Path:
        """The experiment directory of a cell."""
        return self.path / cell.folder

    def plans_of(self, cell: Cell) -> tuple[RunPlan, ...]:
        """The planned runs of a cell; many cells share them."""
        key = cell.config_given.model_dump_json()
        for seed in cell.seeds:
            if (key, seed) not in self._plans:
                self._plans[key, seed] = plan_again(cell.config_given, seed)
        return tuple(self._plans[key, seed] for seed in cell.seeds)

    def view(self, cell: Cell) -> list[RunView]:
        """The progress of every run of a cell."""
        folder = self.directory_of(cell)
        return [
            view_run(plan, run_dir_of(folder, plan.trajectory_id), self.stall_timeout_s)
            for plan in self.plans_of(cell)
        ]

    # --- tuning ---------------------------------------------------------------------

    def candidates_of(self, cell: Cell) -> list[Cell]:
        """The tuning cells that the agent of a cell is chosen from."""
        return [self._cells[folder] for folder in cell.candidates]

    def find_choice(self, cell: Cell) -> Cell | None:
        """The tuning cell whose arguments a cell is played with.

        Returns:
            None while tuning runs are missing.

        Raises:
            IncompleteRunError: No point of the grid has a value.
            DocumentError: The cell was played with other arguments than the rule gives.
        """
        points = self.read_points(cell)
        chosen = None if points is None else self._cells[choose_point(points).name]
        folder = self.directory_of(cell)
        if is_experiment(folder):
            played = read_experiment_config(folder).agent.agent_id
            expected = chosen and chosen.entry and chosen.entry.agent_id
            if played != expected:
                raise DocumentError(
                    f"{folder}: expected the agent that the rule chooses, {expected}, "
                    f"found {played}; files of the tuning runs were changed or removed"
                )
        return chosen

    def read_args(self, cell: Cell) -> dict[str, Any] | None:
        """The arguments of the agent of a cell; None before they are chosen."""
        if not cell.candidates:
            return cell.args
        folder = self.directory_of(cell)
        if not is_experiment(folder):
            return None
        return dict(read_experiment_config(folder).agent.config.get("args", {}))

    def read_points(self, cell: Cell) -> list[Point] | None:
        """The values of all candidates; None while a tuning run has not ended."""
        points = []
        for candidate in self.candidates_of(cell):
            values = [self._read_value(view) for view in self.view(candidate)]
            if any(value is _MISSING for value in values):
                return None
            points.append(Point(candidate.folder, tuple(values)))
        return points

    def _read_value(self, view: RunView) -> Any:
        """The metric of a run; None for one that failed, _MISSING before its end."""
        assert self.plan.tuning is not None
        if view.state == "COMPLETED":
            return read_metric(RunDirectory(view.run_dir), self.plan.tuning.metric)
        error = None if view.status is None else view.status.error
        if view.state != "FAILED" or error is None or error.type in _OF_THE_MACHINE:
            return _MISSING
        return None

    def count_tuning_frames(self, cell: Cell) -> int | None:
        """The frames that the choice of a cell's arguments cost; None without one."""
        if not cell.candidates:
            return None
        return sum(
            plan.config.total_frames
            for candidate in self.candidates_of(cell)
            for plan in self.plans_of(candidate)
        )


def read_study(path: Path, stall_timeout_s: float = STALL_TIMEOUT_S) -> StudyDirectory:
    """Opens a study that was started.

    Args:
        path: Its directory; or its file, if the directory is the default one.
        stall_timeout_s: A run without a heartbeat for this long counts as lost.

    Raises:
        NotARunError: There is no study.
    """
    directory = path
    if path.suffix == ".toml":
        directory = default_study_directory(read_study_file(path)[0])
    if not is_study(directory):
        raise NotARunError(
            f"{directory}: expected a study, with {STUDY_FILE} in it; "
            "`longplay study run FILE.toml` starts one"
        )
    plan = read_document(directory / STUDY_FILE, StudyPlan)
    return StudyDirectory(directory, plan, stall_timeout_s)


def default_study_directory(file: StudyFile) -> Path:
    """runs/<name of the study>, in the working directory."""
    return Path("runs") / folder_name(file.name)
