"""A recorded visit, replayed on an emulator that can branch at any timestep.

Two emulators with the visit's seed play side by side. The *original* draws its own
sticky actions, as in the run. The *branching* one has none; on every emulator frame it
gets the action that the original executes, since the original's draws are known
(`references.stickiness`). Both then make the same number of draws and stay in the
same state, including their generators. This is checked: rewards, ends and memory on
every timestep, and the whole serialised state at every branch.

From there the policy can continue any number of times with other random draws. The
draws of a continuation, for sticky actions and exploration, are a function of the run
seed, the visit, the timestep and the continuation's number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from longplay.console.ale import ALE_VERSION, AleConsole
from longplay.console.base import Console
from longplay.errors import ConsoleError
from longplay.reference.policy import Chooser, FixedPolicy, ValueFunction
from longplay.reference.ram import RamPair, pair_ram
from references.branching import BranchingAleConsole
from references.stickiness import AleDraws, StickyDraws

# Its spawn key; `longplay.seeds` has the others.
_CONTINUATION = 4


class Player:
    """A console with the inputs of a policy: memory pairs and game overs."""

    def __init__(self, console: Console, game_id: str, emulator_seed: int) -> None:
        self.console = console
        console.start_visit(game_id, emulator_seed)
        self._current = bytes(console.ram())
        self.pair = pair_ram(self._current, None)

    def play(self, action: int) -> tuple[float, bool]:
        """Plays a timestep; returns its game reward and whether the game ended."""
        game_reward, is_over = self.play_to_end(action)
        if is_over:
            self.console.reset()
            self._current = bytes(self.console.ram())
            self.pair = pair_ram(self._current, None)
        return game_reward, is_over

    def play_to_end(self, action: int) -> tuple[float, bool]:
        """Like `play`, but does not start a new game after a game over."""
        game_reward, is_over, _ = self.console.step(action)
        previous, self._current = self._current, bytes(self.console.ram())
        self.pair = pair_ram(self._current, previous)
        return game_reward, is_over

    def save(self) -> tuple[bytes, RamPair]:
        """The player's own state; the console is saved separately."""
        return self._current, self.pair

    def restore(self, memory: tuple[bytes, RamPair]) -> None:
        """Restores a state from `save`."""
        self._current, self.pair = memory


class Continuation(NamedTuple):
    """The result of one continuation from a state."""

    discounted_reward: float
    discount: float
    is_over: bool
    pair: RamPair

    def bootstrap(self, values: ValueFunction) -> float:
        """The return, bootstrapped with the value of the last state."""
        if self.is_over:
            return self.discounted_reward
        return self.discounted_reward + self.discount * float(
            values.evaluate(self.pair)
        )


def continue_play(
    player: Player, chooser: Chooser, timesteps: int, discount: float
) -> Continuation:
    """Plays a number of timesteps, or to the end of the game.

    Args:
        player: A player in the state to continue from.
        chooser: The policy, with the exploration draws of this continuation.
        timesteps: Maximum number to play.
        discount: Weight of the next timestep's reward.
    """
    total, weight, is_over = 0.0, 1.0, False
    for _ in range(timesteps):
        game_reward, is_over = player.play_to_end(chooser.choose(player.pair))
        if game_reward:
            total += weight if game_reward > 0 else -weight
        weight *= discount
        if is_over:
            break
    return Continuation(total, weight, is_over, player.pair)


class RawDraws:
    """Draws from [0, 1) of raw PCG64, whose stream NumPy guarantees across versions."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def random(self) -> float:
        """The draw of the next emulator frame."""
        return int(self._bits.random_raw()) / 2**64


class RandomDraws(NamedTuple):
    """The sources of randomness of one continuation."""

    chooser: Chooser
    sticky_rng: StickyDraws


def branch_off(
    console: BranchingAleConsole,
    player: Player,
    draws: Iterable[RandomDraws],
    timesteps: int,
    discount: float,
) -> list[Continuation]:
    """Continues from one state once per set of draws; restores the state afterwards.

    Args:
        console: The player's console.
        player: A player in the state.
        draws: One per continuation.
        timesteps: Maximum number to play, each time.
        discount: Weight of the next timestep's reward.
    """
    branch, memory, sticky_rng = console.save(), player.save(), console.sticky_rng
    continuations = []
    for chooser, console.sticky_rng in draws:
        continuations.append(continue_play(player, chooser, timesteps, discount))
        console.restore(branch)
        player.restore(memory)
    console.sticky_rng = sticky_rng
    return continuations


class ReplayedVisit:
    """A visit of a run, replayed from its actions, that can branch."""

    def __init__(
        self, game_id: str, emulator_seed: int, *, sticky: float, frame_skip: int
    ) -> None:
        self._original = AleConsole(
            sticky=sticky, full_action_space=True, frame_skip=frame_skip
        )
        self.console = BranchingAleConsole(
            sticky=sticky, full_action_space=True, frame_skip=frame_skip
        )
        self._original.start_visit(game_id, emulator_seed)
        self.player = Player(self.console, game_id, emulator_seed)
        self._place = f"visit of {game_id}, emulator seed {emulator_seed}"
        self.timestep = 0
        self._read_draws()

    def _read_draws(self) -> None:
        """Reads the future draws of the original, up to the next reset."""
        self.console.sticky_rng = AleDraws(self._original.serialize_state())

    def play(self, action: int) -> float:
        """Plays the next recorded timestep.

        Returns:
            The game's reward.

        Raises:
            ConsoleError: The two emulators differ.
        """
        expected_reward, expected_over, _ = self._original.step(action)
        found = self.player.play(action)
        if expected_over:
            self._original.reset()
            self._read_draws()
        is_same = found == (expected_reward, expected_over)
        if not is_same or self.console.ram() != self._original.ram():
            raise self._make_error("reward, end or memory")
        self.timestep += 1
        return expected_reward

    def _make_error(self, what: str) -> ConsoleError:
        return ConsoleError(
            f"{self._place}, timestep {self.timestep}: expected the same {what} in the "
            "original and the branching emulator, found a difference; ale-py "
            f"{ALE_VERSION} draws sticky actions in another way"
        )

    def check_state(self) -> None:
        """Compares the whole states of both emulators, including their generators.

        Raises:
            ConsoleError: The states are not bit-identical.
        """
        if self.console.serialize_state() != self._original.serialize_state():
            raise self._make_error("whole state")

    def branch_off(
        self, draws: Iterable[RandomDraws], timesteps: int, discount: float
    ) -> list[Continuation]:
        """Continues from the recorded state, once per set of draws."""
        self.check_state()
        return branch_off(self.console, self.player, draws, timesteps, discount)


class ContinuationSeeds(NamedTuple):
    """The seeds of one continuation of a recorded visit."""

    exploration: int
    stickiness: int


def continuation_seeds(
    run_seed: int, visit_idx: int, timestep: int, number: int
) -> ContinuationSeeds:
    """The seeds of one continuation from a timestep of a visit."""
    key = (_CONTINUATION, visit_idx, timestep, number)
    sequence = np.random.SeedSequence(run_seed, spawn_key=key)
    return ContinuationSeeds(*sequence.generate_state(2, np.uint64).tolist())


def make_draws(policy: FixedPolicy, seeds: ContinuationSeeds) -> RandomDraws:
    """The random draws of one continuation of a policy."""
    return RandomDraws(Chooser(policy, seeds.exploration), RawDraws(seeds.stickiness))
