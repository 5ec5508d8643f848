"""Stream TD(λ): a deep network that predicts, learning from each transition once.

    longplay run prediction-v1 --agent stream-td --seed 1000

Elsayed, Vasan and Mahmood (2024), "Streaming Deep Reinforcement Learning Finally
Works", arXiv 2410.14606. What differs from the paper: pixels, scales and ends, as in
`stream_q`, and `kappa`, 0.5 in place of 2. Rewards of prediction suites are signs, so
they are not scaled: a running scale would move every prediction when it changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from longplay.learners.parts.kernels import Floats
from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.networks import ConvNetwork, NetworkShape, choose_layers
from longplay.learners.parts.obgd import BoundedTraces
from longplay.learners.parts.state_files import load_state, save_state
from longplay.learners.parts.vision import Observation, Vision

REVISION = 1

# How often the metrics that take a pass over all weights are measured.
_RARELY = 500


@dataclass
class State:
    """The state of the predictor between timesteps."""

    SAVED: ClassVar[tuple[str, ...]] = (
        "vision",
        "network",
        "traces",
        "value",
        "timesteps",
    )

    arguments: dict[str, Any]
    discount: float
    trace_decay: float
    vision: Vision
    network: ConvNetwork
    traces: BoundedTraces
    # Of the last observation, by the weights it was predicted with.
    value: float = 0.0
    timesteps: int = 0


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    seed: int,
    *,
    step_size: float = 1.0,
    kappa: float = 0.5,
    discount: float = 0.99,
    trace_decay: float = 0.95,
    sparsity: float = 0.9,
    size: int = 84,
    frames: int = 4,
    hidden: int = 256,
    horizon: int = 10_000,
    memory: str = "carry",
) -> State:
    """Builds the predictor; every keyword is a hyper-parameter."""
    arguments = dict(locals())
    check_arguments(arguments)
    shape = NetworkShape((size, size, frames), 1, choose_layers(size), hidden)
    network = ConvNetwork(shape, seed, sparsity)
    return State(
        arguments=arguments,
        discount=discount,
        trace_decay=trace_decay,
        vision=Vision(observation_shape, size, frames, horizon),
        network=network,
        traces=BoundedTraces(len(network.weights), step_size, kappa),
    )


def restart(state: State) -> None:
    """Nothing precedes the next observation."""
    state.vision.restart()
    state.traces.decay(0.0)


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
    has_transition = not state.vision.is_first
    image = state.vision.see(observation, info)
    error = learn(state, image, reward, is_over) if has_transition else 0.0
    predict(state, image)
    state.timesteps += 1
    return state, state.value, measure(state, error)


def learn(state: State, image: Floats, reward: float, is_over: bool) -> float:
    """One step of TD along the traces; returns the error."""
    target = reward
    if not is_over:
        target += state.discount * float(state.network.forward(image)[0, 0])
    error = target - state.value
    state.traces.move(state.network.weights, error)
    if is_over:
        state.traces.decay(0.0)
    return error


def predict(state: State, image: Floats) -> None:
    """Finds the value of an image and adds its gradient to the traces."""
    state.value = float(state.network.forward(image)[0, 0])
    state.traces.decay(state.discount * state.trace_decay)
    state.network.add_gradient(np.ones((1, 1), np.float32), state.traces.vector)


def measure(state: State, error: float) -> dict[str, float]:
    """Metrics of the predictor; expensive ones are measured less often."""
    metrics = {"squared_td_error": error * error}
    if state.timesteps % _RARELY == 0:
        metrics["weight_norm"] = float(np.linalg.norm(state.network.weights))
        metrics["dormant_units"] = state.network.count_dormant()
    return metrics


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
