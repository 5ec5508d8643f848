"""Experiment directory -> JSONL for submission, checked before a line is written.

One run is in memory at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from longplay.contract.layout import (
    EXPERIMENT_CONFIG,
    ExperimentConfig,
    find_started_runs,
    is_experiment,
    read_experiment_config,
)
from longplay.contract.records import ProofLevel
from longplay.contract.rundir import has_evidence
from longplay.errors import DocumentError
from longplay.eval_log.agreement import check_agreement
from longplay.eval_log.evidence import check_trust
from longplay.eval_log.records import EpisodeRecord
from longplay.eval_log.run_records import (
    ENDED,
    EXPERIMENT_FILE,
    Level,
    check_level,
    experiment_of,
    make_records,
    naming_run,
    read_experiment_id,
    write_lines,
)
from longplay.eval_log.trajectory import Trajectory


@dataclass(frozen=True)
class ExportOptions:
    """What to export.

    Attributes:
        level: One line per run, or one per visit.
        partial: Whether planned runs that have not ended may be missing.
        require: The level that the verification of every run must have reached.
        completed_only: Whether to leave out runs that ended with an error.
    """

    level: Level = "run"
    partial: bool = False
    require: ProofLevel | None = None
    completed_only: bool = False


@dataclass(frozen=True)
class Exported:
    """What was exported.

    Attributes:
        lines: Number of lines.
        errored: Runs or visits that ended with an error: among the lines, or left out.
        no_evidence: Ids of runs that have no digests or hashes and can only be
            claimed.
    """

    lines: int
    errored: int
    no_evidence: tuple[str, ...]


def export_jsonl(
    directory: str | Path,
    path: str | Path,
    level: Level = "run",
    *,
    partial: bool = False,
    require: ProofLevel | None = None,
    completed_only: bool = False,
) -> int:
    """Writes the records of an experiment or run directory to one JSONL file.

    Documents that contradict each other, the plan, or the lengths of the row files are
    refused before anything is written.

    Args:
        directory: Contains the runs; their records need not exist yet.
        path: File to write; it appears whole or not at all.
        level: One line per run, or one per visit.
        partial: Whether planned runs that have not ended may be missing.
        require: The level that the verification of every run must have reached.
        completed_only: Whether to leave out runs that ended with an error.

    Returns:
        The number of lines.

    Raises:
        DocumentError: A run that has ended lacks its score, a file is damaged or
            contradicts another, a planned run is missing, or a run was not verified
            as required.
    """
    options = ExportOptions(level, partial, require, completed_only)
    return export_records(directory, path, options).lines


def export_records(
    directory: str | Path, path: str | Path, options: ExportOptions
) -> Exported:
    """As `export_jsonl`; also counts errors and names the runs without evidence."""
    checked = CheckedRuns(Path(directory), options)
    lines, errored = write_lines(
        Path(path), checked.iter_records(), options.completed_only
    )
    return Exported(lines, errored, tuple(checked.no_evidence))


class CheckedRuns:
    """The runs of an experiment, each checked before its records are made.

    Attributes:
        no_evidence: Ids of the runs so far that have no digests or hashes.
    """

    def __init__(self, directory: Path, options: ExportOptions) -> None:
        check_level(options.level)
        self.no_evidence: list[str] = []
        self._options = options
        self._run_dirs = find_started_runs(directory)
        self._experiment = experiment_of(directory)
        self._experiment_id = read_experiment_id(self._experiment)
        self._plan: ExperimentConfig | None = None
        self._planned: frozenset[int] = frozenset()
        if is_experiment(self._experiment):
            self._plan = read_experiment_config(self._experiment)
            self._planned = frozenset(self._plan.seeds)
            if self._experiment_id != self._plan.experiment_id:
                raise DocumentError(
                    f"{EXPERIMENT_FILE} experiment_id: expected "
                    f"{self._plan.experiment_id} from {EXPERIMENT_CONFIG}, found "
                    f"{self._experiment_id}"
                )
        self._expects_all = not options.partial and directory == self._experiment
        self._names_by_seed: dict[int | None, str] = {}

    def iter_records(self) -> Iterator[EpisodeRecord]:
        """The records, one run in memory at a time."""
        for run_dir in self._run_dirs:
            with naming_run(run_dir):
                trajectory = Trajectory(run_dir)
                if trajectory.state not in ENDED:
                    continue
                self._check(trajectory)
                level = self._options.level
                records = make_records(trajectory, self._experiment_id, level)
            yield from records
        if self._expects_all and self._plan is not None:
            self._check_complete(self._plan)

    def _check(self, trajectory: Trajectory) -> None:
        self._check_seed(trajectory.config.seed, trajectory.run.path.name)
        check_agreement(trajectory.run, self._plan)
        if not has_evidence(trajectory.run.summary):
            self.no_evidence.append(trajectory.id)
        if self._options.require is not None:
            check_trust(trajectory.run, self._options.require)

    def _check_seed(self, seed: int | None, name: str) -> None:
        if self._plan is not None and seed not in self._planned:
            raise DocumentError(
                f"config.json seed: expected a seed that {EXPERIMENT_CONFIG} plans, "
                f"found {seed}"
            )
        if seed in self._names_by_seed:
            raise DocumentError(
                f"config.json seed: expected one run of each seed, found {seed} in "
                f"{self._names_by_seed[seed]} too"
            )
        self._names_by_seed[seed] = name

    def _check_complete(self, plan: ExperimentConfig) -> None:
        missing = [seed for seed in plan.seeds if seed not in self._names_by_seed]
        if missing:
            raise DocumentError(
                f"{EXPERIMENT_CONFIG} seeds: expected a run of every planned seed that "
                f"has ended, found none of seed {missing[0]} ({len(missing):,} of "
                f"{len(plan.seeds):,} are missing); --partial exports the others"
            )
