"""A run directory of another tool -> a log of one run, with *no evidence*.

Contract v1 says nothing about agents, suites and seeds, so the caller names them. A
name of the catalogue is taken only if its contract hash is the run's. The rows are
validated and scored here: there is no summary to read.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from longplay.contract.config import RunConfig
from longplay.contract.fingerprint import agent_id
from longplay.contract.rundir import RunDirectory, read_run
from longplay.errors import ConfigError, DocumentError
from longplay.eval_log.evidence import read_evidence
from longplay.eval_log.log import EvalLog
from longplay.eval_log.records import (
    AgentInfo,
    BenchmarkSubset,
    EpisodeRecord,
    ExperimentRecord,
    make_experiment_id,
)
from longplay.eval_log.tasks import TaskConfig, TaskMetadata
from longplay.eval_log.trajectory import PlainTrajectory
from longplay.plan import RunPlan, name_task, plan_run
from longplay.scoring.play import read_play
from longplay.suites import find_suite
from longplay.tracks.scores import compute_score
from longplay.validation import validate_run


@dataclass(frozen=True)
class ForeignNames:
    """What another tool's run does not say.

    Attributes:
        agent: Name of its agent.
        suite: Name of its suite, of the catalogue or another.
        seed: Its run seed, if known.
    """

    agent: str
    suite: str
    seed: int | None = None


def is_foreign(directory: Path) -> bool:
    """Whether a folder is a run directory of another tool."""
    run = RunDirectory(directory)
    return run.has_config and not run.config.is_longplay


def make_foreign_log(directory: Path, names: ForeignNames) -> EvalLog:
    """The records of another tool's run.

    Raises:
        DocumentError: The run is not valid.
        ConfigError: The suite is another one than the run's.
    """
    report = validate_run(directory)
    if not report.is_valid:
        count = sum(report.findings.counts.values())
        raise DocumentError(
            f"{directory}: expected a valid run, found {count:,} findings; "
            f"`longplay validate {directory}` lists them"
        )
    run = read_run(directory)
    experiment = _describe(run, names)
    plan = _find_plan(run.config, names)
    trajectory = _summarise(run, experiment, names, plan)
    task_config = None if plan is None else TaskConfig.from_plan(plan)
    record = EpisodeRecord.from_trajectory(
        trajectory, experiment.experiment_id, trajectory.task_metadata, task_config
    )
    if task_config is None:
        record.task_version_hash = run.config.benchmark_contract_hash
    return EvalLog(experiment=experiment, episodes=[record])


def _describe(run: RunDirectory, names: ForeignNames) -> ExperimentRecord:
    """The experiment: one agent, one suite, one task."""
    config = {"_type": names.agent}
    name = f"{names.suite}_{names.agent}"
    return ExperimentRecord(
        experiment_id=make_experiment_id(name, run.path.absolute()),
        experiment_name=name,
        timestamp=time.time(),
        framework_version="unknown",
        agent=AgentInfo(
            agent_id=agent_id(config),
            config_type=names.agent,
            config=config,
            llm_model=None,
            framework_version="unknown",
            dependency_versions={},
            git_commit=None,
            git_remote_url=None,
            git_is_dirty=None,
        ),
        benchmark_name=names.suite,
        benchmark_version=run.config.benchmark_contract_version,
        benchmark_subset=BenchmarkSubset(name=names.suite, n_tasks=1, filter=None),
    )


def _find_plan(config: RunConfig, names: ForeignNames) -> RunPlan | None:
    """The run as the catalogue plans it; None for other suites."""
    if find_suite(names.suite) is None:
        return None
    if names.seed is None:
        raise ConfigError(f"--seed: expected the seed of {names.suite}, found none")
    plan = plan_run(names.suite, names.seed)
    expected = plan.config.benchmark_contract_hash
    if config.benchmark_contract_hash != expected:
        raise ConfigError(
            f"--suite-name: {names.suite} with seed {names.seed} has the contract hash "
            f"{expected}, the run has {config.benchmark_contract_hash}; choose a name "
            "that is not in the catalogue"
        )
    return plan


def _summarise(
    run: RunDirectory,
    experiment: ExperimentRecord,
    names: ForeignNames,
    plan: RunPlan | None,
) -> PlainTrajectory:
    score = compute_score(read_play(run))
    decisions = run.events.numpy("is_decision_frame")["is_decision_frame"]
    task_id = names.suite if names.seed is None else name_task(names.suite, names.seed)
    return PlainTrajectory(
        id=run.path.absolute().name,
        metadata={
            "task_id": task_id,
            "seed": names.seed,
            "agent_id": experiment.agent.agent_id,
            "agent_name": names.agent,
        },
        summary_stats={
            "n_steps": score.frames,
            "n_agent_steps": int(decisions.sum()),
            "n_env_steps": score.frames,
            "wall_time_s": score.frames / score.fps if score.fps else None,
        },
        reward_info={"reward": score.reward},
        start_time=None,
        error_type=None,
        task_metadata=None if plan is None else TaskMetadata.from_config(plan.config),
        evidence=read_evidence(run),
    )
