"""Linear double Q-learning with a replay, on colours and their relative offsets.

    longplay run control-v1 --agent linear-prost --seed 0

Liang, Machado, Talvitie and Bowling (2016), "State of the Art Control of Atari Games
Using Shallow Reinforcement Learning", arXiv 1512.01563: features of pairs of colours,
made by hand, for linear values. What differs from the paper's B-PROST:

    features      blocks of `features`, weighted by their rarity; only the rarest of 8
                  colours form pairs, not all of 128, and time is one decision
    learning      double Q-learning (van Hasselt et al., 2016, arXiv 1509.06461) with
                  n-step returns from a replay of the last decisions, not Sarsa(λ)
    steps         divided by the squared length of the features
    values        sums of parts that actions share (`action_parts`)
    exploration   a bandit sets its rate, and exploring actions are held (`exploring`)
    rewards       scaled (`reward_scale`)
    ends          the end of a visit ends an episode: another game follows
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.action_parts import ActionParts
from longplay.learners.parts.exploring import Explorer
from longplay.learners.parts.features import (
    Active,
    BlockFeatures,
    Floats,
    Observation,
    Rarity,
)
from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.offsets import PAIR_FEATURES, OffsetFeatures
from longplay.learners.parts.reward_scale import RewardScale
from longplay.learners.parts.sparse_replay import (
    Rule,
    SparseReplay,
    find_outputs,
    learn,
)
from longplay.learners.parts.state_files import load_state, save_state

REVISION = 1

# Features of an observation: at most so many blocks, and as many more pairs as fit.
_MOST_BLOCKS = 256
_MOST_FEATURES = 512
# A feature that almost all observations have says little and costs time.
_LEAST_RARITY = 0.05


@dataclass
class State:
    """The state of the agent between decisions."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "rarity",
        "find_pairs",
        "weights",
        "target_weights",
        "replay",
        "explorer",
        "rewards",
        "decisions",
    )

    arguments: dict[str, Any]
    rule: Rule
    # Transitions learned from after each decision, once there are `first_update`.
    samples: int
    first_update: int
    decisions_per_copy: int
    pair_size: float
    find_features: BlockFeatures
    rarity: Rarity
    find_pairs: OffsetFeatures
    parts: ActionParts
    # (feature, part), the bias last.
    weights: Floats
    target_weights: Floats
    replay: SparseReplay
    explorer: Explorer
    rewards: RewardScale
    decisions: int = 0


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    num_actions: int,
    seed: int,
    *,
    step_size: float = 0.1,
    discount: float = 0.95,
    returns: int = 5,
    samples: int = 12,
    first_update: int = 200,
    decisions_per_copy: int = 500,
    capacity: int = 10_000,
    pair_size: float = 0.5,
    bias: float = 3.0,
    horizon: int = 10_000,
    epsilons: tuple[float, ...] = (0.03, 0.3, 1.0),
    block_decisions: int = 100,
    memory: str = "carry",
) -> State:
    """Builds the agent; every keyword is a hyper-parameter."""
    arguments = dict(locals())
    check_arguments(arguments)
    parts = ActionParts(num_actions)
    shape = (PAIR_FEATURES + 1, parts.count)
    rng = np.random.default_rng(seed)
    return State(
        arguments=arguments,
        rule=Rule(float(step_size), float(discount), returns, float(bias)),
        samples=samples,
        first_update=first_update,
        decisions_per_copy=decisions_per_copy,
        pair_size=pair_size,
        find_features=BlockFeatures(observation_shape),
        rarity=Rarity(horizon),
        find_pairs=OffsetFeatures(_MOST_FEATURES),
        parts=parts,
        weights=np.zeros(shape, np.float32),
        target_weights=np.zeros(shape, np.float32),
        replay=SparseReplay(capacity, _MOST_FEATURES, returns),
        explorer=Explorer(num_actions, rng, epsilons, block_decisions),
        rewards=RewardScale(discount, horizon),
    )


def restart(state: State) -> None:
    """Nothing precedes the next observation."""
    state.replay.restart()
    state.find_pairs.restart()
    state.explorer.restart()


@switch_memory(restart)
def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, int, dict[str, float]]:
    """Stores the last transition, chooses an action, and learns from the replay."""
    is_over = info["terminated"] or info["truncated"]
    if state.replay.is_open:
        scaled = state.rewards(reward, is_over)
        state.replay.complete(state.explorer.action, scaled, is_over)
    if info["truncated"]:
        state.rarity.restart()
    if is_over:
        state.find_pairs.restart()
    before = observation if is_over else previous_observation
    state.replay.add(*describe(state, before, observation))
    state.explorer.observe(reward, info["truncated"])
    values = find_values(state)
    action = state.explorer.choose(values)
    state.decisions += 1
    metrics = {
        "value": float(values[action]),
        "epsilon": state.explorer.bandit.rate,
        "active_features": float(state.replay.counts[state.replay.newest]),
    }
    if len(state.replay) >= max(state.first_update, 1):
        metrics["squared_td_error"] = train(state)
    return state, action, metrics


def describe(
    state: State, before: Observation, observation: Observation
) -> tuple[Active, Floats]:
    """The features of an observation and their sizes, the rarest first."""
    active = state.find_features(before, observation)
    rarities = state.rarity.weigh(active)
    order = np.argsort(-rarities, kind="stable")[:_MOST_BLOCKS]
    order = order[rarities[order] >= _LEAST_RARITY]
    active, rarities = active[order], rarities[order]
    pairs = state.find_pairs(active, rarities)[: _MOST_FEATURES - len(active)]
    sizes = np.full(len(pairs), state.pair_size, np.float32)
    return np.concatenate((active, pairs)), np.concatenate((rarities, sizes))


def find_values(state: State) -> Floats:
    """The value of each action at the newest observation of the replay."""
    replay = state.replay
    outputs = find_outputs(state.weights, replay.rows, replay.newest, state.rule.bias)
    return state.parts.add_up(outputs)


def train(state: State) -> float:
    """Learns from drawn transitions; returns the mean squared error."""
    starts = state.replay.draw(state.explorer.rng, state.samples)
    parts, rows = state.parts.of_action, state.replay.rows
    error: float = learn(
        state.weights, state.target_weights, rows, starts, parts, state.rule
    )
    if state.decisions % state.decisions_per_copy == 0:
        state.target_weights[:] = state.weights
    return error


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
