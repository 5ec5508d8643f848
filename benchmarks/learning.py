"""Does an agent learn? Compares it with the random agent on single-game streams.

    python benchmarks/learning.py examples/control_linear_q.py \
        [--games enduro,road_runner] [--seeds 5] [--timesteps 20000] [--folder DIR]

Every run is one of `longplay run control-v1` with one game. The difference of the mean
rewards is compared with its standard error. A complete run in the folder is not played
again.
"""

from __future__ import annotations

import argparse
import math
import statistics
from itertools import product
from pathlib import Path

import longplay
from longplay.contract.documents import ControlScore
from longplay.suites import get_suite


def measure(folder: Path, agent: str, game: str, seed: int, timesteps: int) -> float:
    """The reward collected in one run, which is played unless it is there."""
    out = folder / f"{Path(agent).stem}_{game}_{timesteps}_seed-{seed}"
    if not out.exists():
        settings = {"games": [game], "base_visit_frames": timesteps}
        longplay.run("control-v1", agent, seeds=[seed], out=out, overrides=settings)
    score = longplay.read_run(out).score
    assert isinstance(score, ControlScore), f"{out} is not complete: remove it"
    return score.cumulative_reward


def standard_error(first: list[float], second: list[float]) -> float:
    """Of the difference of two means."""
    return math.sqrt(
        statistics.variance(first) / len(first)
        + statistics.variance(second) / len(second)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agent")
    parser.add_argument("--games", default=",".join(get_suite("control-v1").games))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--timesteps", type=int, default=20_000)
    parser.add_argument("--folder", type=Path, default=Path("runs/learning"))
    options = parser.parse_args()
    print(f"{'game':<16}{'agent':>10}{'random':>10}{'difference':>14}  standard errors")
    for game in options.games.split(","):
        rewards: dict[str, list[float]] = {options.agent: [], "random": []}
        for agent, seed in product(rewards, range(options.seeds)):
            run = (options.folder, agent, game, seed, options.timesteps)
            rewards[agent].append(measure(*run))
        own, random = rewards.values()
        difference = statistics.fmean(own) - statistics.fmean(random)
        error = standard_error(own, random)
        ratio = difference / error if error else math.nan
        means = f"{statistics.fmean(own):10.1f}{statistics.fmean(random):10.1f}"
        print(f"{game:<16}{means}{difference:+14.1f}  {ratio:+.1f}", flush=True)


if __name__ == "__main__":
    main()
