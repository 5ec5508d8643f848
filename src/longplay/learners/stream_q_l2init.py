"""Stream Q(λ) with weights regularised towards their initial values (L2 Init).

    longplay run control-v1 --agent stream-q-l2init --seed 1000

Kumar, Marklund and Van Roy (2023), "Maintaining Plasticity in Continual Learning via
Regenerative Regularization", arXiv 2308.11958 (L2 Init): a weight that the present game
does not need returns to its first value, ready to be relearned. The paper adds the
squared distance to the loss; here each decision ends with a `pull` of a fixed share, as
in decoupled weight decay, except the first of a game. With `renewal`, a larger share is
replaced there, like shrink and perturb (Ash and Adams, 2020, "On Warm-Starting Neural
Network Training"), but with the first values in place of new noise. All else is
`stream_q`.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from longplay.errors import AgentLoadError
from longplay.learners import stream_q
from longplay.learners.parts.kernels import Floats, compiled
from longplay.learners.parts.limits import check_arguments
from longplay.learners.parts.memory import switch_memory, with_memory
from longplay.learners.parts.state_files import load_state, save_state
from longplay.learners.parts.vision import Observation

REVISION = 1


@dataclass
class State(stream_q.State):
    """The state of Stream Q, with its initial weights."""

    first_weights: Floats | None = None
    pull: float = 0.0
    renewal: float = 0.0


@with_memory
def init(
    observation_shape: tuple[int, int, int],
    num_actions: int,
    seed: int,
    *,
    pull: float = 1e-5,
    renewal: float = 0.0,
    memory: str = "carry",
    **stream_q_arguments: Any,
) -> State:
    """Builds the agent; `pull`, `renewal` and the keywords of `stream_q`."""
    _check_names(stream_q_arguments)
    arguments = {
        "observation_shape": observation_shape,
        "num_actions": num_actions,
        "seed": seed,
        "pull": pull,
        "renewal": renewal,
        "memory": memory,
        **stream_q_arguments,
    }
    check_arguments(arguments)
    plain = stream_q.init(observation_shape, num_actions, seed, **stream_q_arguments)
    first_weights = plain.network.weights.copy()
    return State(
        **{**vars(plain), "arguments": arguments},
        first_weights=first_weights,
        pull=pull,
        renewal=renewal,
    )


def _check_names(stream_q_arguments: dict[str, Any]) -> None:
    """Refuses unknown names, as `FunctionalAgent` does where `init` lists them all."""
    known = inspect.signature(stream_q.init).parameters
    for name in stream_q_arguments:
        if name not in known:
            raise AgentLoadError(
                f"init has no parameter {name!r}; it was given as an agent argument"
            )


restart = stream_q.restart


@switch_memory(restart)
def step(
    state: State,
    previous_observation: Observation,
    observation: Observation,
    reward: float,
    info: dict[str, bool],
) -> tuple[State, int, dict[str, float]]:
    """A step of Stream Q, then the pull; where games change, the renewal within it."""
    is_switch = info["truncated"]
    image, error = stream_q.observe(state, observation, reward, info)
    if is_switch and state.renewal:
        # Before the choice: its value and its trace belong to the renewed weights.
        move_back(state, state.renewal)
    action = stream_q.act(state, image)
    metrics = stream_q.measure(state, error)
    if state.pull and not is_switch:
        move_back(state, state.pull)
    return state, action, metrics


def move_back(state: State, share: float) -> None:
    """Moves each weight a share of the way to its initial value."""
    pull_back(state.network.weights, state.first_weights, np.float32(share))


@compiled
def pull_back(weights: Floats, first: Floats, share: np.float32) -> None:
    """Moves each weight a fraction of the way to its initial value."""
    for k in range(len(weights)):
        weights[k] += share * (first[k] - weights[k])


# A run resumes bit-exactly from what is saved.
save = save_state
load = partial(load_state, init)
