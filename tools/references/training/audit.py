"""Compares reference values with many continuations of the same states.

The states come from visits that are used only for the audit. From each state the policy
continues many times with other random draws (sticky actions and exploration), to the
end of the game or for 1,000 timesteps. The mean discounted return is an unbiased
measurement of the value, with a known sampling error. Measurements do not depend on the
values, so refitted values need no new measurement.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from longplay.reference.facts import AuditedState
from longplay.reference.policy import Chooser, FixedPolicy, ValueFunction
from longplay.reference.ram import RamPair
from references.branching import BranchingAleConsole
from references.continuations import Player, RandomDraws, branch_off
from references.training.frozen_play import draw_seeds
from references.training.play import FRAME_SKIP
from references.training.returns import HORIZON_TIMESTEPS

_PURPOSE = 104

Reals = NDArray[np.float64]


class MeasuredState(BaseModel):
    """One state, given by its memory pair in hex, and its measured returns."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    visit: int
    timestep: int
    pair: str
    mean_return: float
    sampling_variance: float
    continuations: int

    def compare(self, values: ValueFunction) -> AuditedState:
        """Adds the value to the measurement."""
        pair: RamPair = np.frombuffer(bytes.fromhex(self.pair), np.uint8)
        measured = self.model_dump(exclude={"pair"})
        return AuditedState(value=float(values.evaluate(pair)), **measured)


class Auditor:
    """Plays audit visits of one game and branches at some of their states."""

    def __init__(
        self,
        game_id: str,
        policy: FixedPolicy,
        *,
        sticky: float,
        discount: float,
        continuations: int,
    ) -> None:
        self._game_id, self._policy = game_id, policy
        self._sticky, self._discount = sticky, discount
        self._continuations = continuations

    def measure_visit(
        self, visit: int, timesteps: int, states: int
    ) -> list[MeasuredState]:
        """Measures the values of states at random timesteps of one visit."""
        emulator_seed, policy_seed, choice_seed, draws_seed = draw_seeds(
            _PURPOSE, visit, 4
        )
        chosen = np.random.default_rng(choice_seed).choice(
            timesteps, states, replace=False
        )
        seeds = np.random.SeedSequence(draws_seed)
        console = BranchingAleConsole(
            sticky=self._sticky, full_action_space=True, frame_skip=FRAME_SKIP
        )
        player = Player(console, self._game_id, emulator_seed)
        chooser = Chooser(self._policy, policy_seed)
        measured = []
        for timestep in range(int(chosen.max()) + 1):
            if timestep in chosen:
                returns = self._measure(console, player, seeds)
                measured.append(_describe(visit, timestep, player.pair, returns))
            player.play(chooser.choose(player.pair))
        return measured

    def _measure(
        self,
        console: BranchingAleConsole,
        player: Player,
        seeds: np.random.SeedSequence,
    ) -> Reals:
        continuations = branch_off(
            console,
            player,
            map(self._make_draws, seeds.spawn(self._continuations)),
            HORIZON_TIMESTEPS,
            self._discount,
        )
        return np.array([played.discounted_reward for played in continuations])

    def _make_draws(self, seeds: np.random.SeedSequence) -> RandomDraws:
        policy_seed, sticky_seed = seeds.generate_state(2).tolist()
        chooser = Chooser(self._policy, policy_seed)
        return RandomDraws(chooser, np.random.default_rng(sticky_seed))


def _describe(
    visit: int, timestep: int, pair: RamPair, returns: Reals
) -> MeasuredState:
    return MeasuredState(
        visit=visit,
        timestep=timestep,
        pair=pair.tobytes().hex(),
        mean_return=float(returns.mean()),
        sampling_variance=float(returns.var(ddof=1) / len(returns)),
        continuations=len(returns),
    )
