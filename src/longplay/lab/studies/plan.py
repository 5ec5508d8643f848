"""A study file -> study.json: every cell and run of a study, before the first frame.

    <study>/study.json                               the plan; never changed
    <study>/cells/<agent>_<suite>_<8 hex>/           experiments: the results
    <study>/tuning/<agent>_<suite>_<8 hex>/          experiments of tuning runs

A cell is one agent on one suite. The agent of a cell with candidates is the one that
the rule chooses among them. What a run needs of its machine is not part of the plan: it
may be changed between two commands.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from longplay.agents.isolation.remote import load_agent_at
from longplay.agents.source.loading import LoadedAgent
from longplay.contract.confidential import check_no_secrets
from longplay.contract.config import AgentEntry, ConfigGiven
from longplay.contract.documents import (
    SCHEMA_VERSION,
    Document,
    IsolationLevel,
    is_none,
)
from longplay.contract.files import shorten
from longplay.contract.fingerprint import hash_payload
from longplay.contract.names import folder_name
from longplay.errors import ConfigError
from longplay.experiments.differences import describe_differences
from longplay.experiments.experiment import plan_seeds
from longplay.experiments.job import Needs
from longplay.experiments.tuned_score import has_scale
from longplay.lab.studies.file import (
    Metric,
    StudyAgent,
    StudyFile,
    StudySuite,
    StudyTuning,
)
from longplay.lab.studies.tuning import RULE, expand_grid
from longplay.plan import RunPlan
from longplay.suites import describe_official, get_suite
from longplay.tracks.catalogue import get_track

MAX_CELLS = 20_000

_SHOWN_DIFFERENCES = 5


class PlannedAgent(Document):
    """An agent of the study, as its file gives it."""

    name: str
    ref: str
    args: dict[str, Any]
    files: tuple[str, ...] = ()
    isolate: IsolationLevel = "none"
    sandbox_allow: tuple[str, ...] = ()


# What of an agent's entry in the file is part of the plan.
_PLANNED = set(PlannedAgent.model_fields)


class PlannedTuning(Document):
    """How the arguments of agents are chosen."""

    fraction: float
    seeds: tuple[int, ...]
    metric: Metric
    rule: str
    grid: dict[str, Any]


class Cell(Document):
    """One agent on one suite: an experiment directory of the study."""

    folder: str = Field(description="In the study.")
    agent: str = Field(description="Its name in the study.")
    suite: str = Field(description="Name of the benchmark, one for all seeds.")
    seeds: tuple[int, ...] = Field(min_length=1)
    config_given: ConfigGiven
    entry: AgentEntry | None = Field(
        default=None, exclude_if=is_none, description="None where it is chosen."
    )
    candidates: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda given: not given,
        description="Folders of the tuning cells that it is chosen from.",
    )

    @field_validator("entry")
    @classmethod
    def _check_args(cls, entry: AgentEntry | None) -> AgentEntry | None:
        args = {} if entry is None else entry.config.get("args", {})
        if not isinstance(args, dict):
            raise ValueError(f"expected args by name, found {shorten(args)}")
        return entry

    @property
    def is_tuning(self) -> bool:
        """Whether it only serves to choose arguments."""
        return self.config_given.stop_after is not None

    @property
    def args(self) -> dict[str, Any]:
        """The arguments of its agent; empty before it is chosen."""
        config = {} if self.entry is None else self.entry.config
        return dict(config.get("args", {}))


class StudyPlan(Document):
    """study.json."""

    schema_version: int = SCHEMA_VERSION
    name: str
    file_sha256: str = Field(description="Of the study file.")
    agents: tuple[PlannedAgent, ...]
    suites: tuple[dict[str, Any], ...]
    seeds: tuple[int, ...] | None
    tuning: PlannedTuning | None = Field(default=None, exclude_if=is_none)
    cells: tuple[Cell, ...]
    tuning_cells: tuple[Cell, ...] = ()

    @model_validator(mode="after")
    def _check_candidates(self) -> Self:
        """Every candidate is a tuning cell of the plan."""
        known = {cell.folder for cell in self.tuning_cells}
        named = {folder for cell in self.cells for folder in cell.candidates}
        if named - known or (named and self.tuning is None):
            raise ValueError(
                "expected candidates among the tuning cells, found "
                f"{shorten(sorted(named - known))}"
            )
        return self

    @property
    def all_cells(self) -> tuple[Cell, ...]:
        """In the order in which they are played."""
        return (*self.tuning_cells, *self.cells)

    def describe_seeds(self) -> str | None:
        """What its seeds mean, in one line, if results are played on official ones."""
        return describe_official({cell.suite: cell.seeds for cell in self.cells})

    def check_same(self, requested: StudyPlan) -> None:
        """Refuses a study that was changed after it was started.

        Raises:
            ConfigError: Names what differs.
        """
        # The file's bytes may differ, in a comment; what it asks for may not.
        was, now = (
            plan.model_dump(mode="json", exclude={"file_sha256", "schema_version"})
            for plan in (self, requested)
        )
        parts = ("name", "agents", "suites", "seeds", "tuning")
        summaries = ({k: p.get(k) for k in parts} for p in (was, now))
        found = describe_differences("the study", *summaries)
        found = found or describe_differences("the study", was, now)
        if found:
            more = len(found) - _SHOWN_DIFFERENCES
            lines = found[:_SHOWN_DIFFERENCES] + ([f"… and {more} more"] * (more > 0))
            raise ConfigError(
                "the study was changed after it was started; undo that, or choose "
                "another folder with --out\n  " + "\n  ".join(lines)
            )


@dataclass(frozen=True)
class StudyAgents:
    """The agents of a study, imported once each."""

    by_name: Mapping[str, tuple[StudyAgent, LoadedAgent]]

    @classmethod
    def load(cls, file: StudyFile, folder: Path) -> StudyAgents:
        """Imports the agents of a study file.

        Args:
            file: The study.
            folder: Its folder; files of agents are relative to it.

        Raises:
            AgentLoadError: One of them cannot be imported.
            ConfigError: Two of them have the same name.
        """
        imported: dict[object, LoadedAgent] = {}
        by_name: dict[str, tuple[StudyAgent, LoadedAgent]] = {}
        for number, given in enumerate(file.agents):
            key = given.ref, given.files, given.isolation
            if key not in imported:
                spec = _resolve(given.ref, folder)
                imported[key] = load_agent_at(
                    given.isolation, spec, given.args, given.files
                )
            loaded = imported[key].with_args(given.args).with_name(given.name)
            check_no_secrets(loaded.entry.config, "agent config")
            name = loaded.name
            if name in by_name:
                raise ConfigError(
                    f"agents[{number}].name: expected distinct names, found {name!r} "
                    "twice; give one of them a name of its own"
                )
            by_name[name] = given, loaded
        return cls(by_name)

    @property
    def needs(self) -> list[Needs]:
        """What the runs need of their machines, each combination once."""
        return list(dict.fromkeys(given.needs for given, _ in self.by_name.values()))

    def get(self, name: str, args: Mapping[str, Any]) -> LoadedAgent:
        """An agent, to be built with these arguments."""
        return self.by_name[name][1].with_args(args)


def _resolve(ref: str, folder: Path) -> str:
    """A spec that works here: the files of a study are relative to the study."""
    file = re.fullmatch(r"(.+\.py)(:\w+)?", ref)
    if file is None:
        return ref
    return os.path.relpath(folder / file[1]) + (file[2] or "")


def plan_study(file: StudyFile, file_sha256: str, agents: StudyAgents) -> StudyPlan:
    """Plans a study: every agent on every suite, and the tuning of those with a grid.

    Raises:
        ConfigError: An unknown suite or setting, a run twice, too many cells.
    """
    tuning = file.tuning
    if tuning is not None:
        _check_grid(tuning, agents)
    cells: list[Cell] = []
    candidates: list[Cell] = []
    for suite in file.suites:
        seeds = file.seeds or get_suite(suite.id).official_seeds
        plan = _plan_suite(suite, seeds)
        for name, (given, loaded) in agents.by_name.items():
            points = _list_points(tuning, name, given)
            if tuning is None or points is None:
                cells.append(_make_cell("cells", name, plan, seeds, loaded.entry))
                continue
            tuned = _plan_suite(suite, tuning.seeds, tuning.fraction)
            _check_metric(tuning, tuned)
            found = [
                _make_cell("tuning", name, tuned, tuning.seeds, agent.entry)
                for agent in (loaded.with_args(args) for args in points)
            ]
            candidates += found
            cells.append(_make_cell("cells", name, plan, seeds, None, found))
            _check_count(len(cells) + len(candidates))
    _check_runs(cells, candidates)
    return StudyPlan(
        name=file.name,
        file_sha256=file_sha256,
        agents=tuple(
            PlannedAgent(**{**given.model_dump(include=_PLANNED), "name": name})
            for name, (given, _) in agents.by_name.items()
        ),
        suites=tuple(suite.model_dump(by_alias=True) for suite in file.suites),
        seeds=file.seeds,
        tuning=None
        if tuning is None
        else PlannedTuning(rule=RULE, **tuning.model_dump()),
        cells=tuple(cells),
        tuning_cells=tuple(candidates),
    )


def _plan_suite(
    suite: StudySuite, seeds: Sequence[int], stop_after: float | None = None
) -> RunPlan:
    return plan_seeds(suite.id, seeds, suite.overrides, stop_after)[0]


def _list_points(
    tuning: StudyTuning | None, name: str, given: StudyAgent
) -> list[dict[str, Any]] | None:
    """The arguments of each candidate; None for an agent without a grid."""
    grid = {} if tuning is None else tuning.grid_of(name)
    if not grid:
        return None
    if both := grid.keys() & given.args.keys():
        raise ConfigError(
            f"agent {name}: expected {min(both)} in its args or in tuning.grid, found "
            "it in both"
        )
    return [{**given.args, **point} for point in expand_grid(grid)]


def _make_cell(
    part: str,
    agent: str,
    plan: RunPlan,
    seeds: Sequence[int],
    entry: AgentEntry | None,
    candidates: Sequence[Cell] = (),
) -> Cell:
    identity = {
        "agent_ids": [c.agent_id for c in _entries(entry, candidates)],
        "suite": plan.benchmark_name,
        "stop_after": plan.given.stop_after,
    }
    name = f"{agent}_{plan.benchmark_name}_{hash_payload(identity)[:8]}"
    return Cell(
        folder=f"{part}/{folder_name(name)}",
        agent=agent,
        suite=plan.benchmark_name,
        seeds=tuple(seeds),
        config_given=plan.given,
        entry=entry,
        candidates=tuple(cell.folder for cell in candidates),
    )


def _entries(entry: AgentEntry | None, cells: Iterable[Cell]) -> Iterator[AgentEntry]:
    """The agent of a cell, or those it is chosen from."""
    if entry is not None:
        yield entry
    for cell in cells:
        yield from _entries(cell.entry, ())


# --- what a study may not ask for ----------------------------------------------------


def _check_grid(tuning: StudyTuning, agents: StudyAgents) -> None:
    for name, value in tuning.grid.items():
        if isinstance(value, dict) and name not in agents.by_name:
            raise ConfigError(
                f"tuning.grid.{name}: expected the name of an agent, one of "
                f"{', '.join(agents.by_name)}; found none of this name"
            )


def _check_metric(tuning: StudyTuning, plan: RunPlan) -> None:
    if tuning.metric == "reward_rate" and get_track(plan.suite.track).predicts:
        raise ConfigError(
            f"tuning.metric: expected normalised for {plan.benchmark_name}, found "
            "reward_rate; rewards do not depend on predictions"
        )
    config = plan.config
    if tuning.metric == "normalised" and not has_scale(config):
        raise ConfigError(
            f"tuning.metric: expected reward_rate for {plan.benchmark_name}, found "
            f"normalised; the random agent's rate is not known, or 0, for "
            f"{', '.join(config.games)}"
        )


def _check_count(cells: int) -> None:
    if cells > MAX_CELLS:
        raise ConfigError(
            f"expected at most {MAX_CELLS:,} cells in a study, found more; split it"
        )


def _check_runs(cells: Sequence[Cell], candidates: Sequence[Cell]) -> None:
    """Refuses a study in which a run (suite, seed, agent_id) occurs twice."""
    by_folder = {cell.folder: cell for cell in candidates}
    seen: dict[tuple[str, str, bool], str] = {}
    for cell in (*candidates, *cells):
        chosen_from = [by_folder[folder] for folder in cell.candidates]
        for entry in _entries(cell.entry, chosen_from):
            key = cell.suite, entry.agent_id, cell.is_tuning
            if key in seen:
                where = {seen[key], cell.agent}
                raise ConfigError(
                    f"expected every run once, found {' and '.join(sorted(where))} "
                    f"twice on {cell.suite} with the same code and arguments "
                    f"({entry.config.get('args')}); remove one, or change its arguments"
                )
            seen[key] = cell.agent
