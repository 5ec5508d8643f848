"""Commands that list what there is: suites, settings, games, agents, references."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import RenderableType
from rich.text import Text

from longplay.agents.source.loading import BUILT_IN_AGENTS, list_agents
from longplay.cli.settings import parse_agent_args
from longplay.cli.toolkit import (
    AgentFilePatterns,
    Command,
    CommandGroup,
    Json,
    check_output,
    guard,
    print_answer,
    print_tables,
)
from longplay.console.games import GAMES, REFUSED_GAMES
from longplay.contract.config import RunConfig, visit_spans
from longplay.errors import ConfigError, MissingExtraError
from longplay.plan import RunPlan, plan_run
from longplay.scoring.baselines import expected_seconds
from longplay.suites import Suite, get_suite, list_suites
from longplay.tables import TextTable, make_cell, make_facts
from longplay.tracks.catalogue import track_of

if TYPE_CHECKING:
    from longplay.reference.facts import ReferenceFacts
    from longplay.runs.conformance import Check

# What a terminal of 80 columns leaves beside the longest sentence of a checklist.
_DETAIL_COLUMNS = 24


# --- commands -------------------------------------------------------------------


def suites(as_json: Json = False) -> None:
    """List the suites and their cost."""
    plans = [
        plan_run(name, reference_sha256=suite.references)
        for name, suite in list_suites().items()
    ]
    print_answer(as_json, [*map(suite_to_json, plans)], [table_suites(plans)])


def settings(
    suite: Annotated[
        str,
        typer.Argument(metavar="SUITE", help="Id of a suite; see `longplay suites`."),
    ],
    as_json: Json = False,
) -> None:
    """List the settings of a suite, which --set and --config change."""
    found = get_suite(suite)
    rows = list_settings(found)
    print_answer(as_json, rows, [table_settings(found, rows)])


def games(as_json: Json = False) -> None:
    """List the supported games, and why others are not supported."""
    rows = list_games()
    print_answer(as_json, rows, [table_games(rows)])


def agents(as_json: Json = False) -> None:
    """List the built-in and installed agents."""
    rows = list_named_agents()
    print_answer(as_json, rows, [table_agents(rows)])


def new_agent(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.py", help="File to create; never overwritten."),
    ],
    template: Annotated[
        str,
        typer.Option(help="control, streaming, prediction, torch, stream-q or dqn."),
    ] = "control",
) -> None:
    """Write a template for your own agent."""
    from longplay.learners.templates import write_template

    check_output("FILE.py", file)
    write_template(template, file)
    print_tables(Text(f"wrote {file}; next: longplay check-agent {file}"))


def check_agent(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT", help="Name, file.py[:attr], module:attr or package.module."
        ),
    ],
    agent_arg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Argument passed to the agent."),
    ] = None,
    agent_files: AgentFilePatterns = None,
    as_json: Json = False,
) -> None:
    """Check an agent against the agent contract; needs no ROM."""
    from longplay.agents.source.loading import load_agent
    from longplay.runs.conformance import check_agent as check

    args = parse_agent_args(agent_arg or [])
    loaded = load_agent(agent, args, agent_files or ())
    checks = check(loaded)
    document = [item.to_json() for item in checks]
    print_answer(as_json, document, show_checklist(loaded.spec, checks))
    if any(item.passed is False for item in checks):
        raise typer.Exit(1)


reference_app = typer.Typer(
    cls=CommandGroup,
    help="Show the reference policies and values of the prediction track.",
    no_args_is_help=True,
)


@reference_app.callback()
def reference() -> None:
    """Keeps `show` a command of its own."""


@reference_app.command("show", cls=Command)
@guard
def show_references(as_json: Json = False) -> None:
    """Show the shipped references."""
    from longplay.reference.library import read_all_facts

    facts = read_all_facts()
    document = [entry.model_dump(mode="json") for entry in facts]
    print_answer(as_json, document, [table_references(facts)])


# --- plans ----------------------------------------------------------------------


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
    config, cost = plan.config, plan_cost(plan)
    unit = track_of(config).frame_noun
    spans = visit_spans(config.schedule)
    schedule = TextTable.of(
        f"{plan.suite_name}, seed {plan.seed}",
        ("visit", "cycle", "game", f"{unit}s", f"first {unit}"),
        [
            (visit.visit_idx, visit.cycle_idx, visit.game_id, len(span), span.start)
            for visit, span in zip(config.schedule, spans, strict=True)
        ],
        names=0,
        texts=(2,),
    )
    time = _minutes(cost["expected_seconds"])
    facts = make_facts(
        (f"{unit}s", f"{config.total_frames:,}"),
        _describe_answers(config),
        ("scored on", _describe_scored(config)),
        ("contract hash", config.benchmark_contract_hash),
        ("disk", f"about {_megabytes(cost['expected_bytes'])}"),
        ("time", f"about {time}; plus the agent's own computation"),
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


# --- suites and their settings --------------------------------------------------


def suite_to_json(plan: RunPlan) -> dict[str, Any]:
    """A suite as JSON."""
    return {
        "suite": plan.suite_name,
        "purpose": plan.suite.purpose,
        "settings": plan.suite.settings,
        **plan_cost(plan),
    }


def table_suites(plans: Sequence[RunPlan]) -> TextTable:
    """The catalogue of suites as a table."""
    table = TextTable.of_items(
        "",
        plans,
        ("suite", lambda plan: plan.suite_name),
        ("games", lambda plan: len(plan.suite.games)),
        ("cycles", lambda plan: plan.suite.num_cycles),
        ("frames or\ntimesteps", lambda plan: plan_cost(plan)["frames"]),
        ("time", lambda plan: _minutes(plan_cost(plan)["expected_seconds"])),
        ("disk", lambda plan: _megabytes(plan_cost(plan)["expected_bytes"])),
        ("purpose", lambda plan: plan.suite.purpose),
        texts=(6,),
    )
    notes = ("time: measured on one core, without the agent's own computation",)
    return replace(table, unbroken=(0,), notes=notes)


_NOUNS = {
    "integer": "int",
    "number": "number",
    "boolean": "true, false",
    "string": "text",
}
# Larger bounds only keep numbers out that no schedule can have.
_LARGEST_SHOWN = 10**9
# From this length on a list is counted.
_LONG_LIST = 3


def list_settings(suite: Suite) -> list[dict[str, Any]]:
    """Every setting of a suite: its name, value, allowed values and meaning."""
    schema = type(suite).model_json_schema()
    return list(_iter_settings(suite, schema, schema["properties"], suite.settings))


def _iter_settings(
    suite: Suite,
    schema: dict[str, Any],
    properties: dict[str, Any],
    values: dict[str, Any],
    prefix: str = "",
) -> Iterator[dict[str, Any]]:
    for name, value in values.items():
        field = properties[name]
        if isinstance(value, dict):
            inner = schema["$defs"][field["$ref"].rpartition("/")[2]]["properties"]
            yield from _iter_settings(suite, schema, inner, value, f"{prefix}{name}.")
        else:
            yield {
                "setting": f"{prefix}{name}",
                "value": value,
                "expected": describe_values(field),
                "description": _describe(name, field),
                "can_be_changed": _can_change(suite, f"{prefix}{name}"),
            }


def describe_values(field: dict[str, Any]) -> str:
    """The values that a setting takes: `int ≥ 1`."""
    if "enum" in field:
        return ", ".join(json.dumps(value) for value in field["enum"])
    if "prefixItems" in field:
        return f"{field['minItems']} × {describe_values(field['prefixItems'][0])}"
    if field["type"] == "array":
        return f"list of {describe_values(field['items'])}"
    limits = {
        "≥": field.get("minimum"),
        ">": field.get("exclusiveMinimum"),
        "≤": field.get("maximum"),
        "<": field.get("exclusiveMaximum"),
    }
    shown = [
        f"{sign} {limit:g}"
        for sign, limit in limits.items()
        if limit is not None and limit < _LARGEST_SHOWN
    ]
    return " ".join([_NOUNS[field["type"]], ", ".join(shown)]).rstrip()


def _describe(name: str, field: dict[str, Any]) -> str:
    if "description" in field:
        return str(field["description"])
    return RunConfig.model_fields[name].description or ""


def _can_change(suite: Suite, name: str) -> bool:
    try:
        suite.check_change(name)
    except ConfigError:
        return False
    return True


def table_settings(suite: Suite, rows: Sequence[dict[str, Any]]) -> TextTable:
    """The settings of a suite as a table."""
    table = TextTable.of_items(
        suite.suite_id,
        rows,
        ("setting", lambda row: row["setting"]),
        ("value", lambda row: _show_setting(row["value"])),
        ("expected", lambda row: row["expected"] if row["can_be_changed"] else "fixed"),
        texts=(1, 2),
    )
    name = next(row["setting"] for row in rows if "frames" in row["setting"])
    note = f"as in: longplay run {suite.suite_id} --set {name}=5000"
    return replace(table, notes=(note,))


def _show_setting(value: Any) -> str:
    is_short = not isinstance(value, list) or len(value) < _LONG_LIST
    return json.dumps(value) if is_short else f"{len(value)} of them"


# --- games, agents, references --------------------------------------------------


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


def table_games(games: Sequence[dict[str, Any]]) -> TextTable:
    """The games as a table."""
    rows = [
        (game["game"], ", ".join(game["suites"]))
        if game["playable"]
        else (make_cell(game["game"], "dim"), make_cell(game["reason"], "dim"))
        for game in games
    ]
    return TextTable.of("", ("game", "suites"), rows, texts=(1,))


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


def table_agents(agents: Sequence[dict[str, Any]]) -> TextTable:
    """The agents as a table."""
    rows = [(agent["agent"], agent["summary"] or agent["location"]) for agent in agents]
    table = TextTable.of("", ("agent", "what it does"), rows, texts=(1,))
    note = "or your own: file.py[:Agent], module:Agent, package.module"
    return replace(table, notes=(note,))


def show_checklist(reference: str, checks: Sequence[Check]) -> list[RenderableType]:
    """The agent contract as a checklist; long errors are printed once, below it."""
    errors = list(dict.fromkeys(check.detail for check in checks if _is_long(check)))
    numbers = {error: f"({n})" for n, error in enumerate(errors, start=1)}
    marks = {True: ("✓", "green"), False: ("✗", "bold red"), None: ("–", "dim")}
    table = TextTable.of_items(
        reference,
        checks,
        ("", lambda check: make_cell(*marks[check.passed])),
        ("the agent …", lambda check: check.sentence),
        ("", lambda check: numbers.get(check.detail, check.detail)),
        texts=(1, 2),
    )
    facts = [make_facts(*((numbers[e], e) for e in errors))] if errors else []
    return [replace(table, unbroken=(1,)), *facts]


def _is_long(check: Check) -> bool:
    return check.passed is False and len(check.detail) > _DETAIL_COLUMNS


def table_references(references: Sequence[ReferenceFacts]) -> TextTable:
    """One row per game: the score of the policy and the accuracy of its values."""
    from longplay.reference.facts import describe_r2

    return TextTable.of_items(
        "Reference policies and values",
        references,
        ("game", lambda facts: facts.game),
        ("score", lambda facts: facts.policy.score.describe()),
        ("random", lambda facts: facts.policy.random_score.describe()),
        ("value\nstd", lambda facts: f"{facts.audit.summary.value_std:.3f}"),
        ("RMSE", lambda facts: f"{facts.audit.summary.rmse_corrected:.3f}"),
        ("R²", lambda facts: describe_r2(facts.audit.summary.r2_corrected)),
        (
            "rollout\nR²",
            lambda facts: describe_r2(
                facts.rollouts.audit.r2 if facts.rollouts else None
            ),
        ),
    )
