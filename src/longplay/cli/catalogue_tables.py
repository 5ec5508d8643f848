"""Suites, games, agents and run plans as tables and as JSON."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from longplay.agents.source.loading import BUILT_IN_AGENTS, list_agents
from longplay.cli.layout import add_row, make_facts, make_table
from longplay.console.games import GAMES, REFUSED_GAMES
from longplay.contract.config import RunConfig
from longplay.errors import MissingExtraError
from longplay.plan import RunPlan
from longplay.scoring.baselines import expected_seconds
from longplay.suites import list_suites
from longplay.tracks.catalogue import track_of

if TYPE_CHECKING:
    from longplay.runs.conformance import Check

# What a terminal of 80 columns leaves beside the longest sentence of a checklist.
_DETAIL_COLUMNS = 24


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:,.0f} min"


def _megabytes(size_bytes: float) -> str:
    return f"{size_bytes / 1e6:,.0f} MB"


def plan_cost(plan: RunPlan) -> dict[str, float]:
    """Frames of a run, and about how many seconds and bytes it takes."""
    frames = plan.config.total_frames
    typical_suite = track_of(plan.config).typical_suite
    return {
        "frames": frames,
        "expected_seconds": expected_seconds(plan.suite_name, typical_suite, frames),
        "expected_bytes": plan.expected_bytes,
    }


def plan_to_json(plan: RunPlan) -> dict[str, Any]:
    """A plan as JSON."""
    config = plan.config.model_dump(mode="json", exclude_none=True)
    return {"task_id": plan.task_id, **config, **plan_cost(plan)}


def show_plan(plan: RunPlan) -> list[RenderableType]:
    """A plan as tables."""
    config = plan.config
    unit = track_of(config).frame_noun
    cost = plan_cost(plan)
    schedule = make_table(
        f"{plan.suite_name}, seed {plan.seed}",
        "visit",
        "cycle",
        "game",
        f"{unit}s",
        f"first {unit}",
        left=(2,),
    )
    first = 0
    for visit in config.schedule:
        add_row(
            schedule,
            str(visit.visit_idx),
            str(visit.cycle_idx),
            visit.game_id,
            f"{visit.visit_frames:,}",
            f"{first:,}",
        )
        first += visit.visit_frames
    facts = make_facts(
        (f"{unit}s", f"{config.total_frames:,}"),
        _describe_answers(config),
        ("scored on", _describe_scored(config)),
        ("contract hash", config.benchmark_contract_hash),
        ("disk", f"about {_megabytes(cost['expected_bytes'])}"),
        (
            "time",
            f"about {_minutes(cost['expected_seconds'])}; "
            "plus the agent's own computation",
        ),
    )
    return [schedule, facts, Text("dry run: nothing was written", "dim")]


def _describe_scored(config: RunConfig) -> str:
    scoring = config.scoring_defaults
    track = track_of(config)
    windows = (
        f"last {scoring.window_frames:,} {track.frame_noun}s; forgetting and "
        f"plasticity on {scoring.revisit_frames:,}"
    )
    return track.scored_on.format(windows=windows)


def _describe_answers(config: RunConfig) -> tuple[str, str]:
    interval, delay = config.decision_interval, config.delay
    track, length = track_of(config), ""
    unit = track.frame_noun
    if config.frame_skip is not None:
        length = f" of {config.frame_skip} emulator frames"
    every = f"every {unit}" if interval == 1 else f"every {interval} {unit}s"
    when = f"applied {delay} {unit}s later" if delay else "at once"
    if track.predicts:
        return "predictions", f"{every}{length}"
    return "decisions", f"{every}{length}, {when}"


def suite_to_json(plan: RunPlan) -> dict[str, Any]:
    """A suite as JSON."""
    return {
        "suite": plan.suite_name,
        "purpose": plan.suite.purpose,
        "settings": plan.suite.settings,
        **plan_cost(plan),
    }


def suites_table(plans: Sequence[RunPlan]) -> Table:
    """The catalogue of suites as a table."""
    table = make_table(
        "",
        "suite",
        "games",
        "cycles",
        "frames",
        "time",
        "disk",
        "purpose",
        left=(0, 6),
    )
    for plan in plans:
        cost = plan_cost(plan)
        add_row(
            table,
            plan.suite_name,
            str(len(plan.suite.games)),
            str(plan.suite.num_cycles),
            f"{cost['frames']:,}",
            _minutes(cost["expected_seconds"]),
            _megabytes(cost["expected_bytes"]),
            plan.suite.purpose,
        )
    table.columns[0].no_wrap = True
    table.caption = "time: measured on one core, without the agent's own computation"
    table.caption_justify = "left"
    return table


def list_games() -> list[dict[str, Any]]:
    """Every game of the emulator, supported ones first."""
    suites = list_suites()
    playable = [
        {
            "game": game,
            "playable": True,
            "suites": [s for s, suite in suites.items() if game in suite.games],
        }
        for game in sorted(GAMES)
    ]
    refused = [
        {"game": game, "playable": False, "reason": reason}
        for game, reason in sorted(REFUSED_GAMES.items())
    ]
    return playable + refused


def games_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The games as a table."""
    table = make_table("", "game", "suites", left=(0, 1))
    for row in rows:
        if row["playable"]:
            add_row(table, row["game"], ", ".join(row["suites"]))
        else:
            add_row(table, Text(row["game"], "dim"), Text(row["reason"], "dim"))
    return table


def list_named_agents() -> list[dict[str, Any]]:
    """Built-in and installed agents; only built-in ones are imported."""
    rows = []
    for name, location in sorted(list_agents().items()):
        summary = _summarise_agent(location) if name in BUILT_IN_AGENTS else ""
        rows.append({"agent": name, "location": location, "summary": summary})
    return rows


def _summarise_agent(location: str) -> str:
    """The first line of an agent's docstring, or the extra it needs."""
    module_name, _, attribute = location.partition(":")
    try:
        module = importlib.import_module(module_name)
    except MissingExtraError as error:
        return str(error)
    doc = getattr(module, attribute, module).__doc__
    return (doc or "").splitlines()[0]


def agents_table(rows: Sequence[dict[str, Any]]) -> Table:
    """The agents as a table."""
    table = make_table("", "agent", "what it does", left=(0, 1))
    for row in rows:
        add_row(table, row["agent"], row["summary"] or row["location"])
    table.caption = "or your own: file.py[:Agent], module:Agent, package.module"
    table.caption_justify = "left"
    return table


def checklist(reference: str, checks: Sequence[Check]) -> list[RenderableType]:
    """The agent contract as a checklist; long errors are printed once, below it."""
    errors = list(dict.fromkeys(check.detail for check in checks if _is_long(check)))
    numbers = {error: f"({n})" for n, error in enumerate(errors, start=1)}
    table = make_table(reference, "", "the agent …", "", left=(0, 1, 2))
    marks = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "dim")}
    for check in checks:
        detail = numbers.get(check.detail, check.detail)
        add_row(table, Text(*marks[check.passed]), check.sentence, detail)
    table.columns[1].no_wrap = True
    return (
        [table, make_facts(*((numbers[e], e) for e in errors))] if errors else [table]
    )


def _is_long(check: Check) -> bool:
    return check.passed is False and len(check.detail) > _DETAIL_COLUMNS
