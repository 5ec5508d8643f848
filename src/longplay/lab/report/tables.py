"""A comparison -> tables, and its numbers as LaTeX and CSV.

A number is printed with the digits that its interval supports: two significant digits
of the half-width. CSV has every digit, one line per number, so that reading it gives
the exact numbers that were written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from longplay.errors import UnknownNameError
from longplay.lab.analysis.intervals import Estimate, estimate_difference
from longplay.lab.analysis.labels import describe_seeds
from longplay.lab.analysis.records import (
    GAME_METRICS,
    LESS_IS_BETTER,
    METRICS,
    AgentNumbers,
    Comparison,
    MemoryNumbers,
    SuiteComparison,
)
from longplay.tables import NOTHING, Cell, TextTable, render_latex, write_csv

CSV_COLUMNS = (
    "suite",
    "emulator",
    "agent",
    "agent_id",
    "isolation",
    "tuning_frames",
    "seeds",
    "game",
    "metric",
    "mean",
    "low",
    "high",
    "n",
    "method",
)


# --- numbers as text ------------------------------------------------------------


def format_estimate(estimate: Estimate | None) -> str:
    """`0.312 ±0.045`; `0.31 (0.27…0.38)` where the interval is not symmetric."""
    if estimate is None:
        return NOTHING
    half_width = estimate.half_width
    # Runs that agree differ by rounding alone, which is not an interval.
    if half_width is None or half_width <= 1e-9 * abs(estimate.mean):
        return _format_alone(estimate.mean)
    assert estimate.low is not None
    assert estimate.high is not None
    skew = abs(estimate.low + estimate.high - 2 * estimate.mean)
    if skew <= 0.02 * half_width:
        return format_with_error(estimate.mean, half_width)
    decimals = 1 - math.floor(math.log10(half_width))
    mean = format_fixed(estimate.mean, decimals)
    low, high = (format_fixed(x, decimals) for x in (estimate.low, estimate.high))
    return f"{mean} ({low}…{high})"


def format_with_error(mean: float, error: float | None) -> str:
    """`0.312 ±0.045`, with two digits of the error; without one if there is none."""
    if error is None or error <= 1e-9 * abs(mean):
        return _format_alone(mean)
    decimals = 1 - math.floor(math.log10(error))
    return f"{format_fixed(mean, decimals)} ±{format_fixed(error, decimals)}"


def format_fixed(value: float, decimals: int) -> str:
    """Rounded to so many decimals, or before the point if that is negative."""
    text = f"{round(value, decimals):,.{max(0, decimals)}f}"
    is_zero = not any(digit in text for digit in "123456789")
    return text.removeprefix("-") if is_zero else text.replace("-", "−")


def _format_alone(value: float) -> str:
    """Three significant digits, and whole numbers whole."""
    if value == 0:
        return "0"
    return format_fixed(value, max(0, 2 - math.floor(math.log10(abs(value)))))


# --- tables ---------------------------------------------------------------------


def make_agents_table(suite: SuiteComparison, chosen: Sequence[str] = ()) -> TextTable:
    """One row per agent; a metric that no agent has gets no column.

    The best agents by each metric are bold: see `find_best`.

    Args:
        suite: The agents.
        chosen: Names of columns after that of the agent, in this order; by default
            all. Those that this suite lacks are left out.
    """
    columns = _list_columns(suite)
    names = [name for name in chosen or columns if name in columns]
    best = {name: find_best(suite, name) for name in names if name in METRICS}
    rows = [
        (
            Cell(agent.label, agent.label),
            *(
                _make_bold(columns[name][1](agent), agent.label in best.get(name, ()))
                for name in names
            ),
        )
        for agent in suite.agents
    ]
    heads = ("agent", *(columns[name][0] for name in names))
    return TextTable(suite.title, heads, tuple(rows))


def check_columns(comparison: Comparison, chosen: Sequence[str]) -> None:
    """Checks the names of columns.

    Raises:
        UnknownNameError: No suite has such a column.
    """
    known = {name for suite in comparison.suites for name in _list_columns(suite)}
    for name in chosen:
        if name not in known:
            raise UnknownNameError("column", name, known)


# A heading, and the cell of an agent below it.
_AgentColumn = tuple[str, Callable[[AgentNumbers], Cell]]


def _list_columns(suite: SuiteComparison) -> dict[str, _AgentColumn]:
    """Name -> column of the table of agents, without those that no agent has."""
    names = order_metrics(suite.error, (agent.numbers for agent in suite.agents))
    columns: dict[str, _AgentColumn] = {"runs": ("runs", _runs_cell)}
    for name in names:
        columns[name] = _head_metric(suite, name), _numbers_column(name)
    # In the order of the metrics themselves.
    differences = {"headline": "headline_difference", suite.lead: "difference"}
    for name in names:
        key = differences.get(name)
        if key is not None and any(getattr(agent, key) for agent in suite.agents):
            head = f"Δ {_head_metric(suite, name)}"
            columns[key] = head, _attribute_column(key)
    if len(suite.agents) > 1:
        columns["improvement"] = "P(better)", _attribute_column("improvement")
    return columns


def _numbers_column(name: str) -> Callable[[AgentNumbers], Cell]:
    return lambda agent: estimate_cell(agent.numbers.get(name))


def _attribute_column(name: str) -> Callable[[AgentNumbers], Cell]:
    return lambda agent: estimate_cell(getattr(agent, name))


def _make_bold(cell: Cell, is_bold: bool) -> Cell:
    return replace(cell, style="bold") if is_bold else cell


def find_best(suite: SuiteComparison, name: str) -> set[str]:
    """Labels of the best agent by a metric, and of all not shown to be worse.

    An agent is worse if the interval of its difference from the best, paired by seed,
    excludes 0. If no agent is worse, or runs are too few for intervals, none is marked.

    Args:
        suite: The agents.
        name: One of `METRICS`.
    """
    known = [agent for agent in suite.agents if agent.per_run.get(name)]
    if len(known) < 2:
        return set()
    sign = -1 if is_less_better(suite, name) else 1
    best = max(known, key=lambda agent: sign * agent.numbers[name].mean)
    differences = {
        agent.label: estimate_difference(agent.by_seed(name), best.by_seed(name))
        for agent in known
        if agent is not best
    }
    tested = {
        label: found
        for label, found in differences.items()
        if found is not None and found.low is not None
    }
    equal = {label for label, found in tested.items() if not found.excludes_zero}
    return {best.label, *equal} if len(equal) < len(tested) else set()


def is_less_better(suite: SuiteComparison, name: str) -> bool:
    """Whether lower values of a metric are better."""
    if name == "headline":
        return suite.headline_is_better == "less"
    return name in LESS_IS_BETTER


def sort_by_lead(suite: SuiteComparison) -> SuiteComparison:
    """The same with the best agent by `lead` first, and those without it last."""
    sign = 1 if is_less_better(suite, suite.lead) else -1

    def place(agent: AgentNumbers) -> tuple[bool, float]:
        found = agent.numbers.get(suite.lead)
        return found is None, 0.0 if found is None else sign * found.mean

    agents = tuple(sorted(suite.agents, key=place))
    return suite.model_copy(update={"agents": agents})


def order_metrics(
    error: str | None, numbers: Iterable[Mapping[str, Estimate]]
) -> list[str]:
    """The metrics that some agent has; errors against rollout values come first."""
    known = {name for own in numbers for name in own}
    names = [name for name in METRICS if name in known]
    if error == "value_nmse" and "error" in names:
        names.sort(key=lambda name: name != "error")
    return names


def make_games_table(suite: SuiteComparison) -> TextTable:
    """One row per game and agent."""
    names = [
        name
        for name in GAME_METRICS
        if any(name in game for agent in suite.agents for game in agent.games.values())
    ]
    rows = [
        (
            Cell(game, game),
            Cell(agent.label, agent.label),
            *(estimate_cell(agent.games.get(game, {}).get(name)) for name in names),
        )
        for game in suite.games
        for agent in suite.agents
    ]
    heads = (_head_game_metric(suite, name) for name in names)
    title, columns = f"{suite.title}, by game", ("game", "agent", *heads)
    return TextTable(title, columns, tuple(rows), names=2)


def head_metric(name: str, headline: str, error: str | None) -> str:
    """The heading of a column.

    Args:
        name: One of `METRICS`.
        headline: Key of score.json that is the headline.
        error: `nmse` or `value_nmse` on prediction suites.
    """
    if name == "headline":
        return headline.replace("_", " ")
    if name == "error" and error is not None:
        return f"median {error.replace('_', ' ')}"
    return METRICS[name]


def _head_metric(suite: SuiteComparison, name: str) -> str:
    return head_metric(name, suite.headline, suite.error)


def _head_game_metric(suite: SuiteComparison, name: str) -> str:
    if name == "rate":
        return f"reward per {suite.frame_noun}"
    if name == "error" and suite.error is not None:
        return suite.error.replace("_", " ")
    return GAME_METRICS[name]


def estimate_cell(estimate: Estimate | None) -> Cell:
    """A mean with its interval, sorted by the mean."""
    value = None if estimate is None else estimate.mean
    return Cell(format_estimate(estimate), value)


def _runs_cell(agent: AgentNumbers) -> Cell:
    """`5`, `5/7` where two do not count, or `5/7, 1 errored`."""
    counted, lost = len(agent.seeds), sum(map(len, agent.left_out.values()))
    text = f"{counted}/{counted + lost}" if lost else str(counted)
    if errored := len(agent.left_out.get("errored", ())):
        text += f", {errored} errored"
    return Cell(text, counted)


def describe_suite(suite: SuiteComparison) -> Iterator[str]:
    """Notes that belong to the table."""
    for agent in suite.agents:
        if agent.left_out:
            kinds = ", ".join(
                f"{len(seeds)} {kind} (seed {describe_seeds(seeds)})"
                for kind, seeds in agent.left_out.items()
            )
            yield f"{agent.label}: {kinds}; not in the means"
    yield from suite.notes
    if 0 < len(suite.games_without_z) < len(suite.games):
        yield f"games without z: {', '.join(suite.games_without_z)}"
    elif suite.games_without_z:
        yield f"no z: {next(iter(suite.games_without_z.values()))}"
    if not suite.games_without_z.keys() >= set(suite.games):
        yield from _explain_absent(suite)
    if len(suite.agents) > 1:
        yield f"Δ and P(better) are against {suite.versus}"


def _explain_absent(suite: SuiteComparison) -> Iterator[str]:
    """Why numbers are missing, grouped by reason."""
    found: dict[str, list[str]] = {}
    for name, heading in METRICS.items():
        reasons = {a.absent[name] for a in suite.agents if name in a.absent}
        if reasons:
            found.setdefault("; ".join(sorted(reasons)), []).append(heading)
    for reasons_text, names in found.items():
        yield f"no {', '.join(names)}: {reasons_text}"


# --- files ----------------------------------------------------------------------


_BOLD_NOTE = (
    "bold: the best, and agents whose difference from it (95 %, paired by seed) does "
    "not exclude 0"
)


def comparison_to_latex(
    comparison: Comparison, *, with_games: bool = False, chosen: Sequence[str] = ()
) -> str:
    """One table per suite, the best agent by `lead` first.

    Args:
        comparison: The suites.
        with_games: Whether each has a table of games, too.
        chosen: Columns, as in `make_agents_table`.
    """
    tables = []
    for suite in map(sort_by_lead, comparison.suites):
        table = make_agents_table(suite, chosen)
        is_tested = any(cell.style for row in table.rows for cell in row)
        tables.append(replace(table, notes=(_BOLD_NOTE,) if is_tested else ()))
        if with_games:
            tables.append(make_games_table(suite))
    return "\n".join(map(render_latex, tables))


def comparison_to_csv(comparison: Comparison) -> str:
    """Every number of a comparison, a line each, with all its digits."""
    return _numbers_to_csv(comparison.suites)


def suite_to_csv(suite: SuiteComparison, *, by_game: bool) -> str:
    """The numbers of the table of agents, or of games, in the same format."""
    return _numbers_to_csv((suite,), lambda game: bool(game) == by_game)


def _numbers_to_csv(
    suites: Sequence[SuiteComparison],
    keeps: Callable[[str], bool] = lambda _: True,
) -> str:
    return write_csv(CSV_COLUMNS, list_numbers(suites, keeps))


def list_numbers(
    suites: Sequence[SuiteComparison],
    keeps: Callable[[str], bool] = lambda _: True,
) -> list[list[object]]:
    """Every number of some suites as a row of `CSV_COLUMNS`.

    Args:
        suites: The suites.
        keeps: Whether numbers of a game are kept; "" for those of no game.
    """
    return [
        _csv_row(suite, agent, game, metric, estimate)
        for suite in suites
        for agent in suite.agents
        for game, metric, estimate in _list_estimates(agent)
        if keeps(game)
    ]


def _list_estimates(agent: AgentNumbers) -> Iterator[tuple[str, str, Estimate]]:
    """(game or nothing, metric, estimate)."""
    for metric, estimate in agent.numbers.items():
        yield "", metric, estimate
    if agent.difference is not None:
        yield "", "difference", agent.difference
    if agent.headline_difference is not None:
        yield "", "headline_difference", agent.headline_difference
    if agent.improvement is not None:
        yield "", "improvement", agent.improvement
    for game, numbers in agent.games.items():
        for metric, estimate in numbers.items():
            yield game, metric, estimate
    yield from _list_probed(agent.memory)


def _list_probed(memory: MemoryNumbers | None) -> Iterator[tuple[str, str, Estimate]]:
    """The same of the numbers of probes."""
    if memory is not None:
        for game, numbers in {"": memory.numbers, **memory.games}.items():
            for metric, estimate in numbers.items():
                yield game, f"probe_{metric}", estimate


def _csv_row(
    suite: SuiteComparison,
    agent: AgentNumbers,
    game: str,
    metric: str,
    estimate: Estimate,
) -> list[object]:
    """The cells of `CSV_COLUMNS`."""
    return [
        suite.suite,
        suite.emulator,
        agent.label,
        agent.agent_id,
        agent.isolation,
        agent.tuning_frames,
        " ".join("?" if seed is None else str(seed) for seed in agent.seeds),
        game,
        metric,
        estimate.mean,
        estimate.low,
        estimate.high,
        estimate.n,
        estimate.method,
    ]
