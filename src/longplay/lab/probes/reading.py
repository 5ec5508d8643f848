"""A run or a pack -> the results of the probes of its agent.

Probes lie in `probes/` of the experiment, or beside a run or a pack alone; a probe may
be packed. They belong to a run by the last chain value of its digests, whatever the
folders are called. Complete probes count, others do not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from longplay.contract.layout import probes_of
from longplay.contract.rundir import RunDirectory, is_run, natural_key
from longplay.errors import DocumentError
from longplay.lab.probes.memory import Matrix

# Opens a probe, a run directory or a pack; None if it is neither, or must not be read.
ProbeOpener = Callable[[Path], RunDirectory | None]


def open_directory(path: Path) -> RunDirectory | None:
    """Opens a probe that is a run directory; packs are left out."""
    return RunDirectory(path) if is_run(path) else None


@dataclass(frozen=True)
class RunProbes:
    """The probes of one run's agent.

    Attributes:
        matrix: (state, game) -> (K,) results; without games that have no result.
        branches: K.
        frames: Frames of a branch.
        places: State -> the probe, a run directory or a pack.
    """

    matrix: Matrix
    branches: int
    frames: int
    places: dict[str, Path]


def read_probes(
    path: Path, chain_head: str | None, open_probe: ProbeOpener = open_directory
) -> RunProbes | None:
    """Reads the probes of a run; None if it has none that are complete.

    Args:
        path: The run directory or the pack.
        chain_head: The last chain value of its digests.
        open_probe: Opens a probe.

    Raises:
        DocumentError: A probe is damaged, or the probes have different sizes.
    """
    if chain_head is None:
        return None
    matrix: dict[tuple[str, str], list[float | None]] = {}
    places: dict[str, Path] = {}
    sizes: set[tuple[int, int]] = set()
    for place, run in _find_probes(probes_of(path), open_probe):
        probe = run.config.probe
        if probe is None or probe.of.chain_head != chain_head:
            continue
        places[probe.state] = place
        sizes.add((probe.branches, probe.frames))
        for branch in [] if run.probe is None else run.probe.branches:
            cell = matrix.setdefault((probe.state, branch.game_id), [])
            cell.append(branch.x)
    if not places:
        return None
    if len(sizes) > 1:
        raise DocumentError(
            f"{probes_of(path)}: expected probes of one size, found (branches, frames) "
            f"{', '.join(map(str, sorted(sizes)))}; move all but one kind away"
        )
    (size,) = sizes
    known = {
        cell: np.array(values, np.float64)
        for cell, values in matrix.items()
        if None not in values
    }
    return RunProbes(known, *size, places)


def _find_probes(
    folder: Path, open_probe: ProbeOpener
) -> Iterator[tuple[Path, RunDirectory]]:
    """The complete probes of a folder, in the order of their names."""
    if not folder.is_dir():
        return
    for place in sorted(folder.iterdir(), key=lambda path: natural_key(path.name)):
        run = open_probe(place)
        status = None if run is None else run.status
        if run is not None and status is not None and status.state == "COMPLETED":
            yield place, run
