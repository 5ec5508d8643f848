"""The four stages of making a reference: train, freeze, values, audit.

Each reads the file of the previous stage and writes its own, in a game's workspace. A
stage can be killed at any moment and continues from its last checkpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, stdev

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field

from longplay.console.ale import AleConsole
from longplay.console.base import Console
from longplay.contract.files import (
    make_directory,
    read_json,
    write_document,
)
from longplay.errors import ConfigError
from longplay.reference.facts import (
    AuditedState,
    AuditFacts,
    PolicyFacts,
    ScoreFacts,
    ValueFacts,
)
from longplay.reference.network import ExactNetwork
from longplay.reference.policy import Chooser, FixedPolicy, ValueFunction
from references.auditing import summarise
from references.continuations import Player
from references.training.array_file import read_arrays, write_arrays
from references.training.audit import Auditor, MeasuredState
from references.training.checkpoint import (
    load_network,
)
from references.training.features import LiveInputs
from references.training.fitting import (
    Corpus,
    FitRecipe,
    ValueFit,
    start_values,
)
from references.training.freezing import freeze_network
from references.training.frozen_play import (
    PlayedVisit,
    draw_seeds,
    measure_scores,
    play_visit,
    random_chooser,
    read_visit,
    write_visit,
)
from references.training.network import RamNetwork
from references.training.play import FRAME_SKIP, MakeConsole
from references.training.qlearning import QTraining
from references.training.recipe import Recipe
from references.workspace import STAGES, RateTimer, Workspace

STICKY = 0.25
_CHECKPOINT_S = 60.0
_SAMPLE_ROLLOUTS = 8
_SAMPLE_ROWS = 8192
_CHECKED_ROWS = 10_000
# Purposes of seeds; the audit has its own.
_SCORES, _RANDOM_SCORES, _POLICIES, _CORPUS = 100, 101, 102, 103


class PlayPlan(BaseModel):
    """How much the frozen policy plays: for scores, values and the audit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    games: int = Field(default=32, ge=2)
    # Share of random actions of the frozen policy; None for that of its training.
    exploration: float | None = Field(default=None, ge=0, le=1)
    visit_timesteps: int = Field(default=10_000, ge=1)
    visits: int = Field(default=52, ge=1)
    held_out_visits: int = Field(default=10, ge=1)
    audit_visits: int = Field(default=10, ge=1)
    states_per_visit: int = Field(default=5, ge=1)
    continuations: int = Field(default=32, ge=2)


def make_console() -> Console:
    """A console with the settings of the prediction track."""
    return AleConsole(sticky=STICKY, full_action_space=True, frame_skip=FRAME_SKIP)


def minimal_actions(game_id: str) -> Sequence[int]:
    """The minimal action set of a game."""
    console = AleConsole(sticky=STICKY, full_action_space=False)
    console.start_visit(game_id, 0)
    return console.actions


def require_stage(workspace: Workspace, stage: str, command: str) -> None:
    """Checks that the workspace has the result of a stage that a command needs.

    Raises:
        ConfigError: Names the stage to run first.
    """
    if not workspace.result(stage).exists():
        raise ConfigError(
            f"{command}: expected {workspace.results[stage]} in {workspace.folder}, "
            f"found none; run `python -m references {stage} --game "
            f"{workspace.game_id}` first"
        )


def _require(workspace: Workspace, stage: str) -> None:
    require_stage(workspace, STAGES[STAGES.index(stage) - 1], stage)


# --- train ----------------------------------------------------------------------


def train(
    workspace: Workspace,
    recipe: Recipe,
    make_console: MakeConsole = make_console,
    actions: Sequence[int] | None = None,
) -> None:
    """Trains a policy, or resumes its training."""
    actions = minimal_actions(workspace.game_id) if actions is None else actions
    training = QTraining(workspace.game_id, make_console, actions, recipe)
    train_policy(workspace, training)


def train_policy(workspace: Workspace, training: QTraining) -> None:
    """Runs a training to its end, from its checkpoint if there is one."""
    torch.set_num_threads(1)
    checkpoint = workspace.path("training.safetensors")
    if checkpoint.exists():
        training.restore(checkpoint)
    first, timer = training.timestep, RateTimer(_CHECKPOINT_S)
    while not training.is_done:
        training.advance()
        if timer.is_due():
            training.save(checkpoint)
            _report_training(workspace, training, timer.rate(training.timestep - first))
    training.save(workspace.result("train"))
    _report_training(workspace, training, timer.rate(training.timestep - first))
    checkpoint.unlink(missing_ok=True)


def _report_training(workspace: Workspace, training: QTraining, rate: int) -> None:
    scores = training.recent_scores or [0.0]
    workspace.report(
        "train",
        timesteps=training.timestep,
        recent_score=round(mean(scores), 1),
        inputs=len(training.network.weight1),
        timesteps_per_s=rate,
    )


# --- freeze ---------------------------------------------------------------------


def freeze(
    workspace: Workspace, plan: PlayPlan, make_console: MakeConsole = make_console
) -> None:
    """Freezes the trained policy; measures its score and the random agent's."""
    _require(workspace, "freeze")
    torch.set_num_threads(1)
    _, facts = read_arrays(workspace.result("train"))
    recipe, actions = Recipe(**facts["recipe"]), tuple(facts["actions"])
    training = QTraining(workspace.game_id, make_console, actions, recipe)
    training.restore(workspace.result("train"))
    sample = training.sample_pairs(_SAMPLE_ROLLOUTS)
    arrays = freeze_network(training.network, sample)
    exploration = recipe.exploration if plan.exploration is None else plan.exploration
    policy = FixedPolicy(arrays, actions, exploration)
    known = PolicyFacts(
        actions=actions,
        exploration=exploration,
        recipe=recipe.model_dump(),
        score=_measure_policy(workspace, policy, plan.games, make_console),
        random_score=_measure_random(workspace, plan.games, make_console),
    )
    write_arrays(workspace.result("freeze"), arrays, known.model_dump(mode="json"))
    workspace.report(
        "freeze",
        score=known.score.describe(),
        random=known.random_score.describe(),
        lead_in_errors=round(known.lead_in_errors, 1),
    )


def _measure_policy(
    workspace: Workspace, policy: FixedPolicy, games: int, make_console: MakeConsole
) -> ScoreFacts:
    seeds = draw_seeds(_POLICIES, 0, games)
    choosers = [Chooser(policy, seed).choose for seed in seeds]
    scores = measure_scores(workspace.game_id, make_console, choosers, _SCORES)
    return _score_facts(scores)


def _measure_random(
    workspace: Workspace, games: int, make_console: MakeConsole
) -> ScoreFacts:
    choosers = [random_chooser(seed) for seed in draw_seeds(_RANDOM_SCORES, 1, games)]
    scores = measure_scores(workspace.game_id, make_console, choosers, _RANDOM_SCORES)
    return _score_facts(scores)


def _score_facts(scores: list[float]) -> ScoreFacts:
    error = stdev(scores) / len(scores) ** 0.5
    return ScoreFacts(games=len(scores), mean=mean(scores), standard_error=error)


def read_policy(workspace: Workspace) -> tuple[FixedPolicy, PolicyFacts]:
    """The frozen policy of a workspace."""
    path = workspace.result("freeze")
    arrays, facts = read_arrays(path)
    known = PolicyFacts.model_validate(facts, strict=False)
    return FixedPolicy(arrays, known.actions, known.exploration, path.name), known


# --- values ---------------------------------------------------------------------


def values(
    workspace: Workspace,
    plan: PlayPlan,
    recipe: FitRecipe,
    make_console: MakeConsole = make_console,
) -> None:
    """Plays the frozen policy and fits its value function."""
    _require(workspace, "values")
    torch.set_num_threads(1)
    visits = _play_visits(workspace, plan, make_console)
    held_out = Corpus(visits[: plan.held_out_visits], recipe.discount)
    corpus = Corpus(visits[plan.held_out_visits :], recipe.discount)
    fit = ValueFit(_start_network(workspace, recipe), corpus, held_out, recipe)
    _run_fit(workspace, fit)
    every = max(1, corpus.ends.size // _SAMPLE_ROWS)
    frozen = freeze_network(fit.best, corpus.rows()[::every])
    known = ValueFacts(
        recipe=recipe.model_dump(),
        timesteps=corpus.ends.size,
        held_out_timesteps=held_out.ends.size,
        held_out_variance=float(held_out.returns[held_out.is_known].var()),
        held_out_errors=tuple(fit.errors),
        frozen_error=_frozen_error(ExactNetwork(frozen), held_out),
    )
    write_arrays(workspace.result("values"), frozen, known.model_dump(mode="json"))
    workspace.path("fit.safetensors").unlink(missing_ok=True)
    _report_values(workspace, known)


def _report_values(workspace: Workspace, known: ValueFacts) -> None:
    workspace.report(
        "values",
        variance=round(known.held_out_variance, 4),
        error=round(min(known.held_out_errors), 4),
        frozen_error=round(known.frozen_error, 4),
        epochs=len(known.held_out_errors) - 1,
    )


def _start_network(workspace: Workspace, recipe: FitRecipe) -> RamNetwork:
    arrays, facts = read_arrays(workspace.result("train"))
    live = LiveInputs(arrays["always"], arrays["ever"])
    trained = RamNetwork(len(facts["actions"]), live, recipe.seed)
    load_network(trained, arrays)
    return start_values(trained, recipe.seed)


def _run_fit(workspace: Workspace, fit: ValueFit) -> None:
    checkpoint = workspace.path("fit.safetensors")
    if checkpoint.exists():
        fit.restore(checkpoint)
    while not fit.is_done:
        fit.advance()
        fit.save(checkpoint)
        workspace.report("values", held_out_errors=[round(e, 4) for e in fit.errors])


def _play_visits(
    workspace: Workspace, plan: PlayPlan, make_console: MakeConsole
) -> list[PlayedVisit]:
    make_directory(workspace.path("play"), exist_ok=True)
    policy, _ = read_policy(workspace)
    timer, visits, played = RateTimer(_CHECKPOINT_S), [], 0
    for index in range(plan.held_out_visits + plan.visits):
        path = workspace.path(f"play/visit-{index:03}.safetensors")
        if not path.exists():
            emulator_seed, policy_seed = draw_seeds(_CORPUS, index, 2)
            player = Player(make_console(), workspace.game_id, emulator_seed)
            visit = play_visit(player, policy, policy_seed, plan.visit_timesteps)
            write_visit(path, visit)
            played += plan.visit_timesteps
            if timer.is_due():
                workspace.report(
                    "values", visit=index, timesteps_per_s=timer.rate(played)
                )
        visits.append(read_visit(path))
    return visits


def _frozen_error(network: ExactNetwork, held_out: Corpus) -> float:
    known = np.flatnonzero(held_out.is_known.reshape(-1))
    chosen = known[:: max(1, len(known) // _CHECKED_ROWS)]
    rows, returns = held_out.rows()[chosen], held_out.returns.reshape(-1)[chosen]
    found = np.array([float(network.evaluate(row)[0]) for row in rows])
    return float(np.mean((found - returns) ** 2))


# --- audit ----------------------------------------------------------------------


def audit(workspace: Workspace, plan: PlayPlan) -> None:
    """Compares the frozen values with continuations, visit by visit."""
    _require(workspace, "audit")
    policy, _ = read_policy(workspace)
    arrays, facts = read_arrays(workspace.result("values"))
    values = ValueFunction(arrays)
    auditor = Auditor(
        workspace.game_id,
        policy,
        sticky=STICKY,
        discount=facts["recipe"]["discount"],
        continuations=plan.continuations,
    )
    make_directory(workspace.path("audit"), exist_ok=True)
    audited: list[AuditedState] = []
    for visit in range(plan.audit_visits):
        measured = _measure_visit(workspace, auditor, visit, plan)
        audited += [state.compare(values) for state in measured]
        workspace.report("audit", visits=visit + 1, **_figures(audited))
    known = AuditFacts(summary=summarise(audited), audited=tuple(audited))
    write_document(workspace.result("audit"), known)


def _measure_visit(
    workspace: Workspace, auditor: Auditor, visit: int, plan: PlayPlan
) -> list[MeasuredState]:
    path = workspace.path(f"audit/visit-{visit:03}.json")
    if not path.exists():
        timesteps, states = plan.visit_timesteps, plan.states_per_visit
        measured = auditor.measure_visit(visit, timesteps, states)
        write_document(path, {"states": [state.model_dump() for state in measured]})
    return [MeasuredState(**entry) for entry in read_json(path)["states"]]


def _figures(audited: list[AuditedState]) -> dict[str, float | int | None]:
    summary = summarise(audited).model_dump()
    return {
        name: round(value, 3) if isinstance(value, float) else value
        for name, value in summary.items()
    }
