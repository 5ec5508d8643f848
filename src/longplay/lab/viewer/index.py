"""Paths -> studies, experiments and runs, each with an id.

    id := 12 hex digits of SHA-256(resolved path)

An address contains ids, never paths: an id that is not in the index is not found,
whatever its characters. The same path has the same id when the viewer is started
again, so that a permalink stays valid.

A run directory may come from someone else. Nothing outside the given paths is read:
a run behind a symbolic link that leads out, or with links among its files, is listed
with the reason and never opened.
"""

from __future__ import annotations

import hashlib
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from longplay.contract.files import read_document
from longplay.contract.layout import (
    RUN_REQUEST,
    ExperimentConfig,
    RunGroup,
    find_run_groups,
    probes_of,
)
from longplay.contract.rundir import (
    PACK_SUFFIX,
    ROW_FILES,
    STUDY_FILE,
    RunDirectory,
    is_pack,
    is_run,
    is_study,
)
from longplay.errors import DocumentError, NotARunError, show_name
from longplay.lab.report.site.verdicts import open_pack
from longplay.lab.studies.plan import StudyPlan
from longplay.runs.metric_rows import METRICS_FILE

_ID_DIGITS = 12
# Folders are searched again for new runs at most this often.
_RESCAN_S = 2.0

DOCUMENTS = (
    "config.json",
    "status.json",
    "run_summary.json",
    "score.json",
    "verification.json",
    "tuning.json",
    "probe.json",
    RUN_REQUEST,
    "episode_record.json",
)
# Documents of real runs are below 1 MiB; each is parsed while a page waits.
LARGEST_SHOWN_BYTES = 8 * 2**20
# As many visits as a page can show: 10,000 times 60 windows.
_MOST_VISITS = 10_000


@dataclass(frozen=True)
class RunEntry:
    """A run of the index.

    Attributes:
        id: Its name in addresses.
        path: Run directory or pack.
        name: Its path below the path that was given, for people.
        experiment_id: The experiment it belongs to, if any.
        problem: Why it is never opened; None if it may be.
    """

    id: str
    path: Path
    name: str
    experiment_id: str | None = None
    problem: str | None = None

    @property
    def is_pack(self) -> bool:
        """Whether it is a packed run."""
        return self.path.suffix == PACK_SUFFIX

    def open(self) -> RunDirectory:
        """Its documents.

        Raises:
            DocumentError: Its files must not be read, or are damaged.
            PackError: It is not a valid pack.
        """
        if self.problem is not None:
            raise DocumentError(self.problem)
        if self.is_pack:
            check_file(self.path, LARGEST_SHOWN_BYTES * 8)
            run = open_pack(self.path)
        else:
            _check_files(self.path)
            run = RunDirectory(self.path)
        if len(run.config.schedule) > _MOST_VISITS:
            raise DocumentError(
                f"config.json schedule: expected at most {_MOST_VISITS:,} visits to "
                f"show, found {len(run.config.schedule):,}"
            )
        return run


@dataclass(frozen=True)
class ExperimentEntry:
    """An experiment of the index.

    Attributes:
        id: Its name in addresses.
        path: Its directory.
        name: As of a run.
        plan: Its plan; None if it cannot be read.
        runs: The runs that were started.
        problem: Why its plan cannot be read.
        study_id: The study it belongs to, if any.
    """

    id: str
    path: Path
    name: str
    plan: ExperimentConfig | None
    runs: tuple[RunEntry, ...]
    problem: str | None = None
    study_id: str | None = None


@dataclass(frozen=True)
class StudyEntry:
    """A study of the index.

    Attributes:
        id: Its name in addresses.
        path: Its directory.
        name: As of a run.
        tuning: The tuning runs that were started.
    """

    id: str
    path: Path
    name: str
    tuning: tuple[RunEntry, ...]

    def read_plan(self) -> StudyPlan:
        """Its plan.

        Raises:
            DocumentError: study.json must not be read, or is damaged.
        """
        path = self.path / STUDY_FILE
        check_file(path, LARGEST_SHOWN_BYTES)
        return read_document(path, StudyPlan)


@dataclass(frozen=True)
class Listing:
    """Everything found at one time, by id."""

    runs: dict[str, RunEntry]
    experiments: dict[str, ExperimentEntry]
    studies: dict[str, StudyEntry]
    # Probes and tuning runs: not in the list of runs, because they are not results.
    others: dict[str, RunEntry]


class Index:
    """The runs at some paths; searches them again as time passes."""

    def __init__(self, paths: Sequence[Path]) -> None:
        """Searches the paths.

        Raises:
            NotARunError: A path holds no run.
        """
        self._paths = [path.resolve() for path in paths]
        self._lock = threading.Lock()
        self._listing = _list_all(self._paths)
        self._next_scan_s = time.monotonic() + _RESCAN_S

    def read(self) -> Listing:
        """What the paths hold now, or held a moment ago."""
        with self._lock:
            if time.monotonic() >= self._next_scan_s:
                # Paths may vanish while the viewer runs: then they hold nothing.
                self._listing = _list_all(self._paths, is_missing_ok=True)
                self._next_scan_s = time.monotonic() + _RESCAN_S
            return self._listing


def _list_all(roots: Iterable[Path], *, is_missing_ok: bool = False) -> Listing:
    listing = Listing({}, {}, {}, {})
    for root in roots:
        try:
            groups = find_run_groups(root, keeps_broken=True)
        except NotARunError:
            if not is_missing_ok:
                raise
            continue
        for group in groups:
            _add_group(listing, group, root)
    return listing


def _add_group(listing: Listing, group: RunGroup, root: Path) -> None:
    is_experiment = group.plan is not None or group.problem is not None
    experiment_id = identify(group.directory) if is_experiment else None
    entries = [
        _make_entry(path, root, experiment_id) for path in (*group.runs, *group.packs)
    ]
    for entry in entries:
        # A run found a second time, without its experiment, stays with it.
        if entry.id not in listing.runs or experiment_id is not None:
            listing.runs[entry.id] = entry
        listing.others.update(_find_probes(entry, root))
    if experiment_id is not None:
        listing.experiments[experiment_id] = ExperimentEntry(
            experiment_id,
            group.directory,
            _name_below(group.directory, root),
            group.plan,
            tuple(entries),
            group.problem,
            _add_study(listing, group, root),
        )
    elif group.cell is not None:
        _add_study(listing, group, root)


def _add_study(listing: Listing, group: RunGroup, root: Path) -> str | None:
    """The study that a group belongs to, if it is below the given path."""
    path = group.directory.parent.parent
    if not path.is_relative_to(root) or not is_study(path):
        return None
    study_id = identify(path)
    if study_id not in listing.studies:
        runs = tuple(_find_tuning(path, root))
        listing.others.update({run.id: run for run in runs})
        name = _name_below(path, root)
        listing.studies[study_id] = StudyEntry(study_id, path, name, runs)
    return study_id


def _find_tuning(study: Path, root: Path) -> Iterator[RunEntry]:
    """The tuning runs of a study."""
    folder = study / "tuning"
    if folder.is_symlink() or not folder.is_dir():
        return
    try:
        groups = find_run_groups(folder, keeps_broken=True)
    except NotARunError:  # none was started
        return
    for group in groups:
        for path in group.runs:
            yield _make_entry(path, root, None)


def _find_probes(entry: RunEntry, root: Path) -> dict[str, RunEntry]:
    """The probes of a run's agent, if they are below the given path."""
    folder = probes_of(entry.path)
    if entry.problem is not None or not folder.is_dir():
        return {}
    found = (
        _make_entry(place, root, entry.experiment_id)
        for place in folder.iterdir()
        if is_run(place) or is_pack(place)
    )
    return {probe.id: probe for probe in found if probe.problem is None}


def _make_entry(path: Path, root: Path, experiment_id: str | None) -> RunEntry:
    problem = None
    try:
        is_inside = path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # a cycle of links
        is_inside = False
    if not is_inside:
        problem = "a symbolic link leads out of the given path; it is not followed"
    name = _name_below(path, root)
    return RunEntry(identify(path), path, name, experiment_id, problem)


def identify(path: Path) -> str:
    """The id of a path."""
    # Paths may have bytes that are not text.
    text = str(path.absolute()).encode(errors="surrogateescape")
    return hashlib.sha256(text).hexdigest()[:_ID_DIGITS]


def _name_below(path: Path, root: Path) -> str:
    """`experiment/episodes/run`, with the given path's own name."""
    try:
        return show_name(path_to_text(Path(root.name) / path.relative_to(root)))
    except ValueError:
        return show_name(path_to_text(Path(path.name)))


def path_to_text(path: Path) -> str:
    """A path as text for a page: paths may have bytes that are not text."""
    return str(path).encode(errors="surrogateescape").decode(errors="replace")


def _check_files(run_dir: Path) -> None:
    """Refuses links, pipes and giants among the files that pages read."""
    for name in (*DOCUMENTS, *ROW_FILES, METRICS_FILE):
        largest = LARGEST_SHOWN_BYTES if name in DOCUMENTS else None
        check_file(run_dir / name, largest)


def check_file(path: Path, largest_bytes: int | None) -> None:
    """Refuses a link, a pipe or a giant; a missing file is nothing to refuse.

    Raises:
        DocumentError: It is not a regular file, or larger.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DocumentError(f"{path.name}: {error.strerror}") from error
    if not stat.S_ISREG(found.st_mode):
        raise DocumentError(
            f"{path.name}: expected a regular file; links and pipes are not followed"
        )
    if largest_bytes is not None and found.st_size > largest_bytes:
        raise DocumentError(
            f"{path.name}: expected at most {largest_bytes:,} bytes to show, found "
            f"{found.st_size:,}"
        )


def fingerprint_files(entry: RunEntry) -> tuple[object, ...]:
    """Changes whenever a document or the length of a row file does."""
    names = ("",) if entry.is_pack else (*DOCUMENTS, "events.jsonl")
    return tuple(fingerprint(entry.path / name) for name in names)


def fingerprint(path: Path) -> tuple[int, int, int] | None:
    """Changes whenever a file does; None if there is no file."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
