"""A folder of packs and experiments -> a static site and leaderboard.json.

    index.html · style.css · page.js · leaderboard.json · packs/<16 hex>.longplay

An entry is an agent on an unchanged suite of the catalogue, on all of its official
seeds: an agent without one of the seeds is listed as incomplete, without averages.
Refused runs are listed with the reason; they do not affect other entries.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import get_args

from pydantic import Field

from longplay.analysis.anchors import Anchors
from longplay.analysis.comparison import Request, compare, runs_by_label
from longplay.analysis.intervals import Estimate
from longplay.analysis.labels import describe_seeds
from longplay.analysis.records import AgentNumbers, SuiteComparison
from longplay.analysis.runs import FoundRuns, LeftOut, MeasuredRun, drop_copies
from longplay.contract.files import (
    hash_file,
    make_directory,
    write_document,
    write_file,
)
from longplay.contract.fingerprint import contract_hash
from longplay.contract.records import Document, ProofLevel
from longplay.contract.versions import SCHEMA_VERSION
from longplay.plan import plan_run
from longplay.report.pages import make_site_folder, render_page
from longplay.report.tables import (
    Cell,
    TextTable,
    format_estimate,
    head_metric,
    order_metrics,
)
from longplay.report.verdicts import Verdict
from longplay.suites import SUITES, get_suite

_LEVELS: tuple[str, ...] = get_args(ProofLevel)
_PACKS = "packs"


class Entry(Document):
    """An agent on a suite."""

    rank: int | None = Field(description="By `lead`; null if it is incomplete.")
    agent: str
    agent_id: str | None
    source_sha256: str | None = Field(description="Of the agent's source.")
    isolation: str
    tuning_frames: int | None
    trust: str = Field(description="Of the run that is proven least.")
    seeds: tuple[int, ...]
    missing_seeds: tuple[int, ...] = Field(description="Official ones without a run.")
    errored_seeds: tuple[int | None, ...] = Field(
        description="Seeds of runs that ended with an error; left out of means."
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


class Refusal(Document):
    """A run in the folder that is not on the board."""

    name: str = Field(description="Path in the folder.")
    reason: str


class Leaderboard(Document):
    """leaderboard.json."""

    schema_version: int = SCHEMA_VERSION
    anchors: str
    suites: tuple[SuiteBoard, ...]
    refused: tuple[Refusal, ...]


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
    judged = [run for run in found.runs if _find_refusal(run) is None]
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

    Copies of a run count once, and runs that contradict each other not at all. Runs
    that are refused for another reason do neither: a forged copy affects no other run.

    Args:
        found: Runs in the folder, with all copies, and those that could not be read.
        anchors: The anchors that define z.
        verdicts: Results of `judge_runs`.
        folder: Paths of refused runs are relative to it.
    """
    refused = [(left.path, f"{left.kind}: {left.reason}") for left in found.left_out]
    errored = [left for left in found.left_out if left.kind == "errored"]
    accepted = []
    for run in found.runs:
        reason = _find_refusal(run) or verdicts[run.path].problem
        if reason is None:
            accepted.append(run)
        else:
            refused.append((run.path, reason))
    kept, conflicts = drop_copies(accepted)
    refused += [(left.path, f"{left.kind}: {left.reason}") for left in conflicts]
    runs = FoundRuns(tuple(kept), ())
    comparison = compare(runs, Request(anchors))
    return Leaderboard(
        anchors=anchors.name,
        suites=tuple(
            _rank(suite, runs_by_label(runs, suite), verdicts, errored)
            for suite in comparison.suites
        ),
        refused=tuple(
            Refusal(
                name=_relative(path, folder),
                reason=reason.replace(f"{folder}/", ""),
            )
            for path, reason in sorted(refused)
        ),
    )


def _find_refusal(run: MeasuredRun) -> str | None:
    """Why a run cannot be on the board, regardless of its score."""
    suite, config = run.conditions.suite, run.config
    if suite not in SUITES:
        return f"{suite} is not a suite of the catalogue"
    if run.seed not in get_suite(suite).official_seeds:
        official = describe_seeds(get_suite(suite).official_seeds)
        return f"seed {run.seed} is not one of the official seeds {official}"
    references = SUITES[suite].references
    plan = plan_run(suite, run.seed, reference_sha256=references)
    expected = plan.config.benchmark_contract_hash
    if {contract_hash(config), config.benchmark_contract_hash} != {expected}:
        return f"its settings are not those of {suite}"
    if not run.has_evidence:
        return "no evidence: it has no digests or hashes, so it can only be claimed"
    return None


def _relative(path: Path, folder: Path) -> str:
    if path.is_relative_to(folder):
        return path.relative_to(folder).as_posix()
    return path.name


def _rank(
    suite: SuiteComparison,
    runs: dict[str, list[MeasuredRun]],
    verdicts: Mapping[Path, Verdict],
    errored: Sequence[LeftOut],
) -> SuiteBoard:
    official = get_suite(suite.suite).official_seeds
    entries = []
    for agent in suite.agents:
        entry = _make_entry(agent, runs[agent.label], official, verdicts)
        seeds = tuple(left.seed for left in errored if _is_of(left, suite, agent))
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
    runs: Sequence[MeasuredRun],
    official: Sequence[int],
    verdicts: Mapping[Path, Verdict],
) -> Entry:
    missing = tuple(seed for seed in official if seed not in agent.seeds)
    levels = [verdicts[run.path].level for run in runs]
    config = runs[0].config.agent.config if runs[0].config.agent else {}
    source = config.get("files_sha256") or config.get("source_sha256")
    return Entry(
        rank=None,
        agent=agent.label,
        agent_id=agent.agent_id,
        source_sha256=source if isinstance(source, str) else None,
        isolation=agent.isolation,
        tuning_frames=agent.tuning_frames,
        trust=min(levels, key=_LEVELS.index),
        seeds=tuple(seed for seed in agent.seeds if seed is not None),
        missing_seeds=missing,
        errored_seeds=(),
        numbers={} if missing else agent.numbers,
        packs={
            str(run.seed): f"{_PACKS}/{hash_file(run.path)[:16]}.longplay"
            for run in runs
            if run.path.is_file()
        },
    )


# --- the site -------------------------------------------------------------------


def write_leaderboard(
    directory: Path, board: Leaderboard, runs: Iterable[MeasuredRun]
) -> None:
    """Writes the site, with the packs that it links to.

    Raises:
        OutputError: The folder exists and is not empty.
        MissingExtraError: jinja2 is not installed.
    """
    make_site_folder(directory)
    write_document(directory / "leaderboard.json", board)
    linked = {
        address
        for suite in board.suites
        for entry in suite.entries
        for address in entry.packs.values()
    }
    if linked:
        make_directory(directory / _PACKS)
    for run in runs:
        if run.path.is_file():
            address = f"{_PACKS}/{hash_file(run.path)[:16]}.longplay"
            if address in linked:
                shutil.copyfile(run.path, directory / address)
    sections = [(suite, make_board_table(suite)) for suite in board.suites]
    page = render_page("leaderboard.html", board=board, sections=sections)
    write_file(directory / "index.html", page)


def make_board_table(suite: SuiteBoard) -> TextTable:
    """One row per entry."""
    names = order_metrics(suite.error, (entry.numbers for entry in suite.entries))
    heads = (head_metric(name, suite.headline, suite.error) for name in names)
    facts = ("trust", "isolation", "tuning frames", "source", "packs")
    rows = [
        (
            Cell("–" if entry.rank is None else str(entry.rank), entry.rank),
            Cell(entry.agent, entry.agent),
            _seeds_cell(entry),
            *(_number_cell(entry.numbers.get(name)) for name in names),
            Cell(entry.trust, entry.trust),
            Cell(entry.isolation, entry.isolation),
            _count_cell(entry.tuning_frames),
            Cell((entry.source_sha256 or "built-in")[:12]),
            Cell(describe_packs(entry), links=tuple(entry.packs.items())),
        )
        for entry in suite.entries
    ]
    title = f"{suite.suite}, ale-py {suite.emulator or 'unknown'}"
    columns = ("rank", "agent", "seeds", *heads, *facts)
    return TextTable(title, columns, tuple(rows), names=2)


def _number_cell(number: Estimate | None) -> Cell:
    return Cell(format_estimate(number), None if number is None else number.mean)


def describe_packs(entry: Entry) -> str:
    """The seeds that can be downloaded."""
    return ", ".join(entry.packs) or "–"


def _seeds_cell(entry: Entry) -> Cell:
    text = describe_seeds(entry.seeds)
    if entry.missing_seeds:
        text = f"incomplete: {describe_seeds(entry.missing_seeds)} missing"
    if entry.errored_seeds:
        text += f", {len(entry.errored_seeds)} errored"
    return Cell(text, len(entry.seeds))


def _count_cell(count: int | None) -> Cell:
    return Cell("unknown" if count is None else f"{count:,}", count)
