"""Paths -> runs that can be compared, and those that cannot, with the reason.

Two runs belong in one table if they share their `Conditions`: the same suite, played
on the same emulator with the same ROMs and references. They belong to one agent if they
share their `AgentKey`: the same agent, isolated alike, tuned with the same budget.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from longplay.analysis.curves import Curves, find_curves, read_curves
from longplay.analysis.measures import GameRates, VisitTotals, measure_games
from longplay.contract.files import read_json
from longplay.contract.layout import RunGroup, find_run_groups
from longplay.contract.records import AgentEntry, RunConfig, Score
from longplay.contract.rundir import RunDirectory, has_evidence
from longplay.errors import ConfigError, DocumentError, LongplayError
from longplay.plan import name_benchmark
from longplay.tracks.base import Track
from longplay.tracks.catalogue import track_of


@dataclass(frozen=True)
class OpenedPack:
    """The documents of a packed run, and the size that its events.jsonl has."""

    run: RunDirectory
    events_bytes: int


PackOpener = Callable[[Path], OpenedPack]
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
    "missing", "errored", "unfinished", "tuning", "unreadable", "contradicting"
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
        curves: Windows of each visit; None without rows.
        identity: Equal for two copies of the same run.
        has_evidence: Whether it has the digests and hashes that verification needs.
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
        cache: Cache folder of scans; None for no cache.
        open_pack: Reads the documents of a pack; None refuses packs.
        on_scan: Called with (runs read, total runs) after each run.
        leaves_out_conflicts: Whether different runs of one agent, suite and seed are
            left out, all of them, and not an error.
        scans: Whether rows that are not in the cache are scanned; without them, a run
            has whole-visit numbers alone.
    """

    cache: Path | None = None
    open_pack: PackOpener | None = None
    on_scan: ScanObserver | None = None
    leaves_out_conflicts: bool = False
    scans: bool = True

    def read(self, paths: Iterable[Path]) -> FoundRuns:
        """Reads all runs at or below some paths; copies of a run count once.

        Raises:
            NotARunError: A path holds no run.
            ConfigError: One agent has two different runs of one suite and seed.
        """
        groups = [group for path in paths for group in find_run_groups(path)]
        found = list(self._read_groups(groups))
        runs = [run for run in found if isinstance(run, MeasuredRun)]
        left_out = [left for left in found if isinstance(left, LeftOut)]
        kept, conflicts = _drop_copies(runs)
        if conflicts and not self.leaves_out_conflicts:
            raise ConfigError(conflicts[0].reason)
        return FoundRuns(tuple(kept), (*left_out, *conflicts))

    def _read_groups(
        self, groups: Sequence[RunGroup]
    ) -> Iterator[MeasuredRun | LeftOut]:
        total = sum(len(group.runs) + len(group.packs) for group in groups)
        done = 0
        for group in groups:
            seeds = set()
            for path in (*group.runs, *group.packs):
                found = self._read_one(path, is_pack=path in group.packs)
                seeds.add(found.seed)
                yield found
                done += 1
                if self.on_scan is not None:
                    self.on_scan(done, total)
            yield from _find_missing(group, seeds)

    def _read_one(self, path: Path, *, is_pack: bool) -> MeasuredRun | LeftOut:
        try:
            if not is_pack:
                return self._measure(RunDirectory(path), path)
            if self.open_pack is None:
                return LeftOut("unreadable", path, "packs cannot be read here")
            packed = self.open_pack(path)
            return self._measure(packed.run, path, packed.events_bytes)
        except LongplayError as error:
            return LeftOut("unreadable", path, str(error), seed=_seed_of(path))

    def _measure(
        self, run: RunDirectory, path: Path, events_bytes: int | None = None
    ) -> MeasuredRun | LeftOut:
        config = run.config
        agent = key_of_run(run)
        suite = name_benchmark(config)
        if problem := _find_problem(run):
            kind, reason = problem
            return LeftOut(kind, path, reason, suite, agent, config.seed)
        assert run.score is not None
        curves = self._read_curves(run, events_bytes)
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
        )

    def _read_curves(
        self, run: RunDirectory, events_bytes: int | None
    ) -> Curves | None:
        events = run.path / "events.jsonl"
        if events_bytes is None and events.is_file():
            if self.scans:
                return read_curves(run, self.cache)
            events_bytes = events.stat().st_size
        if events_bytes is None or self.cache is None:
            return None
        return find_curves(run, events_bytes, self.cache)


def _find_missing(group: RunGroup, seeds: set[int | None]) -> Iterator[LeftOut]:
    """The runs that an experiment planned and that are not there."""
    if group.plan is None:
        return
    agent, suite = _key_of(group.plan.agent), group.plan.suite
    for seed in group.plan.seeds:
        if seed not in seeds:
            reason = f"seed {seed} was planned but not started"
            yield LeftOut("missing", group.directory, reason, suite, agent, seed)


def _find_problem(run: RunDirectory) -> tuple[LeftOutKind, str] | None:
    """Why a run does not count; None if it does."""
    if run.config.is_tuning:
        return "tuning", f"stopped at frame {run.config.stop_frame} for tuning"
    state = run.status.state if run.status else "COMPLETED"
    if run.status is not None and state in ("FAILED", "STALE"):
        error = run.status.error
        return "errored", state if error is None else f"{state}: {error.message}"
    if state != "COMPLETED":
        return "unfinished", state
    if run.score is None:
        return "unfinished", "not scored; `longplay score` does it"
    if not run.score.complete or run.score.frames < run.config.total_frames:
        return "unfinished", "its score covers a part of the run"
    return None


def _totals_of(run: RunDirectory, curves: Curves | None) -> VisitTotals:
    if run.summary is not None:
        return VisitTotals.from_summary(run.summary)
    if curves is None:
        raise DocumentError(
            f"{run.path}: expected run_summary.json or events.jsonl, found neither"
        )
    return VisitTotals.from_curves(run.config.schedule, curves)


def _identify(run: RunDirectory) -> str:
    """The head of the digest chain; without one, the score itself."""
    if run.summary is not None and run.summary.chain_head is not None:
        return run.summary.chain_head
    assert run.score is not None
    rest = run.score.model_dump_json(exclude={"fps"})
    return hashlib.sha256(rest.encode()).hexdigest()


def _drop_copies(
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
    tuning_frames = _read_tuning_frames(run.path)
    if config.agent is None:
        return AgentKey("unknown agent", None, level, tuning_frames)
    return _key_of(config.agent, level, tuning_frames)


def _key_of(
    entry: AgentEntry, isolation: str = "none", tuning_frames: int | None = None
) -> AgentKey:
    return AgentKey(name_agent(entry.config), entry.agent_id, isolation, tuning_frames)


def name_agent(config: Mapping[str, Any]) -> str:
    """The name of an agent: its file, or the name of a built-in agent."""
    if file := config.get("file"):
        return Path(str(file)).stem
    *modules, name = str(config.get("_type", "agent")).split(".")
    # `longplay.learners.stream_q.module` is `stream-q`.
    return modules[-1].replace("_", "-") if modules[:1] == ["longplay"] else name


def _read_tuning_frames(path: Path) -> int | None:
    """The tuning budget that the run's record declares."""
    if not (path / "episode_record.json").is_file():
        return None
    record = read_json(path / "episode_record.json")
    frames = record.get("tuning_frames") if isinstance(record, dict) else None
    return frames if isinstance(frames, int) else None
