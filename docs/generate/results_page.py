"""Packs of results/ -> the tables and figures of docs/results.md, and README's table.

    python docs/generate/results_page.py        writes them again

Whole-visit numbers come from the packs' summaries, numbers of windows and curves from
results/curves. Nothing is replayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from longplay.analysis.anchors import shipped_anchors
from longplay.analysis.comparison import Request, compare, runs_by_label
from longplay.analysis.intervals import Estimate, estimate_difference
from longplay.analysis.normalisation import make_scale
from longplay.analysis.records import AgentNumbers, SuiteComparison
from longplay.analysis.runs import FoundRuns, MeasuredRun, RunReader
from longplay.report.drawings import RunsOfAgents, Shown, draw
from longplay.report.paper import render_paper
from longplay.report.reference_tables import fill_marked
from longplay.report.sections import run_command
from longplay.report.tables import (
    NOTHING,
    Cell,
    TextTable,
    format_estimate,
    head_metric,
    make_agents_table,
    render_markdown,
)
from longplay.report.verdicts import open_pack
from longplay.suites import SUITES

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PAGE, README = ROOT / "docs" / "results.md", ROOT / "README.md"
_RANDOM = "random"


def read_suite(suite_id: str) -> tuple[SuiteComparison, FoundRuns] | None:
    """The comparison of a suite's packs with the random agent; None without packs."""
    folder = RESULTS / suite_id
    if not folder.is_dir():
        return None
    found = RunReader(RESULTS / "curves", open_pack).read([folder])
    agents = {run.agent.name for run in found.runs}
    versus = _RANDOM if _RANDOM in agents else None
    (suite,) = compare(found, Request(shipped_anchors(), versus=versus)).suites
    return suite, found


def render_results() -> str:
    """The sections of docs/results.md, one per suite."""
    return "\n".join(
        render_section(*read) for name in SUITES if (read := read_suite(name))
    )


def render_section(suite: SuiteComparison, found: FoundRuns) -> str:
    """The tables of one suite."""
    runs = runs_by_label(found, suite)
    parts = [
        f"## {suite.suite}\n",
        _render_commands(runs),
        render_markdown(make_agents_table(suite)),
        *(f"- {note}." for note in _describe_differences(suite)),
        "\n### Games\n",
        render_markdown(_table_games(suite)),
        *_describe_games(suite, runs),
        *_render_pairs(suite, runs),
    ]
    if any("forgetting" in agent.numbers for agent in suite.agents):
        parts += [
            "### Forgetting\n",
            render_markdown(_table_games(suite, "forgetting")),
        ]
    shown = "Errors on each game" if suite.error else "Reward over visits of each game"
    parts.append(f"![{shown}]({picture_of(suite)})\n")
    return "\n".join(parts)


def _render_commands(runs: RunsOfAgents) -> str:
    lines = [f"$ {run_command(label, members)}" for label, members in runs.items()]
    return "\n".join(["```console", *lines, "```", ""])


def _describe_differences(suite: SuiteComparison) -> Iterator[str]:
    """Which agents differ from the random agent, by the 95 % interval."""
    for agent in suite.agents:
        if agent.label == suite.versus:
            continue
        for metric, difference in (
            ("headline", agent.headline_difference),
            (suite.lead, agent.difference),
        ):
            if difference is not None:
                name = head_metric(metric, suite.headline, suite.error)
                yield f"`{agent.label}`: {name} {_judge(difference, suite.versus)}"


def _judge(difference: Estimate, versus: str) -> str:
    size = f"{format_estimate(difference)} ({difference.method})"
    if not difference.excludes_zero:
        return f"not distinguishable from {versus}: difference {size}"
    where = "above" if difference.mean > 0 else "below"
    return f"{where} {versus} by {size}"


def _table_games(suite: SuiteComparison, metric: str | None = None) -> TextTable:
    """One row per game, one column per agent."""
    metric = metric or ("error" if suite.error else "rate")
    rows = tuple(
        (
            Cell(game),
            *(
                Cell(format_estimate(agent.games.get(game, {}).get(metric)))
                for agent in suite.agents
            ),
        )
        for game in suite.games
    )
    return TextTable(metric, ("game", *(a.label for a in suite.agents)), rows)


def _describe_games(suite: SuiteComparison, runs: RunsOfAgents) -> Iterator[str]:
    """Where an agent differs from the random agent, and where none is better."""
    if suite.error is not None or suite.versus != _RANDOM:
        return
    learned: set[str] = set()
    for agent in suite.agents:
        if agent.label != _RANDOM:
            better, worse = _judge_games(suite.games, runs[agent.label], runs[_RANDOM])
            learned.update(better)
            yield (
                f"`{agent.label}` is above random on {_list(better)}, below on "
                f"{_list(worse)}.\n"
            )
    unlearned = [game for game in suite.games if game not in learned]
    yield f"No agent is above random on {_list(unlearned)}.\n"
    comparisons = len(suite.games) * (len(suite.agents) - 1)
    yield (
        f"These are {comparisons} comparisons, each at 95 %: about "
        f"{comparisons / 20:.2g} would differ by chance alone.\n"
    )


def _judge_games(
    games: Sequence[str], ours: Sequence[MeasuredRun], theirs: Sequence[MeasuredRun]
) -> tuple[list[str], list[str]]:
    better, worse = [], []
    for column, game in enumerate(games):
        pair = [
            {run.seed: float(run.measure().average[column]) for run in runs}
            for runs in (ours, theirs)
        ]
        difference = estimate_difference(pair[0], pair[1])
        if difference is not None and difference.excludes_zero:
            (better if difference.mean > 0 else worse).append(game)
    return better, worse


def _render_pairs(suite: SuiteComparison, runs: RunsOfAgents) -> Iterator[str]:
    """Every learner against every other, where all are compared with random."""
    learners = [agent for agent in suite.agents if agent.label != _RANDOM]
    if suite.versus != _RANDOM or len(learners) < 2:
        return
    metrics = list(dict.fromkeys(("headline", suite.lead)))
    heads = (f"Δ {head_metric(m, suite.headline, suite.error)}" for m in metrics)
    rows = []
    for ours, theirs in combinations(learners, 2):
        differences = (_find_difference(ours, theirs, metric) for metric in metrics)
        better, worse = _judge_games(suite.games, runs[ours.label], runs[theirs.label])
        rows.append(
            (
                Cell(f"{ours.label} − {theirs.label}"),
                *(Cell(_mark(difference)) for difference in differences),
                Cell(_list(better)),
                Cell(_list(worse)),
            )
        )
    yield "### Learners against each other\n"
    columns = ("agents", *heads, "above on", "below on")
    yield render_markdown(TextTable("pairs", columns, tuple(rows)))
    yield "Paired by seed; bold where the interval does not contain 0.\n"


def _find_difference(
    ours: AgentNumbers, theirs: AgentNumbers, metric: str
) -> Estimate | None:
    pair = [
        dict(zip(agent.seeds, agent.per_run[metric], strict=True))
        for agent in (ours, theirs)
    ]
    return estimate_difference(pair[0], pair[1])


def _mark(difference: Estimate | None) -> str:
    text = format_estimate(difference)
    return f"**{text}**" if difference and difference.excludes_zero else text


def _list(games: Sequence[str]) -> str:
    return ", ".join(games) or "no game"


def render_short() -> str:
    """README's table: agents by suites."""
    suites = [read[0] for name in SUITES if (read := read_suite(name))]
    labels = list(dict.fromkeys(a.label for suite in suites for a in suite.agents))
    rows = tuple(
        (Cell(f"`{label}`"), *(Cell(_headline(suite, label)) for suite in suites))
        for label in labels
    )
    heads = (
        f"{s.suite}, {head_metric(_lead_of(s), s.headline, s.error)}" for s in suites
    )
    return render_markdown(TextTable("", ("agent", *heads), rows))


def _lead_of(suite: SuiteComparison) -> str:
    """The number of README's table: the track's own, or the error of predictions."""
    return suite.lead if suite.error else "headline"


def _headline(suite: SuiteComparison, label: str) -> str:
    agent = next((a for a in suite.agents if a.label == label), None)
    if agent is None:
        return NOTHING
    text = format_estimate(agent.numbers.get(_lead_of(suite)))
    difference = agent.headline_difference or agent.difference
    is_better = suite.versus == _RANDOM and _is_above(difference)
    return f"**{text}**" if is_better else text


def _is_above(difference: Estimate | None) -> bool:
    return difference is not None and difference.excludes_zero and difference.mean > 0


def picture_of(suite: SuiteComparison) -> str:
    """The path of a suite's figure, relative to the page."""
    return f"pictures/results-{suite.suite}.svg"


def draw_suite(suite: SuiteComparison, found: FoundRuns) -> bytes:
    """The learning curves of all agents."""
    scale = make_scale(shipped_anchors(), suite.suite, suite.games)
    shown = Shown(suite, runs_by_label(found, suite), scale)
    kind = "predictions" if suite.error else "curves"
    return render_paper(draw(kind, shown), "svg", 2)


def main() -> None:
    """Writes page, README's table and figures."""
    for path, name, text in (
        (PAGE, "results", render_results()),
        (README, "results", render_short()),
    ):
        path.write_text(fill_marked(path.read_text(), name, f"\n{text}\n"))
    for name in SUITES:
        if read := read_suite(name):
            (ROOT / "docs" / picture_of(read[0])).write_bytes(draw_suite(*read))


if __name__ == "__main__":
    main()
