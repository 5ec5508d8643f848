"""The numbers of probes -> drawings: memory of each game, and the matrix R.

Where all runs visit the games in the same order, the x axis of a game's memory is the
stream: 0 is the fresh agent, i + 1 the agent after visit i. Otherwise it is the game's
own: the fresh agent, before and after each visit of the game, and the end of the run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from longplay.contract.rundir import name_state
from longplay.lab.analysis.intervals import (
    FEWEST_FOR_INTERVAL,
    Estimate,
    estimate_mean,
)
from longplay.lab.analysis.records import AgentNumbers, MatrixCell, MemoryNumbers
from longplay.lab.report.draw.colours import game_colour
from longplay.lab.report.draw.drawings import (
    Drawing,
    Grid,
    Panel,
    Series,
    Shown,
    Span,
    nothing_to_draw,
)
from longplay.lab.report.tables import format_with_error
from longplay.probes import FRESH

_NO_PROBES = "no run has probes; `longplay probe` plays them"

# Seed -> the games of its visits.
Orders = Mapping[int | None, tuple[str, ...]]


class Moment(NamedTuple):
    """A point of the x axis.

    Attributes:
        name: Its label.
        states: Seed -> the state of that run.
    """

    name: str
    states: Mapping[int | None, str]


def draw_memory(shown: Shown) -> Drawing:
    """How well each game is played by the agent's states, with error bars."""
    agents = [agent for agent in shown.suite.agents if agent.memory is not None]
    if not agents:
        raise nothing_to_draw("memory", _NO_PROBES)
    orders = _find_orders(shown, agents)
    is_one_order = len(set(orders.values())) == 1
    panels = []
    for game in shown.suite.games:
        moments = (
            _list_stream(agents, orders) if is_one_order else _list_own(game, orders)
        )
        series = [_memory_line(shown, agent, game, moments) for agent in agents]
        lines = tuple(line for line in series if line.x)
        if lines:
            panels.append(
                Panel(
                    game,
                    lines,
                    marks=_find_marks(agents, lines),
                    spans=tuple(_mark_visits(game, orders, moments)),
                    has_bars=True,
                    x_names=tuple(moment.name for moment in moments),
                )
            )
    when, which = "0: fresh; before (−) and after (+) visits of the game", ""
    if is_one_order:
        when, which = "after visit", " after every visit; those of the game are shaded"
    return Drawing(
        "memory",
        "Memory",
        when,
        _value_label(shown, agents),
        tuple(panels),
        f"How well copies of the agent play each game{which}. "
        f"{_explain_bars(agents)} Dotted: the fresh agent, if there is one agent, and "
        "the random agent where the game has anchors.",
    )


def draw_matrix(shown: Shown) -> Drawing:
    """The matrix R: states x games, a panel per agent."""
    agents = [agent for agent in shown.suite.agents if agent.memory is not None]
    if not agents:
        raise nothing_to_draw("matrix", _NO_PROBES)
    panels = tuple(
        Panel(agent.label, (), grid=_make_grid(shown, agent)) for agent in agents
    )
    return Drawing(
        "matrix",
        "States and games",
        "",
        "",
        panels,
        f"How well each state plays each game: {_value_label(shown, agents)}, mean "
        "over branches and runs. Bluer is better, game by game; empty cells were not "
        "probed.",
    )


def _list_states(agents: Sequence[AgentNumbers]) -> list[str]:
    """All states of these agents, in the order of the stream."""
    cells = [cell for agent in agents for cell in _cells_of(agent)]
    visits = [
        int(cell.state.removeprefix("visit-")) for cell in cells if cell.state != FRESH
    ]
    return [FRESH, *(name_state(visit) for visit in range(max(visits, default=-1) + 1))]


def _find_orders(shown: Shown, agents: Sequence[AgentNumbers]) -> Orders:
    """The games that the runs with probes visit."""
    return {
        run.seed: tuple(visit.game_id for visit in run.config.played_schedule)
        for agent in agents
        for run in shown.runs.get(agent.label, ())
        if agent.memory is not None and run.seed in agent.memory.seeds
    }


def _list_stream(agents: Sequence[AgentNumbers], orders: Orders) -> list[Moment]:
    return [
        Moment(state.removeprefix("visit-"), dict.fromkeys(orders, state))
        for state in _list_states(agents)
    ]


def _list_own(game: str, orders: Orders) -> list[Moment]:
    """The fresh agent, before and after each visit of a game, and the end."""
    visits = {
        seed: [visit for visit, played in enumerate(order) if played == game]
        for seed, order in orders.items()
    }
    moments = [Moment("0", dict.fromkeys(orders, FRESH))]
    for number in range(max(map(len, visits.values()))):
        own = {seed: v[number] for seed, v in visits.items() if number < len(v)}
        before = {seed: name_state(visit - 1) for seed, visit in own.items() if visit}
        after = {seed: name_state(visit) for seed, visit in own.items()}
        moments += [Moment(f"{number + 1}−", before), Moment(f"{number + 1}+", after)]
    last = {seed: name_state(len(order) - 1) for seed, order in orders.items()}
    return [*moments, Moment("end", last)]


def _cells_of(agent: AgentNumbers) -> tuple[MatrixCell, ...]:
    return () if agent.memory is None else agent.memory.matrix


def _has_z(memory: MemoryNumbers | None) -> bool:
    return memory is not None and memory.unit == "z"


def _estimate_cell(
    shown: Shown, agent: AgentNumbers, game: str, states: Mapping[int | None, str]
) -> Estimate | None:
    """R over runs; of fewer than three with the standard error over branches."""
    cells = [
        cell
        for cell in _cells_of(agent)
        if cell.game == game and states.get(cell.seed) == cell.state
    ]
    shift = 0.0
    if _has_z(agent.memory):
        column = shown.scale.games.index(game)
        shift = float(shown.scale.lower[column] / shown.scale.span[column])
    estimate = estimate_mean([cell.amount.mean - shift for cell in cells])
    errors = [cell.amount.error for cell in cells]
    if estimate is None or len(cells) >= FEWEST_FOR_INTERVAL or None in errors:
        return estimate
    error = math.hypot(*(e for e in errors if e is not None)) / len(cells)
    ends = {"low": estimate.mean - error, "high": estimate.mean + error}
    return estimate.model_copy(update=ends)


def _memory_line(
    shown: Shown,
    agent: AgentNumbers,
    game: str,
    moments: Sequence[Moment],
) -> Series:
    points = [
        (x, estimate, _link(shown, agent, states))
        for x, (_, states) in enumerate(moments)
        if (estimate := _estimate_cell(shown, agent, game, states)) is not None
    ]
    links = tuple(address for _, _, address in points)
    style = shown.style(agent)
    return Series(
        agent.label,
        style.colour,
        tuple(float(x) for x, _, _ in points),
        tuple(estimate.mean for _, estimate, _ in points),
        tuple(estimate.low for _, estimate, _ in points),
        tuple(estimate.high for _, estimate, _ in points),
        links if all(links) else (),
        mark=style.mark,
    )


def _link(shown: Shown, agent: AgentNumbers, states: Mapping[int | None, str]) -> str:
    """The address of the branches of the first run with probes."""
    seeds = () if agent.memory is None else agent.memory.seeds[:1]
    runs = [
        run
        for run in shown.runs.get(agent.label, ())
        if run.seed in seeds and run.seed in states
    ]
    return shown.link(runs[0], states[runs[0].seed]) if runs else ""


def _find_marks(
    agents: Sequence[AgentNumbers], lines: Sequence[Series]
) -> tuple[float, ...]:
    """The random agent, where it is 0; the fresh one, if there is one agent."""
    marks = [0.0] if _has_z(agents[0].memory) else []
    if len(agents) == 1 and lines[0].x[0] == 0:
        marks.append(lines[0].y[0])
    return tuple(marks)


def _mark_visits(
    game: str, orders: Orders, moments: Sequence[Moment]
) -> Iterator[Span]:
    """The visits of a game, if they are the same in all runs with probes."""
    if len(set(orders.values())) != 1:
        return
    for visit, played in enumerate(next(iter(orders.values()))):
        if played == game and visit + 1 < len(moments):
            yield Span(visit + 0.5, visit + 1.5, "", game_colour(game))


def _value_label(shown: Shown, agents: Sequence[AgentNumbers]) -> str:
    memory = agents[0].memory
    assert memory is not None
    if memory.unit == "reward per frame":
        return f"reward per {shown.suite.frame_noun}"
    return "z" if memory.unit == "z" else "−mse / variance of targets"


def _explain_bars(agents: Sequence[AgentNumbers]) -> str:
    counts = [len(agent.memory.seeds) for agent in agents if agent.memory]
    if max(counts) < FEWEST_FOR_INTERVAL:
        return "Bars: standard errors over branches."
    if min(counts) >= FEWEST_FOR_INTERVAL:
        return "Bars: 95 % intervals over runs."
    return (
        f"Bars: 95 % intervals over runs; below {FEWEST_FOR_INTERVAL} runs, standard "
        "errors over branches."
    )


def _make_grid(shown: Shown, agent: AgentNumbers) -> Grid:
    states = [
        s for s in _list_states([agent]) if s in {c.state for c in _cells_of(agent)}
    ]
    games = tuple(dict.fromkeys(c.game for c in _cells_of(agent)))
    games = tuple(game for game in shown.suite.games if game in games)
    seeds = () if agent.memory is None else agent.memory.seeds
    places = [dict.fromkeys(seeds, state) for state in states]
    found = [
        [_estimate_cell(shown, agent, game, place) for game in games]
        for place in places
    ]
    values = tuple(tuple(None if e is None else e.mean for e in row) for row in found)
    return Grid(
        tuple(states),
        games,
        values,
        _shade(values),
        tuple(tuple(map(_format_cell, row)) for row in found),
        tuple(tuple(_link(shown, agent, place) for _ in games) for place in places),
    )


def _format_cell(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    return format_with_error(estimate.mean, estimate.half_width)


def _shade(
    values: Sequence[Sequence[float | None]],
) -> tuple[tuple[float | None, ...], ...]:
    """Values -> 0 … 1 within each column: games have different units."""
    shaded = []
    for column in zip(*values, strict=True):
        known = [value for value in column if value is not None]
        low, high = min(known, default=0.0), max(known, default=0.0)
        width = high - low if not math.isclose(low, high) else 1.0
        shaded.append([None if v is None else (v - low) / width for v in column])
    return tuple(tuple(row) for row in zip(*shaded, strict=True))
