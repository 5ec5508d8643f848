"""Probes of agents that keep everything -> the noise of smaller probes, as a table.

    python tools/pilot.py PATH... [--suite control-3x3-v1] [--seeds 5]

PATHs are experiments or packs, with probes, of runs with `memory=library` on tuning
seeds. Such an agent has the weights of a game at both ends of a pair of states, so what
it seems to have forgotten is noise. The table has the half-width that the 95 % interval
of the share forgotten would have over `--seeds` runs,

    t / √seeds · root mean square over the runs of √n · r / (n · l)

with r the root mean square of the forgetting of a run's n pairs and l the mean of what
it had learned. Smaller probes are the beginnings of those that were played: fewer
branches, and the first windows of each (docs/probes.md).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from longplay.contract.curves import WINDOWS
from longplay.lab.analysis.intervals import t_quantile
from longplay.lab.analysis.runs import MeasuredRun, RunReader
from longplay.lab.probes.memory import Matrix, Memory, find_memory
from longplay.lab.probes.reading import RunProbes, read_probes
from longplay.lab.report.site.verdicts import open_pack, open_probe
from longplay.scoring.anchors import shipped_anchors
from longplay.scoring.normalisation import make_scale
from longplay.tables import Cell, TextTable, render_markdown

# Shares of a branch; each is a whole number of windows.
_PARTS = (0.25, 0.5, 0.75, 1.0)


def cut_probes(probes: RunProbes, branches: int, windows: int) -> Matrix:
    """The results of the first branches of every cell, up to a window."""
    matrix: dict[tuple[str, str], list[float]] = {}
    for state, place in probes.places.items():
        run = open_probe(place)
        if run is None or run.curves is None:
            sys.exit(f"{place}: expected a probe with curves.jsonl")
        rates = run.curves.rates(slice(0, windows)).tolist()
        for branch, rate in zip(run.config.played_schedule, rates, strict=True):
            if branch.cycle_idx < branches:
                matrix.setdefault((state, branch.game_id), []).append(rate)
    return {cell: np.array(values) for cell, values in matrix.items()}


def measure_noise(memory: Memory) -> float:
    """The standard deviation of a run's share forgotten, if nothing was forgotten."""
    forgotten = np.array([pair.amount.mean for pair in memory.forgetting])
    _, learned = memory.sums
    return float(np.sqrt(np.sum(forgotten**2)) / learned)


def predict_half_width(noise: Sequence[float], seeds: int) -> float:
    """Of the 95 % interval over a number of runs."""
    spread = float(np.sqrt(np.mean(np.square(noise))))
    return t_quantile(seeds - 1) / float(np.sqrt(seeds)) * spread


def read_runs(paths: Sequence[Path], suite: str) -> list[tuple[MeasuredRun, RunProbes]]:
    """The runs of a suite that have probes."""
    runs = RunReader(open_pack).read(paths).runs
    of_suite = [run for run in runs if run.conditions.suite == suite]
    read = [(r, read_probes(r.path, r.chain_head, open_probe)) for r in of_suite]
    return [(run, probes) for run, probes in read if probes is not None]


def tabulate(
    runs: Sequence[tuple[MeasuredRun, RunProbes]], suite: str, seeds: int
) -> TextTable:
    """Branches × timesteps -> the predicted half-width."""
    played = {(probes.branches, probes.frames) for _, probes in runs}
    if len(played) != 1:
        sys.exit(f"expected probes of one size, found {sorted(played) or 'none'}")
    ((most, frames),) = played
    rows = []
    for branches in range(1, most + 1):
        for part in _PARTS:
            windows = round(WINDOWS * part)
            noise = list(_measure_all(runs, suite, branches, windows))
            length, width = round(frames * part), predict_half_width(noise, seeds)
            cells = (f"{branches} × {length:,}", f"{branches * length:,}")
            rows.append((*map(Cell, cells), Cell(f"{width:.2f}")))
    columns = ("branches × timesteps", "of a cell", "half-width")
    return TextTable("pilot", columns, tuple(rows))


def _measure_all(
    runs: Sequence[tuple[MeasuredRun, RunProbes]],
    suite: str,
    branches: int,
    windows: int,
) -> Iterator[float]:
    for run, probes in runs:
        scale = make_scale(shipped_anchors(), suite, run.config.games)
        pairs = zip(scale.games, scale.has_z.tolist(), scale.span.tolist(), strict=True)
        spans = {game: span for game, has_z, span in pairs if has_z}
        matrix = cut_probes(probes, branches, windows)
        yield measure_noise(find_memory(run.config.played_schedule, matrix, spans))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--suite", default="control-3x3-v1")
    parser.add_argument("--seeds", type=int, default=5)
    given = parser.parse_args()
    runs = read_runs(given.paths, given.suite)
    print(render_markdown(tabulate(runs, given.suite, given.seeds)))


if __name__ == "__main__":
    main()
