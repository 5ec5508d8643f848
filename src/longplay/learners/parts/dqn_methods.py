"""Methods for continual learning, as an argument of `dqn`: `method`, with `strength`.

    method           `strength` is                                          default
    none
    rehearsal        the share of each batch that comes from the past           0.5
    ewc              λ: how strongly a weight that mattered is held              10
    redo             activity below which a unit is dormant, over its layer's   0.1
    shrink-perturb   the share of each weight that is replaced at a switch      0.2

A method is for one network that goes on from game to game, so it needs `memory =
carry`. Each class begins with its paper and what differs from it.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np

from longplay.errors import ConfigError
from longplay.learners.parts.action_parts import ActionParts
from longplay.learners.parts.adam import Adam
from longplay.learners.parts.kernels import Floats
from longplay.learners.parts.networks import ConvNetwork, draw_sparse
from longplay.learners.parts.replay import Batch, Replay, ReplayShape


class Trained(Protocol):
    """What a method may read and change of the state of `dqn`."""

    network: ConvNetwork
    target_weights: Floats
    parts: ActionParts
    adam: Adam
    replay: Replay
    rng: np.random.Generator


class Method:
    """No method: DQN as it is."""

    SAVED: ClassVar[tuple[str, ...]] = ()

    def __init__(self, strength: float) -> None:
        self.strength = strength

    def observe(self, state: Trained, discount: float, is_switch: bool) -> None:
        """Called when a frame was added to the replay, before its action is chosen."""

    def draw(self, state: Trained, count: int, discount: float) -> Batch:
        """The batch of an update."""
        return state.replay.draw(state.rng, count, discount)

    def add_gradient(self, state: Trained, gradient: Floats) -> None:
        """Adds the gradient of what the method adds to the loss."""

    def finish_update(self, state: Trained) -> None:
        """Called after each update."""

    def measure(self, state: Trained) -> dict[str, float]:
        """Metrics of the method."""
        return {}


class Rehearsal(Method):
    """Part of each batch is a uniform sample of all transitions so far.

    Rolnick et al. (2019), "Experience Replay for Continual Learning", arXiv 1811.11682
    (CLEAR), and ARROW, which keeps a short and a long replay. Here the short one is
    DQN's, and the long one a reservoir (Vitter, 1985, "Random Sampling with a
    Reservoir"). What differs from CLEAR: Q-learning is off-policy already, so there is
    no V-trace; neither the old policy nor old values are cloned; rewards keep the scale
    that they had when they were stored.
    """

    SAVED: ClassVar[tuple[str, ...]] = (
        "images",
        "next_images",
        "actions",
        "rewards",
        "discounts",
        "seen",
    )

    # 71 MB at 42 × 42 × 4.
    CAPACITY = 5_000

    def __init__(self, strength: float, shape: ReplayShape) -> None:
        super().__init__(strength)
        stacks = (self.CAPACITY, shape.size, shape.size, shape.frames)
        self.images = np.zeros(stacks, np.uint8)
        self.next_images = np.zeros(stacks, np.uint8)
        self.actions = np.zeros(self.CAPACITY, np.int64)
        self.rewards = np.zeros(self.CAPACITY, np.float32)
        self.discounts = np.zeros(self.CAPACITY, np.float32)
        self.seen = 0

    def observe(self, state: Trained, discount: float, is_switch: bool) -> None:
        """Offers the transition that became complete to the reservoir."""
        if not len(state.replay):
            return
        place = self.seen
        self.seen += 1
        if self.seen > self.CAPACITY:
            place = int(state.rng.integers(self.seen))
        if place < self.CAPACITY:
            newest = np.array([state.replay.newest_start])
            self._store(place, state.replay.take(newest, discount))

    def _store(self, place: int, batch: Batch) -> None:
        self.images[place] = np.rint(batch.images[0] * 255.0)
        self.next_images[place] = np.rint(batch.next_images[0] * 255.0)
        self.actions[place] = batch.actions[0]
        self.rewards[place] = batch.rewards[0]
        self.discounts[place] = batch.discounts[0]

    def draw(self, state: Trained, count: int, discount: float) -> Batch:
        """New transitions and old ones, in fixed shares."""
        old = round(self.strength * count)
        new = super().draw(state, count - old, discount)
        kept = min(self.seen, self.CAPACITY)
        chosen = state.rng.integers(kept, size=old)
        return Batch(
            images=np.append(new.images, _scale(self.images[chosen]), axis=0),
            actions=np.append(new.actions, self.actions[chosen]),
            rewards=np.append(new.rewards, self.rewards[chosen]),
            discounts=np.append(new.discounts, self.discounts[chosen]),
            next_images=np.append(
                new.next_images, _scale(self.next_images[chosen]), axis=0
            ),
        )

    def measure(self, state: Trained) -> dict[str, float]:
        """How many transitions are kept."""
        return {"rehearsal_size": float(min(self.seen, self.CAPACITY))}


def _scale(frames: np.ndarray[Any, np.dtype[np.uint8]]) -> Floats:
    """Bytes -> 0 … 1, as the replay does it."""
    scaled: Floats = frames.astype(np.float32) * np.float32(1 / 255)
    return scaled


class OnlineEWC(Method):
    """A weight that mattered in earlier games is held by a spring.

    Kirkpatrick et al. (2017), "Overcoming catastrophic forgetting in neural networks",
    arXiv 1612.00796, in the online form of Schwarz et al. (2018), "Progress &
    Compress", arXiv 1805.06370: at a switch the importance of each weight decays and
    that of the game that ended is added; the loss has λ / 2 · Σ importance · (weight −
    anchor)², the anchor being the weight at the last switch. The importance is the
    diagonal of the Fisher information of a normal distribution around the value of the
    action that was taken: the mean of the squared gradient. What differs from the
    papers: it is taken from 256 transitions of the replay, and scaled to a mean of 1
    for each game.
    """

    SAVED: ClassVar[tuple[str, ...]] = ("importance", "anchor", "visit_start")

    SAMPLES = 256
    KEPT = 0.95

    def __init__(self, strength: float, size: int) -> None:
        super().__init__(strength)
        self.importance = np.zeros(size, np.float32)
        self.anchor = np.zeros(size, np.float32)
        # The number of the first frame of this visit, counted as the replay does.
        self.visit_start = 0

    def observe(self, state: Trained, discount: float, is_switch: bool) -> None:
        """At a switch, adds the importance of weights for the game that ended."""
        if not is_switch:
            return
        last = state.replay.added - 2
        oldest = max(self.visit_start, state.replay.oldest_start)
        numbers = state.rng.integers(oldest, last + 1, size=self.SAMPLES)
        fisher = self.find_fisher(state, numbers)
        self.importance *= np.float32(self.KEPT)
        self.importance += fisher / max(float(fisher.mean()), 1e-12)
        self.anchor[:] = state.network.weights
        self.visit_start = last + 1

    @staticmethod
    def find_fisher(state: Trained, numbers: np.ndarray[Any, Any]) -> Floats:
        """The mean squared gradient of the values of actions at these frames."""
        images = state.replay.stack(numbers)
        actions = state.replay.actions[numbers % state.replay.shape.capacity]
        fisher = np.zeros_like(state.network.weights)
        gradient = np.zeros_like(fisher)
        for k in range(len(numbers)):
            state.network.forward(images[k : k + 1])
            gradient[:] = 0.0
            d_outputs = state.parts.spread(actions[k : k + 1], np.ones(1, np.float32))
            state.network.add_gradient(d_outputs, gradient)
            fisher += gradient * gradient
        fisher /= np.float32(len(numbers))
        return fisher

    def add_gradient(self, state: Trained, gradient: Floats) -> None:
        """Adds the gradient of the springs."""
        away = state.network.weights - self.anchor
        gradient += np.float32(self.strength) * self.importance * away

    def measure(self, state: Trained) -> dict[str, float]:
        """What the springs add to the loss."""
        away = state.network.weights - self.anchor
        penalty = 0.5 * self.strength * float(np.vdot(self.importance * away, away))
        return {"ewc_penalty": penalty}


class ReDo(Method):
    """Units that have become silent start again.

    Sokar et al. (2023), "The Dormant Neuron Phenomenon in Deep Reinforcement Learning",
    arXiv 2302.12902: every 1,000 updates, a unit whose mean activity is at most a share
    of its layer's mean gets new weights, its outgoing weights become 0, and so do
    Adam's means for both. What differs from the paper: activity is that above zero, as
    rectifiers are leaky here, on the images of the update; and the layer normalisation
    makes the outputs change a little although the outgoing weights are 0.
    """

    SAVED: ClassVar[tuple[str, ...]] = ("updates", "revived")

    PERIOD = 1_000

    def __init__(self, strength: float) -> None:
        super().__init__(strength)
        self.updates = 0
        self.revived = 0

    def finish_update(self, state: Trained) -> None:
        """Revives dormant units every few updates."""
        self.updates += 1
        if self.updates % self.PERIOD == 0:
            self.revive(state)

    def revive(self, state: Trained) -> None:
        """Replaces the weights into and out of dormant units."""
        network = state.network
        dormant = network.find_dormant(self.strength)
        kept = np.ones_like(network.weights)
        fresh = np.zeros_like(network.weights)
        for layer, silent in zip(network.layers, dormant, strict=False):
            drawn = draw_sparse(state.rng, (len(silent), layer.depth), 0.0)
            for vector, new in ((kept, 0.0), (fresh, drawn[silent])):
                weights, bias = layer.views(vector)
                weights[silent], bias[silent] = new, 0.0
        # After the incoming weights: one between two dormant units becomes 0.
        for layer, silent in zip(network.layers[1:], dormant, strict=True):
            for vector in (kept, fresh):
                weights, _ = layer.views(vector)
                weights.reshape(len(weights), -1, len(silent))[:, :, silent] = 0.0
        network.weights *= kept
        network.weights += fresh
        state.adam.mean *= kept
        state.adam.square *= kept
        self.revived += sum(int(silent.sum()) for silent in dormant)

    def measure(self, state: Trained) -> dict[str, float]:
        """How many units were revived so far."""
        return {"revived_units": float(self.revived)}


class ShrinkPerturb(Method):
    """At a switch every weight shrinks towards 0, and new random weights are added.

    Ash and Adams (2020), "On Warm-Starting Neural Network Training", arXiv 1910.08475.
    What differs from the paper: the two factors add up to 1, as in D'Oro et al. (2023),
    "Sample-Efficient Reinforcement Learning by Breaking the Replay Ratio Barrier"; the
    noise is a new initialisation. The target network gets the same, and Adam starts
    anew.
    """

    def observe(self, state: Trained, discount: float, is_switch: bool) -> None:
        """Renews a share of all weights at a switch."""
        if not is_switch:
            return
        fresh = ConvNetwork(state.network.shape, state.rng).weights
        share = np.float32(self.strength)
        for weights in (state.network.weights, state.target_weights):
            weights *= 1 - share
            weights += share * fresh
        state.adam.restart()


# Name -> the default of `strength`.
DEFAULTS = {
    "none": 0.0,
    "rehearsal": 0.5,
    "ewc": 10.0,
    "redo": 0.1,
    "shrink-perturb": 0.2,
}


def build_method(
    name: str, strength: float | None, memory: str, network: ConvNetwork, replay: Replay
) -> Method:
    """The method of this name.

    Raises:
        ConfigError: `strength` or `memory` does not fit the method.
    """
    _check(name, strength, memory)
    chosen = DEFAULTS[name] if strength is None else strength
    match name:
        case "rehearsal":
            return Rehearsal(chosen, replay.shape)
        case "ewc":
            return OnlineEWC(chosen, len(network.weights))
        case "redo":
            return ReDo(chosen)
        case "shrink-perturb":
            return ShrinkPerturb(chosen)
    return Method(chosen)


def _check(name: str, strength: float | None, memory: str) -> None:
    if name == "none" and strength is not None:
        raise ConfigError(
            f"strength: expected a method that it belongs to, found {strength} with "
            "method none"
        )
    if name not in ("none", "ewc") and strength is not None and strength >= 1:
        raise ConfigError(
            f"strength: expected a share below 1 for method {name}, found {strength}"
        )
    if name != "none" and memory != "carry":
        raise ConfigError(
            f"memory: expected carry with method {name}, found {memory}; a method is "
            "for one network that goes on from game to game"
        )
