"""One experiment: its score with interval, games, curves, plan and provenance."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from longplay.contract.curves import Curves
from longplay.errors import ConfigError
from longplay.lab.report.draw.colours import agent_colour
from longplay.lab.report.draw.drawings import (
    POINTS,
    Drawing,
    Panel,
    Reals,
    Series,
    Shown,
    point_rates,
)
from longplay.lab.report.draw.kinds import draw
from longplay.lab.report.site.sections import describe_command
from longplay.lab.viewer.cards import RunCard, describe_progress, describe_state
from longplay.lab.viewer.compare_page import compare_entries, make_sections
from longplay.lab.viewer.index import ExperimentEntry
from longplay.lab.viewer.list_page import state_news
from longplay.lab.viewer.site import Site
from longplay.tables import Cell, TextTable, Value

# Middles of the points of a visit, and its end.
_PLACES = np.append((np.arange(POINTS) + 0.5) / POINTS, 1.0)
_KINDS = ("games", "retention", "predictions", "memory", "matrix")


def draw_experiment(shown: Shown) -> Iterator[Drawing]:
    """The figures of an experiment: curves per seed first."""
    if any(run.curves for runs in shown.runs.values() for run in runs):
        yield draw_seeds(shown)
    for kind in _KINDS:
        try:
            yield draw(kind, shown)
        except ConfigError:  # says that there is nothing to draw; the notes say why
            continue


def draw_seeds(shown: Shown) -> Drawing:
    """Reward rate over the visits of each game, a line per run.

    On a prediction suite the squared error: its rewards are those of a fixed policy.
    """
    predicts = shown.suite.error is not None
    runs = [run for members in shown.runs.values() for run in members if run.curves]
    panels = []
    for game in shown.suite.games:
        series = []
        for number, run in enumerate(runs):
            assert run.curves is not None
            visits = [v.visit_idx for v in run.config.schedule if v.game_id == game]
            # A point without a value behind each visit: lines do not join visits.
            rates = np.pad(
                _point_values(run.curves, predicts=predicts)[visits],
                ((0, 0), (0, 1)),
                constant_values=np.nan,
            )
            x = np.arange(len(visits))[:, np.newaxis] + _PLACES
            nothing = (None,) * rates.size
            series.append(
                Series(
                    f"seed {run.seed}",
                    agent_colour(number),
                    tuple(x.ravel().tolist()),
                    tuple(rates.ravel().tolist()),
                    nothing,
                    nothing,
                )
            )
        panels.append(Panel(game, tuple(series)))
    return Drawing(
        "seeds",
        "Learning curves",
        "visits of the game",
        f"{'squared error' if predicts else 'reward'} per {shown.suite.frame_noun}",
        tuple(panels),
        f"{'Squared error' if predicts else 'Reward rate'} within the visits of each "
        "game, one line per seed.",
    )


def _point_values(curves: Curves, *, predicts: bool) -> Reals:
    if predicts and curves.squared_errors is not None:
        return point_rates(replace(curves, rewards=curves.squared_errors))
    return point_rates(curves)


def render_experiment(site: Site, entry: ExperimentEntry) -> bytes:
    """The page of an experiment."""
    cards = [site.cards.read(run) for run in entry.runs]
    readable = [card.entry for card in cards if card.state == "COMPLETED"]
    sections, commands = [], []
    if readable:
        compared = compare_entries(site, readable)
        address = f"/experiments/{entry.id}"
        sections = make_sections(site, compared, draw_experiment, address, "")
        for section in sections:
            runs = compared.show(site, section.suite).runs
            commands += [describe_command(name, found) for name, found in runs.items()]
    return site.render(
        "experiment.html",
        entry=entry,
        study=site.index.read().studies.get(entry.study_id or ""),
        cards=cards,
        runs=_table_runs(entry, cards),
        live=any(card.is_live for card in cards),
        sections=sections,
        settings=_table_plan(entry),
        commands=commands,
    )


def _table_runs(entry: ExperimentEntry, cards: Sequence[RunCard]) -> TextTable:
    rows = [_run_row(card) for card in cards]
    started = {card.seed for card in cards}
    for seed in entry.plan.seeds if entry.plan else ():
        if seed not in started:
            rows.append((Cell(f"seed {seed}", seed), "not started", *[None] * 5))
    headline = next((card.headline for card in cards if card.headline), "score")
    columns = ("run", "state", "progress", headline.replace("_", " "), "z", "trust")
    return TextTable.of("runs", (*columns, "problem"), rows, names=2)


def _run_row(card: RunCard) -> tuple[Value, ...]:
    run_id = card.entry.id
    name = card.entry.path.name if card.seed is None else f"seed {card.seed}"
    return (
        Cell(name, card.seed, page=f"/runs/{run_id}"),
        Cell(describe_state(card.state), card.state, live=f"{run_id}-state"),
        Cell(describe_progress(card), card.share, live=f"{run_id}-progress"),
        card.score,
        card.normalised,
        card.trust,
        card.problem,
    )


def _table_plan(entry: ExperimentEntry) -> list[tuple[str, str]]:
    """The plan as names and values."""
    if entry.plan is None:
        return []
    plan = entry.plan.model_dump(mode="json")
    return [
        (name, value if isinstance(value, str) else json.dumps(value))
        for name, value in plan.items()
        if value not in (None, (), [], {})
    ]


def experiment_news(site: Site, entry: ExperimentEntry) -> dict[str, Any]:
    """What changes on the page of an experiment with runs in progress."""
    return state_news([site.cards.read(run) for run in entry.runs])
