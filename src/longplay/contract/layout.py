"""Where runs lie in an experiment, and the documents that plan them.

<experiment>/experiment_config.json       the plan, written before the first frame
<experiment>/episodes/<run>/              a run directory
<experiment>/episodes/<run>/episode_config.json   the request that the run answers
<experiment>/archive/<run>/<try>/         earlier tries; no reader counts them
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import Field

from longplay.contract.files import read_document
from longplay.contract.names import folder_name
from longplay.contract.records import AgentEntry, ConfigGiven, Document, Score
from longplay.contract.rundir import RunDirectory, find_runs
from longplay.contract.versions import SCHEMA_VERSION
from longplay.errors import NotARunError

EXPERIMENT_CONFIG = "experiment_config.json"
RUN_REQUEST = "episode_config.json"


AgentFilePatterns = Annotated[
    tuple[str, ...],
    Field(
        exclude_if=lambda given: not given,
        description="Patterns that `--agent-files` gave.",
    ),
]


class ExperimentConfig(Document):
    """experiment_config.json: the plan of an experiment."""

    schema_version: int = SCHEMA_VERSION
    experiment_id: str = Field(min_length=1)
    experiment_name: str
    suite: str = Field(description="Name of the benchmark, one for all seeds.")
    seeds: tuple[int, ...] = Field(min_length=1)
    n_tasks: int
    config_given: ConfigGiven
    agent: AgentEntry
    agent_files: AgentFilePatterns = ()


class RunRequest(Document):
    """episode_config.json: what was requested of a run, enough to request it again."""

    schema_version: int = SCHEMA_VERSION
    trajectory_id: str
    task_id: str
    suite: str
    seed: int
    config_given: ConfigGiven
    agent_reference: str | None = None
    agent_files: AgentFilePatterns = ()
    agent: AgentEntry


class ExperimentDirectory:
    """One experiment, read lazily: its plan, and the runs that have a folder."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @cached_property
    def config(self) -> ExperimentConfig:
        """experiment_config.json."""
        return read_experiment_config(self.path)

    @cached_property
    def runs(self) -> dict[int, RunDirectory]:
        """Seed -> run, of the planned runs that were started."""
        found = {
            run.config.seed: run
            for run in map(RunDirectory, find_started_runs(self.path))
            if run.has_config
        }
        return {seed: found[seed] for seed in self.config.seeds if seed in found}

    @cached_property
    def scores(self) -> dict[int, Score]:
        """Seed -> score, of the runs that are complete."""
        scores = {seed: run.score for seed, run in self.runs.items()}
        return {seed: score for seed, score in scores.items() if score is not None}


def read_experiment(directory: str | Path) -> ExperimentDirectory:
    """Opens an experiment: its plan, runs and scores.

    Args:
        directory: The experiment, or one of its run directories.

    Raises:
        NotARunError: The folder holds no experiment.
    """
    experiment = ExperimentDirectory(find_experiment(Path(directory)))
    _ = experiment.config  # refuses what is not an experiment
    return experiment


def is_experiment(directory: Path) -> bool:
    """Whether a folder holds an experiment, started or only planned."""
    return (directory / EXPERIMENT_CONFIG).is_file()


def find_experiment(directory: Path) -> Path:
    """The experiment that is given, or the one a run directory belongs to."""
    if is_experiment(directory):
        return directory
    above = directory.absolute().parent.parent
    return above if is_experiment(above) else directory


def read_experiment_config(directory: Path) -> ExperimentConfig:
    """The plan of an experiment.

    Raises:
        NotARunError: The folder holds none.
        DocumentError: It is damaged.
    """
    if not is_experiment(directory):
        raise NotARunError(
            f"{directory}: expected an experiment directory, with {EXPERIMENT_CONFIG} "
            "in it"
        )
    return read_document(directory / EXPERIMENT_CONFIG, ExperimentConfig)


def find_started_runs(directory: Path) -> list[Path]:
    """The runs of an experiment that have a folder; none of one that is only planned.

    Raises:
        NotARunError: The folder is neither an experiment nor a run.
    """
    if is_experiment(directory) and not any(directory.glob("episodes/*")):
        return []
    return find_runs(directory)


def run_dir_of(experiment_dir: Path, trajectory_id: str) -> Path:
    """The folder of a run in an experiment, whatever characters its id has."""
    return experiment_dir / "episodes" / folder_name(trajectory_id)
