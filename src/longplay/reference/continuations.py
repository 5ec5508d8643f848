"""A recorded visit, played again on an emulator that can branch off anywhere.

Two emulators with the visit's seed play side by side. The *original* draws its own
stickiness, as in the run. The *branching* one has none; on every emulator frame it is
given the action that the original executes, because the original's draws are known
(`longplay.console.stickiness`). Both then draw equally often and stay in the same
state, generators included. This is checked: rewards, ends and memory on every timestep,
the whole serialised state wherever play branches off.

From there the policy can continue any number of times with other luck. A continuation's
luck, both its stickiness and its exploration, is a function of the run's seed, the
visit, the timestep and its own number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from longplay.console.ale import ALE_VERSION, AleConsole, BranchingAleConsole
from longplay.console.base import Console
from longplay.console.stickiness import AleDraws, StickyDraws
from longplay.errors import ConsoleError
from longplay.reference.policy import Chooser, FixedPolicy
from longplay.reference.ram import RamPair, pair_ram
from longplay.reference.values import ValueFunction
from longplay.seeds import ContinuationSeeds


class Player:
    """One console with a policy at it: memory pairs, actions, game overs."""

    def __init__(self, console: Console, game_id: str, emulator_seed: int) -> None:
        self.console = console
        console.start_visit(game_id, emulator_seed)
        self._current = bytes(console.ram())
        self.pair = pair_ram(self._current, None)

    def play(self, action: int) -> tuple[float, bool]:
        """Plays a timestep; its game reward, and whether the game ended with it."""
        game_reward, is_over = self.play_to_end(action)
        if is_over:
            self.console.reset()
            self._current = bytes(self.console.ram())
            self.pair = pair_ram(self._current, None)
        return game_reward, is_over

    def play_to_end(self, action: int) -> tuple[float, bool]:
        """As `play`, but no new game is started after the end of one."""
        game_reward, is_over, _ = self.console.step(action)
        previous, self._current = self._current, bytes(self.console.ram())
        self.pair = pair_ram(self._current, previous)
        return game_reward, is_over

    def save(self) -> tuple[bytes, RamPair]:
        """What this player remembers; the console is saved apart."""
        return self._current, self.pair

    def go_back(self, memory: tuple[bytes, RamPair]) -> None:
        """Remembers what it did when it was saved."""
        self._current, self.pair = memory


class Continuation(NamedTuple):
    """What the policy got from a state on, and whether the game ended in it."""

    discounted_reward: float
    discount: float
    is_over: bool
    pair: RamPair

    def bootstrap(self, values: ValueFunction) -> float:
        """The return, with the value of the last state for what was not played."""
        if self.is_over:
            return self.discounted_reward
        return self.discounted_reward + self.discount * float(
            values.evaluate(self.pair)
        )


def play_on(
    player: Player, chooser: Chooser, timesteps: int, discount: float
) -> Continuation:
    """Plays a number of timesteps, or to the end of the game.

    Args:
        player: Stands in the state to continue from.
        chooser: The policy, with the exploration of this continuation.
        timesteps: The most to play.
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
    """Draws of [0, 1) from raw PCG64, whose stream NumPy promises across versions."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.PCG64(seed)

    def random(self) -> float:
        """The next emulator frame's draw."""
        return int(self._bits.random_raw()) / 2**64


class Luck(NamedTuple):
    """All chance of one continuation."""

    chooser: Chooser
    sticky_rng: StickyDraws


def branch_off(
    console: BranchingAleConsole,
    player: Player,
    luck: Iterable[Luck],
    timesteps: int,
    discount: float,
) -> list[Continuation]:
    """Continues once with every luck from one state, and goes back to it.

    Args:
        console: The player's own.
        player: Stands in the state.
        luck: One per continuation.
        timesteps: The most to play, each time.
        discount: Weight of the next timestep's reward.
    """
    branch, memory, sticky_rng = console.save(), player.save(), console.sticky_rng
    continuations = []
    for chooser, console.sticky_rng in luck:
        continuations.append(play_on(player, chooser, timesteps, discount))
        console.go_back(branch)
        player.go_back(memory)
    console.sticky_rng = sticky_rng
    return continuations


class RetracedVisit:
    """A visit of a run, played again by its actions, that can be branched off from."""

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
        self._foresee()

    def _foresee(self) -> None:
        """Reads what the original will draw, up to the next reset."""
        self.console.sticky_rng = AleDraws(self._original.serialize_state())

    def play(self, action: int) -> float:
        """Plays the next recorded timestep.

        Returns:
            The game's reward.

        Raises:
            ConsoleError: The two emulators do not do the same.
        """
        expected_reward, expected_over, _ = self._original.step(action)
        found = self.player.play(action)
        if expected_over:
            self._original.reset()
            self._foresee()
        is_same = found == (expected_reward, expected_over)
        if not is_same or self.console.ram() != self._original.ram():
            raise self._differs("reward, end or memory")
        self.timestep += 1
        return expected_reward

    def _differs(self, what: str) -> ConsoleError:
        return ConsoleError(
            f"{self._place}, timestep {self.timestep}: expected the {what} of an "
            "emulator that draws its own stickiness, found another in the one that "
            f"is given the same draws; ale-py {ALE_VERSION} draws in another way"
        )

    def check_state(self) -> None:
        """Compares all that the emulators hold, their generators included.

        Raises:
            ConsoleError: This is not the recorded state, to the last bit.
        """
        if self.console.serialize_state() != self._original.serialize_state():
            raise self._differs("whole state")

    def branch_off(
        self, luck: Iterable[Luck], timesteps: int, discount: float
    ) -> list[Continuation]:
        """Continues from the recorded state, once with every luck."""
        self.check_state()
        return branch_off(self.console, self.player, luck, timesteps, discount)


def draw_luck(policy: FixedPolicy, seeds: ContinuationSeeds) -> Luck:
    """The luck of one continuation of a policy."""
    return Luck(Chooser(policy, seeds.exploration), RawDraws(seeds.stickiness))
