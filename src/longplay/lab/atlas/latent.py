"""Entries of M[agent, task] -> latent abilities, difficulties and factors.

Pure functions of arrays: entry k is `value[k]` of agent `agent[k]` on task `task[k]`.

Two models. Rasch: P(success) = 1 / (1 + exp(difficulty - ability)). Low rank: a
standardised reward is the sum of an agent's offset, a task's offset and the product of
their factors. Written on NumPy: item-response packages want a dense matrix or a deep
learning framework, and a solver for millions of sparse entries is a dozen lines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]
Reals = NDArray[np.float64]

# A weak normal prior on abilities and difficulties: an agent that always succeeds has
# a finite ability. In logits; ±9 covers three of these.
_PRIOR_SD = 3.0
_TOLERANCE = 1e-6
_MOST_ROUNDS = 1000
# Up to this many parameters their whole covariance matrix is computed.
_MOST_EXACT = 2000

# Of the factors and offsets, which have about unit size.
_RIDGE = 1.0
_FACTOR_ROUNDS = 20
HELD_OUT_SHARE = 0.1
_FEWEST_HELD_OUT = 10


@dataclass(frozen=True)
class Rasch:
    """A fitted Rasch model; NaN for an agent or task without entries.

    Attributes:
        ability: (agents,) in logits, relative to the mean difficulty.
        ability_se: (agents,) standard errors.
        difficulty: (tasks,) with mean 0.
        difficulty_se: (tasks,) standard errors.
        converged: Whether the last round changed nothing any more.
    """

    ability: Reals
    ability_se: Reals
    difficulty: Reals
    difficulty_se: Reals
    converged: bool


def fit_rasch(agent: Ints, task: Ints, success: Reals, shape: tuple[int, int]) -> Rasch:
    """Fits abilities and difficulties by maximum a posteriori.

    Newton steps alternate between abilities and difficulties; each round then moves
    all of them along the one direction that the data cannot tell, to the optimum of
    the prior.

    Args:
        agent: (n,) agent of each entry.
        task: (n,) task of each entry.
        success: (n,) 0 or 1, or the share of successes.
        shape: Number of agents and tasks.
    """
    agents, tasks = np.unique(agent), np.unique(task)
    ability, difficulty = np.zeros(shape[0]), np.zeros(shape[1])
    converged = False
    for _ in range(_MOST_ROUNDS):
        before = np.concatenate([ability, difficulty])
        ability += _newton_step(agent, task, success, ability, difficulty)
        difficulty += _newton_step(task, agent, 1 - success, difficulty, ability)
        shift = (ability.sum() + difficulty.sum()) / (len(agents) + len(tasks))
        ability[agents] -= shift
        difficulty[tasks] -= shift
        change = np.abs(np.concatenate([ability, difficulty]) - before).max()
        if converged := bool(change < _TOLERANCE):
            break
    ability_se, difficulty_se = _standard_errors(agent, task, ability, difficulty)
    centre = difficulty[tasks].mean()
    return Rasch(
        _keep(ability - centre, agents),
        _keep(ability_se, agents),
        _keep(difficulty - centre, tasks),
        _keep(difficulty_se, tasks),
        converged,
    )


def _newton_step(
    index: Ints, other: Ints, success: Reals, own: Reals, others: Reals
) -> Reals:
    """The step of one side's parameters, given the other side's."""
    chance = _chance(own[index] - others[other])
    slope = _total(index, success - chance, len(own)) - own / _PRIOR_SD**2
    step: Reals = slope / _information(index, chance, len(own))
    return np.clip(step, -1.0, 1.0)


def _chance(logit: Reals) -> Reals:
    return 1.0 / (1.0 + np.exp(-logit))


def _information(index: Ints, chance: Reals, count: int) -> Reals:
    """The curvature of the log posterior in each parameter of one side."""
    return _total(index, chance * (1 - chance), count) + 1 / _PRIOR_SD**2


def _standard_errors(
    agent: Ints, task: Ints, ability: Reals, difficulty: Reals
) -> tuple[Reals, Reals]:
    """Standard errors of abilities and difficulties relative to the mean difficulty.

    With many parameters each is treated as if the others were known: it is then
    estimated from many entries, and the errors of the others add little to its own.
    """
    chance = _chance(ability[agent] - difficulty[task])
    own = _information(agent, chance, len(ability))
    others = _information(task, chance, len(difficulty))
    agents, tasks = np.unique(agent), np.unique(task)
    if len(agents) + len(tasks) > _MOST_EXACT:
        return 1 / np.sqrt(own), 1 / np.sqrt(others)
    joint = np.zeros((len(ability), len(difficulty)))
    np.add.at(joint, (agent, task), chance * (1 - chance))
    joint = joint[np.ix_(agents, tasks)]
    curvature = np.block(
        [[np.diag(own[agents]), -joint], [-joint.T, np.diag(others[tasks])]]
    )
    variance = _centred_variance(np.linalg.inv(curvature), len(agents))
    own[agents], others[tasks] = variance[: len(agents)], variance[len(agents) :]
    return np.sqrt(own), np.sqrt(others)


def _centred_variance(covariance: Reals, start: int) -> Reals:
    """Variances of x - mean(x[start:])."""
    with_mean = covariance[:, start:].mean(axis=1)
    variance: Reals = np.diag(covariance) - 2 * with_mean + with_mean[start:].mean()
    return variance


def _total(index: Ints, values: Reals, count: int) -> Reals:
    """Sums of the values of each index."""
    return np.bincount(index, values, count).astype(np.float64, copy=False)


def _keep(values: Reals, positions: Ints) -> Reals:
    """The values at some positions, NaN elsewhere."""
    kept = np.full(len(values), np.nan)
    kept[positions] = values[positions]
    return kept


# --- standardised rewards -----------------------------------------------------------


@dataclass(frozen=True)
class Scale:
    """Mean and deviation of a task's rewards over agents; NaN where they are equal."""

    mean: Reals
    deviation: Reals

    @classmethod
    def of(cls, task: Ints, reward: Reals, tasks: int) -> Scale:
        """The scale of each task that has two different rewards or more."""
        count = np.bincount(task, minlength=tasks)
        with np.errstate(invalid="ignore"):
            mean = np.bincount(task, reward, tasks) / count
            square = np.bincount(task, (reward - mean[task]) ** 2, tasks) / count
        # Equal rewards differ by rounding alone.
        is_flat = ~(square > (1e-9 * np.abs(mean)) ** 2)
        return cls(mean, np.where(is_flat, np.nan, np.sqrt(square)))

    def standardise(self, task: Ints, reward: Reals) -> Reals:
        """Rewards with mean 0 and deviation 1 within each task."""
        return (reward - self.mean[task]) / self.deviation[task]


@dataclass(frozen=True)
class Factors:
    """A low-rank model; column 0 is the offset, the others are factors.

    Attributes:
        agent: (agents, 1 + rank).
        task: (tasks, 1 + rank).
    """

    agent: Reals
    task: Reals

    def predict(self, agent: Ints, task: Ints) -> Reals:
        """Standardised rewards."""
        own, others = self.agent[agent], self.task[task]
        product: Reals = np.einsum("nk,nk->n", own[:, 1:], others[:, 1:])
        return own[:, 0] + others[:, 0] + product


def fit_factors(
    agent: Ints, task: Ints, z: Reals, shape: tuple[int, int], rank: int
) -> Factors:
    """Fits a low-rank model by alternating ridge regressions."""
    rng = np.random.default_rng(0)
    tasks = np.zeros((shape[1], 1 + rank))
    tasks[:, 1:] = rng.normal(size=(shape[1], rank))
    for _ in range(_FACTOR_ROUNDS):
        agents = _regress(agent, tasks[task], z, shape[0])
        tasks = _regress(task, agents[agent], z, shape[1])
    return Factors(agents, tasks)


def _regress(index: Ints, others: Reals, z: Reals, count: int) -> Reals:
    """Offset and factors of one side, given those of the other side.

    Args:
        index: (n,) whose parameters each entry informs.
        others: (n, 1 + rank) offset and factors of the other side.
        z: (n,) what their sum should be.
        count: Number of parameter sets.
    """
    size = others.shape[1]
    features = [np.ones(len(z)), *others[:, 1:].T]
    target = z - others[:, 0]
    moments = np.empty((count, size, size))
    totals = np.empty((count, size, 1))
    for i in range(size):
        totals[:, i, 0] = np.bincount(index, features[i] * target, count)
        for j in range(i + 1):
            moment = np.bincount(index, features[i] * features[j], count)
            moments[:, i, j] = moments[:, j, i] = moment
    solved = np.linalg.solve(moments + _RIDGE * np.eye(size), totals)
    return np.asarray(solved[:, :, 0], np.float64)


@dataclass(frozen=True)
class HeldOut:
    """Errors on entries that were not fitted, in standard deviations of a task.

    Attributes:
        entries: Their number.
        model: Root mean square error of the low-rank model.
        baseline: The same of row mean + column mean - mean.
    """

    entries: int
    model: float
    baseline: float


def measure_held_out(
    agent: Ints, task: Ints, reward: Reals, shape: tuple[int, int], rank: int
) -> HeldOut | None:
    """Fits nine tenths of the entries and predicts the rest.

    Rewards are standardised by the entries that are fitted.

    Returns:
        None if fewer than ten entries can be predicted.
    """
    is_test = np.random.default_rng(0).random(len(reward)) < HELD_OUT_SHARE
    scale = Scale.of(task[~is_test], reward[~is_test], shape[1])
    z = scale.standardise(task, reward)
    train = ~is_test & np.isfinite(z)
    is_known = np.bincount(agent[train], minlength=shape[0]) > 0
    test = is_test & np.isfinite(z) & is_known[agent]
    if test.sum() < _FEWEST_HELD_OUT:
        return None
    factors = fit_factors(agent[train], task[train], z[train], shape, rank)
    row, column = (
        np.bincount(index[train], z[train], count)
        / np.maximum(1, np.bincount(index[train], minlength=count))
        for index, count in ((agent, shape[0]), (task, shape[1]))
    )
    baseline = row[agent[test]] + column[task[test]] - z[train].mean()
    return HeldOut(
        int(test.sum()),
        _rms(z[test] - factors.predict(agent[test], task[test])),
        _rms(z[test] - baseline),
    )


def _rms(errors: Reals) -> float:
    return float(np.sqrt(np.mean(errors**2)))
