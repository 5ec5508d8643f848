"""The numbers of probes -> tables: over runs, per run, and per pair."""

from __future__ import annotations

from collections.abc import Iterator

from longplay.lab.analysis.records import (
    MEMORY_METRICS,
    Amount,
    Comparison,
    MemoryNumbers,
    SuiteComparison,
)
from longplay.lab.report.tables import (
    estimate_cell,
    format_fixed,
    format_with_error,
)
from longplay.tables import NOTHING, Cell, TextTable, render_latex


def list_memory_tables(
    suite: SuiteComparison, *, with_games: bool = False
) -> list[TextTable]:
    """The tables of probes of a suite; none where no run has probes."""
    if not any(agent.memory for agent in suite.agents):
        return []
    tables = [_agents_table(suite), _runs_table(suite)]
    if with_games:
        tables += [_games_table(suite), _pairs_table(suite)]
    return tables


def describe_memory(suite: SuiteComparison) -> Iterator[str]:
    """Notes that belong to the tables; agents that share one are named together."""
    probed = [(agent.label, agent.memory) for agent in suite.agents if agent.memory]
    labels: dict[str, list[str]] = {}
    for label, memory in probed:
        note = (
            f"probes of {memory.branches} branches of {memory.frames:,} "
            f"{suite.frame_noun}s; unit: {_name_unit(memory, suite)}"
        )
        labels.setdefault(note, []).append(label)
    for note, of in labels.items():
        yield note if len(of) == len(probed) else f"{', '.join(of)}: {note}"
    if probed:
        yield (
            "± over runs is a 95 % interval, ± of one run a standard error over "
            "branches"
        )
    for label, memory in probed:
        for name, reason in memory.absent.items():
            yield f"{label}: no {MEMORY_METRICS[name]}: {reason}"


def memory_to_latex(comparison: Comparison, *, with_games: bool = False) -> str:
    """The tables of probes of every suite; empty where no run has probes."""
    return "".join(
        f"\n{render_latex(table)}"
        for suite in comparison.suites
        for table in list_memory_tables(suite, with_games=with_games)
    )


def _name_unit(memory: MemoryNumbers, suite: SuiteComparison) -> str:
    """The unit, with the track's word for a frame."""
    if memory.unit == "reward per frame":
        return f"reward per {suite.frame_noun}"
    return memory.unit


def _agents_table(suite: SuiteComparison) -> TextTable:
    rows = [
        (
            Cell(agent.label, agent.label),
            Cell(str(len(memory.seeds)), len(memory.seeds)),
            *(estimate_cell(memory.numbers.get(name)) for name in MEMORY_METRICS),
        )
        for agent in suite.agents
        if (memory := agent.memory) is not None
    ]
    columns = ("agent", "runs", *MEMORY_METRICS.values())
    return TextTable(f"{suite.title}, probes", columns, tuple(rows))


def _runs_table(suite: SuiteComparison) -> TextTable:
    """One row per run."""
    rows = []
    for agent in suite.agents:
        for run in agent.memory.runs if agent.memory else ():
            share = run.share_forgotten
            rows.append(
                (
                    Cell(agent.label, agent.label),
                    Cell("–" if run.seed is None else str(run.seed), run.seed),
                    _amount_cell(run.numbers.get("learned")),
                    _amount_cell(run.numbers.get("forgetting")),
                    Cell(NOTHING if share is None else format_fixed(share, 2), share),
                    _amount_cell(run.numbers.get("transfer")),
                )
            )
    columns = ("agent", "seed", *MEMORY_METRICS.values())
    return TextTable(f"{suite.title}, probes by run", columns, tuple(rows), names=2)


def _games_table(suite: SuiteComparison) -> TextTable:
    """One row per game and agent."""
    names = [name for name in MEMORY_METRICS if name != "share_forgotten"]
    rows = [
        (
            Cell(game, game),
            Cell(agent.label, agent.label),
            *(estimate_cell(memory.games.get(game, {}).get(name)) for name in names),
        )
        for game in suite.games
        for agent in suite.agents
        if (memory := agent.memory) is not None
    ]
    columns = ("game", "agent", *(MEMORY_METRICS[name] for name in names))
    return TextTable(f"{suite.title}, probes by game", columns, tuple(rows), names=2)


def _pairs_table(suite: SuiteComparison) -> TextTable:
    """One row per pair of states."""
    rows = [
        (
            Cell(agent.label, agent.label),
            Cell("–" if pair.seed is None else str(pair.seed), pair.seed),
            Cell(MEMORY_METRICS[pair.kind], pair.kind),
            Cell(pair.game, pair.game),
            Cell(f"{pair.state} − {pair.other}", pair.state),
            _amount_cell(pair.amount),
        )
        for agent in suite.agents
        if agent.memory is not None
        for pair in agent.memory.pairs
    ]
    columns = ("agent", "seed", "number", "game", "states", "difference")
    return TextTable(f"{suite.title}, pairs of states", columns, tuple(rows), names=5)


def _amount_cell(amount: Amount | None) -> Cell:
    if amount is None:
        return Cell(NOTHING)
    return Cell(format_with_error(amount.mean, amount.error), amount.mean)
