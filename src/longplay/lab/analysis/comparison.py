"""Runs -> differences between agents, with intervals.

Runs are sorted into tables by `Conditions` and into agents by `AgentKey`; only
comparable runs are averaged. Caveats of a comparison are listed in `notes`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from longplay.errors import UnknownNameError, show_name
from longplay.lab.analysis.agent_arrays import (
    AgentArrays,
    SingleGameRuns,
    measure_play,
    measure_predictions,
)
from longplay.lab.analysis.aggregation import (
    PROFILE_THRESHOLDS,
    estimate_improvement,
    performance_profile,
    pool_runs,
)
from longplay.lab.analysis.baselines import shipped_agents, shipped_rollouts
from longplay.lab.analysis.intervals import Estimate, estimate_difference, estimate_mean
from longplay.lab.analysis.labels import (
    describe_seeds,
    describe_tuning,
    label_agents,
)
from longplay.lab.analysis.metrics import add_metrics
from longplay.lab.analysis.records import (
    AgentNumbers,
    Comparison,
    LeftOutRun,
    Profile,
    ScoreMatrix,
    SuiteComparison,
)
from longplay.lab.analysis.runs import (
    AgentKey,
    Conditions,
    FoundRuns,
    LeftOut,
    MeasuredRun,
)
from longplay.scoring.anchors import Anchors
from longplay.scoring.normalisation import Scale, make_scale


@dataclass(frozen=True)
class Request:
    """The comparison to make.

    Attributes:
        anchors: The anchors that define z.
        suite: Only this suite, if given.
        versus: Label of the agent that others are compared with; the first if None.
        with_baselines: Whether to include the shipped baselines.
    """

    anchors: Anchors
    suite: str | None = None
    versus: str | None = None
    with_baselines: bool = False


@dataclass
class Contestant:
    """An agent in one table; its config is empty where it is not known."""

    key: AgentKey
    arrays: AgentArrays
    config: Mapping[str, Any] = field(default_factory=dict)
    is_shipped: bool = False
    label: str = ""


def compare(found: FoundRuns, request: Request) -> Comparison:
    """Compares agents, suite by suite.

    Raises:
        UnknownNameError: The requested suite or agent is not among the runs.
    """
    tables = _make_tables(found, request)
    suites = [table.compare() for table in tables]
    labels = {agent.label for suite in suites for agent in suite.agents}
    if request.versus is not None and request.versus not in labels:
        raise UnknownNameError("agent among the runs", request.versus, labels)
    return Comparison(
        anchors=request.anchors.name,
        suites=tuple(suites),
        left_out=tuple(map(_record_left_out, found.left_out)),
    )


def runs_by_label(
    found: FoundRuns, suite: SuiteComparison
) -> dict[str, list[MeasuredRun]]:
    """Label of each agent of a table -> the runs behind its numbers, by seed."""
    conditions = Conditions(suite.suite, suite.emulator, suite.roms, suite.references)
    by_agent: dict[AgentKey, list[MeasuredRun]] = {}
    for run in found.runs:
        if run.conditions == conditions:
            by_agent.setdefault(run.agent, []).append(run)
    # The agents of a table are in the order of their first runs; others have none.
    runs = itertools.chain(by_agent.values(), itertools.repeat([]))
    return {
        agent.label: sorted(members, key=_seed_order)
        for agent, members in zip(suite.agents, runs, strict=False)
    }


def _seed_order(run: MeasuredRun) -> int:
    return -1 if run.seed is None else run.seed


def _record_left_out(left: LeftOut) -> LeftOutRun:
    return LeftOutRun(
        kind=left.kind,
        path=str(left.path),
        reason=left.reason,
        suite=left.suite,
        agent=None if left.agent is None else left.agent.name,
        seed=left.seed,
    )


def _make_tables(found: FoundRuns, request: Request) -> list[_Table]:
    runs: dict[Conditions, list[MeasuredRun]] = {}
    for run in found.runs:
        runs.setdefault(run.conditions, []).append(run)
    titles = {conditions: _title(conditions, runs) for conditions in runs}
    known = {conditions.suite for conditions in runs} | set(titles.values())
    if request.suite is not None and request.suite not in known:
        raise UnknownNameError("suite among the runs", request.suite, known)
    homes = [(left, _find_home(left, runs)) for left in found.left_out]
    singles = SingleGameRuns(found.runs)
    return [
        _Table(
            titles[conditions],
            conditions,
            members,
            [left for left, home in homes if home == conditions],
            request,
            singles,
        )
        for conditions, members in sorted(runs.items(), key=_is_changed)
        if request.suite in (None, conditions.suite, titles[conditions])
    ]


def _is_changed(table: tuple[Conditions, Any]) -> bool:
    """Whether the suite was changed: its name has a hash then. Such tables are last."""
    return "+" in table[0].suite


def _title(conditions: Conditions, tables: Iterable[Conditions]) -> str:
    """The suite, and what tells it apart from other tables of the suite."""
    namesakes = [other for other in tables if other.suite == conditions.suite]
    parts = [
        f"{noun} {'unknown' if value is None else value[:8]}"
        for noun, name in (
            ("ale-py", "emulator"),
            ("ROMs", "roms"),
            ("references", "references"),
        )
        if len({getattr(other, name) for other in namesakes}) > 1
        for value in (getattr(conditions, name),)
    ]
    suite = show_name(conditions.suite)
    return f"{suite} ({', '.join(parts)})" if parts else suite


def _find_home(
    left: LeftOut, runs: Mapping[Conditions, Sequence[MeasuredRun]]
) -> Conditions | None:
    """The table that counts a run that was left out.

    Its emulator may not be known: the first table of its suite that has its agent, or
    else the first of its suite.
    """
    homes = [conditions for conditions in runs if conditions.suite == left.suite]
    for conditions in homes:
        if left.agent in {run.agent for run in runs[conditions]}:
            return conditions
    return homes[0] if homes and left.agent is not None else None


@dataclass
class _Table:
    """Runs under one set of conditions, and those that are missing."""

    title: str
    conditions: Conditions
    runs: list[MeasuredRun]
    left_out: list[LeftOut]
    request: Request
    singles: SingleGameRuns

    def __post_init__(self) -> None:
        self.track = self.runs[0].track
        self.games = self.runs[0].config.games
        self.scale = make_scale(
            self.request.anchors,
            self.conditions.suite,
            self.games,
            self.conditions.emulator,
        )
        self.error, self.error_note = self._choose_error()

    def _choose_error(self) -> tuple[str | None, str | None]:
        """The error that all runs have, and a note about the choice."""
        if not self.track.predicts:
            return None, None
        rollouts = {getattr(run.score, "rollouts_sha256", None) for run in self.runs}
        if rollouts == {None}:
            return "nmse", None
        if len(rollouts) > 1:
            why = "runs were scored with different rollout values, or none"
        elif self.request.with_baselines and shipped_rollouts(self.runs[0]) - rollouts:
            why = "the shipped figures were measured with other rollout values"
        else:
            return "value_nmse", None
        return "nmse", f"{why}: all are compared by nmse"

    @property
    def lead(self) -> str:
        """The metric whose differences are shown."""
        if self.error is not None:
            return "error"
        return "average" if self.scale.has_z.any() else "headline"

    def compare(self) -> SuiteComparison:
        """Compares the agents of the table."""
        contestants = self._gather()
        labels = label_agents([(c.key, c.config) for c in contestants])
        for contestant, label in zip(contestants, labels, strict=True):
            contestant.label = label
        versus = next(
            (c for c in contestants if c.label == self.request.versus), contestants[0]
        )
        return SuiteComparison(
            title=self.title,
            suite=self.conditions.suite,
            track=self.track.name,
            frame_noun=self.track.frame_noun,
            emulator=self.conditions.emulator,
            roms=self.conditions.roms,
            references=self.conditions.references,
            headline=self.track.headline,
            headline_is_better="less" if self.track.less_is_better else "more",
            error=self.error,
            lead=self.lead,
            versus=versus.label,
            games=self.games,
            games_without_z={} if self.error else self.scale.reasons,
            notes=tuple(self._list_notes(contestants)),
            agents=tuple(self._report(c, versus) for c in contestants),
            matrix=self._make_matrix(contestants),
        )

    def _make_matrix(self, contestants: Sequence[Contestant]) -> ScoreMatrix | None:
        """Runs x games, of the games that every run has."""
        number: Literal["average", "rate", "error"] = "rate"
        if self.lead != "headline":
            number = "average" if self.lead == "average" else "error"
        values = {
            c.label: c.arrays.per_game[number]
            for c in contestants
            if number in c.arrays.per_game and c.arrays.seeds
        }
        if not values:
            return None
        is_known = ~np.isnan(np.concatenate(list(values.values()))).any(axis=0)
        if not is_known.any():
            return None
        scores = {label: own[:, is_known] for label, own in values.items()}
        return ScoreMatrix(
            number=number,
            games=tuple(g for g, k in zip(self.games, is_known, strict=True) if k),
            scores={k: tuple(map(tuple, v.tolist())) for k, v in scores.items()},
            pooled={label: pool_runs(own) for label, own in scores.items()},
        )

    def _list_notes(self, contestants: Sequence[Contestant]) -> Iterator[str]:
        """Caveats of the comparison, each by a function of its own."""
        for describe in _NOTES:
            if note := describe(self, contestants):
                yield note

    def _gather(self) -> list[Contestant]:
        """The agents with runs, those that have none left, and the shipped ones."""
        by_agent: dict[AgentKey, list[MeasuredRun]] = {}
        for run in self.runs:
            by_agent.setdefault(run.agent, []).append(run)
        contestants = [
            self._make_contestant(key, runs) for key, runs in by_agent.items()
        ]
        nothing = AgentArrays((), {}, {}, np.empty((0, len(self.games))))
        without_runs = dict.fromkeys(
            left.agent
            for left in self.left_out
            if left.agent is not None and left.agent not in by_agent
        )
        contestants += [Contestant(key, nothing) for key in without_runs]
        if self.request.with_baselines:
            shipped = shipped_agents(self.runs[0], self.scale, self.error)
            contestants += [
                Contestant(key, arrays, is_shipped=True)
                for key, arrays in shipped.items()
            ]
        return contestants

    def _make_contestant(self, key: AgentKey, runs: list[MeasuredRun]) -> Contestant:
        runs = sorted(runs, key=_seed_order)
        if self.error is not None:
            arrays = measure_predictions(runs, self.error)
        else:
            arrays = measure_play(runs, self.scale, self.singles.rates_for(runs[0]))
        add_metrics(arrays, runs)
        agent = runs[0].config.agent
        return Contestant(key, arrays, agent.config if agent else {})

    def _report(self, contestant: Contestant, versus: Contestant) -> AgentNumbers:
        arrays, key = contestant.arrays, contestant.key
        absent, improvement = dict(arrays.absent), None
        difference: Estimate | None = None
        headline_difference: Estimate | None = None
        if contestant is not versus:
            difference = _estimate_difference(arrays, versus.arrays, self.lead)
            if self.lead != "headline":
                headline_difference = _estimate_difference(
                    arrays, versus.arrays, "headline"
                )
            improvement = _estimate_improvement(arrays, versus.arrays)
            if improvement is None:
                absent.setdefault(
                    "improvement", "no game has a value in every run of both agents"
                )
        return AgentNumbers(
            label=contestant.label,
            agent_id=key.agent_id,
            is_shipped=contestant.is_shipped,
            isolation=key.isolation,
            tuning_frames=key.tuning_frames,
            seeds=arrays.seeds,
            left_out={} if contestant.is_shipped else self._count_left_out(key),
            numbers=arrays.estimate(),
            per_run={n: tuple(v.tolist()) for n, v in arrays.per_run.items()},
            games=arrays.estimate_games(self.games),
            profile=_make_profile(arrays, self.scale),
            absent=absent,
            difference=difference,
            headline_difference=headline_difference,
            improvement=improvement,
        )

    def _count_left_out(self, key: AgentKey) -> dict[str, tuple[int | None, ...]]:
        """Kind -> seeds of the agent's runs that were left out."""
        found: dict[str, list[int | None]] = {}
        for left in self.left_out:
            if left.agent == key:
                found.setdefault(left.kind, []).append(left.seed)
        return {kind: tuple(seeds) for kind, seeds in found.items()}


# --- notes: of a table and its agents; "" where there is nothing to say ------------


def _note_changes(table: _Table, contestants: Sequence[Contestant]) -> str:
    """The overrides behind the name `<suite>+<8 hex>`."""
    given = table.runs[0].config.config_given
    if given is None or table.conditions.suite == given.suite:
        return ""
    changes = ", ".join(
        f"{name} = {json.dumps(value)}" for name, value in given.overrides.items()
    )
    return f"{given.suite} with {changes or 'other references'}"


def _note_seeds(table: _Table, contestants: Sequence[Contestant]) -> str:
    seeds = {c.label: c.arrays.seeds for c in contestants if c.arrays.seeds}
    if len({frozenset(own) for own in seeds.values()}) < 2:
        return ""
    text = "; ".join(f"{label}: {describe_seeds(own)}" for label, own in seeds.items())
    return (
        f"different seeds ({text}): a difference uses the seeds that both agents "
        "have, and all seeds if there are none"
    )


def _note_isolation(table: _Table, contestants: Sequence[Contestant]) -> str:
    levels = {c.label: c.key.isolation for c in contestants}
    return _describe_differences("isolation", levels)


def _note_tuning(table: _Table, contestants: Sequence[Contestant]) -> str:
    budgets = {c.label: describe_tuning(c.key.tuning_frames) for c in contestants}
    return _describe_differences(f"tuning {table.track.frame_noun}s", budgets)


def _describe_differences(name: str, values: Mapping[str, str]) -> str:
    if len(set(values.values())) < 2:
        return ""
    text = ", ".join(f"{label}: {value}" for label, value in values.items())
    return f"different {name} ({text})"


def _note_baselines(table: _Table, contestants: Sequence[Contestant]) -> str:
    if not table.request.with_baselines or any(c.is_shipped for c in contestants):
        return ""
    return "there are no baselines for this suite and emulator"


def _note_other_tables(table: _Table, contestants: Sequence[Contestant]) -> str:
    if table.title == table.conditions.suite:
        return ""
    return (
        "other runs of this suite used another emulator, other ROMs or other "
        "references, and are in a separate table"
    )


def _note_error(table: _Table, contestants: Sequence[Contestant]) -> str:
    return table.error_note or ""


def _note_nulls(table: _Table, contestants: Sequence[Contestant]) -> str:
    """Games without an error in some runs, because their values are nearly constant."""
    if table.error is None:
        return ""
    errors = [c.arrays.per_game["error"] for c in contestants if c.arrays.seeds]
    counts = np.isnan(np.concatenate(errors)).sum(axis=0)
    nulls = {game: n for game, n in zip(table.games, counts, strict=True) if n}
    if not nulls:
        return ""
    text = ", ".join(f"{game} in {count}" for game, count in nulls.items())
    return f"games without {table.error}, by number of runs: {text}"


_NOTES = (
    _note_changes,
    _note_seeds,
    _note_isolation,
    _note_tuning,
    _note_baselines,
    _note_other_tables,
    _note_error,
    _note_nulls,
)


# --- numbers ----------------------------------------------------------------------


def _estimate_difference(
    ours: AgentArrays, theirs: AgentArrays, name: str
) -> Estimate | None:
    """The difference of one number, paired by seed."""
    return estimate_difference(ours.by_seed(name), theirs.by_seed(name))


def _estimate_improvement(ours: AgentArrays, theirs: AgentArrays) -> Estimate | None:
    """Over the games that every run of both agents has."""
    both = np.concatenate([ours.contest, theirs.contest])
    known = ~np.isnan(both).any(axis=0)
    return estimate_improvement(ours.contest[:, known], theirs.contest[:, known])


def _make_profile(arrays: AgentArrays, scale: Scale) -> Profile | None:
    z = arrays.per_game.get("average")
    if z is None:
        return None
    shares = performance_profile(z[:, scale.has_z])
    estimates = [estimate_mean(column) for column in shares.T]
    return Profile(
        thresholds=tuple(PROFILE_THRESHOLDS.tolist()),
        shares=tuple(_clip(estimate) for estimate in estimates if estimate),
    )


def _clip(share: Estimate) -> Estimate:
    """A share is between 0 and 1, and so is its interval."""
    if share.low is None or share.high is None:
        return share
    bounds = {"low": max(0.0, share.low), "high": min(1.0, share.high)}
    return share.model_copy(update=bounds)
