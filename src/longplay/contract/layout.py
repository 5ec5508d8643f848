"""The layout of an experiment directory, and the documents that plan its runs.

<experiment>/experiment_config.json       the plan, written before the first frame
<experiment>/episodes/<run>/              a run directory
<experiment>/episodes/<run>/episode_config.json   the request for the run
<experiment>/archive/<run>/<try>/         earlier attempts; readers ignore them
<experiment>/probes/<run>/<state>/        a probe of the run's agent, a run directory
<experiment>/tracking/<run>/              of `--track`; readers ignore it

A study is a folder of experiments with a plan, study.json: results are in cells/,
tuning runs in tuning/.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from longplay.contract.config import AgentEntry, ConfigGiven
from longplay.contract.documents import (
    SCHEMA_VERSION,
    AgentIsolation,
    Document,
    optional,
)
from longplay.contract.files import read_document
from longplay.contract.names import folder_name
from longplay.contract.rundir import (
    FOUND_STUDY,
    PACK_SUFFIX,
    STUDY_FILE,
    find_runs,
    is_pack,
    is_run,
    is_study,
    natural_key,
)
from longplay.errors import DocumentError, NotARunError

EXPERIMENT_CONFIG = "experiment_config.json"
RUN_REQUEST = "episode_config.json"
PROBES = "probes"


AgentFilePatterns = Annotated[
    tuple[str, ...],
    Field(
        exclude_if=lambda given: not given,
        description="Patterns given with `--agent-files`.",
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
    agent_isolation: AgentIsolation = AgentIsolation()
    tuning_frames: int | None = optional(
        "Frames that were spent on tuning the agent.", ge=0
    )


# Which states of the agent a run keeps.
KeepAgent = Literal["none", "final", "visits"]


class RunRequest(Document):
    """episode_config.json: the request for a run, enough to request it again."""

    schema_version: int = SCHEMA_VERSION
    trajectory_id: str
    task_id: str
    suite: str
    seed: int
    config_given: ConfigGiven
    agent_reference: str | None = None
    agent_files: AgentFilePatterns = ()
    agent: AgentEntry
    agent_isolation: AgentIsolation = AgentIsolation()
    keep_agent: KeepAgent | None = optional()
    kept_agent_bytes: int | None = optional(ge=0)


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
        found = f"; {FOUND_STUDY}" if is_study(directory) else ""
        raise NotARunError(
            f"{directory}: expected an experiment directory, with {EXPERIMENT_CONFIG} "
            f"in it{found}"
        )
    return read_document(directory / EXPERIMENT_CONFIG, ExperimentConfig)


def find_started_runs(directory: Path) -> list[Path]:
    """The runs of an experiment that were started; empty if it is only planned.

    Raises:
        NotARunError: The folder is neither an experiment nor a run.
    """
    if is_experiment(directory) and not any(directory.glob("episodes/*")):
        return []
    return find_runs(directory)


# The files and folders that an experiment consists of.
_OWN_NAMES = frozenset(
    {
        EXPERIMENT_CONFIG,
        "experiment_record.json",
        "experiment_summary.json",
        ".lock",
        "episodes",
        "archive",
        PROBES,
    }
)


def find_owner(path: Path) -> Path | None:
    """The experiment or run that a path is part of; None if there is none.

    Everything in a run belongs to it; in the folder of an experiment, other files may
    be put beside its own.
    """
    path = path.resolve()
    for place, above in itertools.pairwise((path, *path.parents)):
        if is_run(above) or (is_experiment(above) and place.name in _OWN_NAMES):
            return above
    return None


def run_dir_of(experiment_dir: Path, trajectory_id: str) -> Path:
    """The folder of a run in an experiment; its id may have any characters."""
    return experiment_dir.joinpath("episodes", folder_name(trajectory_id))


def probes_of(path: Path) -> Path:
    """The folder of the probes of a run or pack; its folders are named after states."""
    path = path.absolute()
    experiment = find_experiment(path)
    home = path.parent if experiment == path else experiment
    name = path.name.removesuffix(PACK_SUFFIX) if is_pack(path) else path.name
    return home / PROBES / name


def find_probed_run(probe_dir: Path) -> Path | None:
    """The run directory that a probe lies beside; None if there is none."""
    folder = probe_dir.absolute().parent
    home = folder.parent.parent
    if folder.parent.name != PROBES:
        return None
    places = (home / "episodes" / folder.name, home / folder.name)
    return next((place for place in places if is_run(place)), None)


# Earlier attempts, probes, and runs that were stopped on purpose: not results.
_NOT_RESULTS = ("archive", "tuning", "checkpoint", PROBES)


class PlannedCell(Document):
    """What study.json says of an experiment, before that is started."""

    folder: str
    agent: str = Field(description="Its name in the study.")
    suite: str = Field(description="Name of the benchmark, one for all seeds.")
    seeds: tuple[int, ...]
    entry: AgentEntry | None = Field(
        default=None, description="None until its arguments are chosen."
    )


class _PlannedCells(Document):
    cells: tuple[PlannedCell, ...] = ()


@dataclass(frozen=True)
class RunGroup:
    """Runs of one experiment, or a single run or pack.

    Attributes:
        directory: The experiment, or where a single run or pack was found.
        plan: The plan of an experiment.
        cell: The plan of an experiment of a study that was not started.
        runs: Run directories.
        packs: Packed runs.
        problem: Why the plan or the folder cannot be read; None if it can.
    """

    directory: Path
    plan: ExperimentConfig | None = None
    cell: PlannedCell | None = None
    runs: tuple[Path, ...] = ()
    packs: tuple[Path, ...] = ()
    problem: str | None = None


def find_run_groups(path: Path, *, keeps_broken: bool = False) -> list[RunGroup]:
    """All runs at or below a path, grouped by experiment, sorted by name.

    Args:
        path: Where to look.
        keeps_broken: Whether an experiment with a broken plan, or a folder that
            cannot be read, is a group with a `problem`, and not an error.

    Raises:
        NotARunError: There is none.
        DocumentError: The plan of an experiment is broken.
    """
    groups = list(_walk(path, keeps_broken))
    if not groups:
        found = "found none" if path.exists() else "no such file or folder"
        raise NotARunError(
            f"{path}: expected a run, an experiment, a study, a pack "
            f"(*{PACK_SUFFIX}) or a folder of these; {found}"
        )
    return groups


def _walk(path: Path, keeps_broken: bool) -> Iterator[RunGroup]:
    # A stack, because folders may be nested deeper than Python recurses.
    stack = [path]
    while stack:
        path = stack.pop()
        try:
            if (group := _read_group(path)) is not None:
                yield group
            elif path.is_dir():
                children = sorted(path.iterdir(), key=lambda p: natural_key(p.name))
                stack += [p for p in reversed(children) if not _is_skipped(p)]
                yield from _find_unstarted(path)
        except (DocumentError, NotARunError, OSError) as error:
            if not keeps_broken:
                raise
            yield RunGroup(path, runs=tuple(_list_runs(path)), problem=str(error))


def _read_group(path: Path) -> RunGroup | None:
    """The group at a path itself; None if it may be deeper."""
    if path.is_file():
        return RunGroup(path, packs=(path,)) if is_pack(path) else None
    if is_experiment(path):
        plan = read_experiment_config(path)
        return RunGroup(path, plan, runs=tuple(find_started_runs(path)))
    if is_run(path):
        return RunGroup(path, runs=tuple(find_runs(path)))
    return None


def _find_unstarted(directory: Path) -> Iterator[RunGroup]:
    """The experiments that a study planned and did not start."""
    if is_study(directory):
        for cell in read_document(directory / STUDY_FILE, _PlannedCells).cells:
            if not is_experiment(directory / cell.folder):
                yield RunGroup(directory / cell.folder, cell=cell)


def _list_runs(directory: Path) -> list[Path]:
    """The runs of an experiment whose plan is broken; empty if there are none."""
    try:
        return find_started_runs(directory)
    except (NotARunError, OSError):
        return []


def _is_skipped(path: Path) -> bool:
    """Whether a path is skipped; links are, since they can form cycles."""
    is_link = path.is_dir() and path.is_symlink()
    return is_link or path.name.startswith(".") or path.name in _NOT_RESULTS
