"""Reference values held against what happens: many continuations of the same state.

The states come from visits that were played for nothing else. From each the policy
goes on many times, each time with other luck (sticky actions and exploration), to the
end of the game or for 1,000 timesteps; the mean discounted return is an unbiased
measurement of the value, with a known sampling error. Measuring knows nothing of the
values that are held against it, so values fitted again need no new measurement.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from longplay.console.ale import BranchingAleConsole
from longplay.reference.continuations import Luck, Player, branch_off
from longplay.reference.facts import AuditedState
from longplay.reference.policy import Chooser, FixedPolicy
from longplay.reference.ram import RamPair
from longplay.reference.training.frozen_play import draw_seeds
from longplay.reference.training.play import FRAME_SKIP
from longplay.reference.training.returns import HORIZON_TIMESTEPS
from longplay.reference.values import ValueFunction

_PURPOSE = 104

Reals = NDArray[np.float64]


class MeasuredState(BaseModel):
    """One state, by its memory pair in hex, and the returns measured from it."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    visit: int
    timestep: int
    pair: str
    mean_return: float
    sampling_variance: float
    continuations: int

    def judge(self, values: ValueFunction) -> AuditedState:
        """Puts a value beside the measurement."""
        pair: RamPair = np.frombuffer(bytes.fromhex(self.pair), np.uint8)
        measured = self.model_dump(exclude={"pair"})
        return AuditedState(value=float(values.evaluate(pair)), **measured)


class Auditor:
    """Plays audit visits of one game and branches off from some of their states."""

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
        emulator_seed, policy_seed, place_seed, luck_seed = draw_seeds(
            _PURPOSE, visit, 4
        )
        places = np.random.default_rng(place_seed).choice(
            timesteps, states, replace=False
        )
        luck = np.random.SeedSequence(luck_seed)
        console = BranchingAleConsole(
            sticky=self._sticky, full_action_space=True, frame_skip=FRAME_SKIP
        )
        player = Player(console, self._game_id, emulator_seed)
        chooser = Chooser(self._policy, policy_seed)
        measured = []
        for timestep in range(int(places.max()) + 1):
            if timestep in places:
                returns = self._measure(console, player, luck)
                measured.append(_describe(visit, timestep, player.pair, returns))
            player.play(chooser.choose(player.pair))
        return measured

    def _measure(
        self,
        console: BranchingAleConsole,
        player: Player,
        luck: np.random.SeedSequence,
    ) -> Reals:
        continuations = branch_off(
            console,
            player,
            map(self._draw_luck, luck.spawn(self._continuations)),
            HORIZON_TIMESTEPS,
            self._discount,
        )
        return np.array([played.discounted_reward for played in continuations])

    def _draw_luck(self, luck: np.random.SeedSequence) -> Luck:
        policy_seed, sticky_seed = luck.generate_state(2).tolist()
        chooser = Chooser(self._policy, policy_seed)
        return Luck(chooser, np.random.default_rng(sticky_seed))


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
