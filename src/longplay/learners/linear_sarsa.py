"""Linear expected Sarsa(λ) on coarse colours, with NumPy only.

    longplay run control-v1 --agent linear-sarsa --seed 1000

Van Seijen et al. (2009), "A Theoretical and Empirical Analysis of Expected Sarsa", have
a table and single steps. What differs from the paper:

    values        linear in features weighted by their rarity (`features`), and sums of
                  parts that actions share (`action_parts`)
    traces        replacing (Sutton and Barto, 2018, chapter 12.7), not cut by exploring
                  actions; a step is divided by the trace's squared length
    exploration   a bandit sets its rate, and exploring actions are held (`exploring`);
                  what is learned are values of nearly greedy play, the lowest rate
    rewards       scaled (`reward_scale`)
    ends          the end of a visit ends an episode: another game follows
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.action_parts import ActionParts
from longplay.learners.parts.exploring import Explorer
from longplay.learners.parts.features import (
    FEATURES,
    Active,
    BlockFeatures,
    Floats,
    Observation,
    Rarity,
)
from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.reward_scale import RewardScale
from longplay.learners.parts.state_files import load_state, save_state

REVISION = 1


@dataclass
class State:
    """The state of the agent between decisions."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "weights",
        "traces",
        "explorer",
        "rewards",
        "value",
        "active",
        "sizes",
        "rarity",
        "decisions",
    )

    arguments: dict[str, Any]
    step_size: float
    discount: float
    trace_decay: float
    # Size of the feature that is always active: what an action is worth anywhere is
    # learned faster than what it is worth here.
    bias: float
    find_features: BlockFeatures
    rarity: Rarity
    parts: ActionParts
    # (part, feature), the bias last.
    weights: Floats
    traces: Floats
    explorer: Explorer
    rewards: RewardScale
    # Of the action chosen last: its value, and the features it was chosen at.
    value: float = 0.0
    active: Active = field(default_factory=lambda: np.zeros(0, np.int64))
    sizes: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    decisions: int = 0


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    num_actions: int,
    seed: int,
    *,
    step_size: float = 0.2,
    discount: float = 0.9,
    trace_decay: float = 0.8,
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
    shape = (parts.count, FEATURES + 1)
    rng = np.random.default_rng(seed)
    return State(
        arguments=arguments,
        step_size=step_size,
        discount=discount,
        trace_decay=trace_decay,
        bias=bias,
        find_features=BlockFeatures(observation_shape),
        rarity=Rarity(horizon),
        parts=parts,
        weights=np.zeros(shape, np.float32),
        traces=np.zeros(shape, np.float32),
        explorer=Explorer(num_actions, rng, epsilons, block_decisions),
        rewards=RewardScale(discount, horizon),
    )


def restart(state: State) -> None:
    """Nothing precedes the next observation."""
    state.traces[:] = 0.0
    state.active, state.sizes = state.active[:0], state.sizes[:0]
    state.explorer.restart()


@switch_memory(restart)
def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, int, dict[str, float]]:
    """Learns from the transition that ended here, and chooses the next action."""
    is_over = info["terminated"] or info["truncated"]
    if info["truncated"]:
        state.rarity.restart()
    active = state.find_features(previous_observation, observation)
    sizes = state.rarity.weigh(active)
    last_action = state.explorer.action
    state.explorer.observe(reward, info["truncated"])
    values = find_values(state, active, sizes)
    action = state.explorer.choose(values)
    error = 0.0
    if len(state.active):
        target = state.rewards(reward, is_over)
        if not is_over:
            target += state.discount * state.explorer.expect(values)
        error = learn(state, last_action, target)
    if is_over:
        state.traces[:] = 0.0
    state.active, state.sizes = active, sizes
    state.value = float(find_values(state, active, sizes)[action])
    state.decisions += 1
    return state, action, measure(state, error)


def find_values(state: State, active: Active, sizes: Floats) -> Floats:
    """The value of each action, given active features and their sizes."""
    weights = state.weights
    of_parts = weights[:, active] @ sizes + np.float32(state.bias) * weights[:, -1]
    return state.parts.add_up(of_parts)


def learn(state: State, action: int, target: float) -> float:
    """Moves the value of an action, and of those before it, towards a target."""
    error = target - state.value
    parts = state.parts.of_action[action]
    state.traces *= np.float32(state.discount * state.trace_decay)
    state.traces[parts[:, None], state.active] = state.sizes
    state.traces[parts, -1] = state.bias
    # Over the squared length of the trace: no value that it is made of overshoots.
    length = float(np.vdot(state.traces, state.traces))
    state.weights += np.float32(state.step_size * error / length) * state.traces
    return error


def measure(state: State, error: float) -> dict[str, float]:
    """Metrics of the agent."""
    return {
        "squared_td_error": error * error,
        "value": state.value,
        "epsilon": state.explorer.bandit.rate,
        "active_features": float(len(state.active)),
    }


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
