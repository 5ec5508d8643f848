"""Paths -> runs that can be compared, and those that cannot, with the reason.

Two runs belong in one table if they share their `Conditions`: the same suite, played
on the same emulator with the same ROMs and references. They belong to one agent if they
share their `AgentKey`: the same agent, isolated alike, tuned with the same budget.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from longplay.contract.config import AgentEntry, RunConfig
from longplay.contract.curves import Curves
from longplay.contract.documents import Score
from longplay.contract.files import read_json, shorten
from longplay.contract.layout import RunGroup, find_run_groups
from longplay.contract.rundir import RunDirectory, has_evidence
from longplay.errors import ConfigError, DocumentError, LongplayError, show_name
from longplay.lab.analysis.measures import GameRates, measure_games
from longplay.plan import name_benchmark
from longplay.scoring.play import read_play
from longplay.scoring.rates import VisitTotals
from longplay.tracks.base import Track
from longplay.tracks.catalogue import track_of
from longplay.tracks.scores import compute_score

# Reads the documents and curves of a pack.
PackOpener = Callable[[Path], RunDirectory]
ScanObserver = Callable[[int, int], None]


@dataclass(frozen=True, order=True)
class Conditions:
    """The conditions that runs of one table share.

    Attributes:
        suite: The name that all seeds of the suite share.
        emulator: Version of ale-py.
        roms: Digest of the ROMs' digests.
        references: Digest of the references of a prediction run.
    """

    suite: str
    emulator: str | None = None
    roms: str | None = None
    references: str | None = None


@dataclass(frozen=True, order=True)
class AgentKey:
    """The identity that runs of one agent share.

    Attributes:
        name: The agent's name in tables.
        agent_id: Digest of its config; None of another tool's run.
        isolation: The isolation level of the agent's process.
        tuning_frames: Frames spent on tuning it; None if unknown.
    """

    name: str
    agent_id: str | None
    isolation: str = "none"
    tuning_frames: int | None = None


LeftOutKind = Literal[
    "missing",
    "errored",
    "unfinished",
    "tuning",
    "probe",
    "unreadable",
    "contradicting",
]


@dataclass(frozen=True)
class LeftOut:
    """A run that was left out of the comparison.

    Attributes:
        kind: The kind of problem.
        path: The run, or the experiment that planned it.
        reason: The reason as text.
        suite: None if unknown.
        agent: None if unknown.
        seed: None if unknown.
    """

    kind: LeftOutKind
    path: Path
    reason: str
    suite: str | None = None
    agent: AgentKey | None = None
    seed: int | None = None


@dataclass(frozen=True)
class MeasuredRun:
    """A complete, scored run.

    Attributes:
        path: Run directory or pack.
        agent: The agent of the run.
        conditions: The conditions it can be compared under.
        seed: The run seed; None for a run of another tool.
        config: All its settings.
        score: score.json.
        totals: The played part of each visit.
        curves: Windows of each visit; None without curves and rows.
        identity: Equal for two copies of the same run.
        has_evidence: Whether it has the digests and hashes that verification needs.
        rows_sha256: SHA-256 of events.jsonl in run_summary.json.
        chain_head: Last chain value of its digests, by which probes name it.
    """

    path: Path
    agent: AgentKey
    conditions: Conditions
    seed: int | None
    config: RunConfig
    score: Score
    totals: VisitTotals
    curves: Curves | None
    identity: str
    has_evidence: bool
    rows_sha256: str | None = None
    chain_head: str | None = None

    @property
    def track(self) -> Track:
        """The run's track."""
        return track_of(self.config)

    def measure(self) -> GameRates:
        """Its rates per game, in the order of the suite's games."""
        return measure_games(
            self.config.schedule, self.config.games, self.totals, self.curves
        )


@dataclass(frozen=True)
class FoundRuns:
    """The runs found at some paths."""

    runs: tuple[MeasuredRun, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True)
class RunReader:
    """Reads runs from paths.

    Attributes:
        open_pack: Reads the documents of a pack; None refuses packs.
        on_scan: Called with (runs read, total runs) after each run.
        leaves_out_conflicts: Whether different runs of one agent, suite and seed are
            left out, all of them, and not an error.
    """

    open_pack: PackOpener | None = None
    on_scan: ScanObserver | None = None
    leaves_out_conflicts: bool = False

    def read(self, paths: Iterable[Path]) -> FoundRuns:
        """Reads all runs at or below some paths; copies of a run count once.

        Raises:
            NotARunError: A path holds no run.
            ConfigError: One agent has two different runs of one suite and seed.
        """
        found = self.read_all(paths)
        kept, conflicts = drop_copies(found.runs)
        if conflicts and not self.leaves_out_conflicts:
            raise ConfigError(conflicts[0].reason)
        return FoundRuns(tuple(kept), (*found.left_out, *conflicts))

    def read_all(self, paths: Iterable[Path]) -> FoundRuns:
        """As `read`, with all copies, and with runs that contradict each other.

        Raises:
            NotARunError: A path holds no run.
        """
        groups = [
            group
            for path in paths
            for group in find_run_groups(path, keeps_broken=True)
        ]
        found = list(self._read_groups(groups))
        return FoundRuns(
            tuple(_place_foreign([r for r in found if isinstance(r, MeasuredRun)])),
            tuple(left for left in found if isinstance(left, LeftOut)),
        )

    def _read_groups(
        self, groups: Sequence[RunGroup]
    ) -> Iterator[MeasuredRun | LeftOut]:
        total = sum(len(group.runs) + len(group.packs) for group in groups)
        done = 0
        for group in groups:
            seeds = set()
            if group.problem is not None:
                yield LeftOut("unreadable", group.directory, group.problem)
            for path in (*group.runs, *group.packs):
                found = self._read_one(path, group)
                seeds.add(found.seed)
                yield found
                done += 1
                if self.on_scan is not None:
                    self.on_scan(done, total)
            yield from _find_missing(group, seeds)

    def _read_one(self, path: Path, group: RunGroup) -> MeasuredRun | LeftOut:
        try:
            if path not in group.packs:
                return self._measure(RunDirectory(path), path, group)
            if self.open_pack is None:
                return LeftOut("unreadable", path, "packs cannot be read here")
            return self._measure(self.open_pack(path), path, group)
        except LongplayError as error:
            suite, agent = _planned(group)
            seed = _seed_of(path)
            return LeftOut("unreadable", path, str(error), suite, agent, seed)

    def _measure(
        self, run: RunDirectory, path: Path, group: RunGroup
    ) -> MeasuredRun | LeftOut:
        config = run.config
        agent = key_of_run(run)
        # The plan declares the tuning; the run's record may not be written yet.
        _, planned = _planned(group)
        if planned is not None and planned.agent_id == agent.agent_id:
            agent = planned
        suite = name_benchmark(config)
        if problem := _find_problem(run):
            kind, reason = problem
            return LeftOut(kind, path, reason, suite, agent, config.seed)
        assert run.score is not None
        _check_numbers(run, run.score)
        if not config.is_longplay:
            _check_foreign_score(run, run.score)
        curves = run.curves
        rows = (run.summary.rows if run.summary else None) or {}
        events = rows.get("events.jsonl")
        return MeasuredRun(
            path=path,
            agent=agent,
            conditions=conditions_of(config),
            seed=config.seed,
            config=config,
            score=run.score,
            totals=_totals_of(run, curves),
            curves=curves,
            identity=_identify(run),
            has_evidence=has_evidence(run.summary),
            rows_sha256=None if events is None else events.sha256,
            chain_head=None if run.summary is None else run.summary.chain_head,
        )


def _planned(group: RunGroup) -> tuple[str | None, AgentKey | None]:
    """The planned suite and agent of an experiment; None without a plan."""
    plan, cell = group.plan, group.cell
    if plan is not None:
        level = plan.agent_isolation.level
        return plan.suite, _key_of(plan.agent, level, plan.tuning_frames)
    if cell is not None:
        chosen = None if cell.entry is None else _key_of(cell.entry)
        return cell.suite, chosen or AgentKey(show_name(cell.agent), None)
    return None, None


def _find_missing(group: RunGroup, seeds: set[int | None]) -> Iterator[LeftOut]:
    """The runs that an experiment planned and that are not there."""
    planned = group.plan or group.cell
    if planned is None:
        return
    suite, agent = _planned(group)
    for seed in planned.seeds:
        if seed not in seeds:
            reason = f"seed {seed} was planned but not started"
            yield LeftOut("missing", group.directory, reason, suite, agent, seed)


def _find_problem(run: RunDirectory) -> tuple[LeftOutKind, str] | None:
    """Why a run does not count; None if it does."""
    if other := _find_other_purpose(run.config):
        return other
    state = run.status.state if run.status else "COMPLETED"
    if run.status is not None and state in ("FAILED", "STALE"):
        error = run.status.error
        return "errored", state if error is None else f"{state}: {error.message}"
    if state != "COMPLETED":
        return "unfinished", state
    if run.score is None:
        return "unfinished", "not scored; run `longplay score`"
    if not run.score.complete or run.score.frames < run.config.total_frames:
        return "unfinished", "its score covers a part of the run"
    return None


def _find_other_purpose(config: RunConfig) -> tuple[LeftOutKind, str] | None:
    """What a run was played for, if not for a result."""
    if config.probe is not None:
        return "probe", f"a probe of {config.probe.state}, not a result"
    if config.is_tuning:
        noun = track_of(config).frame_noun
        return "tuning", f"stopped at {noun} {config.stop_frame} for tuning"
    return None


# Beyond any sum of rewards, and small enough to be added and squared.
_LARGEST_NUMBER = 1e15


def _check_numbers(run: RunDirectory, score: Score) -> None:
    """Refuses documents of a complete run that cannot be true or be computed with.

    Raises:
        DocumentError: Visits are not those of the schedule, or a number is too large.
    """
    known = set(type(score).model_fields)
    config, numbers = run.config, list(_find_numbers(score.model_dump(include=known)))
    found_visits = [visit.visit_idx for visit in config.schedule]
    if found_visits != list(range(len(found_visits))):
        raise DocumentError(
            f"{run.path}: config.json schedule: expected the visits 0, 1, 2, … in this "
            f"order, found {shorten(found_visits)}; see `longplay validate`"
        )
    if run.summary is not None:
        found = [(visit.game_id, visit.frames) for visit in run.summary.visits]
        planned = [(visit.game_id, visit.visit_frames) for visit in config.schedule]
        if found != planned:
            raise DocumentError(
                f"{run.path}: run_summary.json: expected the {len(planned)} visits of "
                "the schedule in config.json, each complete, found others"
            )
        numbers += [visit.reward_sum for visit in run.summary.visits]
    if any(abs(number) > _LARGEST_NUMBER for number in numbers):
        raise DocumentError(
            f"{run.path}: expected sums and scores up to {_LARGEST_NUMBER:g}, found "
            f"{max(numbers, key=abs):g}"
        )


def _check_foreign_score(run: RunDirectory, score: Score) -> None:
    """Refuses a score of another tool that was made with other windows or rows.

    Raises:
        DocumentError: It is not the score by the settings of config.json.
    """
    expected = compute_score(read_play(run))
    for name in ("final_score", "forgetting_index_mean", "plasticity_mean"):
        wanted, found = getattr(expected, name), getattr(score, name)
        if wanted != found and not (
            wanted is not None and found is not None and math.isclose(wanted, found)
        ):
            raise DocumentError(
                f"{run.path}: score.json {name}: expected {wanted} by the settings of "
                f"config.json, found {found}; `longplay validate` says why"
            )


def _place_foreign(runs: Sequence[MeasuredRun]) -> Iterator[MeasuredRun]:
    """Puts other tools' runs beside longplay's of the same contract hash.

    The hash covers schedule, mechanics and windows. Emulator and ROMs are unknown: such
    a run has no evidence, and tables say so.
    """
    ours: dict[str, list[MeasuredRun]] = {}
    for run in runs:
        if run.config.is_longplay:
            ours.setdefault(run.config.benchmark_contract_hash, []).append(run)
    for run in runs:
        alike = ours.get(run.config.benchmark_contract_hash, ())
        if run.config.is_longplay or not alike:
            yield run
            continue
        seeds = {other.seed for other in alike}
        seed = seeds.pop() if len(seeds) == 1 else None
        yield replace(run, conditions=alike[0].conditions, seed=seed)


def _find_numbers(value: Any) -> Iterator[float]:
    """All numbers of a document that are not whole."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _find_numbers(item)
    elif isinstance(value, float):
        yield value


def _totals_of(run: RunDirectory, curves: Curves | None) -> VisitTotals:
    if run.summary is not None:
        return VisitTotals.from_summary(run.summary)
    if curves is None:
        raise DocumentError(
            f"{run.path}: expected run_summary.json or events.jsonl, found neither"
        )
    return VisitTotals.from_curves(run.config.schedule, curves)


def _identify(run: RunDirectory) -> str:
    """A digest of everything that is compared, and of the rows by their hashes.

    Not of times, so that a run that was played twice counts once.
    """
    assert run.score is not None
    parts: list[Any] = [run.score.model_dump(mode="json", exclude={"fps"})]
    if run.summary is not None:
        hashes = run.summary.model_dump(mode="json", include={"chain_head", "rows"})
        visits = [(v.game_id, v.frames, v.reward_sum) for v in run.summary.visits]
        parts += [hashes, visits]
    return _digest(parts)


def drop_copies(
    runs: Iterable[MeasuredRun],
) -> tuple[list[MeasuredRun], list[LeftOut]]:
    """Keeps one of several copies of a run, and none that contradict each other."""
    groups: dict[Any, list[MeasuredRun]] = {}
    for run in runs:
        key: Any = (run.conditions, run.agent, run.seed)
        if run.seed is None or run.agent.agent_id is None:
            key = run.identity
        groups.setdefault(key, []).append(run)
    kept: list[MeasuredRun] = []
    conflicts: list[LeftOut] = []
    for group in groups.values():
        others = [run for run in group if run.identity != group[0].identity]
        if not others:
            kept.append(group[0])
            continue
        first = group[0]
        reason = (
            f"{first.path} and {others[0].path} are different runs of the same agent, "
            f"suite and seed ({first.agent.name}, {first.conditions.suite}, "
            f"{first.seed}); give only one of them"
        )
        suite = first.conditions.suite
        conflicts += [
            LeftOut("contradicting", run.path, reason, suite, run.agent, run.seed)
            for run in (first, *others)
        ]
    return kept, conflicts


def _seed_of(path: Path) -> int | None:
    """The planned seed of an unreadable run."""
    try:
        asked_for = read_json(path / "episode_config.json")
    except DocumentError:
        return None
    seed = asked_for.get("seed") if isinstance(asked_for, dict) else None
    return seed if isinstance(seed, int) else None


# --- what runs share -----------------------------------------------------------


def conditions_of(config: RunConfig) -> Conditions:
    """The conditions that a run can be compared under."""
    roms = config.rom_sha256 or config.rom_md5
    suite = name_benchmark(config)
    return Conditions(
        suite=suite or f"contract {config.benchmark_contract_hash[:8]}",
        emulator=(config.versions or {}).get("ale_py"),
        roms=None if roms is None else _digest(roms),
        references=config.reference_sha256,
    )


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def key_of_run(run: RunDirectory) -> AgentKey:
    """The identity of a run's agent."""
    config = run.config
    isolation = config.agent_isolation
    level = "none" if isolation is None else isolation.level
    if config.agent is None:
        name = (config.model_extra or {}).get("agent_name", "unknown agent")
        return AgentKey(str(name), None, level, run.tuning_frames)
    return _key_of(config.agent, level, run.tuning_frames)


def _key_of(
    entry: AgentEntry, isolation: str = "none", tuning_frames: int | None = None
) -> AgentKey:
    return AgentKey(entry.shown_name, entry.agent_id, isolation, tuning_frames)
