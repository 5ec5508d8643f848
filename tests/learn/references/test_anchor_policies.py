"""Policies of anchors: control rules of a stream, exact resuming, the whole chain."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from longplay.console.ale import AleConsole
from longplay.console.base import Console, ConsoleStep
from longplay.console.scripted import ScriptedConsole
from longplay.contract.config import ScheduledVisit
from longplay.contract.rows import EventRow
from longplay.driver import ActionDriver
from longplay.reference.ram import RAM_BYTES, RamPair
from longplay.stream import Mechanics, Stream
from longplay.suites import get_suite
from references.training import anchor_policies
from references.training.anchor_facts import (
    ANCHOR_TASKS,
    AnchorTask,
    AnchorWorkspace,
)
from references.training.delayed import DelayedConsole
from references.training.play import Emulators
from references.training.qlearning import QTraining
from references.training.recipe import Recipe
from references.training.reward_scale import RewardScale
from references.workspace import read_progress

STREAMING = Mechanics(decision_interval=4, delay=6)
RECIPE = Recipe(
    timesteps=1024,
    emulators=4,
    rollout_timesteps=16,
    reward="scaled",
    returns_end="never",
    exploration_hold=3,
    restart_timesteps=40,
)


def make_machine(task: AnchorTask) -> Console:
    return ScriptedConsole(frame_skip=task.frame_skip)


def make_delayed() -> Console:
    return DelayedConsole(ScriptedConsole(), STREAMING)


def play_stream(
    game: str, machine: Console, decisions: Sequence[int], mechanics: Mechanics
) -> list[EventRow]:
    """The rows of a stream whose decision frames answer with these decisions."""
    frames = len(decisions) * mechanics.decision_interval
    visit = ScheduledVisit(visit_idx=0, cycle_idx=0, game_id=game, visit_frames=frames)
    stream = Stream([visit], [7], machine, mechanics, ActionDriver())
    answers, rows = iter(decisions), []
    while not stream.done:
        decides = stream.percept(False).info["is_decision_frame"]
        answer = next(answers, None) if decides else None
        if decides and answer is None:
            break
        rows.append(stream.advance(answer))
    return rows


@pytest.mark.parametrize("mechanics", [STREAMING, Mechanics(3, 2), Mechanics()])
@pytest.mark.parametrize("game", ["scripted", "ms_pacman"])
def test_delayed_play_is_that_of_a_stream(game: str, mechanics: Mechanics) -> None:
    def make() -> Console:
        if game == "scripted":
            return ScriptedConsole()
        return AleConsole(sticky=0.25, full_action_space=True)

    # Enough for lost games: ms_pacman has its first game over after 590 decisions.
    count = 300 if game == "scripted" else 900
    decisions = np.random.default_rng(1).integers(0, 18, count).tolist()
    console = DelayedConsole(make(), mechanics)
    console.start_visit(game, 7)
    played, ends = [], 0
    for decision in decisions:
        reward, is_over, lives = console.step(decision)
        played.append((reward, is_over, lives, console.emulator_frames))
        if is_over:
            console.reset()
            ends += 1
    expected, reward, frames = [], 0.0, 0
    for row in play_stream(game, make(), decisions, mechanics):
        if row.is_decision_frame and frames:
            expected.append((reward, False, lives, frames))
            reward, frames = 0.0, 0
        reward, frames, lives = reward + row.reward, frames + 1, row.lives
        if row.terminated:
            expected.append((reward, True, lives, frames))
            reward, frames = 0.0, 0
    assert ends > 0 or mechanics == Mechanics()
    assert len(expected) > 0.7 * count
    assert played[: len(expected)] == expected


def test_pending_decisions_are_part_of_the_memory() -> None:
    console = make_delayed()
    console.start_visit("scripted", 1)
    memory = bytes(console.ram())
    assert len(memory) == RAM_BYTES + 2
    assert memory[RAM_BYTES:] == b"\0\0"
    console.step(1)  # FIRE
    console.step(14)  # UPRIGHTFIRE
    assert bytes(console.ram())[RAM_BYTES:] == bytes([0b10000, 0b10011])
    assert bytes(console.ram())[:8] != memory[:8]
    console.reset()
    assert bytes(console.ram())[RAM_BYTES:] == b"\0\0"


def test_the_frozen_policy_sees_in_a_stream_what_it_saw_in_training() -> None:
    task = AnchorTask("stream-8x3-v1", 700)
    seen: list[bytes] = []

    def choose(pair: RamPair) -> int:
        seen.append(pair.tobytes())
        return len(seen) % 18

    visit = anchor_policies.play_visit("krull", task, 3, choose, make_machine)
    seed = anchor_policies.emulator_seed(3, 0)
    emulators = Emulators("krull", make_delayed, [seed])
    rewards = 0.0
    for number, pair in enumerate(seen[:-1], 1):
        assert emulators.ram[0].tobytes() == pair
        rewards += emulators.play([number % 18]).game_rewards[0]
    assert len(emulators.finished_scores) > 3
    assert visit.frames == 700
    assert rewards == pytest.approx(visit.reward_sum, abs=10 * 4)


def test_rewards_are_centred_and_scaled_by_hand() -> None:
    scale = RewardScale()
    assert scale.apply(np.zeros(2), 0.6).tolist() == [0.0, 0.0]
    scale.add(np.array([0.0, 10.0, 0.0, 10.0]))
    # mean 5, mean square 50, 1 - 0.6² = 0.64
    expected = (np.array([0.0, 10.0]) - 5) / (50 / 0.64) ** 0.5
    assert scale.apply(np.array([0.0, 10.0]), 0.6) == pytest.approx(expected)


def test_roots_of_rewards_keep_their_signs() -> None:
    class Losing(ScriptedConsole):
        def step(self, action: int) -> ConsoleStep:
            return (-25.0 if action else 4.0), *super().step(action)[1:]

    recipe = RECIPE.model_copy(update={"reward": "root", "exploration_share": 1.0})
    training = QTraining("krull", Losing, (0, 3), recipe)
    training.advance()
    facts = training.reward_scale.facts()
    # 64 timesteps of +2 or -5, so that squares are 4 or 25.
    losses = (facts["squares"] - 4 * 64) / 21
    assert facts["total"] == pytest.approx(2 * (64 - losses) - 5 * losses)
    assert 0 < losses < 64


def test_training_gives_the_same_network_if_it_was_killed(tmp_path: Path) -> None:
    def start() -> QTraining:
        return QTraining("krull", make_delayed, (0, 3, 11), RECIPE)

    torch.set_num_threads(1)
    whole, killed = start(), start()
    while not whole.is_done:
        whole.advance()
    # Checkpoints before and after emulators have restarted, and work lost after each.
    for rollouts in (1, 5, 3):
        for _ in range(rollouts):
            killed.advance()
        killed.save(tmp_path / "checkpoint")
        killed.advance()
        killed = start()
        killed.restore(tmp_path / "checkpoint")
    while not killed.is_done:
        killed.advance()
    expected, found = whole.network.state_dict(), killed.network.state_dict()
    assert all(torch.equal(expected[name], found[name]) for name in expected)
    assert killed.recent_scores == whole.recent_scores
    whole.save(tmp_path / "whole")
    killed.save(tmp_path / "killed")
    assert (tmp_path / "whole").read_bytes() == (tmp_path / "killed").read_bytes()


def test_emulators_restart_one_after_the_other() -> None:
    training = QTraining("krull", make_delayed, (0, 3, 11), RECIPE)
    restarts = []
    for _ in range(10):
        before = training.emulator_seeds
        training.advance()
        after = training.emulator_seeds
        restarts.append([b != a for b, a in zip(before, after, strict=True)])
    assert not any(restarts[0])
    assert 0 < np.mean(restarts) <= 16 / 40
    assert max(map(sum, restarts)) < 4
    assert np.any(restarts, axis=0).all()


def test_the_chain_ends_with_measured_visits_and_continues(tmp_path: Path) -> None:
    place = AnchorWorkspace(tmp_path, "qbert")
    anchor_policies.train(place, RECIPE, make_machine, (0, 3, 11))
    assert place.next_stage() == "freeze"
    anchor_policies.freeze(place, make_machine)
    short = AnchorTask("stream-8x3-v1", 300)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(ANCHOR_TASKS, "qbert", short)
        facts = anchor_policies.measure(place, (0, 1), make_machine)
        place.result("visits").unlink()
        place.path("visits/seed-1.json").unlink()
        again = anchor_policies.measure(place, (0, 1), make_machine)
    assert again == facts
    assert facts.suite == "stream-8x3-v1"
    assert [visit.seed for visit in facts.visits] == [0, 1]
    assert facts.recipe["reward"] == "scaled"
    assert place.next_stage() is None
    assert read_progress(tmp_path, place.games)[0]["stage"] == "visits"


def test_tasks_follow_the_suites() -> None:
    assert set(get_suite("stream-8x3-v1").games) < set(ANCHOR_TASKS)
    assert ANCHOR_TASKS["krull"].mechanics == STREAMING
    climber = ANCHOR_TASKS["crazy_climber"]
    assert (climber.frame_skip, climber.mechanics.reward) == (4, "sign")
    recipe = anchor_policies.make_recipe(climber, timesteps=5)
    assert (recipe.reward, recipe.returns_end, recipe.timesteps) == ("sign", "life", 5)
    streaming = anchor_policies.make_recipe(ANCHOR_TASKS["krull"])
    assert (streaming.reward, streaming.returns_end) == ("scaled", "never")
