"""A comparison -> tables, and its numbers as LaTeX and CSV.

A number is printed with the digits that its interval supports: two significant digits
of the half-width. CSV has every digit, one line per number, so that reading it gives
the exact numbers that were written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from longplay.lab.analysis.intervals import Estimate
from longplay.lab.analysis.labels import describe_seeds
from longplay.lab.analysis.records import (
    GAME_METRICS,
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


def make_agents_table(suite: SuiteComparison) -> TextTable:
    """One row per agent; a metric that no agent has gets no column."""
    names = order_metrics(suite.error, (agent.numbers for agent in suite.agents))
    columns = ["agent", "runs", *(_head_metric(suite, name) for name in names)]
    has_others = len(suite.agents) > 1
    # In the order of the metrics themselves.
    differences = {"headline": "headline_difference", suite.lead: "difference"}
    shown = [
        key
        for name in names
        if (key := differences.get(name)) is not None
        and any(getattr(agent, key) for agent in suite.agents)
    ]
    heads = {key: _head_metric(suite, name) for name, key in differences.items()}
    columns += [f"Δ {heads[key]}" for key in shown]
    if has_others:
        columns.append("P(better)")
    rows = []
    for agent in suite.agents:
        row = [Cell(agent.label, agent.label), _runs_cell(agent)]
        row += [estimate_cell(agent.numbers.get(name)) for name in names]
        row += [estimate_cell(getattr(agent, key)) for key in shown]
        if has_others:
            row.append(estimate_cell(agent.improvement))
        rows.append(tuple(row))
    return TextTable(suite.title, tuple(columns), tuple(rows))


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


def comparison_to_latex(comparison: Comparison, *, with_games: bool = False) -> str:
    """One table per suite."""
    tables = []
    for suite in comparison.suites:
        tables.append(make_agents_table(suite))
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
