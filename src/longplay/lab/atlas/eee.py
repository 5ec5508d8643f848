"""Experiment directory -> Every Eval Ever: an aggregate file and its samples.

    <output>/data/longplay/<developer>/<agent>/<uuid>.json
    <output>/data/longplay/<developer>/<agent>/<uuid>_samples.jsonl

Version 0.3.0 of https://github.com/evaleval/every_eval_ever. The aggregate file has one
result per number of score.json, `longplay.<suite>.<number>`: the mean over runs and its
uncertainty over seeds. The samples are the records, one row per run or visit. Runs with
an error are samples, and left out of the results. The uuid derives from the
experiment's id: exporting again replaces the files.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import statistics
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from longplay.contract.documents import Score
from longplay.contract.files import (
    make_directory,
    read_document,
    render_document,
    render_line,
    write_chunks,
    write_file,
)
from longplay.contract.layout import find_started_runs, read_experiment_config
from longplay.contract.names import name_agent
from longplay.errors import ConfigError, NotARunError
from longplay.eval_log.export import CheckedRuns, ExportOptions
from longplay.eval_log.records import AgentInfo, EpisodeRecord, ExperimentRecord
from longplay.eval_log.run_records import EXPERIMENT_FILE, Level, experiment_of
from longplay.eval_log.trajectory import Trajectory
from longplay.lab.analysis.commands import run_command
from longplay.lab.analysis.intervals import (
    BOOTSTRAP_DRAWS,
    FEWEST_FOR_BOOTSTRAP,
    estimate_mean,
    standard_error,
)

EEE_VERSION = "0.3.0"
COLLECTION = "longplay"
REWARD = "reward"

Relationship = Literal["first_party", "third_party", "collaborative", "other"]

_LOWER_IS_BETTER = ("forgetting", "mse", "nmse")
# Errors that cannot be below 0; those against rollout values can.
_FROM_ZERO = ("mse", "nmse", "median_nmse", "return_mse")
_NOT_RESULTS = ("fps",)  # about the machine
_MODEL_DETAILS = ("agent_id", "config_type", "config", "git_commit", "git_remote_url")


@dataclass(frozen=True)
class Submission:
    """Who exports, and how.

    Attributes:
        organization: Name of the organization that made the results.
        relationship: Its relationship to the agent: one of `Relationship`.
        options: Which records become samples.
    """

    organization: str
    relationship: str
    options: ExportOptions = field(default_factory=ExportOptions)

    def __post_init__(self) -> None:
        if self.relationship not in get_args(Relationship):
            raise ConfigError(
                f"relationship: expected one of {', '.join(get_args(Relationship))}, "
                f"found {self.relationship!r}"
            )
        if not _slug(self.organization):
            raise ConfigError(
                f"organization: expected a name, found {self.organization!r}"
            )


@dataclass(frozen=True)
class ExportedFiles:
    """The files of one experiment.

    Attributes:
        aggregate: Results.
        samples: JSONL.
        rows: Number of samples.
        errored: Runs or visits with an error: among the samples, or left out.
    """

    aggregate: Path
    samples: Path
    rows: int
    errored: int


def export_eee(
    directory: str | Path, output: str | Path, submission: Submission
) -> ExportedFiles:
    """Writes the two files of an experiment.

    Args:
        directory: An experiment, or one of its runs.
        output: Folder that contains, or will contain, `data/`.
        submission: Who exports, and how.

    Raises:
        NotARunError: No run has ended.
        DocumentError: A file of the experiment is missing or damaged.
    """
    directory = Path(directory)
    experiment = read_document(
        experiment_of(directory) / EXPERIMENT_FILE, ExperimentRecord
    )
    agent = name_agent(experiment.agent.config)
    model_id = f"{_slug(submission.organization)}/{_slug(agent) or 'agent'}"
    folder = Path("data", COLLECTION, *model_id.split("/"))
    name = str(_derive_uuid(experiment.experiment_id))
    samples = _Samples(folder / f"{name}_samples.jsonl", experiment, model_id)
    records = CheckedRuns(directory, submission.options).iter_records()
    lines = samples.render(records, submission.options)
    first = next(lines, None)
    if first is None:
        raise NotARunError(f"{directory}: expected a run that has ended, found none")
    make_directory(Path(output) / folder, exist_ok=True)
    write_chunks(Path(output) / samples.path, itertools.chain([first], lines))
    aggregate = {
        **_describe_experiment(experiment, submission),
        "model_info": _describe_agent(experiment.agent, agent, model_id, submission),
        "evaluation_results": list(_list_results(directory, experiment, samples)),
        "detailed_evaluation_results": samples.describe(),
    }
    path = Path(output) / folder / f"{name}.json"
    write_file(path, render_document(aggregate))
    return ExportedFiles(
        path, Path(output) / samples.path, samples.rows, samples.errored
    )


def _slug(text: str) -> str:
    """Text as part of a model's id and of a path, on every platform."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")


def _derive_uuid(experiment_id: str) -> uuid.UUID:
    digest = hashlib.sha256(f"every eval ever {experiment_id}".encode()).digest()
    return uuid.UUID(bytes=digest[:16], version=4)


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Values as strings, JSON where they are not text; None is left out."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for name, value in values.items()
        if value is not None
    }


# --- the experiment -----------------------------------------------------------------


def _describe_experiment(
    experiment: ExperimentRecord, submission: Submission
) -> dict[str, Any]:
    return {
        "schema_version": EEE_VERSION,
        "evaluation_id": experiment.experiment_id,
        # The time of the last export, which the experiment record has.
        "retrieved_timestamp": str(experiment.timestamp),
        "source_metadata": {
            "source_name": "longplay",
            "source_type": "evaluation_run",
            "source_organization_name": submission.organization,
            "evaluator_relationship": submission.relationship,
        },
        "eval_library": {
            "name": "longplay",
            "version": experiment.framework_version,
            "additional_details": experiment.agent.dependency_versions,
        },
    }


def _describe_agent(
    agent: AgentInfo, name: str, model_id: str, submission: Submission
) -> dict[str, Any]:
    details = {key: getattr(agent, key) for key in _MODEL_DETAILS}
    details |= {"description": agent.description, "llm_model": agent.llm_model}
    return {
        "name": name,
        "id": model_id,
        "developer": submission.organization,
        "additional_details": {
            "deployment_type": "self_deployed",
            "model_availability": "unknown",
            **_texts(details),
        },
    }


def _describe_command(directory: Path, agent: AgentInfo) -> str:
    """The command of the experiment."""
    plan = read_experiment_config(directory)
    isolation = plan.agent_isolation
    return run_command(plan.config_given, agent.config, plan.seeds, isolation)


# --- results ------------------------------------------------------------------------


def _list_results(
    directory: Path, experiment: ExperimentRecord, samples: _Samples
) -> Iterator[dict[str, Any]]:
    """One result per number that a run has."""
    numbers, errored = _read_numbers(directory)
    if samples.rewards:
        numbers[REWARD] = samples.rewards
    config = {
        "generation_args": {
            "execution_command": _describe_command(
                experiment_of(directory), experiment.agent
            ),
            "agentic_eval_config": {
                "available_tools": [{"name": name} for name in samples.tools]
            },
        }
    }
    for name, by_seed in numbers.items():
        yield {
            "evaluation_result_id": f"{experiment.experiment_id}/{name}",
            "evaluation_name": f"longplay.{experiment.benchmark_name}.{name}",
            "source_data": {
                "dataset_name": experiment.benchmark_name,
                "source_type": "other",
                "additional_details": _texts(
                    {"benchmark_version": experiment.benchmark_version}
                    | experiment.benchmark_subset.model_dump(include={"n_tasks"})
                ),
            },
            "metric_config": _describe_metric(experiment.benchmark_name, name),
            "score_details": _summarise(by_seed, errored),
            "generation_config": config,
        }


def _read_numbers(directory: Path) -> tuple[dict[str, dict[int | None, float]], int]:
    """Name -> seed -> number, of completed runs; and how many runs have an error."""
    numbers: dict[str, dict[int | None, float]] = {}
    errored = 0
    for run_dir in find_started_runs(directory):
        trajectory = Trajectory(run_dir)
        errored += trajectory.state == "FAILED"
        score = trajectory.run.score
        if trajectory.state == "COMPLETED" and score is not None:
            for name, value in list_numbers(score).items():
                numbers.setdefault(name, {})[trajectory.config.seed] = value
    return numbers, errored


def list_numbers(score: Score) -> dict[str, float]:
    """The measured numbers of a score that are not null, without counts."""
    return {
        name: value
        for name in type(score).model_fields
        if name not in _NOT_RESULTS and isinstance(value := getattr(score, name), float)
    }


def _describe_metric(suite: str, name: str) -> dict[str, Any]:
    return {
        "metric_id": f"longplay.{suite}.{name}",
        "metric_name": name.replace("_", " "),
        "lower_is_better": any(word in name for word in _LOWER_IS_BETTER),
        "score_type": "continuous",
        "min_score": 0.0 if name in _FROM_ZERO else "-Infinity",
        "max_score": "Infinity",
    }


def _summarise(by_seed: Mapping[int | None, float], errored: int) -> dict[str, Any]:
    """The mean over runs, and its uncertainty."""
    values = list(by_seed.values())
    estimate = estimate_mean(values)
    assert estimate is not None
    details = {"per_seed": {str(seed): value for seed, value in by_seed.items()}}
    uncertainty: dict[str, Any] = {"num_samples": estimate.n}
    error = standard_error(values)
    if error is not None:
        uncertainty["standard_error"] = {"value": error, "method": "analytic"}
        uncertainty["standard_deviation"] = statistics.stdev(values)
    if estimate.low is not None:
        uncertainty["confidence_interval"] = {
            "lower": estimate.low,
            "upper": estimate.high,
            "confidence_level": 0.95,
            "method": f"{estimate.method}, over seeds",
        }
        if estimate.n >= FEWEST_FOR_BOOTSTRAP:
            uncertainty["num_bootstrap_samples"] = BOOTSTRAP_DRAWS
    return {
        "score": estimate.mean,
        "details": _texts({**details, "errored_runs": errored or None}),
        "uncertainty": uncertainty,
    }


# --- samples ------------------------------------------------------------------------


@dataclass
class _Samples:
    """The samples' file, and what its rows add up to.

    Attributes:
        path: Relative to the output folder.
        experiment: The experiment of all rows.
        model_id: The agent of all rows.
        rewards: Seed -> reward, of runs without an error.
    """

    path: Path
    experiment: ExperimentRecord
    model_id: str
    rows: int = 0
    errored: int = 0
    rewards: dict[int | None, float] = field(default_factory=dict)
    tools: dict[str, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._hash = hashlib.sha256()

    def render(
        self, records: Iterator[EpisodeRecord], options: ExportOptions
    ) -> Iterator[bytes]:
        """The lines, one by one."""
        level = options.level
        for record in records:
            self.tools |= dict.fromkeys(record.tool_names)
            if record.error_type is not None:
                self.errored += 1
                if options.completed_only:
                    continue
            elif level == "run":
                self.rewards[record.seed] = record.reward
            line = render_line(self._make_row(record, level))
            self._hash.update(line)
            self.rows += 1
            yield line

    def _make_row(self, record: EpisodeRecord, level: Level) -> dict[str, Any]:
        name = REWARD if level == "run" else f"visit_{REWARD}"
        raw = record.task_description or record.task_id
        row: dict[str, Any] = {
            "schema_version": EEE_VERSION,
            "evaluation_id": self.experiment.experiment_id,
            "model_id": self.model_id,
            "evaluation_name": f"longplay.{self.experiment.benchmark_name}.{name}",
            "sample_id": record.task_id,
            "sample_hash": hashlib.sha256(raw.encode()).hexdigest(),
            "interaction_type": "agentic",
            "input": {"raw": raw, "reference": []},
            "output": None,
            "messages": [],
            "answer_attribution": [],
            "evaluation": {
                "score": record.reward,
                "is_correct": record.success,
                "num_turns": record.n_agent_steps or None,
            },
            "token_usage": _describe_usage(record),
            "performance": _describe_time(record),
            "error": record.error_type,
            "metadata": _list_rest(record),
        }
        if level == "run" and record.error_type is None:
            result = f"{self.experiment.experiment_id}/{REWARD}"
            row["evaluation_result_id"] = result
        return row

    def describe(self) -> dict[str, Any]:
        """The reference from the aggregate file."""
        return {
            "format": "jsonl",
            "file_path": self.path.as_posix(),
            "hash_algorithm": "sha256",
            "checksum": self._hash.hexdigest(),
            "total_rows": self.rows,
        }


def _describe_usage(record: EpisodeRecord) -> dict[str, int] | None:
    usage = record.usage
    if not usage.total_tokens:
        return None
    return {
        "input_tokens": usage.prompt_tokens,
        "output_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "input_tokens_cache_read": usage.cached_tokens,
        "input_tokens_cache_write": usage.cache_creation_tokens,
    }


def _describe_time(record: EpisodeRecord) -> dict[str, float] | None:
    if record.wall_time_s is None:
        return None
    return {"latency_ms": 1000 * record.wall_time_s}


# Fields of a record that have a place of their own in a row.
_PLACED = ("experiment_id", "task_id", "task_description", "success", "reward")


def _list_rest(record: EpisodeRecord) -> dict[str, str]:
    """All other fields of a record, as strings."""
    document = record.model_dump(mode="json", exclude={*_PLACED, "error_type"})
    return _texts(document)
