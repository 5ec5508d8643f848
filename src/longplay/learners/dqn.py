"""DQN: a small network that learns from a replay of the last few thousand decisions.

    longplay run control-v1 --agent dqn --seed 1000

Mnih et al. (2015), "Human-level control through deep reinforcement learning", Nature
518, sized for 10,000 decisions per game. What differs from the paper by default:

    targets       double Q-learning (van Hasselt et al., 2016, arXiv 1509.06461) and
                  n-step returns; the target network follows slowly, without copies
    network       images of 42 × 42, fewer units, layer normalisation
    optimiser     Adam, not RMSProp
    discount      0.97, not 0.99
    replay        10,000 decisions, not a million: it forgets the last game within one
                  visit; learning begins after 500, not 50,000
    rewards       scaled (`reward_scale`), not clipped at ±1
    exploration   as in `stream_q`, and so are the parts of values and the ends

`method` adds one for continual learning (`dqn_methods`): rehearsal, ewc, redo or
shrink-perturb.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from longplay.errors import ConfigError
from longplay.learners.parts.action_parts import ActionParts
from longplay.learners.parts.adam import Adam
from longplay.learners.parts.dqn_methods import Method, build_method
from longplay.learners.parts.exploring import Explorer
from longplay.learners.parts.kernels import Floats
from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.networks import ConvNetwork, NetworkShape, choose_layers
from longplay.learners.parts.replay import Batch, Replay, ReplayShape
from longplay.learners.parts.reward_scale import RewardScale
from longplay.learners.parts.state_files import load_state, save_state
from longplay.learners.parts.vision import Observation, Shrinker

REVISION = 1

# How often the metrics that take a pass over all weights are measured.
_RARELY = 500


@dataclass(frozen=True)
class Training:
    """When and how the network is trained."""

    discount: float
    batch_size: int
    decisions_per_update: int
    first_update: int
    target_share: float


@dataclass
class State:
    """The state of the agent between decisions."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "network",
        "target_weights",
        "adam",
        "replay",
        "explorer",
        "rewards",
        "rng",
        "decisions",
        "method",
    )

    arguments: dict[str, Any]
    training: Training
    shrink: Shrinker
    network: ConvNetwork
    target_weights: Floats
    parts: ActionParts
    adam: Adam
    replay: Replay
    explorer: Explorer
    rewards: RewardScale
    rng: np.random.Generator
    method: Method
    decisions: int = 0


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    num_actions: int,
    seed: int,
    *,
    step_size: float = 5e-4,
    discount: float = 0.97,
    returns: int = 5,
    batch_size: int = 32,
    decisions_per_update: int = 4,
    first_update: int = 500,
    target_share: float = 0.01,
    capacity: int = 10_000,
    shared_parts: bool = True,
    size: int = 42,
    frames: int = 4,
    hidden: int = 128,
    horizon: int = 10_000,
    epsilons: tuple[float, ...] = (0.03, 0.3, 1.0),
    block_decisions: int = 100,
    memory: str = "carry",
    method: str = "none",
    strength: float | None = None,
) -> State:
    """Builds the agent; every keyword is a hyper-parameter."""
    arguments = dict(locals())
    check_arguments(arguments)
    rng = np.random.default_rng(seed)
    parts = ActionParts(num_actions, shared_parts)
    image, layers = (size, size, frames), choose_layers(size)
    shape = NetworkShape(image, parts.count, layers, hidden)
    network = ConvNetwork(shape, rng)
    replay = Replay(ReplayShape(capacity, size, frames, returns))
    if replay.shape.transitions < batch_size:
        least = capacity + batch_size - replay.shape.transitions
        raise ConfigError(
            f"capacity: expected at least {least} frames for a batch of {batch_size}, "
            f"found {capacity}"
        )
    return State(
        arguments=arguments,
        training=Training(
            discount, batch_size, decisions_per_update, first_update, target_share
        ),
        shrink=Shrinker(observation_shape, size),
        network=network,
        target_weights=network.weights.copy(),
        parts=parts,
        adam=Adam(len(network.weights), step_size),
        replay=replay,
        explorer=Explorer(num_actions, rng, epsilons, block_decisions),
        rewards=RewardScale(discount, horizon),
        rng=rng,
        method=build_method(method, strength, memory, network, replay),
    )


def restart(state: State) -> None:
    """Nothing precedes the next observation."""
    state.replay.restart()
    state.explorer.restart()


@switch_memory(restart)
def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, int, dict[str, float]]:
    """Stores the last transition, chooses an action, and learns every few decisions."""
    is_over = info["terminated"] or info["truncated"]
    if state.replay.is_open:
        scaled = state.rewards(reward, is_over)
        state.replay.complete(state.explorer.action, scaled, is_over)
    state.replay.add(state.shrink(observation), is_first=is_over)
    state.method.observe(state, state.training.discount, info["truncated"])
    state.explorer.observe(reward, info["truncated"])
    outputs = state.network.forward(state.replay.newest_image())
    values = state.parts.add_up(outputs[0])
    action = state.explorer.choose(values)
    state.decisions += 1
    metrics = {"value": float(values[action]), "epsilon": state.explorer.bandit.rate}
    if is_due(state):
        metrics["loss"] = train(state)
    return state, action, metrics | measure(state)


def is_due(state: State) -> bool:
    """Whether the network is trained after this decision."""
    training = state.training
    return (
        state.decisions >= training.first_update
        and state.decisions % training.decisions_per_update == 0
        and len(state.replay) >= training.batch_size
    )


def train(state: State) -> float:
    """One step of Adam on a batch, then of the target network; returns the loss."""
    training = state.training
    batch = state.method.draw(state, training.batch_size, training.discount)
    targets = find_targets(state, batch)
    outputs = state.network.forward(batch.images)
    values = state.parts.add_up(outputs)[np.arange(len(targets)), batch.actions]
    errors = values - targets
    # The gradient of Huber's loss: squared near 0, absolute from 1 on.
    slopes = np.clip(errors, -1.0, 1.0).astype(np.float32) / np.float32(len(targets))
    gradient = np.zeros_like(state.network.weights)
    d_outputs = state.parts.spread(batch.actions, slopes)
    state.network.add_gradient(d_outputs, gradient)
    state.method.add_gradient(state, gradient)
    state.adam.move(state.network.weights, gradient)
    share = np.float32(training.target_share)
    state.target_weights += share * (state.network.weights - state.target_weights)
    state.method.finish_update(state)
    return float(np.mean(errors * errors))


def find_targets(state: State, batch: Batch) -> Floats:
    """Double Q-learning: the network picks the action, the target network values it."""
    picked = state.parts.add_up(state.network.forward(batch.next_images)).argmax(axis=1)
    outputs = state.network.forward(batch.next_images, state.target_weights)
    values = state.parts.add_up(outputs)[np.arange(len(picked)), picked]
    targets: Floats = batch.rewards + batch.discounts * values
    return targets


def measure(state: State) -> dict[str, float]:
    """Metrics that are measured only every few decisions, since they take longer."""
    if state.decisions % _RARELY:
        return {}
    return {
        "weight_norm": float(np.linalg.norm(state.network.weights)),
        "dormant_units": state.network.count_dormant(),
        **state.method.measure(state),
    }


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
