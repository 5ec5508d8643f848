"""Exported records: the classes of the Atlas EvalLog.

An `ExperimentRecord` says once what all runs of an experiment share: agent, benchmark,
provenance. An `EpisodeRecord` is the result of one of them; the EvalLog's episode (and
trajectory) is a run here. They are plain JSON and know nothing of Atari: `facts.py`
says which attributes a trajectory, agent config or benchmark needs.

Other versions of the harness that the EvalLog comes from have other names for some
fields (`evaluation_id`, `sample_id`, `score`, …). They are read too, and never written.

Every record names its kind as `_type` and carries its `schema_version`; a newer version
is refused.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, AliasChoices, AliasPath, Field

from longplay.contract.confidential import check_no_secrets
from longplay.contract.fingerprint import agent_id
from longplay.contract.typed_record import Record
from longplay.contract.usage import UsageSummary
from longplay.eval_log import facts
from longplay.eval_log.evidence import Evidence
from longplay.provenance import (
    longplay_version,
    make_permalink,
    read_git_state,
    read_package_versions,
)

_HEX_64 = "^[0-9a-f]{64}$"

# An empty description says as little as none.
Description = Annotated[str | None, AfterValidator(lambda text: text or None)]


class AgentInfo(Record):
    """The agent under test, and the code it ran with."""

    agent_id: str = Field(
        pattern=_HEX_64,
        description="SHA-256 of the config's JSON with sorted keys: the matrix row.",
    )
    config_type: str = Field(description="The config's own `_type`.")
    config: dict[str, Any] = Field(description="The whole agent config; no seed.")
    llm_model: str | None = Field(
        description="Language model, if the config names one."
    )
    framework_version: str = Field(description="Version of longplay.")
    dependency_versions: dict[str, str] = Field(
        description="Tracked packages that are installed."
    )
    git_commit: str | None = Field(description="Commit of the checkout.")
    git_remote_url: str | None = Field(
        description="GitHub permalink to the commit; null for other hosts.",
    )
    git_is_dirty: bool | None = Field(
        description="True: the commit alone may not reproduce the result."
    )
    cube_standard_git_commit: str | None = Field(
        default=None, description="Used by other harnesses; longplay leaves it null."
    )
    cube_standard_git_is_dirty: bool | None = Field(
        default=None, description="Used by other harnesses; longplay leaves it null."
    )
    description: Description = Field(
        default=None, description="Free text; never filled in automatically."
    )

    @classmethod
    def from_agent_config(cls, agent_config: Any, git_cwd: str | None = None) -> Self:
        """Describes an agent, in the checkout it runs from.

        Args:
            agent_config: An `AgentConfig`, or another model or mapping with `_type`.
            git_cwd: Folder of the checkout; the working directory if not given.

        Raises:
            ConfigError: The config has a key like `api_key`.
        """
        config = _plain(agent_config)
        check_no_secrets(config, "agent config")
        git = read_git_state(Path(git_cwd) if git_cwd is not None else Path.cwd())
        return cls(
            agent_id=agent_id(config),
            config_type=config.get("_type") or _name_class(agent_config),
            config=config,
            llm_model=facts.find_llm_model(config),
            framework_version=longplay_version(),
            dependency_versions=read_package_versions(),
            git_commit=git.commit,
            git_remote_url=make_permalink(git),
            git_is_dirty=git.is_dirty,
        )


def _plain(config: Any) -> dict[str, Any]:
    """A config as JSON values."""
    if isinstance(config, Mapping):
        return dict(config)
    plain: dict[str, Any] = config.model_dump(mode="json", serialize_as_any=True)
    return plain


def _name_class(config: Any) -> str:
    kind = type(config)
    return f"{kind.__module__}.{kind.__qualname__}"


class BenchmarkSubset(Record):
    """The planned part of a benchmark, so that missing runs are visible."""

    name: str = Field(description="Name of the benchmark, with the subset's suffix.")
    n_tasks: int = Field(ge=0, description="Tasks planned.")
    filter: str | None = Field(
        description="Glob of the subset; never filled in automatically."
    )

    @classmethod
    def from_benchmark(cls, benchmark: Any) -> Self:
        """Reads the name and the number of tasks from a benchmark.

        An object that is not a benchmark is called `unknown`, with 0 tasks.
        """
        return cls(
            name=facts.name_benchmark_of(benchmark),
            n_tasks=facts.count_tasks(benchmark),
            filter=None,
        )


class InvestigatorLLMConfig(Record):
    """The language model that assessed the runs afterwards."""

    model: str = Field(description="Name of the model.")
    prompt_version: str = Field(description="Version or hash of its prompt.")
    investigated_at: str | None = Field(
        default=None,
        validation_alias=AliasChoices("investigated_at", "judged_at"),
        description="ISO 8601.",
    )


class Findings(Record):
    """Findings of an investigator about one run; it may add keys of its own."""

    difficulty: str | None = Field(default=None, description="How hard the task is.")
    feasible: bool | None = Field(
        default=None, description="Whether the task is feasible."
    )
    failure_root_cause: str | None = Field(
        default=None, description="Why the agent failed."
    )


class Verifier(Record):
    """The function that computed the reward."""

    ref: str | None = Field(
        default=None, description="Permanent URL of the function at its commit."
    )
    source: str | None = Field(default=None, description="Its source code.")


def make_experiment_id(experiment_name: str, output_dir: Path) -> str:
    """First 16 hex of SHA-256 of the name and the absolute folder.

    Made once, and kept with the experiment: a folder that is moved keeps its id.
    """
    text = f"{experiment_name}{Path(output_dir).absolute()}"
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


class ExperimentRecord(Record):
    """experiment_record.json: the data shared by all runs of an experiment."""

    experiment_id: str = Field(
        min_length=1,
        validation_alias=AliasChoices("experiment_id", "evaluation_id"),
        description="First 16 hex of SHA-256 of `experiment_name + output_dir`.",
    )
    experiment_name: str = Field(description="`<suite>_<agent>`.")
    timestamp: float = Field(
        validation_alias=AliasChoices("timestamp", "evaluation_timestamp"),
        description="Time of the export, Unix seconds.",
    )
    framework_version: str = Field(
        validation_alias=AliasChoices(
            "framework_version", AliasPath("eval_library", "version")
        ),
        description="Version of longplay.",
    )
    agent: AgentInfo = Field(description="The agent under test.")
    benchmark_name: str = Field(description="Benchmark, with the subset's suffix.")
    benchmark_version: str | None = Field(description="Its contract version.")
    benchmark_subset: BenchmarkSubset = Field(description="The planned tasks.")
    investigator_llm_config: InvestigatorLLMConfig | None = Field(
        default=None,
        validation_alias=AliasChoices("investigator_llm_config", "judge_config"),
        description="The model that assessed the runs, if any.",
    )

    @classmethod
    def from_experiment(
        cls,
        exp_name: str,
        output_dir: Path,
        agent_config: Any,
        benchmark: Any,
        git_cwd: str | None = None,
    ) -> Self:
        """Describes an experiment from its plan."""
        agent = AgentInfo.from_agent_config(agent_config, git_cwd)
        subset = BenchmarkSubset.from_benchmark(benchmark)
        return cls(
            experiment_id=make_experiment_id(exp_name, output_dir),
            experiment_name=exp_name,
            timestamp=time.time(),
            framework_version=agent.framework_version,
            agent=agent,
            benchmark_name=subset.name,
            benchmark_version=facts.find_benchmark_version(benchmark),
            benchmark_subset=subset,
        )


class EpisodeRecord(Record):
    """episode_record.json: the result of one run."""

    experiment_id: str = Field(
        min_length=1,
        validation_alias=AliasChoices("experiment_id", "evaluation_id"),
        description="The experiment record it belongs to.",
    )
    agent_id: str | None = Field(
        default=None, description="Row of the matrix; longplay's addition."
    )
    agent_name: str | None = Field(
        default=None, description="Name of the agent in tables; longplay's addition."
    )

    task_id: str = Field(
        validation_alias=AliasChoices("task_id", "sample_id"),
        description="Column of the matrix; empty if unknown.",
    )
    task_version_hash: str | None = Field(
        validation_alias=AliasChoices("task_version_hash", "sample_hash"),
        description="SHA-256 of the task config's JSON.",
    )
    seed: int | None = Field(description="Run seed.")
    split: str | None = Field(description="train, val or test.")
    task_description: Description = Field(description="Description of the task.")

    tool_names: list[str] = Field(description="Actions the agent had.")

    success: bool = Field(
        validation_alias=AliasChoices("success", "is_correct"),
        description="Whether the reward is above 0.",
    )
    reward: float = Field(
        validation_alias=AliasChoices("reward", "score"),
        description="The entry of the matrix.",
    )
    error_type: str | None = Field(
        validation_alias=AliasChoices("error_type", "error"),
        description="Class of the error that ended the run.",
    )

    n_steps: int = Field(
        ge=0,
        validation_alias=AliasChoices("n_steps", "num_turns"),
        description="Frames.",
    )
    n_agent_steps: int = Field(ge=0, description="Decision frames.")
    n_env_steps: int = Field(ge=0, description="Emulator frames.")
    wall_time_s: float | None = Field(description="Seconds of playing.")
    usage: UsageSummary = Field(description="Tokens and cost of the agent.")

    trajectory_id: str = Field(min_length=1, description="Id of the run.")
    timestamp: float = Field(description="Start of the run, Unix seconds.")

    tuning_frames: int | None = Field(
        default=None,
        ge=0,
        description="Frames spent on tuning the agent, if known; longplay's addition.",
    )
    evidence: Evidence | None = Field(
        default=None,
        description="Hashes and versions to check it by; longplay's addition.",
    )
    verifier: Verifier | None = Field(
        default=None, description="The function that computed the reward."
    )
    findings: Findings | None = Field(
        default=None,
        validation_alias=AliasChoices("findings", "judge_output"),
        description="Findings of an investigator.",
    )

    @classmethod
    def from_trajectory(
        cls,
        trajectory: Any,
        experiment_id: str,
        task_metadata: Any | None = None,
        task_config: Any | None = None,
    ) -> Self:
        """Summarises one trajectory.

        Args:
            trajectory: See the head of `facts.py`.
            experiment_id: The experiment it belongs to.
            task_metadata: Has `abstract_description` and `split`.
            task_config: A pydantic model of all that defines the task.
        """
        metadata = trajectory.metadata or {}
        reward = facts.find_reward(trajectory)
        return cls(
            experiment_id=experiment_id,
            agent_id=metadata.get("agent_id"),
            agent_name=metadata.get("agent_name"),
            task_id=facts.find_task_id(trajectory, task_metadata, task_config),
            task_version_hash=hash_task_config(task_config),
            seed=facts.find_seed(trajectory, task_config),
            split=getattr(task_metadata, "split", None),
            task_description=getattr(task_metadata, "abstract_description", None),
            tool_names=facts.list_tool_names(trajectory),
            success=reward > 0,
            reward=reward,
            error_type=facts.find_error_type(trajectory),
            n_steps=facts.count_steps(trajectory),
            n_agent_steps=facts.count_outputs(trajectory, "actions", "n_agent_steps"),
            n_env_steps=facts.count_outputs(trajectory, "reward", "n_env_steps"),
            wall_time_s=facts.measure_wall_time_s(trajectory),
            usage=UsageSummary.from_summary_stats(trajectory.summary_stats),
            trajectory_id=trajectory.id,
            timestamp=float(trajectory.start_time or 0.0),
            tuning_frames=metadata.get("tuning_frames"),
            evidence=getattr(trajectory, "evidence", None),
        )


def hash_task_config(task_config: Any | None) -> str | None:
    """SHA-256 of a task config's JSON: different tasks have different hashes."""
    if task_config is None:
        return None
    text: str = task_config.model_dump_json(serialize_as_any=True)
    return hashlib.sha256(text.encode()).hexdigest()
