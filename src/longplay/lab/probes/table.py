"""The probes of runs -> tidy columns: one row per branch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longplay.lab.analysis.runs import MeasuredRun
from longplay.lab.analysis.table import Table, describe_arguments
from longplay.lab.probes.reading import ProbeOpener, open_directory, read_probes
from longplay.scoring.anchors import Anchors, shipped_anchors
from longplay.scoring.normalisation import Scale, make_scale

_COLUMNS = {
    "run": np.int64,
    "suite": np.str_,
    "agent": np.str_,
    "arguments": np.str_,
    "seed": np.int64,
    "state": np.str_,
    "game": np.str_,
    "branch": np.int64,
    "frames": np.int64,
    "x": np.float64,
    "z": np.float64,
}


def tabulate_probes(
    runs: Iterable[MeasuredRun], open_probe: ProbeOpener = open_directory
) -> Table:
    """The branches of all probes of some runs.

    `state` is the state that the branch starts from, `x` its result: reward per frame,
    or of a predictor -mse / variance of targets. `z` is x between the anchors of the
    game, NaN without them.

    Args:
        runs: The runs; those without probes have no row.
        open_probe: Opens a probe.

    Raises:
        DocumentError: A probe is damaged.
    """
    anchors = shipped_anchors()
    parts = [
        part
        for number, run in enumerate(runs)
        for part in _rows_of(number, run, anchors, open_probe)
    ]
    return Table.join(_COLUMNS, parts)


def _rows_of(
    number: int, run: MeasuredRun, anchors: Anchors, open_probe: ProbeOpener
) -> Iterator[dict[str, NDArray[Any]]]:
    """The rows of each state and game of a run."""
    probes = read_probes(run.path, run.chain_head, open_probe)
    if probes is None:
        return
    suite, games = run.conditions.suite, run.config.games
    scale = make_scale(anchors, suite, games, run.conditions.emulator)
    for (state, game), x in probes.matrix.items():
        n = len(x)
        yield {
            "run": np.full(n, number),
            "suite": np.full(n, suite),
            "agent": np.full(n, run.agent.name),
            "arguments": np.full(n, describe_arguments(run)),
            "seed": np.full(n, -1 if run.seed is None else run.seed),
            "state": np.full(n, state),
            "game": np.full(n, game),
            "branch": np.arange(n),
            "frames": np.full(n, probes.frames),
            "x": x,
            "z": _normalise(run, scale, game, x),
        }


def _normalise(
    run: MeasuredRun, scale: Scale, game: str, x: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The z of a game's branches; NaN of predictions, which are not rewards."""
    if run.track.predicts or game not in scale.games:
        return np.full(len(x), np.nan)
    return scale.normalise_game(game, x)
