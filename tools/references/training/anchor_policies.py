"""A game under a suite's rules -> a frozen policy on RAM and its delivered rewards.

Training plays a `DelayedConsole`; the frozen policy is measured in a `Stream`, like any
agent, except that it reads the machine's memory. Every function continues where it was
killed, and the result is the same as without the interruption.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from importlib.metadata import version

import numpy as np
import torch

from longplay.console.ale import ALE_VERSION, AleConsole
from longplay.console.base import Console
from longplay.contract.config import ScheduledVisit
from longplay.contract.files import (
    make_directory,
    read_bounded,
    read_document,
    write_document,
)
from longplay.contract.rows import EventRow, TimestepRow
from longplay.driver import ActionDriver
from longplay.reference.policy import Chooser, FixedPolicy
from longplay.seeds import emulator_seed, policy_seed
from longplay.stream import Mechanics, Stream
from references.training.anchor_facts import (
    AnchorFacts,
    AnchorTask,
    AnchorVisit,
    AnchorWorkspace,
)
from references.training.array_file import read_arrays, write_arrays
from references.training.delayed import DelayedConsole, PendingDecisions
from references.training.freezing import freeze_network
from references.training.frozen_play import Choose
from references.training.qlearning import QTraining
from references.training.recipe import Recipe, TrainingReward
from references.training.stages import (
    minimal_actions,
    require_stage,
    train_policy,
)

MakeMachine = Callable[[AnchorTask], Console]

VISIT_SEEDS = (0, 1, 2, 3, 4)

_SAMPLE_ROLLOUTS = 8


def make_machine(task: AnchorTask) -> Console:
    """The console of the task's suite."""
    suite = task.suite
    return AleConsole(
        sticky=suite.sticky,
        full_action_space=suite.full_action_space,
        frame_skip=task.frame_skip,
    )


def make_recipe(
    task: AnchorTask, reward: TrainingReward = "scaled", **changes: object
) -> Recipe:
    """The recipe for a task: what is trained for is what the suite delivers.

    The sign of rewards has the recipe of the references. The game's own rewards are
    scaled (`reward`), and returns never end, as in a visit, where the next game starts
    at once.
    """
    recipe: dict[str, object] = {"restart_timesteps": 10_000}
    if task.mechanics.reward == "raw":
        recipe |= {"reward": reward, "returns_end": "never"}
    return Recipe.model_validate(recipe | changes)


def _make_training(
    workspace: AnchorWorkspace,
    recipe: Recipe,
    make_machine: MakeMachine,
    actions: Sequence[int],
) -> QTraining:
    task = workspace.task

    def make_console() -> Console:
        return DelayedConsole(make_machine(task), task.mechanics)

    return QTraining(workspace.game_id, make_console, actions, recipe)


def make_anchor(workspace: AnchorWorkspace, recipe: Recipe) -> None:
    """Does all that is left to do for a game."""
    if not workspace.result("train").exists():
        train(workspace, recipe)
    if not workspace.result("freeze").exists():
        freeze(workspace)
    measure(workspace)


def train(
    workspace: AnchorWorkspace,
    recipe: Recipe,
    make_machine: MakeMachine = make_machine,
    actions: Sequence[int] | None = None,
) -> None:
    """Trains a policy, or resumes its training."""
    actions = minimal_actions(workspace.game_id) if actions is None else actions
    training = _make_training(workspace, recipe, make_machine, actions)
    train_policy(workspace, training)


def freeze(
    workspace: AnchorWorkspace, make_machine: MakeMachine = make_machine
) -> None:
    """Freezes the trained policy."""
    require_stage(workspace, "train", "freeze")
    torch.set_num_threads(1)
    _, facts = read_arrays(workspace.result("train"))
    recipe, actions = Recipe(**facts["recipe"]), tuple(facts["actions"])
    training = _make_training(workspace, recipe, make_machine, actions)
    training.restore(workspace.result("train"))
    arrays = freeze_network(training.network, training.sample_pairs(_SAMPLE_ROLLOUTS))
    known = {
        "actions": actions,
        "exploration": recipe.exploration,
        "recipe": recipe.model_dump(),
        "input_bits": training.network.live.input_bits,
    }
    write_arrays(workspace.result("freeze"), arrays, known)
    workspace.report("freeze", timesteps=training.timestep)


class PolicyDriver(ActionDriver):
    """A frozen policy decides from the machine's memory and the pending decisions."""

    def __init__(
        self, choose: Choose, mechanics: Mechanics, row_type: type[EventRow]
    ) -> None:
        super().__init__(row_type)
        self._choose, self._pending = choose, PendingDecisions(mechanics)

    def start_visit(self, visit: ScheduledVisit, console: Console) -> None:
        """Takes the console whose memory to read."""
        self._ram = console.ram

    def decide(self, answer: object, is_first: bool) -> int:
        """The policy's action; the answer is not used."""
        if is_first:
            self._pending.restart()
        memory = self._pending.extend(self._ram())
        if is_first:
            self._previous = memory
        action = self._choose(np.frombuffer(memory + self._previous, np.uint8))
        self._previous = memory
        self._pending.add(action)
        return action


def play_visit(
    game_id: str,
    task: AnchorTask,
    seed: int,
    choose: Choose,
    make_machine: MakeMachine = make_machine,
) -> AnchorVisit:
    """Plays one visit of a run with this seed; the driver decides, not an agent."""
    visit = ScheduledVisit(
        visit_idx=0, cycle_idx=0, game_id=game_id, visit_frames=task.visit_frames
    )
    row_type = TimestepRow if task.frame_skip > 1 else EventRow
    driver = PolicyDriver(choose, task.mechanics, row_type)
    seeds = [emulator_seed(seed, 0)]
    stream = Stream([visit], seeds, make_machine(task), task.mechanics, driver)
    reward_sum = 0.0
    while not stream.done:
        reward_sum += stream.advance(None).reward
    return AnchorVisit(seed=seed, frames=task.visit_frames, reward_sum=reward_sum)


def measure(
    workspace: AnchorWorkspace,
    seeds: Sequence[int] = VISIT_SEEDS,
    make_machine: MakeMachine = make_machine,
) -> AnchorFacts:
    """Plays the frozen policy's visits, and writes what was delivered."""
    require_stage(workspace, "freeze", "visits")
    path = workspace.result("freeze")
    arrays, facts = read_arrays(path)
    policy = FixedPolicy(
        arrays, facts["actions"], facts["exploration"], path.name, facts["input_bits"]
    )
    make_directory(workspace.path("visits"), exist_ok=True)
    visits = []
    for seed in seeds:
        visits.append(_measure_once(workspace, policy, seed, make_machine))
        rates = [round(visit.rate, 4) for visit in visits]
        workspace.report("visits", rates=rates)
    known = AnchorFacts(
        game=workspace.game_id,
        suite=workspace.task.suite_id,
        policy_sha256=hashlib.sha256(read_bounded(path)).hexdigest(),
        actions=tuple(facts["actions"]),
        exploration=facts["exploration"],
        recipe=facts["recipe"],
        versions={"longplay": version("longplay"), "ale_py": ALE_VERSION},
        visits=tuple(visits),
    )
    write_document(workspace.result("visits"), known)
    return known


def _measure_once(
    workspace: AnchorWorkspace,
    policy: FixedPolicy,
    seed: int,
    make_machine: MakeMachine,
) -> AnchorVisit:
    path = workspace.path(f"visits/seed-{seed}.json")
    if not path.exists():
        choose = Chooser(policy, policy_seed(seed, 0)).choose
        task, game = workspace.task, workspace.game_id
        write_document(path, play_visit(game, task, seed, choose, make_machine))
    return read_document(path, AnchorVisit)
