"""Processor time per decision of every learner, and of Stream Q(λ) in plain torch.

    make bench-learners

One process, one thread, random pixels. Rounds alternate between learners and the best
round counts, so that other work on the machine disturbs little.
"""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from learner_tables import LEARNERS

ROUNDS, DECISIONS = 5, 100
# Past what a learner does only at its beginning.
WARM_UP = 600
# Stream Q(λ) is measured at its paper's size.
ARGUMENTS = {"stream-q": {"size": 84}, "stream-q-l2init": {"size": 84}}
NOT_OVER = {"terminated": False, "truncated": False}

Step = Callable[[np.ndarray, np.ndarray, float], Any]


def make_learner(name: str) -> Step:
    """A learner's `step`, with its state."""
    module = LEARNERS[name]
    offered = {"observation_shape": (210, 160, 3), "num_actions": 18, "seed": 0}
    named = inspect.signature(module.init).parameters
    given = {k: v for k, v in offered.items() if k in named}
    state = module.init(**given, **ARGUMENTS.get(name, {}))
    return lambda before, now, reward: module.step(state, before, now, reward, NOT_OVER)


def make_torch() -> Step:
    """Stream Q(λ) in plain torch."""
    import torch

    from longplay.learners import stream_q
    from stream_q_torch import TorchStreamQ

    torch.set_num_threads(1)
    agent = TorchStreamQ(stream_q.init((210, 160, 3), 18, 0, **ARGUMENTS["stream-q"]))
    return lambda before, now, reward: agent.step(now, reward, NOT_OVER)


def time_steps(step: Step, frames: list[np.ndarray], count: int) -> float:
    """Milliseconds of processor time per decision."""
    start = time.process_time()
    for k in range(count):
        before, now = frames[k % len(frames)], frames[(k + 1) % len(frames)]
        step(before, now, float(k % 7 == 0))
    return 1e3 * (time.process_time() - start) / count


def main() -> None:
    assert os.environ.get("OMP_NUM_THREADS") == "1", "set OMP_NUM_THREADS=1"
    rng = np.random.default_rng(0)
    frames = [rng.integers(0, 256, (210, 160, 3), np.uint8) for _ in range(20)]
    steps = {name: make_learner(name) for name in LEARNERS}
    steps["stream-q in torch"] = make_torch()
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        time_steps(step, frames, WARM_UP)
    for _ in range(ROUNDS):
        for name, step in steps.items():
            best[name] = min(best[name], time_steps(step, frames, DECISIONS))
    for name, milliseconds in best.items():
        print(f"{name:<20}{milliseconds:8.3f} ms per decision")
    print(f"torch / ours{best['stream-q in torch'] / best['stream-q']:16.1f}")


if __name__ == "__main__":
    main()
