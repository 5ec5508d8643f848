"""Runs and packs -> trust levels, cached by content.

A verdict is about bytes, not paths: it is cached under a hash of the verified files'
hashes, outside the run directory, so that a run is replayed only once per machine,
packed or not. Verdicts of different emulator versions are kept apart.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from longplay.analysis.curves import read_curves
from longplay.analysis.runs import MeasuredRun, OpenedPack
from longplay.contract.files import (
    hash_file,
    make_directory,
    read_document,
    write_document,
)
from longplay.contract.records import Document, ProofLevel, VerificationRecord
from longplay.contract.rundir import VERIFIED_FILES, RunDirectory, list_changed
from longplay.errors import (
    CannotVerifyError,
    DocumentError,
    LongplayError,
    RecordingError,
)
from longplay.provenance import longplay_version, read_package_versions
from longplay.verify.pack import replayed_pack
from longplay.verify.pack_file import PackFile
from longplay.verify.verification import Verification, verify_run


class Verdict(Document):
    """The trust level of a run.

    Attributes:
        level: claimed, replayed, re-executed (unconfined) or re-executed.
        problem: Why verification failed; None if it did not.
    """

    level: ProofLevel
    problem: str | None = None


def open_pack(path: Path) -> OpenedPack:
    """The documents of a pack, without playing it.

    Raises:
        PackError: It is damaged, or more than a pack.
    """
    with PackFile(path) as packed:
        return OpenedPack(
            packed.read_documents(), packed.manifest.sha256["events.jsonl"]
        )


def read_trust(run: MeasuredRun) -> ProofLevel:
    """The trust level from a run's verification.json, if it matches the files."""
    if run.path.is_file():
        return read_recorded_trust(open_pack(run.path).run)
    documents = RunDirectory(run.path)
    return _level_of(documents.verification, documents.hash_verified_files)


def read_recorded_trust(run: RunDirectory) -> ProofLevel:
    """As `read_trust`, by the hashes of row files that run_summary.json records.

    Reads no rows where the summary records them: fast, but blind to rows that were
    changed later without changing their length.
    """
    if run.path.is_file():
        with PackFile(run.path) as packed:
            return _level_of(run.verification, lambda: packed.manifest.sha256)
    return _level_of(run.verification, lambda: _read_recorded_hashes(run))


def _level_of(
    record: VerificationRecord | None, read_hashes: Callable[[], Mapping[str, str]]
) -> ProofLevel:
    """The level of a verification if it is about the files as they are."""
    if record is None or not record.passed or list_changed(record, read_hashes()):
        return "claimed"
    return record.level


def _read_recorded_hashes(run: RunDirectory) -> dict[str, str]:
    hashes = {name: _hash_recorded(run, name) for name in VERIFIED_FILES}
    return {name: found for name, found in hashes.items() if found is not None}


def _hash_recorded(run: RunDirectory, name: str) -> str | None:
    """The hash of a file, without reading it if its length is the recorded one."""
    path = run.path / name
    if not path.is_file():
        return None
    rows = run.summary.rows if run.summary else None
    recorded = rows.get(name) if rows else None
    if recorded is not None and recorded.bytes == path.stat().st_size:
        return recorded.sha256
    return hash_file(path)


@dataclass(frozen=True)
class Judge:
    """Replays the runs that this machine has not verified yet.

    Attributes:
        folder: Cache of verdicts.
        curves: Cache of row scans: rows of a pack exist only while it is verified.
        workers: Worker processes.
    """

    folder: Path
    curves: Path
    workers: int = 1

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
            return read_document(kept, Verdict)
        if not plays:
            return Verdict(level="claimed")
        try:
            verdict = self._play(path)
        except CannotVerifyError as error:  # says nothing about the run
            return Verdict(level="claimed", problem=str(error))
        except LongplayError as error:
            verdict = Verdict(level="claimed", problem=str(error))
        # A verdict that cannot be kept costs time, not results.
        with contextlib.suppress(RecordingError):
            make_directory(self.folder, exist_ok=True)
            write_document(kept, verdict)
        return verdict

    def _cache_path(self, path: Path) -> Path:
        if path.is_file():
            with PackFile(path) as packed:
                hashes: Mapping[str, str] = packed.manifest.sha256
        else:
            hashes = RunDirectory(path).hash_verified_files()
        checked = {name: hashes.get(name) for name in VERIFIED_FILES}
        here = [longplay_version(), read_package_versions().get("ale-py")]
        text = json.dumps([checked, here], sort_keys=True)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()}.json"

    def _play(self, path: Path) -> Verdict:
        if path.is_file():
            return self._play_pack(path)
        return _make_verdict(verify_run(path, workers=self.workers))

    def _play_pack(self, path: Path) -> Verdict:
        with replayed_pack(path, workers=self.workers) as verification:
            if verification.passed:
                read_curves(RunDirectory(verification.run_dir), self.curves)
            return _make_verdict(verification)


def _make_verdict(verification: Verification) -> Verdict:
    if verification.passed:
        return Verdict(level="replayed")
    return Verdict(level="claimed", problem=verification.describe_failure())
