"""`longplay reference`: how the fixed policies and their values are made and shown."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table

from longplay.cli.guard import guard, print_json, print_tables
from longplay.cli.layout import add_row, make_table
from longplay.errors import ConfigError, MissingExtraError, ReferenceFailed

if TYPE_CHECKING:
    from longplay.reference.delivered import DeliveredLead
    from longplay.reference.facts import ReferenceFacts

reference_app = typer.Typer(
    help="The prediction track's fixed policies and values: make them, show them.",
    no_args_is_help=True,
)

Game = Annotated[str, typer.Option(help="One of the track's games.")]
Work = Annotated[Path, typer.Option(help="Folder where references are made.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]


def _command(function: Callable[..., None]) -> Callable[..., None]:
    return reference_app.command(function.__name__.replace("_", "-"))(guard(function))


def require_torch() -> None:
    """Says what to install if the package to learn with is missing.

    Raises:
        MissingExtraError: torch cannot be imported.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "making references needs torch, which is not installed; "
            "pip install 'longplay[learn]'"
        ) from error


@_command
def train(
    game: Game,
    work: Work,
    timesteps: Annotated[
        int, typer.Option(min=1, help="How long to train.")
    ] = 1_500_000,
    seed: Annotated[int, typer.Option(min=0, help="Training seed.")] = 0,
    discount: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=0.999,
            help="Discount while training; values are fitted with 0.99.",
        ),
    ] = 0.99,
    hold: Annotated[
        int,
        typer.Option(min=1, help="Longest random action, in every second emulator."),
    ] = 1,
) -> None:
    """Train a policy, or go on where its training stopped."""
    require_torch()
    from longplay.reference.training import stages
    from longplay.reference.training.recipe import Recipe
    from longplay.reference.workplace import Workplace

    recipe = Recipe(
        timesteps=timesteps, seed=seed, discount=discount, exploration_hold=hold
    )
    place = Workplace(work, game)
    with place.hold():
        stages.train(place, recipe)


@_command
def freeze(
    game: Game,
    work: Work,
    games: Annotated[
        int, typer.Option(min=2, help="Whole games to measure scores over.")
    ] = 32,
) -> None:
    """Freeze the trained policy; measure its game score beside random's."""
    require_torch()
    from longplay.reference.training import stages
    from longplay.reference.workplace import Workplace

    place = Workplace(work, game)
    with place.hold():
        stages.freeze(place, stages.PlayPlan(games=games))


@_command
def values(
    game: Game,
    work: Work,
    visits: Annotated[
        int, typer.Option(min=1, help="Visits of 10,000 timesteps to learn from.")
    ] = 52,
    held_out_visits: Annotated[
        int, typer.Option(min=1, help="More visits, to measure the error on.")
    ] = 10,
) -> None:
    """Play the frozen policy and fit its value function."""
    require_torch()
    from longplay.reference.training import stages
    from longplay.reference.training.fitting import FitRecipe
    from longplay.reference.workplace import Workplace

    place = Workplace(work, game)
    plan = stages.PlayPlan(visits=visits, held_out_visits=held_out_visits)
    with place.hold():
        stages.values(place, plan, FitRecipe())


@_command
def audit(
    game: Game,
    work: Work,
    visits: Annotated[
        int, typer.Option(min=1, help="Visits to take states from, five each.")
    ] = 10,
    continuations: Annotated[
        int, typer.Option(min=2, help="How often to go on from each state.")
    ] = 32,
) -> None:
    """Hold the values against many continuations of the same states."""
    require_torch()
    from longplay.reference.training import stages
    from longplay.reference.workplace import Workplace

    place = Workplace(work, game)
    plan = stages.PlayPlan(audit_visits=visits, continuations=continuations)
    with place.hold():
        stages.audit(place, plan)


@_command
def make(
    work: Work,
    games: Annotated[
        list[str] | None, typer.Option("--game", help="Only these games.")
    ] = None,
    until: Annotated[str, typer.Option(help="The last stage to do.")] = "audit",
    workers: Annotated[int, typer.Option(min=1, help="Games at a time.")] = 1,
) -> None:
    """All stages of all games; goes on where it was killed."""
    require_torch()
    from longplay.reference.library import REFERENCE_GAMES
    from longplay.reference.training.driver import make_references
    from longplay.reference.workplace import STAGES

    if until not in STAGES:
        raise ConfigError(f"--until: expected one of {STAGES}, found {until!r}")
    stages = STAGES[: STAGES.index(until) + 1]
    failed = make_references(work, games or REFERENCE_GAMES, stages, workers)
    if failed:
        raise ReferenceFailed(
            f"given up after three failures: {', '.join(failed)}; the logs are in the "
            f"folders of the games in {work}"
        )


@_command
def collect(
    work: Work,
    out: Annotated[Path, typer.Option(help="Folder for what is shipped.")],
    games: Annotated[
        list[str] | None, typer.Option("--game", help="Only these games.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="A page whose table of games to make anew.",
        ),
    ] = None,
) -> None:
    """Write the networks and facts of finished games as they are shipped."""
    require_torch()
    from longplay.contract.files import write_file
    from longplay.reference.library import REFERENCE_GAMES, read_all_facts
    from longplay.reference.report import fill_table
    from longplay.reference.training.collecting import collect_reference
    from longplay.reference.workplace import Workplace

    for game in games or REFERENCE_GAMES:
        place = Workplace(work, game)
        if games or place.next_stage() is None:
            collect_reference(place, out)
            typer.echo(f"collected {game}")
    if page is not None:
        filled = fill_table(page.read_text(encoding="utf-8"), read_all_facts(out))
        write_file(page, filled.encode())


@_command
def record(
    game: Game,
    data: Annotated[Path, typer.Option(help="Folder of its reference, as shipped.")],
    seeds: Annotated[
        str, typer.Option(metavar="0-2", help="Run seeds, one visit each.")
    ] = "0-2",
    timesteps: Annotated[
        int, typer.Option(min=1, help="Length of the visits.")
    ] = 10_000,
) -> None:
    """Record what a policy does in its visit of prediction-v1, for some seeds."""
    from longplay.cli.settings import parse_seeds
    from longplay.console.ale import AleConsole
    from longplay.contract.records import ScheduledVisit
    from longplay.reference.library import check_reference_game
    from longplay.reference.recording import record_visit
    from longplay.reference.streams import write_streams
    from longplay.suites import get_suite

    check_reference_game(game)
    suite = get_suite("prediction-v1")
    visit = ScheduledVisit(
        visit_idx=suite.games.index(game),
        cycle_idx=0,
        game_id=game,
        visit_frames=timesteps,
    )
    console = AleConsole(sticky=suite.sticky, full_action_space=True, frame_skip=4)
    visits = {s: record_visit(visit, s, console, data) for s in parse_seeds(seeds)}
    write_streams(data, game, visit.visit_idx, visits)
    typer.echo(f"recorded {game}: {len(visits)} visits of {timesteps:,} timesteps")


@_command
def visits(
    game: Game,
    work: Work,
    seeds: Annotated[
        str, typer.Option(metavar="1000-1015", help="Run seeds, not official ones.")
    ] = "1000-1015",
) -> None:
    """Compare a frozen policy with random play: delivered rewards per visit."""
    require_torch()
    from longplay.cli.settings import parse_seeds
    from longplay.reference.training.visit_rewards import measure_policy
    from longplay.reference.workplace import Workplace

    place = Workplace(work, game)
    with place.hold():
        lead = measure_policy(place, parse_seeds(seeds))
    print_tables(leads_table([lead]))


@_command
def random_visits(
    data: Annotated[Path, typer.Option(help="Folder for what is shipped.")],
    games: Annotated[
        list[str] | None, typer.Option("--game", help="Only these games.")
    ] = None,
) -> None:
    """Measure the random agent's delivered rewards per visit, on tuning seeds."""
    require_torch()
    from longplay.reference.facts import describe_mean
    from longplay.reference.library import REFERENCE_GAMES, check_reference_game
    from longplay.reference.training.visit_rewards import add_random_visits

    for game in [check_reference_game(game) for game in games or REFERENCE_GAMES]:
        played = add_random_visits(data, game)
        typer.echo(f"{game}: {describe_mean(played)}")


@_command
def tables(
    page: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="docs/prediction.md"),
    ],
) -> None:
    """Make the tables of a page anew, from the references that are shipped."""
    from longplay.contract.files import write_file
    from longplay.reference.delivered import measure_leads
    from longplay.reference.library import DATA, read_all_facts
    from longplay.reference.report import fill_delivered, fill_table

    text = fill_table(page.read_text(encoding="utf-8"), read_all_facts(DATA))
    write_file(page, fill_delivered(text, measure_leads(DATA)).encode())


@_command
def show(
    work: Annotated[
        Path | None, typer.Option(help="How far things are in this folder instead.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the references that are shipped, or how far the making of new ones is."""
    if work is not None:
        _show_making(work, as_json)
        return
    from longplay.reference.library import read_all_facts

    facts = read_all_facts()
    if as_json:
        print_json([entry.model_dump(mode="json") for entry in facts])
    else:
        print_tables(references_table(facts))


def _show_making(work: Path, as_json: bool) -> None:
    from longplay.reference.workplace import describe_progress, read_progress

    progress = read_progress(work)
    if not progress:
        raise ConfigError(
            f"{work}: expected a folder where references are made, found no progress; "
            f"`longplay reference make --work {work}` begins"
        )
    if as_json:
        print_json(progress)
        return
    columns = ("game", "stage", "figures")
    table = make_table("References in the making", *columns, left=range(3))
    for row in describe_progress(work):
        add_row(table, *row)
    print_tables(table)


def references_table(references: list[ReferenceFacts]) -> Table:
    """One row per game: what the policy scores, how good its values are."""
    from longplay.reference.report import describe_r2

    columns = ("game", "score", "random", "value std", "bias", "RMSE", "R²")
    table = make_table("Reference policies and values", *columns)
    for facts in references:
        audit = facts.audit.summary
        add_row(
            table,
            facts.game,
            facts.policy.score.describe(),
            facts.policy.random_score.describe(),
            f"{audit.value_std:.3f}",
            f"{audit.bias:+.3f}",
            f"{audit.rmse_corrected:.3f}",
            describe_r2(audit.r2_corrected),
        )
    return table


def leads_table(leads: list[DeliveredLead]) -> Table:
    """One row per game: delivered rewards per visit, beside the random agent's."""
    from longplay.reference.report import LEAD_COLUMNS, describe_lead

    table = make_table("Delivered rewards per visit", *LEAD_COLUMNS)
    for lead in leads:
        add_row(table, *describe_lead(lead))
    return table
