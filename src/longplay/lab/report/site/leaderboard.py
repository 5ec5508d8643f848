"""A folder of packs and experiments -> leaderboard.json: who is ranked, and by what.

An entry is an agent on an unchanged suite of the catalogue, on all of its official
seeds: an agent without one of the seeds is listed as incomplete, without averages.
Refused runs are listed with the reason; they do not affect other entries. A run that
contradicts an entry makes an entry of its own, and both are marked as disputed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import get_args

from pydantic import Field

from longplay.contract.documents import SCHEMA_VERSION, Document, ProofLevel
from longplay.contract.files import hash_file
from longplay.contract.fingerprint import contract_hash
from longplay.errors import escape_controls, show_name
from longplay.lab.analysis.comparison import Request, compare, runs_by_label
from longplay.lab.analysis.intervals import Estimate
from longplay.lab.analysis.labels import describe_seeds
from longplay.lab.analysis.records import AgentNumbers, SuiteComparison
from longplay.lab.analysis.runs import AgentKey, FoundRuns, LeftOut, MeasuredRun
from longplay.lab.report.site.verdicts import Verdict, find_work_tree
from longplay.plan import plan_run
from longplay.scoring.anchors import Anchors
from longplay.suites import find_suite, get_suite
from longplay.tracks.catalogue import get_track

_LEVELS: tuple[str, ...] = get_args(ProofLevel)
PACKS = "packs"


class Entry(Document):
    """An agent on a suite.

    What the packs only say of themselves is listed in `Leaderboard.said`.
    """

    rank: int | None = Field(description="By `lead`; null if it is incomplete.")
    agent: str
    agent_id: str | None
    source_sha256: str | None = Field(description="Of the agent's source.")
    isolation: str
    tuning_frames: int | None
    trust: str = Field(description="Of the run that is proven least.")
    checked_by: tuple[str, ...] = Field(description="Commands behind `trust`.")
    is_disputed: bool = Field(
        default=False,
        description="Other runs name the same agent, suite and seed.",
    )
    same_rows_as: tuple[str, ...] = Field(
        default=(), description="Entries of other agents with a run of the same rows."
    )
    joined_from: tuple[str, ...] = Field(
        default=(),
        exclude_if=lambda folders: not folders,
        description="The folders of its runs, where there are several; left out else.",
    )
    seeds: tuple[int, ...]
    missing_seeds: tuple[int, ...] = Field(description="Official ones without a run.")
    errored_seeds: tuple[int | None, ...] = Field(
        description="Seeds of runs that ended with an error, in the folders of the "
        "entry's runs; left out of means."
    )
    numbers: dict[str, Estimate] = Field(description="None if it is incomplete.")
    packs: dict[str, str] = Field(description="Seed -> address in the site.")


class SuiteBoard(Document):
    """The entries of a suite, the best first."""

    suite: str
    emulator: str | None
    references: str | None
    official_seeds: tuple[int, ...]
    lead: str = Field(description="The number that entries are ranked by.")
    headline: str
    error: str | None
    entries: tuple[Entry, ...]

    @property
    def frame_noun(self) -> str:
        """What a frame of its runs is called."""
        return get_track(get_suite(self.suite).track).frame_noun


class Refusal(Document):
    """A run in the folder that is not on the board."""

    name: str = Field(description="Path in the folder.")
    reason: str


_SAID = ("agent", "agent_id", "source_sha256", "isolation", "tuning_frames")


class Leaderboard(Document):
    """leaderboard.json."""

    schema_version: int = SCHEMA_VERSION
    anchors: str
    suites: tuple[SuiteBoard, ...]
    refused: tuple[Refusal, ...]
    single_games: int = Field(
        default=0, description="Runs of one game alone, which are never ranked."
    )
    said: tuple[str, ...] = Field(
        default=_SAID, description="Fields of entries that were not checked."
    )


# --- entries --------------------------------------------------------------------


def judge_runs(
    found: FoundRuns,
    judge: Callable[[MeasuredRun], Verdict],
    on_judge: Callable[[int, int], None] | None = None,
) -> dict[Path, Verdict]:
    """Judges the runs that could be on a board.

    Args:
        found: Runs, with all copies.
        judge: May replay a run.
        on_judge: Called with (runs judged, total runs) before each run.
    """
    judged = [run for run in found.runs if _is_candidate(run)]
    verdicts = {}
    for done, run in enumerate(judged):
        if on_judge is not None:
            on_judge(done, len(judged))
        verdicts[run.path] = judge(run)
    return verdicts


def make_leaderboard(
    found: FoundRuns, anchors: Anchors, verdicts: Mapping[Path, Verdict], folder: Path
) -> Leaderboard:
    """Ranks the agents of a folder.

    Args:
        found: Runs in the folder, with all copies, and those that could not be read.
        anchors: The anchors that define z.
        verdicts: Results of `judge_runs`.
        folder: Paths of refused runs are relative to it.
    """
    refused = [(left.path, f"{left.kind}: {left.reason}") for left in found.left_out]
    errored = [left for left in found.left_out if left.kind == "errored"]
    ranked = [run for run in found.runs if not _is_single_game(run)]
    tree, accepted = find_work_tree(folder.resolve()), []
    for run in ranked:
        reason = _find_link(run.path, tree) or _find_refusal(run)
        reason = reason or verdicts[run.path].problem
        if reason is None:
            accepted.append(run)
        else:
            refused.append((run.path, reason))
    runs, disputed = _separate_disputes(accepted, folder)
    members = FoundRuns(tuple(runs), ())
    boards = [
        _rank(
            suite,
            _mark_entries(runs_by_label(members, suite), disputed, folder),
            verdicts,
            errored,
        )
        for suite in compare(members, Request(anchors)).suites
    ]
    return Leaderboard(
        anchors=anchors.name,
        suites=tuple(boards),
        refused=tuple(
            Refusal(
                name=show_name(_relative(path, folder)),
                reason=escape_controls(reason.replace(f"{folder}/", "")),
            )
            for path, reason in sorted(refused)
        ),
        single_games=len(found.runs) - len(ranked),
    )


def _is_candidate(run: MeasuredRun) -> bool:
    return not _is_single_game(run) and _find_refusal(run) is None


def _is_single_game(run: MeasuredRun) -> bool:
    """Whether it is the run of a specialist: a baseline of transfer, not an entry."""
    return find_suite(run.conditions.suite) is None and len(run.config.games) == 1


def _find_link(path: Path, tree: Path) -> str | None:
    """Why a path cannot be published: a link leads to a file of somebody else."""
    if path.resolve().is_relative_to(tree):
        return None
    return f"a link out of {tree.name}; replace it by the file itself"


def _find_refusal(run: MeasuredRun) -> str | None:
    """Why a run cannot be on the board, regardless of its score."""
    suite, config = run.conditions.suite, run.config
    catalogued = find_suite(suite)
    if catalogued is None:
        return f"{show_name(suite)} is not a suite of the catalogue"
    if run.seed not in catalogued.official_seeds:
        official = describe_seeds(catalogued.official_seeds)
        return f"seed {run.seed} is not one of the official seeds {official}"
    plan = plan_run(suite, run.seed, reference_sha256=catalogued.references)
    expected = plan.config.benchmark_contract_hash
    if {contract_hash(config), config.benchmark_contract_hash} != {expected}:
        return f"its settings are not those of {suite}"
    if not run.has_evidence:
        return "no evidence: it has no digests or hashes, so it can only be claimed"
    return None


# --- disputes -------------------------------------------------------------------

# Entries of one disputed agent that are made of several folders.
_MOST_GROUPS = 100


@dataclass(frozen=True)
class _Submission:
    """Runs of one agent in one folder, one per seed."""

    agent: AgentKey
    place: str
    runs: dict[int | None, MeasuredRun]

    def list_claims(self) -> list[tuple[int | None, str]]:
        return [(seed, run.identity) for seed, run in self.runs.items()]

    def contradicts(self, other: _Submission) -> bool:
        """Whether both have runs of one seed that differ."""
        return any(
            seed in other.runs and other.runs[seed].identity != run.identity
            for seed, run in self.runs.items()
        )


def _separate_disputes(
    runs: Iterable[MeasuredRun], folder: Path
) -> tuple[list[MeasuredRun], set[AgentKey]]:
    """Runs of which each agent has one per seed, and the agents that are disputed.

    Copies of a run count once. Where different runs name the same agent, suite and
    seed, each folder's runs get a key of their own, filled up with the runs of
    folders that do not contradict it: no author can remove or change another's entry.
    """
    agents: dict[object, list[MeasuredRun]] = {}
    for run in runs:
        agents.setdefault((run.conditions, run.agent.agent_id), []).append(run)
    kept: list[MeasuredRun] = []
    disputed: set[AgentKey] = set()
    for members in agents.values():
        submissions = _drop_copies(_list_submissions(members, folder))
        contested = _find_contested_seeds(submissions)
        for key in dict.fromkeys(submission.agent for submission in submissions):
            own = [s for s in submissions if s.agent == key]
            entries = _make_entries(own, contested)
            if any(not contested.isdisjoint(s.runs) for s in own):
                disputed |= {entry.agent for entry in entries}
            kept += [
                replace(run, agent=entry.agent)
                for entry in entries
                for run in entry.runs.values()
            ]
    return kept, disputed


def _list_submissions(
    runs: Iterable[MeasuredRun], folder: Path
) -> Iterator[_Submission]:
    """One per agent and folder; more if a folder has several runs of one seed."""
    places: dict[tuple[AgentKey, str], dict[int | None, dict[str, MeasuredRun]]] = {}
    for run in runs:
        seeds = places.setdefault((run.agent, _find_place(run.path, folder)), {})
        seeds.setdefault(run.seed, {}).setdefault(run.identity, run)
    for (agent, place), seeds in places.items():
        versions = {seed: list(found.values()) for seed, found in seeds.items()}
        for n in range(max(map(len, versions.values()))):
            chosen = {seed: v[min(n, len(v) - 1)] for seed, v in versions.items()}
            yield _Submission(agent, f"{place} #{n + 1}" if n else place, chosen)


def _find_place(path: Path, folder: Path) -> str:
    return _relative(_find_folder(path), folder)


def _find_folder(path: Path) -> Path:
    """The folder of a pack or run; of a run in an experiment, the experiment."""
    parent = path.parent
    return parent.parent if parent.name == "episodes" else parent


def _drop_copies(submissions: Iterable[_Submission]) -> list[_Submission]:
    """Drops submissions all of whose runs are in another one of the same agent."""
    distinct: dict[tuple[AgentKey, frozenset[object]], _Submission] = {}
    for submission in submissions:
        claims = frozenset(submission.list_claims())
        distinct.setdefault((submission.agent, claims), submission)
    holders: dict[object, set[int]] = {}
    for n, (agent, claimed) in enumerate(distinct):
        for claim in claimed:
            holders.setdefault((agent, claim), set()).add(n)
    return [
        submission
        for (agent, claimed), submission in distinct.items()
        if len(set.intersection(*(holders[agent, claim] for claim in claimed))) == 1
    ]


def _find_contested_seeds(submissions: Iterable[_Submission]) -> set[int | None]:
    """The seeds of which there are different runs."""
    identities: dict[int | None, set[str]] = {}
    for submission in submissions:
        for seed, identity in submission.list_claims():
            identities.setdefault(seed, set()).add(identity)
    return {seed for seed, found in identities.items() if len(found) > 1}


def _make_entries(
    submissions: Sequence[_Submission], contested: set[int | None]
) -> list[_Submission]:
    """One entry without a contested seed, else one per group of folders that agree."""
    sides = [s for s in submissions if not contested.isdisjoint(s.runs)]
    shared: dict[int | None, MeasuredRun] = {}
    for submission in submissions:
        if submission not in sides:
            shared |= submission.runs
    if len(sides) < 2:
        runs = shared | (sides[0].runs if sides else {})
        return [_Submission(submissions[0].agent, "", runs)]
    return [_join(group, shared) for group in _group_sides(sides)]


def _group_sides(sides: Sequence[_Submission]) -> list[list[_Submission]]:
    """The largest groups of folders that do not contradict each other.

    An author's runs may be in several folders: a stranger with a run against each of
    them must not tear them apart. More groups than a reader can tell apart are a flood:
    then every folder stands alone.
    """
    groups: list[frozenset[int]] = [frozenset()]
    for n, side in enumerate(sides):
        agreeing = {
            frozenset(m for m in group if not sides[m].contradicts(side)) | {n}
            for group in groups
        }
        found = {*groups, *agreeing}
        groups = [g for g in found if not any(g < other for other in found)]
        if len(groups) > _MOST_GROUPS:
            return [[side] for side in sides]
    return [[sides[n] for n in sorted(group)] for group in sorted(groups, key=sorted)]


def _join(
    group: Sequence[_Submission], shared: Mapping[int | None, MeasuredRun]
) -> _Submission:
    """One entry, named by the folders of a group."""
    runs = dict(shared)
    for side in group:
        runs |= side.runs
    agent, place = group[0].agent, " + ".join(side.place for side in group)
    named = replace(agent, name=show_name(f"{agent.name} [{place}]"))
    return _Submission(named, place, runs)


@dataclass(frozen=True)
class _MarkedRuns:
    """The runs of an entry, and what else the page says of it."""

    runs: Sequence[MeasuredRun]
    is_disputed: bool
    same_rows_as: tuple[str, ...]
    joined_from: tuple[str, ...]


def _mark_entries(
    runs: Mapping[str, Sequence[MeasuredRun]], disputed: set[AgentKey], folder: Path
) -> dict[str, _MarkedRuns]:
    """Label -> its runs, and the labels of other agents with the same rows."""
    owners: dict[str | None, list[tuple[str, str | None]]] = {}
    for label, members in runs.items():
        for run in members:
            owner = label, run.agent.agent_id
            owners.setdefault(run.rows_sha256, []).append(owner)
    owners.pop(None, None)
    return {
        label: _MarkedRuns(
            members,
            any(run.agent in disputed for run in members),
            tuple(
                dict.fromkeys(
                    other
                    for run in members
                    for other, agent_id in owners.get(run.rows_sha256, ())
                    if agent_id != run.agent.agent_id
                )
            ),
            _list_folders(members, folder),
        )
        for label, members in runs.items()
    }


def _list_folders(runs: Iterable[MeasuredRun], folder: Path) -> tuple[str, ...]:
    """The folders of runs; none if it is one, which needs no mention."""
    places = sorted({show_name(_find_place(run.path, folder)) for run in runs})
    return tuple(places) if len(places) > 1 else ()


def _relative(path: Path, folder: Path) -> str:
    if path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    return path.name


def _rank(
    suite: SuiteComparison,
    runs: Mapping[str, _MarkedRuns],
    verdicts: Mapping[Path, Verdict],
    errored: Sequence[LeftOut],
) -> SuiteBoard:
    official = get_suite(suite.suite).official_seeds
    entries = []
    for agent in suite.agents:
        marked = runs[agent.label]
        entry = _make_entry(agent, marked, official, verdicts)
        places = {_find_folder(run.path) for run in marked.runs}
        seeds = tuple(
            left.seed
            for left in errored
            if _is_of(left, suite, agent) and _find_folder(left.path) in places
        )
        entries.append(entry.model_copy(update={"errored_seeds": seeds}))
    sign = -1 if suite.lead_is_better == "more" else 1

    def order(entry: Entry) -> tuple[bool, float, str]:
        lead = entry.numbers.get(suite.lead)
        return lead is None, 0.0 if lead is None else sign * lead.mean, entry.agent

    entries.sort(key=order)
    ranked = [
        entry.model_copy(update={"rank": position})
        if suite.lead in entry.numbers
        else entry
        for position, entry in enumerate(entries, start=1)
    ]
    return SuiteBoard(
        suite=suite.suite,
        emulator=suite.emulator,
        references=suite.references,
        official_seeds=official,
        lead=suite.lead,
        headline=suite.headline,
        error=suite.error,
        entries=tuple(ranked),
    )


def _is_of(left: LeftOut, suite: SuiteComparison, agent: AgentNumbers) -> bool:
    """Whether a run that was left out is of this agent on this suite."""
    if left.agent is None or left.suite != suite.suite:
        return False
    key = (left.agent.agent_id, left.agent.isolation, left.agent.tuning_frames)
    return key == (agent.agent_id, agent.isolation, agent.tuning_frames)


def _make_entry(
    agent: AgentNumbers,
    marked: _MarkedRuns,
    official: Sequence[int],
    verdicts: Mapping[Path, Verdict],
) -> Entry:
    runs = marked.runs
    missing = tuple(seed for seed in official if seed not in agent.seeds)
    found = [verdicts[run.path] for run in runs]
    config = runs[0].config.agent.config if runs[0].config.agent else {}
    source = config.get("files_sha256") or config.get("source_sha256")
    return Entry(
        rank=None,
        agent=agent.label,
        agent_id=agent.agent_id,
        source_sha256=source if isinstance(source, str) else None,
        isolation=agent.isolation,
        tuning_frames=agent.tuning_frames,
        trust=min((verdict.level for verdict in found), key=_LEVELS.index),
        checked_by=tuple(sorted({v.made_by for v in found if v.made_by is not None})),
        is_disputed=marked.is_disputed,
        same_rows_as=marked.same_rows_as,
        joined_from=marked.joined_from,
        seeds=tuple(seed for seed in agent.seeds if seed is not None),
        missing_seeds=missing,
        errored_seeds=(),
        numbers={} if missing else agent.numbers,
        packs={
            str(run.seed): pack_address(run.path) for run in runs if run.path.is_file()
        },
    )


def pack_address(path: Path) -> str:
    """The address of a pack in the site."""
    return f"{PACKS}/{hash_file(path)[:16]}.longplay"
