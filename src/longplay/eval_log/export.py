"""Experiment directory -> JSONL for submission, checked before a line is written.

One run is in memory at a time. A log that was saved without its runs, by longplay or by
another harness, is exported as it is: there is nothing to check it against.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longplay.agreement import check_agreement
from longplay.contract.documents import ProofLevel
from longplay.contract.files import read_document, shorten
from longplay.contract.layout import (
    EXPERIMENT_CONFIG,
    ExperimentConfig,
    find_started_runs,
    is_experiment,
    read_experiment_config,
)
from longplay.contract.rundir import has_evidence
from longplay.errors import DocumentError
from longplay.eval_log.evidence import check_trust
from longplay.eval_log.log import EvalLog
from longplay.eval_log.records import EpisodeRecord, ExperimentRecord
from longplay.eval_log.run_records import (
    ENDED,
    EXPERIMENT_FILE,
    Level,
    check_level,
    experiment_of,
    is_saved_log,
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
        plain: Whether to leave out `_type`, which other harnesses try to import.
    """

    level: Level = "run"
    partial: bool = False
    require: ProofLevel | None = None
    completed_only: bool = False
    plain: bool = False


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
    options: ExportOptions | None = None,
    log: EvalLog | None = None,
) -> Exported:
    """Writes the records of an experiment or run directory to one JSONL file.

    Documents that contradict each other, the plan, or the lengths of the row files are
    refused before anything is written.

    Args:
        directory: Contains the runs; their records need not exist yet.
        path: File to write; it appears whole or not at all.
        options: What to export.
        log: The records of the directory, if it is a run of another tool.

    Raises:
        DocumentError: A run that has ended lacks its score, a file is damaged or
            contradicts another, a planned run is missing, or a run was not verified
            as required.
    """
    options = options or ExportOptions()
    directory = Path(directory)
    if log is None and is_saved_log(directory):
        log = EvalLog.load(directory)
    if log is not None:
        records, no_evidence = _read_log(log, directory, options)
    else:
        checked = CheckedRuns(directory, options)
        records, no_evidence = checked.iter_records(), checked.no_evidence
    lines, errored = write_lines(
        Path(path), records, options.completed_only, options.plain
    )
    return Exported(lines, errored, tuple(no_evidence))


def _read_log(
    log: EvalLog, directory: Path, options: ExportOptions
) -> tuple[Iterator[EpisodeRecord], list[str]]:
    """The records of a log without runs, and the ids of those without evidence."""
    if options.require is not None:
        raise DocumentError(
            f"{directory}: --require: expected runs of longplay, which can be "
            "verified, found their log alone or a run of another tool"
        )
    planned = log.experiment.benchmark_subset.n_tasks
    if len(log.episodes) < planned and not options.partial:
        raise DocumentError(
            f"{EXPERIMENT_FILE} benchmark_subset.n_tasks: expected a record of each of "
            f"the {planned:,} planned runs, found {len(log.episodes):,}; --partial "
            "exports these"
        )
    no_evidence = [
        record.trajectory_id
        for record in log.episodes
        if record.evidence is None or record.evidence.chain_head is None
    ]
    return log.iter_records(options.level), no_evidence


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
            expected = {"experiment_id": self._plan.experiment_id}
            _compare_record({"experiment_id": self._experiment_id}, expected)
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
        if self._plan is not None:
            _check_experiment_record(self._experiment / EXPERIMENT_FILE, self._plan)
            if self._expects_all:
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


def _check_experiment_record(path: Path, plan: ExperimentConfig) -> None:
    """Checks that a record, where there is one, is of the planned agent."""
    if path.exists():
        agent = read_document(path, ExperimentRecord).agent
        found = {"agent.agent_id": agent.agent_id, "agent.config": agent.config}
        planned = plan.agent.agent_id, plan.agent.config
        _compare_record(found, dict(zip(found, planned, strict=True)))


def _compare_record(found: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    for field, value in expected.items():
        if found[field] != value:
            raise DocumentError(
                f"{EXPERIMENT_FILE} {field}: expected {shorten(value)} from "
                f"{EXPERIMENT_CONFIG}, found {shorten(found[field])}"
            )
