"""Recorded visits -> rollout values: measured returns of the policy from their states.

From every 40th timestep of a visit the policy continues K times with new random draws,
for h timesteps or to the end of the game; where the game did not end, the return is
bootstrapped with the value network. The state's rollout value is m, the mean of the K
returns; s², their unbiased variance, gives its sampling error.

Some of these states also get much longer continuations with independent draws: the
audit, with which the rollout values and the network are compared.

    WORK/<game>/rollouts/seed-<n>.h<h>.k<K>.safetensors   one visit, measured

The file of a visit is written atomically at its end, so a killed process can be started
again and continues with the first visit that has no file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field
from safetensors.numpy import save

from longplay.contract.files import make_directory, write_document, write_file
from longplay.errors import ConfigError, ConsoleError
from longplay.reference.facts import AuditedState, RolloutAudit, RolloutFacts
from longplay.reference.library import (
    REFERENCE_GAMES,
    Reference,
    hash_references,
    load_reference,
    read_facts,
)
from longplay.reference.rollout_file import (
    ROLLOUT_DTYPES,
    RolloutValues,
    rollouts_name,
)
from longplay.reference.streams import RecordedVisit, find_recorded_visit
from longplay.seeds import emulator_seed
from longplay.suites import REFERENCE_SUITE, PredictionSuite
from references.auditing import bootstrap_r2, summarise
from references.continuations import ReplayedVisit, continuation_seeds, make_draws
from references.training.array_file import read_arrays, write_arrays
from references.workspace import RateTimer, Workspace

# The audit's continuations are numbered from here, so that their draws are independent.
_FIRST_AUDIT_NUMBER = 2**16
_REPORT_S = 10.0

Reals = NDArray[np.float64]


class RolloutPlan(BaseModel):
    """Which states of a visit are measured, with how many and how long continuations.

    Every 12th state is audited too: 21 of a visit, 480 timesteps apart.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    every_timesteps: int = Field(default=40, ge=1)
    continuations: int = Field(default=8, ge=2)
    horizon_timesteps: int = Field(default=100, ge=1)
    audit_every_states: int = Field(default=12, ge=1)
    audit_continuations: int = Field(default=8, ge=2)
    audit_horizon_timesteps: int = Field(default=500, ge=1)

    def is_audited(self, index: int) -> bool:
        """Whether the state with this index is one of the audit's."""
        return index % self.audit_every_states == self.audit_every_states // 2


@dataclass(frozen=True)
class MeasuredVisit:
    """The returns of continuations from n states of one visit, a of them audited.

    Attributes:
        timesteps: (n,) timesteps of the states.
        network_values: (n,) values of the network.
        returns: (n, K) bootstrapped after the horizon.
        audit_timesteps: (a,) timesteps of the audited states.
        audit_returns: (a, continuations) to the end of the game or the audit's
            horizon, without bootstrapping.
    """

    timesteps: NDArray[np.int32]
    network_values: NDArray[np.float32]
    returns: Reals
    audit_timesteps: NDArray[np.int32]
    audit_returns: Reals


class StateMeasurer:
    """Measures the states of one recorded visit, in order."""

    def __init__(
        self, game_id: str, seed: int, reference: Reference, recorded: RecordedVisit
    ) -> None:
        suite = REFERENCE_SUITE
        assert isinstance(suite, PredictionSuite)
        self._seed, self._visit_idx = seed, suite.games.index(game_id)
        self._reference, self._recorded = reference, recorded
        self._discount = suite.discount
        self._visit = ReplayedVisit(
            game_id,
            emulator_seed(seed, self._visit_idx),
            sticky=suite.sticky,
            frame_skip=suite.frame_skip,
        )

    def move_to(self, timestep: int) -> None:
        """Plays the recorded visit up to a timestep."""
        recorded = self._recorded
        while self._visit.timestep < timestep:
            at = self._visit.timestep
            reward = np.sign(self._visit.play(int(recorded.actions[at])))
            if reward != recorded.rewards[at]:
                raise ConsoleError(
                    f"seed {self._seed}, timestep {at}: expected the recorded reward "
                    f"{recorded.rewards[at]}, found {reward:g}; run `longplay doctor` "
                    "to check that the emulator version is the recorded one"
                )

    def measure(
        self, numbers: Iterable[int], timesteps: int, *, is_bootstrapped: bool
    ) -> list[float]:
        """The returns of the continuations with these numbers."""
        policy, values = self._reference.policy, self._reference.values
        key = self._seed, self._visit_idx, self._visit.timestep
        draws = (make_draws(policy, continuation_seeds(*key, n)) for n in numbers)
        played = self._visit.branch_off(draws, timesteps, self._discount)
        if is_bootstrapped:
            return [continuation.bootstrap(values) for continuation in played]
        return [continuation.discounted_reward for continuation in played]


def measure_visit(
    game_id: str,
    seed: int,
    plan: RolloutPlan,
    data: Path | None = None,
    report: Callable[[int], None] = lambda states: None,
) -> MeasuredVisit:
    """Measures the states of one recorded visit.

    Args:
        game_id: One of the track's games.
        seed: The run seed; its visit must have been recorded.
        plan: Which states, and how.
        data: Folder of reference and recording; the installed ones if None.
        report: Called with the number of states done.

    Raises:
        ConfigError: The visit was not recorded.
        ConsoleError: The replay does not match the recording.
    """
    recorded = _find_recording(game_id, seed, data)
    measurer = StateMeasurer(game_id, seed, load_reference(game_id, data), recorded)
    timesteps = np.arange(0, len(recorded), plan.every_timesteps, dtype=np.int32)
    audited = [plan.is_audited(index) for index in range(len(timesteps))]
    numbers = range(plan.continuations)
    audit_numbers = range(
        _FIRST_AUDIT_NUMBER, _FIRST_AUDIT_NUMBER + plan.audit_continuations
    )
    returns, audit_returns = [], []
    for index, timestep in enumerate(timesteps.tolist()):
        measurer.move_to(timestep)
        horizon = plan.horizon_timesteps
        returns.append(measurer.measure(numbers, horizon, is_bootstrapped=True))
        if audited[index]:
            horizon = plan.audit_horizon_timesteps
            audit_returns.append(
                measurer.measure(audit_numbers, horizon, is_bootstrapped=False)
            )
        report(index + 1)
    return MeasuredVisit(
        timesteps=timesteps,
        network_values=recorded.values[timesteps],
        returns=np.array(returns),
        audit_timesteps=timesteps[audited],
        audit_returns=np.array(audit_returns),
    )


def _find_recording(game_id: str, seed: int, data: Path | None) -> RecordedVisit:
    recorded = find_recorded_visit(game_id, seed, REFERENCE_GAMES.index(game_id), data)
    if recorded is None:
        raise ConfigError(
            f"{game_id}: expected a recorded visit of seed {seed}, found none; run "
            f"`python -m references record --game {game_id}` with this seed first"
        )
    return recorded


class RolloutWork:
    """The measured visits of one game, in its folder."""

    def __init__(self, place: Workspace, plan: RolloutPlan, data: Path | None) -> None:
        self._place, self._plan, self._data = place, plan, data
        self._facts = {
            "plan": plan.model_dump(),
            "reference_sha256": hash_references([place.game_id], data),
        }
        make_directory(place.path("rollouts"), exist_ok=True)

    def _path(self, seed: int) -> Path:
        plan = self._plan
        name = f"seed-{seed}.h{plan.horizon_timesteps}.k{plan.continuations}"
        return self._place.path(f"rollouts/{name}.safetensors")

    def measure(self, seed: int) -> MeasuredVisit:
        """The measured visit of a seed, from its file or measured now.

        Raises:
            ConfigError: The file was measured with another plan or reference.
        """
        path = self._path(seed)
        if not path.exists():
            visit = self._measure_now(seed)
            write_arrays(path, asdict(visit), self._facts)
        arrays, facts = read_arrays(path)
        if facts != self._facts:
            raise ConfigError(
                f"{path}: expected rollouts of {self._facts}, found {facts}; "
                "move the file away to measure again"
            )
        return MeasuredVisit(**arrays)

    def _measure_now(self, seed: int) -> MeasuredVisit:
        timer, place = RateTimer(_REPORT_S), self._place

        def report(states: int) -> None:
            if timer.is_due():
                per_minute = 60 * timer.rate(1000 * states) / 1000
                rate = f"{per_minute:.0f} a minute"
                place.report("rollouts", seed=seed, states=states, rate=rate)

        return measure_visit(place.game_id, seed, self._plan, self._data, report)


def summarise_visits(visits: Mapping[int, MeasuredVisit]) -> dict[int, RolloutValues]:
    """Seed -> the rollout values of its visit."""
    return {
        seed: RolloutValues(
            visit.timesteps,
            visit.returns.mean(axis=1).astype(np.float32),
            visit.returns.var(axis=1, ddof=1).astype(np.float32),
            visit.returns.shape[1],
        )
        for seed, visit in visits.items()
    }


def audit_visits(
    visits: Mapping[int, MeasuredVisit], plan: RolloutPlan
) -> RolloutAudit:
    """Compares rollout values and network with longer continuations."""
    if not all(len(visit.audit_timesteps) for visit in visits.values()):
        raise ConfigError(
            f"expected audited states in every visit, found a visit without: every "
            f"{plan.audit_every_states}th measured state is audited; measure more"
        )
    measured = summarise_visits(visits)
    rollouts = [
        state
        for seed, visit in visits.items()
        for state in _audit(seed, visit, measured[seed].mean)
    ]
    network = [
        state
        for seed, visit in visits.items()
        for state in _audit(seed, visit, visit.network_values)
    ]
    summary = summarise(rollouts)
    return RolloutAudit(
        states=summary.states,
        continuations=summary.continuations,
        horizon_timesteps=plan.audit_horizon_timesteps,
        bias=summary.bias,
        rmse_corrected=summary.rmse_corrected,
        network=bootstrap_r2(network),
        **bootstrap_r2(rollouts).model_dump(),
    )


def _audit(
    seed: int, visit: MeasuredVisit, values: NDArray[np.float32]
) -> Iterator[AuditedState]:
    """The audited states with their values and measured returns."""
    places = np.searchsorted(visit.timesteps, visit.audit_timesteps)
    for place, returns in zip(places, visit.audit_returns, strict=True):
        yield AuditedState(
            visit=seed,
            timestep=int(visit.timesteps[place]),
            value=float(values[place]),
            mean_return=float(returns.mean()),
            sampling_variance=float(returns.var(ddof=1) / len(returns)),
            continuations=len(returns),
        )


def render_rollouts(visits: Mapping[int, RolloutValues], horizon: int) -> bytes:
    """The content of a game's file: one visit per seed, all with the same K and h."""
    (continuations,) = {visit.continuations for visit in visits.values()}
    arrays = {
        f"seed-{seed}.{name}": np.ascontiguousarray(getattr(visit, name), dtype)
        for seed, visit in visits.items()
        for name, dtype in ROLLOUT_DTYPES.items()
    }
    plan = {"continuations": continuations, "horizon": horizon}
    return save(arrays | {name: np.array([n], np.int32) for name, n in plan.items()})


def write_rollouts(
    folder: Path, game_id: str, content: bytes, rollouts: RolloutFacts
) -> None:
    """Writes a game's file and adds it to the game's facts."""
    facts = read_facts(game_id, folder).model_copy(update={"rollouts": rollouts})
    write_file(folder / rollouts_name(game_id), content)
    write_document(folder / f"{game_id}.json", facts)


def hash_content(content: bytes) -> str:
    """SHA-256 of a file's content."""
    return hashlib.sha256(content).hexdigest()


def ship_rollouts(
    game_id: str, visits: Mapping[int, MeasuredVisit], plan: RolloutPlan, data: Path
) -> RolloutFacts:
    """Writes the rollout values of a game next to its reference, and their facts."""
    content = render_rollouts(summarise_visits(visits), plan.horizon_timesteps)
    facts = RolloutFacts(
        rollouts_sha256=hash_content(content),
        reference_sha256=hash_references([game_id], data),
        visit_idx=REFERENCE_GAMES.index(game_id),
        visit_timesteps=len(_find_recording(game_id, min(visits), data)),
        every_timesteps=plan.every_timesteps,
        seeds=tuple(visits),
        continuations=plan.continuations,
        horizon_timesteps=plan.horizon_timesteps,
        audit=audit_visits(visits, plan),
    )
    write_rollouts(data, game_id, content, facts)
    return facts
