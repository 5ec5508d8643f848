"""One study: its results as a grid, its cells, and what was tuned.

Everything comes from study.json and the documents of runs; no agent is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longplay.contract.names import describe_args
from longplay.lab.analysis.intervals import estimate_mean
from longplay.lab.report.tables import format_estimate
from longplay.lab.studies.plan import Cell as PlannedCell
from longplay.lab.studies.plan import StudyPlan
from longplay.lab.studies.tuning import Point, read_metric
from longplay.lab.viewer.cards import RunCard, describe_progress, describe_state
from longplay.lab.viewer.index import ExperimentEntry, StudyEntry, identify
from longplay.lab.viewer.list_page import state_news
from longplay.lab.viewer.site import Site
from longplay.tables import NOTHING, Cell, TextTable, Value


@dataclass(frozen=True)
class ShownCell:
    """A cell of the study, as far as it was played.

    Attributes:
        planned: Its plan.
        experiment: Where it is played; None before it was started.
        cards: Its runs.
    """

    planned: PlannedCell
    experiment: ExperimentEntry | None
    cards: Sequence[RunCard]

    @property
    def args(self) -> str:
        """Arguments of its agent; those of a tuned one are known once it started."""
        if not self.planned.candidates:
            return describe_args(self.planned.args)
        plan = self.experiment.plan if self.experiment is not None else None
        if plan is None:
            return "waits for tuning"
        args = plan.agent.config.get("args")
        return describe_args(args) if isinstance(args, dict) else ""

    @property
    def agent_id(self) -> str | None:
        """Of the agent that plays it; None before it was started."""
        plan = self.experiment.plan if self.experiment is not None else None
        return plan.agent.agent_id if plan is not None else None

    def make_result(self) -> Cell:
        """The mean of the headline over complete runs, which leads to the runs."""
        scores = [card.score for card in self.cards if card.score is not None]
        estimate = estimate_mean(scores)
        page = f"/experiments/{self.experiment.id}" if self.experiment else ""
        value = None if estimate is None else estimate.mean
        return Cell(format_estimate(estimate), value, page=page)

    @property
    def complete(self) -> int:
        """How many of its runs are complete."""
        return sum(card.state == "COMPLETED" for card in self.cards)

    @property
    def is_complete(self) -> bool:
        """Whether all of its runs are."""
        return self.complete == len(self.planned.seeds)

    def count_runs(self) -> Cell:
        """`3/5`: complete and planned runs."""
        return Cell(f"{self.complete}/{len(self.planned.seeds)}", self.complete)


def render_study(site: Site, entry: StudyEntry) -> bytes:
    """The page of a study."""
    plan = entry.read_plan()
    cells = _read_cells(site, entry, plan)
    tuning = _read_tuning(site, entry, plan)
    return site.render(
        "study.html",
        entry=entry,
        plan=plan,
        live=not all(cell.is_complete for cell in cells),
        grid=_table_grid(cells),
        cells=_table_cells(cells),
        points=_table_points(plan, cells, tuning) if plan.tuning else None,
        runs=_table_tuning_runs(plan, tuning) if plan.tuning else None,
    )


def _read_cells(site: Site, entry: StudyEntry, plan: StudyPlan) -> list[ShownCell]:
    experiments = site.index.read().experiments
    cells = []
    for planned in plan.cells:
        experiment = experiments.get(identify(entry.path / planned.folder))
        runs = experiment.runs if experiment is not None else ()
        cards = [site.cards.read(run) for run in runs]
        cells.append(ShownCell(planned, experiment, cards))
    return cells


def study_news(site: Site, entry: StudyEntry) -> dict[str, Any]:
    """What changes on the page of a study that is not complete."""
    cells = _read_cells(site, entry, entry.read_plan())
    cards = [site.cards.read(run) for run in entry.tuning]
    return state_news([*cards, *(card for cell in cells for card in cell.cards)])


def _table_grid(cells: Sequence[ShownCell]) -> TextTable:
    """Agents by suites."""
    agents = dict.fromkeys(cell.planned.agent for cell in cells)
    suites = dict.fromkeys(cell.planned.suite for cell in cells)
    results = {
        (cell.planned.agent, cell.planned.suite): cell.make_result() for cell in cells
    }
    rows: list[tuple[Value, ...]] = [
        (agent, *(results.get((agent, suite), Cell(NOTHING)) for suite in suites))
        for agent in agents
    ]
    title = "headline of each suite, mean and 95 % interval over runs"
    return TextTable.of(title, ("agent", *suites), rows)


def _table_cells(cells: Sequence[ShownCell]) -> TextTable:
    return TextTable.of_items(
        "cells",
        cells,
        ("agent", lambda cell: cell.planned.agent),
        ("suite", lambda cell: cell.planned.suite),
        ("arguments", lambda cell: cell.args),
        ("result", lambda cell: cell.make_result()),
        ("complete", lambda cell: cell.count_runs()),
        names=2,
        texts=(2,),
    )


# --- tuning ---------------------------------------------------------------------


@dataclass(frozen=True)
class _TuningRun:
    """A tuning run, and the value that its arguments are chosen by."""

    card: RunCard
    value: float | None


def _read_tuning(
    site: Site, entry: StudyEntry, plan: StudyPlan
) -> dict[str, list[_TuningRun]]:
    """Folder of a tuning cell -> its runs."""
    if plan.tuning is None:
        return {}
    folders = {entry.path / cell.folder: cell.folder for cell in plan.tuning_cells}
    found: dict[str, list[_TuningRun]] = {folder: [] for folder in folders.values()}
    for run in entry.tuning:
        folder = folders.get(run.path.parent.parent)
        if folder is None:
            continue
        card, value = site.cards.read(run), None
        if card.state == "COMPLETED":
            value = read_metric(run.open(), plan.tuning.metric)
        found[folder].append(_TuningRun(card, value))
    return found


def _table_points(
    plan: StudyPlan, cells: Sequence[ShownCell], tuning: Mapping[str, list[_TuningRun]]
) -> TextTable:
    """The points of the grid, with the chosen ones marked."""
    assert plan.tuning is not None
    chosen = {
        (name, cell.agent_id) for cell in cells for name in cell.planned.candidates
    }
    rows: list[tuple[Value, ...]] = []
    for cell in plan.tuning_cells:
        values = tuple(run.value for run in tuning[cell.folder])
        is_whole = len(values) == len(cell.seeds)
        agent_id = cell.entry.agent_id if cell.entry is not None else None
        is_chosen = agent_id is not None and (cell.folder, agent_id) in chosen
        rows.append(
            (
                cell.agent,
                cell.suite,
                describe_args(cell.args),
                Point(cell.folder, values).value if is_whole else None,
                f"{len(values)}/{len(cell.seeds)}",
                "chosen" if is_chosen else "",
            )
        )
    title = f"{plan.tuning.metric} over {plan.tuning.fraction:.0%} of the stream"
    columns = ("agent", "suite", "arguments", "value", "runs", "choice")
    return TextTable.of(title, columns, rows, names=2, texts=(2, 5))


def _table_tuning_runs(
    plan: StudyPlan, tuning: Mapping[str, list[_TuningRun]]
) -> TextTable:
    cells = {cell.folder: cell for cell in plan.tuning_cells}
    rows: list[tuple[Value, ...]] = []
    for folder, runs in tuning.items():
        cell = cells[folder]
        for run in runs:
            card, run_id = run.card, run.card.entry.id
            seed = NOTHING if card.seed is None else str(card.seed)
            rows.append(
                (
                    Cell(f"{cell.agent}, seed {seed}", page=f"/runs/{run_id}"),
                    cell.suite,
                    describe_args(cell.args),
                    Cell(
                        describe_state(card.state), card.state, live=f"{run_id}-state"
                    ),
                    Cell(describe_progress(card), live=f"{run_id}-progress"),
                    run.value,
                )
            )
    columns = ("run", "suite", "arguments", "state", "progress", "value")
    return TextTable.of("tuning runs", columns, rows, names=5)
