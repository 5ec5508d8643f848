"""Where runs lie: in experiments, in studies, in folders of them, in packs.

    run          config.json, events.jsonl, …
    experiment   experiment_config.json · episodes/<run>/ · archive/ (nobody counts it)
    study        cells/<experiment>/ · tuning/ (never compared)
    folder       any of these, and packs, at any depth

Finding runs reads no document but the plan of an experiment, which tells the runs that
are not there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from longplay.contract.files import read_document
from longplay.contract.records import AgentEntry, ConfigGiven, Document
from longplay.contract.rundir import find_runs, is_run, natural_key
from longplay.errors import NotARunError

PACK_SUFFIX = ".longplay"
_PLAN = "experiment_config.json"
# Earlier tries, and runs that were stopped on purpose: no result lies there.
_NOT_RESULTS = ("archive", "tuning", "checkpoint")


class PlannedExperiment(Document):
    """What other rooms need of experiment_config.json."""

    seeds: tuple[int, ...]
    suite: str | None = None
    config_given: ConfigGiven | None = None
    agent: AgentEntry | None = None


@dataclass(frozen=True)
class RunGroup:
    """Runs that lie together.

    Attributes:
        directory: The experiment, or where a single run or pack was found.
        plan: What was planned, of an experiment.
        runs: Run directories.
        packs: Packed runs.
    """

    directory: Path
    plan: PlannedExperiment | None = None
    runs: tuple[Path, ...] = ()
    packs: tuple[Path, ...] = ()


def find_run_groups(path: Path) -> list[RunGroup]:
    """All runs at or below a path, experiment by experiment, in order of names.

    Raises:
        NotARunError: There is none.
        DocumentError: The plan of an experiment is broken.
    """
    groups = list(_walk(path))
    if not groups:
        found = "found none" if path.exists() else "no such file or folder"
        raise NotARunError(
            f"{path}: expected a run, an experiment, a study, a pack "
            f"(*{PACK_SUFFIX}) or a folder of these; {found}"
        )
    return groups


def _walk(path: Path) -> Iterator[RunGroup]:
    if path.is_file():
        if path.suffix == PACK_SUFFIX:
            yield RunGroup(path, packs=(path,))
    elif (path / _PLAN).is_file():
        plan = read_document(path / _PLAN, PlannedExperiment)
        has_runs = (path / "episodes").is_dir()
        yield RunGroup(path, plan, tuple(_find_runs_of(path)) if has_runs else ())
    elif is_run(path):
        yield RunGroup(path, runs=tuple(find_runs(path)))
    elif path.is_dir():
        for child in sorted(path.iterdir(), key=lambda p: natural_key(p.name)):
            if not _is_skipped(child):
                yield from _walk(child)


def _find_runs_of(experiment: Path) -> list[Path]:
    try:
        return find_runs(experiment)
    except NotARunError:  # planned, and not one of its runs begun
        return []


def _is_skipped(path: Path) -> bool:
    """Links are not followed: a folder may contain itself by one."""
    is_link = path.is_dir() and path.is_symlink()
    return is_link or path.name.startswith(".") or path.name in _NOT_RESULTS
