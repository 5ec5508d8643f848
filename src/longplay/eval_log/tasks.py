"""Suite + seeds -> a benchmark: the planned tasks of an experiment.

    task id        := <suite>/seed-<n>
    visit's task   := <suite>/<game>/cycle-<c>/seed-<n>
    subset's name  := <benchmark>_[<field>=<pattern>] | <benchmark>_[list=<n>-<8 hex>]

A task's config is all that defines it, drawn from the settings in force and not from
how they were spelt: asking twice for the same thing gives the same hash. It is the
same whether it is made from a plan or from the config.json of a run.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Self

from pydantic import Field

from longplay.contract.config import RunConfig, ScheduledVisit
from longplay.contract.documents import VisitSummary, is_none
from longplay.contract.typed_record import Record
from longplay.errors import ConfigError, UnknownNameError
from longplay.plan import RunPlan, name_benchmark, name_task, plan_run
from longplay.suites import find_split, find_suite


class BenchmarkMetadata(Record):
    """Name, version and description of a benchmark."""

    name: str = Field(description="Suite, with the suffix of a subset.")
    version: str | None = Field(default=None, description="Contract version.")
    description: str | None = Field(default=None, description="Its purpose.")


class TaskMetadata(Record):
    """The facts about a task before it is run; subsets filter by them."""

    task_id: str = Field(description="`<suite>/seed-<n>`.")
    abstract_description: str | None = Field(
        default=None, description="Description of the task."
    )
    split: str | None = Field(default=None, description="train, val or test.")
    seed: int | None = Field(default=None, description="Run seed.")
    suite: str | None = Field(default=None, description="Suite it belongs to.")
    track: str | None = Field(default=None, description="`streaming` or `control`.")

    @classmethod
    def from_config(cls, config: RunConfig) -> Self:
        """Describes the task of a longplay run."""
        suite, seed = _identify(config)
        return cls(
            task_id=name_task(suite, seed),
            abstract_description=_describe_stream(config),
            split=find_split(config.suite or "", seed),
            seed=seed,
            suite=suite,
            track=config.track,
        )

    @classmethod
    def from_visit(
        cls, config: RunConfig, visit: ScheduledVisit | VisitSummary
    ) -> Self:
        """Describes one visit of a run as a separate task."""
        if not 0 <= visit.visit_idx < len(config.schedule):
            raise ConfigError(
                f"run_summary.json visits: expected visits of the schedule, found "
                f"visit_idx {visit.visit_idx}"
            )
        suite, seed = _identify(config)
        name = f"{suite}/{visit.game_id}/cycle-{visit.cycle_idx}"
        planned = config.schedule[visit.visit_idx].visit_frames
        run = cls.from_config(config)
        description = (
            f"{visit.game_id} for {planned:,} {_unit(config)}s, in cycle "
            f"{visit.cycle_idx} of: {run.abstract_description}"
        )
        return run.model_copy(
            update={
                "task_id": name_task(name, seed),
                "abstract_description": description,
            }
        )


class TaskConfig(Record):
    """The definition of a task; `task_version_hash` is the SHA-256 of its JSON."""

    suite: str = Field(description="Suite, with the hash suffix if overridden.")
    suite_id: str = Field(description="Suite of the catalogue it is made from.")
    track: str | None = Field(description="`streaming` or `control`.")
    seed: int = Field(description="Run seed.")
    overrides: dict[str, Any] = Field(
        description="Settings that differ from the catalogue's."
    )
    config_effective: dict[str, Any] = Field(description="All settings in force.")
    benchmark_contract_version: str = Field(
        description="`v1`, `control-v1` or `prediction-v1`."
    )
    benchmark_contract_hash: str = Field(
        description="Hash of games, realised schedule, mechanics and scoring."
    )
    reference_sha256: str | None = Field(
        default=None,
        exclude_if=is_none,
        description="Digest of the reference policies and values; prediction runs.",
    )

    @classmethod
    def from_plan(cls, plan: RunPlan) -> Self:
        """The task of a plan."""
        return cls.from_config(plan.config)

    @classmethod
    def from_config(cls, config: RunConfig) -> Self:
        """The task of a run.

        Raises:
            ConfigError: Another tool made the run, and did not say.
        """
        benchmark, seed = _identify(config)
        effective, given = config.config_effective, config.config_given
        if effective is None or given is None:
            raise ConfigError(
                "config.json config_given, config_effective: expected the settings as "
                "longplay writes them, found none"
            )
        return cls(
            suite=config.suite or benchmark,
            suite_id=given.suite,
            track=config.track,
            seed=seed,
            overrides=_sort_keys(_overrides(given.suite, effective, given.overrides)),
            config_effective=_sort_keys(effective),
            benchmark_contract_version=config.benchmark_contract_version,
            benchmark_contract_hash=config.benchmark_contract_hash,
            reference_sha256=config.reference_sha256,
        )


def check_distinct(seeds: Sequence[int]) -> None:
    """Checks that there are seeds, each of them once.

    Raises:
        ConfigError: No seed, or a seed twice.
    """
    if not seeds:
        raise ConfigError("seeds: expected at least one, found none")
    seed, count = Counter(seeds).most_common(1)[0]
    if count > 1:
        raise ConfigError(f"seeds: expected distinct seeds, found {seed} twice")


@dataclass(frozen=True)
class Benchmark:
    """Tasks under one name, in the order requested."""

    benchmark_metadata: BenchmarkMetadata
    task_metadata: Mapping[str, TaskMetadata]
    task_configs: Mapping[str, TaskConfig]

    @classmethod
    def from_suite(
        cls,
        suite_id: str,
        seeds: Iterable[int],
        overrides: Mapping[str, Any] | None = None,
    ) -> Benchmark:
        """Plans a suite for some seeds.

        Raises:
            ConfigError: No seed, a seed twice, or what `plan_run` refuses.
        """
        return cls.from_plans([plan_run(suite_id, seed, overrides) for seed in seeds])

    @classmethod
    def from_plans(cls, plans: Sequence[RunPlan]) -> Benchmark:
        """The tasks of plans of one suite.

        Raises:
            ConfigError: No plan, or a seed twice.
        """
        check_distinct([plan.seed for plan in plans])
        task_ids = [plan.task_id for plan in plans]
        configs = [plan.config for plan in plans]
        return cls(
            BenchmarkMetadata(
                name=plans[0].benchmark_name,
                version=configs[0].benchmark_contract_version,
                description=plans[0].suite.purpose,
            ),
            dict(zip(task_ids, map(TaskMetadata.from_config, configs), strict=True)),
            dict(zip(task_ids, map(TaskConfig.from_config, configs), strict=True)),
        )

    def subset_from_glob(self, field: str, pattern: str) -> Benchmark:
        """The tasks whose metadata field matches a shell pattern.

        Raises:
            ConfigError: There is no such field, or no task matches.
        """
        known = TaskMetadata.model_fields.keys() - Record.model_fields.keys()
        if field not in known:
            raise UnknownNameError("task field", field, known)
        chosen = [
            task_id
            for task_id, metadata in self.task_metadata.items()
            if fnmatchcase(str(getattr(metadata, field)), pattern)
        ]
        return self._subset(chosen, f"{field}={pattern}")

    def subset_from_list(self, task_ids: Iterable[str]) -> Benchmark:
        """The named tasks, in this benchmark's order.

        Raises:
            ConfigError: A task that is not in it, or none at all.
        """
        wanted = set(task_ids)
        for task_id in sorted(wanted - self.task_metadata.keys()):
            raise UnknownNameError("task", task_id, self.task_metadata)
        chosen = [task_id for task_id in self.task_metadata if task_id in wanted]
        digest = hashlib.sha256("\n".join(sorted(chosen)).encode()).hexdigest()
        return self._subset(chosen, f"list={len(chosen)}-{digest[:8]}")

    def _subset(self, task_ids: list[str], suffix: str) -> Benchmark:
        metadata = self.benchmark_metadata
        name = f"{metadata.name}_[{suffix}]"
        if not task_ids:
            raise ConfigError(f"{name}: expected at least one task, found none")
        return Benchmark(
            metadata.model_copy(update={"name": name}),
            {task_id: self.task_metadata[task_id] for task_id in task_ids},
            {task_id: self.task_configs[task_id] for task_id in task_ids},
        )


def _identify(config: RunConfig) -> tuple[str, int]:
    """The name of the benchmark and the seed."""
    benchmark = name_benchmark(config)
    if benchmark is None or config.seed is None:
        raise ConfigError(
            "config.json suite, seed: expected both, as longplay writes them; a run of "
            "another tool cannot be placed in a benchmark"
        )
    return benchmark, config.seed


def _overrides(
    suite_id: str, effective: Mapping[str, Any], given: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The settings that differ from the catalogue; all given ones of unknown suites."""
    suite = find_suite(suite_id)
    if suite is None:
        return given
    usual = type(suite).model_fields["shuffle_games"].default
    in_force = {"shuffle_games": usual, **effective}
    return {k: v for k, v in in_force.items() if suite.settings.get(k) != v}


def _sort_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(settings, sort_keys=True))
    return plain


def _unit(config: RunConfig) -> str:
    """The name of a row of the run in text for people."""
    return "frame" if config.frame_skip is None else "timestep"


def _describe_stream(config: RunConfig) -> str:
    cycles = config.schedule[-1].cycle_idx + 1
    unit = _unit(config)
    units = f"{unit}s"
    if config.frame_skip is not None:
        units = f"timesteps of {config.frame_skip} emulator frames"
    when = f"on every {unit}"
    if config.decision_interval > 1:
        when = f"every {config.decision_interval} {unit}s"
    return (
        f"one unbroken stream of Atari games ({', '.join(config.games)}), each visited "
        f"{cycles} times for about {config.total_frames // len(config.schedule):,} "
        f"{units}; the agent decides {when}, its action is applied {config.delay} "
        f"{unit}s later and sticks with probability {config.sticky}"
    )
