"""Agents on three games, anchors that give them z, and how they compare."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longplay.lab.analysis.comparison import Request, compare, runs_by_label
from longplay.lab.analysis.records import Comparison
from longplay.lab.analysis.runs import FoundRuns, RunReader
from longplay.lab.report.draw.drawings import Shown
from longplay.scoring.anchors import Anchors
from longplay.scoring.normalisation import make_scale
from made_up_anchors import make_anchors, make_game
from written_runs import SHORT, make_config, name_short_suite, write_run

SUITE = name_short_suite()


@dataclass(frozen=True)
class Compared:
    """Runs on disk, and what a comparison makes of them."""

    path: Path
    found: FoundRuns
    comparison: Comparison
    anchors: Anchors

    @property
    def shown(self) -> Shown:
        (suite,) = self.comparison.suites
        scale = make_scale(self.anchors, suite.suite, suite.games)
        return Shown(suite, runs_by_label(self.found, suite), scale)


def compare_path(path: Path, anchors: Anchors) -> Compared:
    found = RunReader().read([path])
    return Compared(path, found, compare(found, Request(anchors)), anchors)


def make_compared(
    path: Path,
    names: dict[str, float],
    seeds: int = 3,
    rewards: Sequence[float] | None = None,
) -> Compared:
    """Agents by name; reward per frame grows by `gain` over each visit.

    Args:
        path: Where their runs are written.
        names: Agent -> gain.
        seeds: Number of runs of each agent.
        rewards: Reward of the first frame of a visit, one per seed; by default 1.0,
            1.1, 1.2, …
    """
    rewards = rewards or [1.0 + 0.1 * seed for seed in range(seeds)]
    for position, (name, gain) in enumerate(names.items()):
        for seed, first in enumerate(rewards):
            config = make_config(seed=seed, overrides=SHORT, agent=name)
            frame = np.arange(config.total_frames) % 60
            made = np.round(first + gain * frame / 60, 6)
            write_run(path / str(position) / str(seed), config, made)
    games = dict.fromkeys(("centipede", "ms_pacman", "qbert"), make_game())
    return compare_path(path, make_anchors(SUITE, **games))
