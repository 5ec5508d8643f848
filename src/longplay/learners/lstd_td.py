"""Least-squares TD(λ) on coarse pixels, motion and times: predicts.

    longplay run prediction-v1 --agent lstd-td --seed 0

Boyan (2002), "Technical Update: Least-Squares Temporal Difference Learning", Machine
Learning 49, solves for the weights that TD(λ) would converge to on what it has seen.
What differs from the paper:

    ridge         added to the diagonal, since there are more features than the first
                  observations can tell apart. Three strengths are solved for; those
                  whose predictions were nearer to the returns that followed have
                  larger shares of a prediction (`RidgeChoice`)
    solutions     every few timesteps, not at the end
    ends          the end of a visit ends an episode: another game follows

Set OMP_NUM_THREADS=1: the last bits of a solution depend on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.state_files import load_state, save_state
from longplay.learners.parts.vision import Observation, Shrinker

REVISION = 1

Doubles = np.ndarray[Any, np.dtype[np.float64]]

# Motion is seen on fine pixels; both are averaged over the coarse ones.
_FINE, _COARSE = 42, 14
# Decay per timestep of three sums of the last rewards.
_DECAYS = np.array([0.8, 0.95, 0.99])
_TIMES = 4
FEATURES = 1 + len(_DECAYS) + _TIMES + 2 * _COARSE**2
# What brings the features to comparable sizes, as the ridge is the same for all.
_REWARD_SCALE, _PIXEL_SCALE, _MOTION_SCALE = 3.0, 3.0, 5.0
# The constant feature has a weak ridge of its own: mean returns are learned first.
_BIAS_RIDGE = 0.5
_RIDGE_FACTORS = np.array([0.25, 1.0, 4.0])
# In the first timesteps, solutions are found this often: there is little to reuse.
_EARLY, _EARLY_TIMESTEPS_PER_UPDATE = 400, 10
# A prediction is compared with at least this many rewards and what is predicted then.
_RETURN_TIMESTEPS = 150
# Comparisons that an average of them reaches back.
_COMPARISONS = 3000
# An error a tenth above the least halves the share of a ridge, nearly.
_SHARPNESS, _LEAST_ERROR = 5.0, 1e-9


@dataclass(frozen=True)
class Rule:
    """Constants of learning."""

    discount: float
    trace_decay: float
    ridges: tuple[float, ...]
    timesteps_per_update: int


class ScreenAndTimes:
    """Observations and rewards -> features."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "reference",
        "last",
        "reward_sums",
        "since_start",
        "since_reward",
    )

    def __init__(self, observation_shape: tuple[int, int, int]) -> None:
        self._shrink = Shrinker(observation_shape, _FINE)
        # The first picture of the game, and the last fine one; empty if there is none.
        self.reference = np.zeros(0)
        self.last = np.zeros((0, _FINE), np.float32)
        self.reward_sums = np.zeros(len(_DECAYS))
        self.since_start = 0
        self.since_reward = 0

    def __call__(self, observation: Observation, reward: float) -> Doubles:
        """The features of an observation, and of the rewards until then."""
        self.reward_sums = _DECAYS * self.reward_sums + reward
        self.since_reward = 0 if reward else self.since_reward + 1
        features = self._describe(self._shrink(observation))
        self.since_start += 1
        return features

    def restart(self) -> None:
        """Nothing precedes the next observation."""
        self.last = self.last[:0]
        self.reward_sums = np.zeros(len(_DECAYS))
        self.since_start = self.since_reward = 0

    def forget_reference(self) -> None:
        """Another game begins."""
        self.reference = self.reference[:0]

    def _describe(self, frame: np.ndarray[Any, np.dtype[np.float32]]) -> Doubles:
        pixels = _average(frame)
        moved = np.abs(frame - self.last) if len(self.last) else np.zeros_like(frame)
        self.last = frame
        if not len(self.reference):
            self.reference = pixels
        return np.concatenate(
            (
                [1.0],
                _REWARD_SCALE * (1.0 - _DECAYS) * self.reward_sums,
                [np.log1p(self.since_start) / 8, np.exp(-self.since_start / 50)],
                np.exp(-self.since_reward / np.array([20.0, 100.0])),
                _PIXEL_SCALE * (pixels - self.reference),
                _MOTION_SCALE * _average(moved),
            )
        )


def _average(frame: np.ndarray[Any, np.dtype[np.float32]]) -> Doubles:
    """The mean of each coarse pixel."""
    side = _FINE // _COARSE
    blocks = frame.reshape(_COARSE, side, _COARSE, side)
    return blocks.mean(axis=(1, 3), dtype=np.float64).ravel()


class LeastSquares:
    """`A` and `b` of least-squares TD(λ), and the weights for each ridge."""

    SAVED: ClassVar[tuple[str, ...]] = (
        *("equations", "traces", "weights"),
        *("new_traces", "new_changes", "new"),
    )

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        # `A`, and `b` as the last column.
        self.equations = np.zeros((FEATURES, FEATURES + 1))
        self.traces = np.zeros(FEATURES)
        self.weights = np.zeros((len(rule.ridges), FEATURES))
        # Transitions since the last solution: one product of matrices adds them all.
        self.new_traces = np.zeros((rule.timesteps_per_update, FEATURES))
        self.new_changes = np.zeros((rule.timesteps_per_update, FEATURES + 1))
        self.new = 0

    def add(self, before: Doubles, after: Doubles, reward: float) -> None:
        """Adds a transition; `after` is 0 at an end."""
        rule = self._rule
        self.traces = rule.discount * rule.trace_decay * self.traces + before
        self.new_traces[self.new] = self.traces
        self.new_changes[self.new, :-1] = before - rule.discount * after
        self.new_changes[self.new, -1] = reward
        self.new += 1

    def solve(self) -> None:
        """Finds the weights from all transitions."""
        traces, changes = self.new_traces[: self.new], self.new_changes[: self.new]
        self.equations += traces.T @ changes
        self.new = 0
        for k, ridge in enumerate(self._rule.ridges):
            diagonal = np.full(FEATURES, ridge)
            diagonal[0] = _BIAS_RIDGE
            matrix = self.equations[:, :-1] + np.diag(diagonal)
            self.weights[k] = np.linalg.solve(matrix, self.equations[:, -1])


class RidgeChoice:
    """The share of each ridge in predictions, by the errors it made."""

    SAVED: ClassVar[tuple[str, ...]] = (
        *("predictions", "rewards", "is_over", "waiting"),
        *("errors", "compared", "shares"),
    )

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        # The last timesteps: predictions, and the reward and the end after them.
        length = _RETURN_TIMESTEPS + rule.timesteps_per_update
        self.predictions = np.zeros((length, len(rule.ridges)))
        self.rewards = np.zeros(length)
        self.is_over = np.zeros(length, np.bool_)
        self.waiting = 0
        # Mean squared difference for each ridge.
        self.errors = np.zeros(len(rule.ridges))
        self.compared = 0
        self.shares = np.full(len(rule.ridges), 1 / len(rule.ridges))

    def add(self, predictions: Doubles, reward: float, is_over: bool) -> None:
        """Adds the predictions of a timestep, and what followed."""
        self.predictions[self.waiting] = predictions
        self.rewards[self.waiting] = reward
        self.is_over[self.waiting] = is_over
        self.waiting += 1

    def compare(self, prediction: float) -> None:
        """Compares those with enough rewards; `prediction`: of what follows now."""
        ready = self.waiting - _RETURN_TIMESTEPS
        if ready <= 0:
            return
        returns = self._find_returns(prediction)[:ready, None]
        means = np.mean((self.predictions[:ready] - returns) ** 2, axis=0)
        self.compared = min(self.compared + ready, _COMPARISONS)
        self.errors += (means - self.errors) * ready / self.compared
        least = max(float(self.errors.min()), _LEAST_ERROR)
        shares = np.exp(-_SHARPNESS * (self.errors - self.errors.min()) / least)
        self.shares = shares / shares.sum()
        for kept in (self.predictions, self.rewards, self.is_over):
            kept[:-ready] = kept[ready:]
        self.waiting -= ready

    def _find_returns(self, prediction: float) -> Doubles:
        returns = np.zeros(self.waiting)
        following = prediction
        for k in range(self.waiting - 1, -1, -1):
            ahead = 0.0 if self.is_over[k] else self._rule.discount * following
            returns[k] = following = self.rewards[k] + ahead
        return returns


@dataclass
class State:
    """The state of the predictor between timesteps."""

    SAVED: ClassVar[tuple[str, ...]] = (
        *("see", "squares", "choice"),
        *("features", "predictions", "timesteps"),
    )

    arguments: dict[str, Any]
    rule: Rule
    see: ScreenAndTimes
    squares: LeastSquares
    choice: RidgeChoice
    # Of the last observation: features, none if nothing precedes the next one, and
    # predictions for each ridge.
    features: Doubles = field(default_factory=lambda: np.zeros(0))
    predictions: Doubles = field(default_factory=lambda: np.zeros(0))
    timesteps: int = 0


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    *,
    discount: float = 0.99,
    trace_decay: float = 0.95,
    ridge: float = 20.0,
    decisions_per_update: int = 50,
    memory: str = "carry",
) -> State:
    """Builds the predictor; every keyword is a hyper-parameter."""
    arguments = dict(locals())
    check_arguments(arguments)
    ridges = tuple(ridge * factor for factor in _RIDGE_FACTORS)
    rule = Rule(discount, trace_decay, ridges, decisions_per_update)
    see = ScreenAndTimes(observation_shape)
    return State(arguments, rule, see, LeastSquares(rule), RidgeChoice(rule))


def restart(state: State) -> None:
    """Nothing precedes the next observation."""
    state.see.restart()
    state.squares.traces[:] = 0.0
    state.features = state.features[:0]


@switch_memory(restart)
def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, float, dict[str, float]]:
    """Learns from the transition that ended here, and predicts what follows."""
    is_over = info["terminated"] or info["truncated"]
    if info["truncated"]:
        state.see.forget_reference()
    if is_over:
        state.see.restart()
    features = state.see(observation, 0.0 if is_over else reward)
    error = 0.0
    if len(state.features):
        error = learn(state, features, reward, is_over)
    state.features = features
    state.predictions = state.squares.weights @ features
    state.timesteps += 1
    shares = state.choice.shares
    metrics = {
        "squared_td_error": error * error,
        "ridge": float(shares @ state.rule.ridges),
    }
    return state, float(shares @ state.predictions), metrics


def learn(state: State, features: Doubles, reward: float, is_over: bool) -> float:
    """Adds a transition, and solves for the weights now and then."""
    squares, choice = state.squares, state.choice
    following = np.zeros(FEATURES) if is_over else features
    value = float(choice.shares @ state.predictions)
    next_value = float(choice.shares @ squares.weights @ following)
    squares.add(state.features, following, reward)
    choice.add(state.predictions, reward, is_over)
    if is_over:
        squares.traces[:] = 0.0
    if is_due(state):
        squares.solve()
        choice.compare(float(choice.shares @ squares.weights @ features))
    return reward + state.rule.discount * next_value - value


def is_due(state: State) -> bool:
    """Whether the weights are solved for after this timestep."""
    new, early = state.squares.new, _EARLY_TIMESTEPS_PER_UPDATE
    is_early = state.timesteps < _EARLY and new >= early
    return is_early or new >= state.rule.timesteps_per_update


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
