"""An experiment directory -> its documents, scores and columns.

experiment = longplay.read_experiment(DIR)
experiment.scores[0].headline
experiment.windows["rate"], experiment.windows["game"]
experiment.windows.arrow()
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

from longplay.contract.documents import Score
from longplay.contract.layout import (
    ExperimentConfig,
    find_experiment,
    find_started_runs,
    read_experiment_config,
)
from longplay.contract.rundir import RunDirectory
from longplay.lab.analysis.table import Table, read_table


class ExperimentDirectory:
    """One experiment, read lazily: plan, started runs, scores and columns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def config(self) -> ExperimentConfig:
        """experiment_config.json."""
        return read_experiment_config(self.path)

    @cached_property
    def runs(self) -> dict[int, RunDirectory]:
        """Seed -> run, for the planned runs that were started."""
        found = {
            run.config.seed: run
            for run in map(RunDirectory, find_started_runs(self.path))
            if run.has_config
        }
        return {seed: found[seed] for seed in self.config.seeds if seed in found}

    @cached_property
    def scores(self) -> dict[int, Score]:
        """Seed -> score, for the runs that are complete."""
        scores = {seed: run.score for seed, run in self.runs.items()}
        return {seed: score for seed, score in scores.items() if score is not None}

    @cached_property
    def windows(self) -> Table:
        """The reward of the complete runs as columns, a row per window of a visit."""
        return read_table(self.path)

    def _repr_html_(self) -> str:
        """The experiment as a notebook shows it: a line per planned seed."""
        from longplay.tables import TextTable, render_html

        rows = [
            (str(seed), *self._describe_run(self.runs.get(seed)))
            for seed in self.config.seeds
        ]
        title = f"{self.config.experiment_name}: {self.path}"
        return render_html(TextTable.of(title, ("seed", "state", "score"), rows, 2))

    def _describe_run(self, run: RunDirectory | None) -> tuple[str, float | None]:
        if run is None:
            return "not started", None
        state = "COMPLETED" if run.status is None else run.status.state
        return state, None if run.score is None else run.score.headline


def read_experiment(directory: str | Path) -> ExperimentDirectory:
    """Opens an experiment: its plan, runs, scores and columns.

    Args:
        directory: The experiment, or one of its run directories.

    Raises:
        NotARunError: The folder holds no experiment.
    """
    experiment = ExperimentDirectory(find_experiment(Path(directory)))
    _ = experiment.config  # raises if the folder is not an experiment
    return experiment
