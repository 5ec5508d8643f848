"""Stream Q(λ): a deep network that learns from each transition once, as it comes.

    longplay run control-v1 --agent stream-q --seed 1000

Elsayed, Vasan and Mahmood (2024), "Streaming Deep Reinforcement Learning Finally
Works", arXiv 2410.14606: no replay, no batches, no target network. What makes it stable
is a sparse initialisation, layer normalisation, running scales of observations and
rewards, and a step size that cannot overshoot. What differs from the paper by default:

    exploration   a bandit sets ε in place of a schedule, and exploring actions are held
                  (`exploring`): a stream of games has no known end
    values        sums of parts that actions share (`action_parts`)
    traces        not cut after an exploring action (`cut_traces`)
    discount      0.95, not 0.99
    images        42 × 42 and a smaller network, not 84 × 84 (`size`)
    pixels        scaled once, when a frame arrives, with deviations of at least 0.02,
                  and clipped at ±5 (`pixel_scale`)
    scales        follow the last `horizon` decisions, not all; that of pixels restarts
                  with each game, that of rewards does not (`reward_scale`)
    ends          the end of a visit ends an episode: another game follows
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.action_parts import ActionParts
from longplay.learners.parts.exploring import Explorer
from longplay.learners.parts.kernels import Floats
from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.networks import ConvNetwork, NetworkShape, choose_layers
from longplay.learners.parts.obgd import BoundedTraces
from longplay.learners.parts.reward_scale import RewardScale
from longplay.learners.parts.state_files import load_state, save_state
from longplay.learners.parts.vision import Observation, Vision

REVISION = 1

# How often the metrics that take a pass over all weights are measured.
_RARELY = 500


@dataclass
class State:
    """The state of the agent between decisions."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "vision",
        "network",
        "traces",
        "explorer",
        "rewards",
        "value",
        "decisions",
    )

    arguments: dict[str, Any]
    discount: float
    trace_decay: float
    cut_traces: bool
    vision: Vision
    network: ConvNetwork
    parts: ActionParts
    traces: BoundedTraces
    explorer: Explorer
    rewards: RewardScale
    # Of the action chosen last, by the weights it was chosen with.
    value: float = 0.0
    decisions: int = 0


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    num_actions: int,
    seed: int,
    *,
    step_size: float = 1.0,
    kappa: float = 2.0,
    discount: float = 0.95,
    trace_decay: float = 0.8,
    cut_traces: bool = False,
    shared_parts: bool = True,
    sparsity: float = 0.9,
    size: int = 42,
    frames: int = 4,
    hidden: int = 256,
    horizon: int = 10_000,
    epsilons: tuple[float, ...] = (0.03, 0.3, 1.0),
    block_decisions: int = 100,
    memory: str = "carry",
) -> State:
    """Builds the agent; every keyword is a hyper-parameter."""
    arguments = dict(locals())
    check_arguments(arguments)
    rng = np.random.default_rng(seed)
    parts = ActionParts(num_actions, shared_parts)
    image, layers = (size, size, frames), choose_layers(size)
    shape = NetworkShape(image, parts.count, layers, hidden)
    network = ConvNetwork(shape, rng, sparsity)
    return State(
        arguments=arguments,
        discount=discount,
        trace_decay=trace_decay,
        cut_traces=cut_traces,
        vision=Vision(observation_shape, size, frames, horizon),
        network=network,
        parts=parts,
        traces=BoundedTraces(len(network.weights), step_size, kappa),
        explorer=Explorer(num_actions, rng, epsilons, block_decisions),
        rewards=RewardScale(discount, horizon),
    )


def restart(state: State) -> None:
    """Nothing precedes the next observation."""
    state.vision.restart()
    state.traces.decay(0.0)
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
    image, error = observe(state, observation, reward, info)
    action = act(state, image)
    return state, action, measure(state, error)


def observe(
    state: State, observation: Observation, reward: float, info: dict[str, bool]
) -> tuple[Floats, float]:
    """Learns from the transition that ended here; returns the image and the error."""
    is_over = info["terminated"] or info["truncated"]
    has_transition = not state.vision.is_first
    image = state.vision.see(observation, info)
    error = learn(state, image, reward, is_over) if has_transition else 0.0
    state.explorer.observe(reward, info["truncated"])
    return image, error


def find_values(state: State, image: Floats) -> Floats:
    """The value of each action."""
    return state.parts.add_up(state.network.forward(image)[0])


def learn(state: State, image: Floats, reward: float, is_over: bool) -> float:
    """One step of Q-learning along the traces; returns the error."""
    target = state.rewards(reward, is_over)
    if not is_over:
        target += state.discount * float(find_values(state, image).max())
    error = target - state.value
    state.traces.move(state.network.weights, error)
    if is_over:
        state.traces.decay(0.0)
    return error


def act(state: State, image: Floats) -> int:
    """Chooses an action and adds the gradient of its value to the traces."""
    values = find_values(state, image)
    action = state.explorer.choose(values)
    state.value = float(values[action])
    # Watkins: what follows an exploring action does not belong to the greedy policy.
    is_cut = state.cut_traces and not state.explorer.is_greedy
    state.traces.decay(0.0 if is_cut else state.discount * state.trace_decay)
    d_outputs = state.parts.spread(np.array([action]), np.ones(1, np.float32))
    state.network.add_gradient(d_outputs, state.traces.vector)
    state.decisions += 1
    return action


def measure(state: State, error: float) -> dict[str, float]:
    """Metrics of the agent; expensive ones are measured less often."""
    metrics = {
        "squared_td_error": error * error,
        "value": state.value,
        "epsilon": state.explorer.bandit.rate,
    }
    if state.decisions % _RARELY == 0:
        metrics["weight_norm"] = float(np.linalg.norm(state.network.weights))
        metrics["trace_norm"] = float(np.linalg.norm(state.traces.vector))
        metrics["dormant_units"] = state.network.count_dormant()
    return metrics


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
