"""Runs and packs -> trust levels, cached by content.

A verdict is about bytes, not paths: it is kept under the hash of the whole pack, or of
the verified files of a directory. What a manifest says of a pack is not enough: a copy
with other answers has the same manifest. Verdicts of different emulator versions are
kept apart.

A folder of verdicts decides what is believed, so that it must not come with what is
judged: `check_verdict_folder`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from longplay.contract.documents import Document, ProofLevel
from longplay.contract.files import (
    hash_file,
    make_directory,
    read_document,
    write_document,
)
from longplay.contract.rundir import RunDirectory, is_pack
from longplay.errors import (
    CannotVerifyError,
    ConfigError,
    DocumentError,
    LongplayError,
    RecordingError,
)
from longplay.lab.analysis.runs import MeasuredRun
from longplay.lab.probes.reading import open_directory
from longplay.provenance import longplay_version, read_package_versions
from longplay.verify.pack import replayed_pack
from longplay.verify.pack_file import PackFile
from longplay.verify.verification import Verification, verify_run


class Verdict(Document):
    """The trust level of a run.

    Attributes:
        level: claimed, replayed, re-executed (unconfined) or re-executed.
        problem: Why verification failed; None if it did not.
        made_by: The command that replayed the run; None if it was not replayed.
    """

    level: ProofLevel
    problem: str | None = None
    made_by: str | None = None


def verdicts_folder() -> Path:
    """Where this machine keeps verdicts.

    In $LONGPLAY_CACHE, or in longplay's folder in the platform's cache folder.
    """
    if given := os.environ.get("LONGPLAY_CACHE"):
        return Path(given) / "verdicts"
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "longplay" / "verdicts"


def open_pack(path: Path) -> RunDirectory:
    """The documents and curves of a pack, without playing it.

    Raises:
        PackError: It is damaged, or more than a pack.
    """
    with PackFile(path) as packed:
        return packed.read_documents()


def open_probe(path: Path) -> RunDirectory | None:
    """A probe, a run directory or a pack; None if a path is neither."""
    return open_pack(path) if is_pack(path) else open_directory(path)


def read_trust(run: MeasuredRun, *, reads_rows: bool = True) -> ProofLevel:
    """The trust level from a run's verification.json, if it matches the files.

    Args:
        run: A run directory or a pack.
        reads_rows: False takes the recorded hashes of row files, as `trust_of` does.
    """
    if run.path.is_file():
        return trust_of(open_pack(run.path))
    return trust_of(RunDirectory(run.path), reads_rows=reads_rows)


def trust_of(run: RunDirectory, *, reads_rows: bool = False) -> ProofLevel:
    """As `read_trust`, of documents that were read already."""
    if not run.path.is_file():
        return run.read_trust(reads_rows=reads_rows)
    with PackFile(run.path) as packed:
        return run.read_trust(packed.manifest.sha256)


def check_verdict_folder(verdicts: Path, judged: Path) -> None:
    """Refuses a folder of verdicts that the author of a run could have filled.

    Args:
        verdicts: It need not exist yet.
        judged: The folder of the runs.

    Raises:
        ConfigError: It is inside of the judged folder or its work tree, or others can
            write to it.
    """
    tree = find_work_tree(judged.resolve())
    # A name inside of the tree could be a link that came with it.
    for path in (Path(os.path.abspath(verdicts)), verdicts.resolve()):  # noqa: PTH100
        if path.is_relative_to(tree):
            raise ConfigError(
                f"{verdicts}: expected verdicts outside of {tree}, whose files may "
                "come from the authors of the runs; choose another folder with "
                "--verdicts or LONGPLAY_CACHE"
            )
    path = verdicts.resolve()
    for place in (path, *path.parents):
        if problem := _find_other_writers(place, is_above=place != path):
            raise ConfigError(
                f"{verdicts}: expected a folder that only you can write to, found "
                f"{place} {problem}; choose another folder with --verdicts or "
                "LONGPLAY_CACHE"
            )


def find_work_tree(folder: Path) -> Path:
    """The Git work tree around a folder; the folder itself without one."""
    around = (path for path in (folder, *folder.parents) if (path / ".git").exists())
    return next(around, folder)


def _find_other_writers(path: Path, *, is_above: bool) -> str | None:
    """Other users who can change what is in a folder; None if there are none."""
    if sys.platform == "win32" or not path.exists():
        return None
    found = path.stat()
    if found.st_uid not in (0, os.geteuid()):
        return f"of user {found.st_uid}"
    if is_above and found.st_mode & stat.S_ISVTX:
        return None  # as /tmp: others cannot rename what is ours
    # Many systems give every user a group of their own.
    is_own_group = found.st_gid == os.getegid() == os.geteuid()
    if found.st_mode & stat.S_IWOTH or (
        found.st_mode & stat.S_IWGRP and not is_own_group
    ):
        return f"with mode {stat.S_IMODE(found.st_mode):o}"
    return None


# The levels that a verdict in a folder can have: `Judge` reaches no other.
_REACHED: tuple[ProofLevel, ...] = ("claimed", "replayed")


@dataclass(frozen=True)
class Judge:
    """Replays the runs that this machine has not verified yet.

    Attributes:
        folder: Cache of verdicts.
        workers: Worker processes.
        made_by: The command that judges; verdicts are labelled with it.
    """

    folder: Path
    workers: int = 1
    made_by: str = "longplay leaderboard --verify"

    def recall(self, run: MeasuredRun) -> Verdict:
        """The verdict on a run from the cache; `claimed` if there is none.

        What a run says of itself in verification.json does not count.
        """
        return self._judge(run.path, plays=False)

    def judge(self, run: MeasuredRun) -> Verdict:
        """The verdict on a run, from the cache or from a replay."""
        return self._judge(run.path, plays=True)

    def _judge(self, path: Path, *, plays: bool) -> Verdict:
        try:
            kept = self._cache_path(path)
        except LongplayError as error:
            return Verdict(level="claimed", problem=str(error))
        with contextlib.suppress(DocumentError):
            verdict = read_document(kept, Verdict)
            if verdict.level in _REACHED:
                return verdict
        return self._replay(path, kept) if plays else Verdict(level="claimed")

    def _replay(self, path: Path, kept: Path) -> Verdict:
        try:
            verdict = self._play(path)
        except CannotVerifyError as error:  # says nothing about the run
            return Verdict(level="claimed", problem=str(error))
        except LongplayError as error:
            verdict = Verdict(level="claimed", problem=str(error))
        if self._has_changed(path, kept):
            changed = "its files changed while it was replayed"
            return Verdict(level="claimed", problem=changed)
        # A verdict that cannot be kept costs time, not results.
        with contextlib.suppress(RecordingError):
            return self.keep(path, verdict)
        return verdict.model_copy(update={"made_by": self.made_by})

    def _has_changed(self, path: Path, kept: Path) -> bool:
        """Whether the bytes differ from those whose verdict is kept there."""
        try:
            return self._cache_path(path) != kept
        except LongplayError:
            return True

    def keep(self, path: Path, verdict: Verdict) -> Verdict:
        """Keeps a verdict on a run or pack, labelled with the command that made it.

        Raises:
            RecordingError: The disk refused it.
        """
        labelled = verdict.model_copy(update={"made_by": self.made_by})
        make_directory(self.folder, exist_ok=True)
        write_document(self._cache_path(path), labelled)
        return labelled

    def _cache_path(self, path: Path) -> Path:
        """Where the verdict on these bytes is kept, by these versions."""
        if path.is_file():
            judged: Any = hash_file(path)
        else:
            judged = RunDirectory(path).hash_verified_files()
        here = [longplay_version(), read_package_versions().get("ale-py")]
        text = json.dumps([judged, here], sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def _play(self, path: Path) -> Verdict:
        if path.is_file():
            return self._play_pack(path)
        return _make_verdict(verify_run(path, workers=self.workers))

    def _play_pack(self, path: Path) -> Verdict:
        with replayed_pack(path, workers=self.workers) as verification:
            return _make_verdict(verification)


def _make_verdict(verification: Verification) -> Verdict:
    if verification.passed:
        return Verdict(level="replayed")
    return Verdict(level="claimed", problem=verification.describe_failure())
