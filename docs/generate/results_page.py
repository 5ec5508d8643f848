"""Packs of results/ -> the tables and figures of docs/results.md, and README's table.

    python docs/generate/results_page.py        writes them again

All numbers come from the documents and curves of the packs. Nothing is replayed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from longplay.lab.analysis.comparison import Request, compare, runs_by_label
from longplay.lab.analysis.intervals import Estimate, estimate_difference
from longplay.lab.analysis.records import AgentNumbers, SuiteComparison
from longplay.lab.analysis.runs import FoundRuns, MeasuredRun, RunReader
from longplay.lab.probes.numbers import add_memory
from longplay.lab.report.draw.drawings import RunsOfAgents, Shown
from longplay.lab.report.draw.kinds import draw
from longplay.lab.report.draw.paper import render_paper
from longplay.lab.report.memory_tables import describe_memory, list_memory_tables
from longplay.lab.report.site.sections import describe_command
from longplay.lab.report.site.verdicts import open_pack, open_probe
from longplay.lab.report.tables import format_estimate, head_metric, make_agents_table
from longplay.learners.parts.limits import MEMORIES
from longplay.scoring.anchors import shipped_anchors
from longplay.scoring.normalisation import make_scale
from longplay.suites import SUITES
from longplay.tables import NOTHING, Cell, TextTable, render_markdown
from references.reference_tables import fill_marked
from results_goals import (
    BLIND,
    EXPLORER,
    RANDOM,
    count_seeds,
    find_agent,
    find_difference,
    find_learners,
    find_resolution,
    is_above,
    table_goals,
    with_memory,
)

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
PAGE, README = ROOT / "docs" / "results.md", ROOT / "README.md"
_RUNNING_MEAN = "running mean (shipped)"
_BASELINES = (_RUNNING_MEAN, "zero (shipped)")
# What learners are judged by.
_YARDSTICKS = (RANDOM, EXPLORER, BLIND)
# Of more learners, pairs are shown with the yardsticks and between memories.
_MOST_PAIRED = 5
# A difference in average z that one would like to tell apart.
_WANTED_RESOLUTION = 0.03


def read_suite(suite_id: str) -> tuple[SuiteComparison, FoundRuns] | None:
    """The comparison of a suite's packs with a yardstick; None without packs."""
    folder = RESULTS / suite_id
    if not folder.is_dir():
        return None
    # Specialists play one game alone: the baseline of forward transfer.
    folders = [path for path in (folder, RESULTS / "specialists") if path.is_dir()]
    found = RunReader(open_pack).read(folders)
    predicts = SUITES[suite_id].track == "prediction"
    names = {run.agent.name for run in found.runs if run.conditions.suite == suite_id}
    versus = _RUNNING_MEAN if predicts else RANDOM if RANDOM in names else None
    request = Request(shipped_anchors(), suite_id, versus, with_baselines=predicts)
    comparison = compare(found, request)
    (suite,) = add_memory(comparison, found, request.anchors, open_probe).suites
    agents = tuple(
        agent
        for agent in suite.agents
        if not agent.is_shipped or agent.label in _BASELINES
    )
    return suite.model_copy(update={"agents": agents}), found


def read_suites() -> list[tuple[SuiteComparison, FoundRuns]]:
    """The suites with packs, in the order of the catalogue."""
    return [read for name in SUITES if (read := read_suite(name))]


def render_results() -> str:
    """The goals, and one section per suite."""
    read = read_suites()
    goals = _render_goals([suite for suite, _ in read])
    return "\n".join([*goals, *(render_section(*one) for one in read)])


def _render_goals(suites: Sequence[SuiteComparison]) -> Iterator[str]:
    """Which goals were reached."""
    table = table_goals({suite.suite: suite for suite in suites})
    if table.rows:
        yield "## Goals\n"
        yield (
            "Set before the runs, and judged by 95 % intervals; those of differences "
            "are paired by seed.\n"
        )
        yield render_markdown(table)


def render_section(suite: SuiteComparison, found: FoundRuns) -> str:
    """The tables of one suite."""
    runs = runs_by_label(found, suite)
    parts = [
        f"## {suite.suite}\n",
        _render_commands(runs),
        render_markdown(make_agents_table(suite)),
        *(f"- {note}" for note in _describe_missing(suite)),
        "\n### Games\n",
        render_markdown(_table_games(suite)),
        *(_describe_errors(suite) if suite.error else _describe_games(suite, runs)),
        *_render_pairs(suite, runs),
        *_render_transfer(suite),
        *_render_memory(suite),
        *_render_changes(suite),
    ]
    shown = "Errors on each game" if suite.error else "Reward over visits of each game"
    parts.append(f"![{shown}]({picture_of(suite)})\n")
    return "\n".join(parts)


def _render_commands(runs: RunsOfAgents) -> str:
    lines = [f"$ {describe_command(name, of)}" for name, of in runs.items() if of]
    mark = "<!-- not run: official seeds -->"
    return "\n".join([mark, "```console", *lines, "```", ""])


def _find_yardsticks(suite: SuiteComparison) -> list[str]:
    """Labels of what learners are judged by."""
    wanted = (_RUNNING_MEAN,) if suite.error else _YARDSTICKS
    labels = {agent.label for agent in suite.agents}
    return [label for label in wanted if label in labels]


def _find_metrics(suite: SuiteComparison) -> list[str]:
    """The number that agents are compared by, the track's own, and a revisit's."""
    revisit = ["change_at_revisit"] if has_revisits(suite) else []
    return list(dict.fromkeys((suite.lead, "headline", *revisit)))


def _describe_missing(suite: SuiteComparison) -> Iterator[str]:
    """Games that have no z."""
    reasons = suite.games_without_z
    if suite.games and len(reasons) == len(suite.games):
        yield f"No z: {next(iter(reasons.values()))}."
    else:
        for game, reason in reasons.items():
            yield f"{game} has no z, and is not in the average: {reason}."
        if reasons:
            scaled = len(suite.games) - len(reasons)
            yield f"So averages are over {scaled} of {len(suite.games)} games."


def _table_games(suite: SuiteComparison, metric: str | None = None) -> TextTable:
    """One row per game that has the number, one column per agent."""
    metric = metric or ("error" if suite.error else "rate")
    rows = {
        game: [agent.games.get(game, {}).get(metric) for agent in suite.agents]
        for game in suite.games
    }
    cells = tuple(
        (Cell(game), *(Cell(format_estimate(number)) for number in numbers))
        for game, numbers in rows.items()
        if any(numbers)
    )
    return TextTable(metric, ("game", *(a.label for a in suite.agents)), cells)


def _describe_errors(suite: SuiteComparison) -> Iterator[str]:
    """Where predictions are better than a constant."""
    known: set[str] = set()
    measured: set[str] = set()
    for agent in find_learners(suite):
        errors = {game: agent.games.get(game, {}).get("error") for game in suite.games}
        highs = {g: e.high for g, e in errors.items() if e and e.high is not None}
        below = [game for game, high in highs.items() if high < 1]
        known.update(below)
        measured.update(highs)
        yield f"- `{agent.label}`: error below 1 on {_list(below)}."
    unknown = [game for game in suite.games if game in measured - known]
    yield (
        "\n1 is the error of the best constant, chosen in hindsight. No predictor is "
        f"below it on {_list(unknown)}.\n"
    )


def _describe_games(suite: SuiteComparison, runs: RunsOfAgents) -> Iterator[str]:
    """The games on which no learner is better than the yardsticks."""
    yardsticks = _find_yardsticks(suite)
    learners = find_learners(suite)
    if RANDOM not in yardsticks or not learners:
        return
    learned: set[str] = set()
    for agent in learners:
        ours = runs[agent.label]
        above = [set(_judge_games(suite.games, ours, runs[y])[0]) for y in yardsticks]
        learned |= set.intersection(*above)
    unlearned = [game for game in suite.games if game not in learned]
    both = f"{'both ' * (len(yardsticks) == 2)}{' and '.join(yardsticks)}"
    if unlearned:
        yield f"No learner is above {both} on {', '.join(unlearned)}.\n"
    else:
        yield f"On every game a learner is above {both}.\n"


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


def _find_pairs(suite: SuiteComparison) -> list[tuple[AgentNumbers, str]]:
    """Every agent with the yardsticks, and learners with each other if they are few."""
    yardsticks, learners = _find_yardsticks(suite), find_learners(suite)
    judged = [
        (agent, label)
        for agent in suite.agents
        if not agent.is_shipped
        for label in _cut_before(yardsticks, agent.label)
    ]
    if len(learners) > _MOST_PAIRED:
        return judged
    pairs = itertools.combinations(learners, 2)
    return [*judged, *((ours, theirs.label) for ours, theirs in pairs)]


def _cut_before(labels: list[str], label: str) -> list[str]:
    """The labels before one of them; all if it is not among them."""
    return labels[: labels.index(label)] if label in labels else labels


def _render_pairs(suite: SuiteComparison, runs: RunsOfAgents) -> Iterator[str]:
    """The differences of agents, paired by seed, and the games that differ."""
    metrics, rows = _find_metrics(suite), []
    for ours, other in _find_pairs(suite):
        differences = [find_difference(suite, ours.label, other, m) for m in metrics]
        games = (
            []
            if suite.error
            else _judge_games(suite.games, runs[ours.label], runs[other])
        )
        rows.append(
            (
                Cell(f"{ours.label} − {other.removesuffix(' (shipped)')}"),
                *(Cell(_mark(difference)) for difference in differences),
                *(Cell(_list(each, NOTHING)) for each in games),
            )
        )
    if not rows:
        return
    heads = [f"Δ {head_metric(m, suite.headline, suite.error)}" for m in metrics]
    where = () if suite.error else ("above on", "below on")
    yield "### Differences\n"
    yield render_markdown(TextTable("pairs", ("agents", *heads, *where), tuple(rows)))
    yield _explain_pairs(0 if suite.error else len(rows) * len(suite.games))
    yield from _describe_resolution(suite)


def _describe_resolution(suite: SuiteComparison) -> Iterator[str]:
    """The smallest difference that the suite tells apart."""
    resolution = None if suite.error else find_resolution(suite)
    if resolution is None:
        return
    seeds = max(len(agent.seeds) for agent in suite.agents)
    text = (
        f"The intervals of all pairs of agents have a median half-width of "
        f"{resolution:.2g} in average z:\nthis is about the smallest difference that "
        f"{seeds} seeds tell apart."
    )
    if resolution > _WANTED_RESOLUTION:
        needed = count_seeds(resolution, seeds, _WANTED_RESOLUTION)
        text += f" {_WANTED_RESOLUTION} would need about {needed} seeds."
    yield f"{text}\n"


def _render_transfer(suite: SuiteComparison) -> Iterator[str]:
    """Each learner with its memories: negative transfer, and what keeping gains."""
    rows = []
    for agent in find_learners(suite):
        names = [with_memory(agent.label, memory) for memory in MEMORIES]
        carry, reset, library = names
        pairs = ((reset, carry), (library, carry), (library, reset))
        differences = [find_difference(suite, *pair) for pair in pairs]
        if any(differences):
            cells = (Cell(_mark(difference)) for difference in differences)
            rows.append((Cell(agent.label), *cells))
    if rows:
        columns = ("learner", "reset − carry", "library − carry", "library − reset")
        yield "### Negative transfer\n"
        yield render_markdown(TextTable("transfer", columns, tuple(rows)))
        yield (
            "Differences in average z. `reset` forgets everything at a switch: where "
            "it is above `carry`,\nwhat was learned on other games does harm. "
            "`library` keeps a set of weights per game.\n"
        )


def _render_memory(suite: SuiteComparison) -> Iterator[str]:
    """What agents learned, kept and forgot, by probes."""
    tables = list_memory_tables(suite)
    if not tables:
        return
    yield "### What agents keep\n"
    yield render_markdown(tables[0])
    yield from (f"- {note}" for note in describe_memory(suite))
    picture = picture_of(suite, "memory")
    yield f"\n![Reward of copies of each agent, before and after visits]({picture})\n"


def _explain_pairs(comparisons: int) -> str:
    chance = (
        f"\nThese are {comparisons} comparisons of games: about "
        f"{comparisons / 20:.2g} would differ by chance alone."
    )
    return (
        "Paired by seed; bold where the 95 % interval does not contain 0."
        f"{chance * bool(comparisons)}\n"
    )


def _mark(difference: Estimate | None) -> str:
    text = format_estimate(difference)
    return f"**{text}**" if difference and difference.excludes_zero else text


def _render_changes(suite: SuiteComparison) -> Iterator[str]:
    """The change at revisit of each agent, less that of the random agent."""
    if not has_revisits(suite):
        return
    yield "### Change at revisit\n"
    yield render_markdown(_table_games(suite, "change_at_revisit"))
    picture = picture_of(suite, "retention")
    yield f"![Retention, change at revisit and recovery of each agent]({picture})\n"


def has_revisits(suite: SuiteComparison) -> bool:
    """Whether a game is revisited, and has z."""
    return any("change_at_revisit" in agent.numbers for agent in suite.agents)


def _list(names: Sequence[str], nothing: str = "no game") -> str:
    return ", ".join(names) or nothing


def render_short() -> str:
    """README's table: the number that agents are compared by, and what they forgot.

    Suites with probes first, because they show most, then those with average z.
    """
    suites = [suite for suite, _ in read_suites()]
    suites.sort(key=lambda suite: (not has_memory(suite), suite.lead != "average"))
    return render_markdown(_table_agents(suites))


def has_memory(suite: SuiteComparison) -> bool:
    """Whether it was measured what agents keep."""
    return any(agent.memory is not None for agent in suite.agents)


def _table_agents(suites: Sequence[SuiteComparison]) -> TextTable:
    """Agents by numbers of suites, those that learn nothing first."""
    agents = [agent for suite in suites for agent in suite.agents]
    labels = {agent.label for agent in agents if not agent.is_shipped}
    learners = (agent.label for suite in suites for agent in find_learners(suite))
    shown = [n for n in dict.fromkeys((*_YARDSTICKS, *learners)) if n in labels]
    heads, columns = [], []
    for suite in suites:
        lead = head_metric(suite.lead, suite.headline, suite.error)
        heads.append(f"{suite.suite}, {lead}")
        columns.append([_mark_number(suite, suite.lead, label) for label in shown])
        if has_memory(suite):
            heads.append(f"{suite.suite}, share forgotten")
            columns.append([_format_share(suite, label) for label in shown])
    rows = tuple(
        (Cell(f"`{label}`"), *map(Cell, cells))
        for label, *cells in zip(shown, *columns, strict=True)
    )
    return TextTable("", ("agent", *heads), rows)


def _format_share(suite: SuiteComparison, label: str) -> str:
    """What an agent forgot of what it had learned, by probes."""
    agent = find_agent(suite, label)
    if agent is None or agent.memory is None:
        return NOTHING
    return format_estimate(agent.memory.numbers.get("share_forgotten"))


def _mark_number(suite: SuiteComparison, metric: str, label: str) -> str:
    """A number of an agent; in italics above random, in bold above all yardsticks."""
    agent = find_agent(suite, label)
    if agent is None:
        return NOTHING
    text = format_estimate(agent.numbers.get(metric))
    others = [other for other in _find_yardsticks(suite) if other != label]
    above = [
        other
        for other in others
        if is_above(find_difference(suite, agent.label, other, metric))
    ]
    if suite.error or label == RANDOM or RANDOM not in above:
        return text
    is_learning = label not in _YARDSTICKS and len(above) == len(others)
    return f"**{text}**" if is_learning else f"*{text}*"


def picture_of(suite: SuiteComparison, kind: str = "") -> str:
    """The path of a suite's figure, relative to the page."""
    return f"pictures/results-{suite.suite}{kind and '-'}{kind}.svg"


def draw_suite(suite: SuiteComparison, found: FoundRuns) -> dict[str, bytes]:
    """Path -> figure: learning curves or errors of all agents, and retention."""
    agents = tuple(agent for agent in suite.agents if not agent.is_shipped)
    suite = suite.model_copy(update={"agents": agents})
    scale = make_scale(shipped_anchors(), suite.suite, suite.games)
    shown = Shown(suite, runs_by_label(found, suite), scale)
    kinds = {picture_of(suite): "predictions" if suite.error else "curves"}
    if has_revisits(suite):
        kinds[picture_of(suite, "retention")] = "retention"
    if has_memory(suite):
        kinds[picture_of(suite, "memory")] = "memory"
    return {
        path: render_paper(draw(kind, shown), "svg", 2) for path, kind in kinds.items()
    }


def main() -> None:
    """Writes page, README's table and figures."""
    for path, name, text in (
        (PAGE, "results", render_results()),
        (README, "results", render_short()),
    ):
        path.write_text(fill_marked(path.read_text(), name, f"\n{text}\n"))
    for read in read_suites():
        for picture, content in draw_suite(*read).items():
            (PAGE.parent / picture).write_bytes(content)


if __name__ == "__main__":
    main()
