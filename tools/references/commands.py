"""`python -m references`: train, audit and ship the reference policies.

PYTHONPATH=tools python -m references COMMAND …
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longplay.cli.toolkit import (
    Command,
    CommandGroup,
    Json,
    guard,
    print_json,
    print_tables,
)
from longplay.errors import (
    ConfigError,
    MissingExtraError,
    ReferenceFailed,
    UnknownNameError,
)
from longplay.tables import TextTable
from references.training.recipe import ReturnsEnd, TrainingReward

if TYPE_CHECKING:
    from references.delivered import DeliveredLead

reference_app = typer.Typer(
    cls=CommandGroup,
    help="Make the reference policies and values of the prediction track.",
    no_args_is_help=True,
)

Game = Annotated[str, typer.Option(help="Game of the prediction track.")]
Work = Annotated[Path, typer.Option(help="Working folder of the pipeline.")]
AnchorTimesteps = Annotated[int, typer.Option(min=1, help="Timesteps of training.")]
AnchorReward = Annotated[
    TrainingReward,
    typer.Option(help="Training reward where a suite delivers the game's own."),
]


def _command(function: Callable[..., None]) -> Callable[..., None]:
    name = function.__name__.replace("_", "-")
    return reference_app.command(name, cls=Command)(guard(function))


def require_torch() -> None:
    """Checks that torch is installed.

    Raises:
        MissingExtraError: torch cannot be imported.
    """
    try:
        import torch  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "making references needs torch, which is not installed; "
            "pip install -r tools/requirements.txt"
        ) from error


@_command
def train(
    game: Game,
    work: Work,
    timesteps: Annotated[
        int, typer.Option(min=1, help="Timesteps of training.")
    ] = 1_500_000,
    seed: Annotated[int, typer.Option(min=0, help="Training seed.")] = 0,
    discount: Annotated[
        float,
        typer.Option(
            min=0.01,
            max=0.999,
            help="Discount in training; values are fitted with 0.99.",
        ),
    ] = 0.99,
    hold: Annotated[
        int,
        typer.Option(
            min=1,
            metavar="N",
            help="Hold random actions for up to N timesteps, in half of the emulators.",
        ),
    ] = 1,
    returns_end: Annotated[
        ReturnsEnd,
        typer.Option(help="When a return ends in training: life, game or never."),
    ] = "life",
    exploration: Annotated[
        float,
        typer.Option(min=0, max=1, help="Final exploration rate of training."),
    ] = 0.02,
) -> None:
    """Train a policy, or resume its training."""
    require_torch()
    from references.training import stages
    from references.training.recipe import Recipe
    from references.workspace import Workspace

    recipe = Recipe(
        timesteps=timesteps,
        seed=seed,
        discount=discount,
        exploration=exploration,
        exploration_hold=hold,
        returns_end=returns_end,
    )
    place = Workspace(work, game)
    with place.hold():
        stages.train(place, recipe)


@_command
def freeze(
    game: Game,
    work: Work,
    games: Annotated[
        int, typer.Option(min=2, help="Complete games to measure the score on.")
    ] = 32,
    exploration: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, help="Exploration rate in play (default: that of training)."
        ),
    ] = None,
) -> None:
    """Freeze the trained policy and measure its game score against random."""
    require_torch()
    from references.training import stages
    from references.workspace import Workspace

    place = Workspace(work, game)
    with place.hold():
        plan = stages.PlayPlan(games=games, exploration=exploration)
        stages.freeze(place, plan)


@_command
def values(
    game: Game,
    work: Work,
    visits: Annotated[
        int, typer.Option(min=1, help="Training visits, 10,000 timesteps each.")
    ] = 52,
    held_out_visits: Annotated[
        int, typer.Option(min=1, help="Held-out visits to measure the error on.")
    ] = 10,
) -> None:
    """Play the frozen policy and fit its value function."""
    require_torch()
    from references.training import stages
    from references.training.fitting import FitRecipe
    from references.workspace import Workspace

    place = Workspace(work, game)
    plan = stages.PlayPlan(visits=visits, held_out_visits=held_out_visits)
    with place.hold():
        stages.values(place, plan, FitRecipe())


@_command
def audit(
    game: Game,
    work: Work,
    visits: Annotated[
        int, typer.Option(min=1, help="Visits to sample states from, five per visit.")
    ] = 10,
    continuations: Annotated[
        int, typer.Option(min=2, help="Continuations per state.")
    ] = 32,
) -> None:
    """Check the values against Monte Carlo continuations of sampled states."""
    require_torch()
    from references.training import stages
    from references.workspace import Workspace

    place = Workspace(work, game)
    plan = stages.PlayPlan(audit_visits=visits, continuations=continuations)
    with place.hold():
        stages.audit(place, plan)


@_command
def make(
    work: Work,
    games: Annotated[
        list[str] | None, typer.Option("--game", help="Only these games.")
    ] = None,
    until: Annotated[str, typer.Option(help="Last stage to run.")] = "audit",
    workers: Annotated[
        int, typer.Option(min=1, help="Games to work on in parallel.")
    ] = 1,
) -> None:
    """Run all stages for all games; resumes after an interruption."""
    require_torch()
    from longplay.reference.library import REFERENCE_GAMES
    from references.training.driver import make_references
    from references.workspace import STAGES

    if until not in STAGES:
        raise ConfigError(f"--until: expected one of {STAGES}, found {until!r}")
    stages = STAGES[: STAGES.index(until) + 1]
    _check_failed(
        make_references(work, games or REFERENCE_GAMES, stages, workers), work
    )


def _check_failed(failed: list[str], work: Path) -> None:
    if failed:
        raise ReferenceFailed(
            f"gave up after three failures: {', '.join(failed)}; see the logs in the "
            f"games' folders in {work}"
        )


@_command
def collect(
    work: Work,
    out: Annotated[Path, typer.Option(help="Folder to write the shipped files to.")],
    games: Annotated[
        list[str] | None, typer.Option("--game", help="Only these games.")
    ] = None,
    page: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Docs page whose table of games to update.",
        ),
    ] = None,
) -> None:
    """Write the shipped files (networks and facts) of the finished games."""
    require_torch()
    from longplay.contract.files import write_file
    from longplay.reference.library import REFERENCE_GAMES, read_all_facts
    from references.reference_tables import fill_table
    from references.training.collecting import collect_reference
    from references.workspace import Workspace

    for game in games or REFERENCE_GAMES:
        place = Workspace(work, game)
        if games or place.next_stage() is None:
            collect_reference(place, out)
            typer.echo(f"collected {game}")
    if page is not None:
        filled = fill_table(_read_page(page), read_all_facts(out))
        write_file(page, filled.encode())


@_command
def record(
    game: Game,
    data: Annotated[Path, typer.Option(help="Folder of shipped references.")],
    seeds: Annotated[
        str, typer.Option(metavar="0-4", help="Run seeds, one visit per seed.")
    ] = "0-4",
    timesteps: Annotated[
        int, typer.Option(min=1, help="Length of the visits.")
    ] = 10_000,
) -> None:
    """Record a policy playing its visit of prediction-v1, once per seed."""
    from longplay.cli.settings import parse_seeds
    from longplay.console.machines import make_console
    from longplay.contract.config import ScheduledVisit
    from longplay.plan import plan_run
    from longplay.suites import REFERENCE_SUITE
    from references.recording import record_visit, write_streams

    _check_game(game)
    suite = REFERENCE_SUITE
    visit = ScheduledVisit(
        visit_idx=suite.games.index(game),
        cycle_idx=0,
        game_id=game,
        visit_frames=timesteps,
    )
    plan = plan_run(suite.suite_id, reference_sha256=suite.references)
    console = make_console(plan.config)
    visits = {s: record_visit(visit, s, console, data) for s in parse_seeds(seeds)}
    write_streams(data, game, visit.visit_idx, visits)
    typer.echo(f"recorded {game}: {len(visits)} visits of {timesteps:,} timesteps")


@_command
def rollouts(
    games: Annotated[
        list[str],
        typer.Option("--game", help="Game of the prediction track; repeatable."),
    ],
    work: Work,
    data: Annotated[
        Path, typer.Option(help="Folder of shipped references and recordings.")
    ],
    seeds: Annotated[
        str, typer.Option(metavar="0-4", help="Run seeds, one recorded visit per seed.")
    ] = "0-4",
    continuations: Annotated[
        int, typer.Option(min=2, help="Continuations per state.")
    ] = 8,
    horizon: Annotated[
        int,
        typer.Option(min=1, help="Timesteps before bootstrapping from the network."),
    ] = 100,
    every: Annotated[
        int, typer.Option(min=1, help="Timesteps between sampled states.")
    ] = 40,
    page: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help="Docs page whose table to update."
        ),
    ] = None,
) -> None:
    """Estimate values of recorded states by Monte Carlo rollouts; resumable."""
    from longplay.cli.settings import parse_seeds
    from longplay.contract.files import write_file
    from references.reference_tables import fill_marked
    from references.rollout_table import read_rows, render_rollouts
    from references.rollouts import RolloutPlan, RolloutWork, ship_rollouts
    from references.workspace import Workspace

    plan = RolloutPlan(
        every_timesteps=every, continuations=continuations, horizon_timesteps=horizon
    )
    for game in games:
        place = Workspace(work, game)
        with place.hold():
            measuring = RolloutWork(place, plan, data)
            visits = {seed: measuring.measure(seed) for seed in parse_seeds(seeds)}
            facts = ship_rollouts(game, visits, plan, data)
            r2 = facts.audit.r2
            place.report(
                "rollouts", seeds=len(visits), r2=None if r2 is None else round(r2, 3)
            )
        typer.echo(f"measured {game}: {len(visits)} visits")
    if page is not None:
        table = render_rollouts(read_rows(data))
        filled = fill_marked(_read_page(page), "rollouts", table)
        write_file(page, filled.encode())


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
    from references.training.visit_rewards import measure_policy
    from references.workspace import Workspace

    place = Workspace(work, game)
    with place.hold():
        lead = measure_policy(place, parse_seeds(seeds))
    print_tables(leads_table([lead]))


@_command
def anchor(
    game: Annotated[str, typer.Option(help="Game with an anchor policy.")],
    work: Work,
    timesteps: AnchorTimesteps = 2_500_000,
    reward: AnchorReward = "scaled",
) -> None:
    """Train, freeze and measure one policy for an upper anchor; resumable."""
    require_torch()
    from references.training import anchor_policies
    from references.training.anchor_facts import AnchorWorkspace

    place = AnchorWorkspace(work, game)
    recipe = anchor_policies.make_recipe(place.task, reward, timesteps=timesteps)
    with place.hold():
        anchor_policies.make_anchor(place, recipe)


@_command
def anchors(
    work: Work,
    games: Annotated[
        list[str] | None, typer.Option("--game", help="Only these games.")
    ] = None,
    timesteps: AnchorTimesteps = 2_500_000,
    reward: AnchorReward = "scaled",
    workers: Annotated[
        int, typer.Option(min=1, help="Games to work on in parallel.")
    ] = 1,
) -> None:
    """Do the same for all games with an anchor policy; resumable."""
    require_torch()
    from references.training.anchor_facts import ANCHOR_TASKS
    from references.training.driver import make_anchors

    options = ["--timesteps", str(timesteps), "--reward", reward]
    failed = make_anchors(work, games or list(ANCHOR_TASKS), options, workers)
    _check_failed(failed, work)


@_command
def random_visits(
    data: Annotated[Path, typer.Option(help="Folder of shipped references.")],
    games: Annotated[
        list[str] | None, typer.Option("--game", help="Only these games.")
    ] = None,
) -> None:
    """Measure the random agent's delivered rewards per visit, on tuning seeds."""
    require_torch()
    from longplay.reference.facts import describe_mean
    from longplay.reference.library import REFERENCE_GAMES
    from references.training.visit_rewards import add_random_visits

    for game in [_check_game(game) for game in games or REFERENCE_GAMES]:
        played = add_random_visits(data, game)
        typer.echo(f"{game}: {describe_mean(played)}")


@_command
def tables(
    page: Annotated[
        Path,
        typer.Argument(exists=True, dir_okay=False, help="Docs page to update."),
    ],
) -> None:
    """Update the tables of a docs page from the shipped references."""
    from longplay.contract.files import write_file
    from longplay.reference.library import DATA, read_all_facts
    from references.delivered import measure_leads
    from references.reference_tables import (
        fill_delivered,
        fill_marked,
        fill_table,
    )
    from references.rollout_table import read_rows, render_rollouts

    text = fill_table(_read_page(page), read_all_facts(DATA))
    text = fill_delivered(text, measure_leads(DATA))
    text = fill_marked(text, "rollouts", render_rollouts(read_rows(DATA)))
    write_file(page, text.encode())


@_command
def show(work: Work, as_json: Json = False) -> None:
    """Show the progress in a working folder."""
    _show_making(work, as_json)


def _read_page(page: Path) -> str:
    from longplay.contract.files import read_bounded

    return read_bounded(page).decode()


def _show_making(work: Path, as_json: bool) -> None:
    from references.workspace import describe_progress, read_progress

    progress = read_progress(work)
    if not progress:
        raise ConfigError(
            f"{work}: expected a working folder of references, found no progress; "
            f"start with `python -m references make --work {work}`"
        )
    if as_json:
        print_json(progress)
        return
    columns = ("game", "stage", "figures")
    rows = describe_progress(work)
    title = "References in progress"
    print_tables(TextTable.of(title, columns, rows, texts=(1, 2)))


def leads_table(leads: list[DeliveredLead]) -> TextTable:
    """One row per game: delivered rewards per visit, compared with random play."""
    from references.reference_tables import LEAD_COLUMNS, describe_lead

    rows = [describe_lead(lead) for lead in leads]
    return TextTable.of("Delivered rewards per visit", LEAD_COLUMNS, rows)


def _check_game(game: str) -> str:
    """Rejects games that are not on the prediction track."""
    from longplay.reference.library import REFERENCE_GAMES

    if game not in REFERENCE_GAMES:
        raise UnknownNameError("game of the prediction track", game, REFERENCE_GAMES)
    return game
