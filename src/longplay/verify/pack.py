"""Run directory <-> one small file with everything that replay cannot reproduce.

The row files that replay reproduces are not in a pack: unpacking replays the answers,
and the resulting rows must have the sizes and hashes of the manifest. Curves are in it,
so that every number of a comparison can be read from a pack; they must be reproduced
as well. So a pack that unpacks and is valid
is verified; a second replay could find nothing new. The same directory gives the same
bytes. Unpacking works in a folder beside the target and renames it on success; on
failure the folder is removed.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import repeat
from pathlib import Path

import numpy as np

from longplay.contract.config import RunConfig
from longplay.contract.files import (
    RowFile,
    hash_file,
    make_directory_beside,
    move_directory,
    read_bounded,
    read_document,
    remove_directory,
    render_document,
    write_chunks,
)
from longplay.contract.rundir import REPLAYED_FILES, ROW_FILES, find_run
from longplay.errors import AgentError, CannotVerifyError, OutputError, PackError
from longplay.runs.recorder import Recorder, RowFiles
from longplay.tracks.catalogue import make_stream, track_of
from longplay.validation import validate_run
from longplay.verify.archive import render_archive
from longplay.verify.pack_file import (
    ANSWERS,
    ATTACHMENTS,
    DOCUMENTS,
    MANIFEST,
    Manifest,
    PackFile,
    compress,
    packed_name,
)
from longplay.verify.replay import (
    ReplayObserver,
    ReplayWatch,
    begin_visit,
    feed_stream,
    ignore_replay,
    read_decisions,
)
from longplay.verify.verification import (
    Verification,
    check_playable,
    compare_emulators,
    verify_run,
)

# A prediction of answers.zst, the same bytes on every machine.
_PREDICTION = np.dtype("<f8")

# --- Packing --------------------------------------------------------------------


def pack_run(
    directory: str | Path,
    target: Path,
    *,
    workers: int = 1,
    observer: ReplayObserver = ignore_replay,
) -> Manifest:
    """Verifies a run and packs it into one file.

    Raises:
        PackError: The run did not pass verification.
        OutputError: The file exists.
        LongplayError: The run is incomplete or cannot be verified here.
    """
    if target.exists() or target.is_symlink():
        raise OutputError(f"{target} exists; choose another name with -o")
    run_dir = find_run(Path(directory))
    verification = verify_run(run_dir, workers=workers, observer=observer)
    if not verification.passed:
        raise PackError(
            f"{run_dir} was not packed, because verification failed: "
            f"{verification.describe_failure()}"
        )
    contents = _read_contents(run_dir)
    members = {packed_name(n): compress(c) for n, c in contents.items()}
    manifest = _describe(run_dir, contents | members)
    parts = {MANIFEST: render_document(manifest), **members}
    write_chunks(target, render_archive(parts.items()))
    return manifest


def _read_contents(run_dir: Path) -> dict[str, bytes]:
    """The content of a pack, in its order."""
    paths = [run_dir / name for name in DOCUMENTS]
    there = [path for path in paths if path.exists() or path.is_symlink()]
    documents = {path.name: read_bounded(path) for path in there}
    return {**documents, ANSWERS: _read_answers(run_dir)}


def _read_answers(run_dir: Path) -> bytes:
    config = read_document(run_dir / "config.json", RunConfig)
    decisions = read_decisions(run_dir / REPLAYED_FILES[0], 0, config.total_frames)
    if track_of(config).predicts:
        return np.array([one.answer for one in decisions], _PREDICTION).tobytes()
    return bytes(one.action for one in decisions if one.is_decision_frame)


def _describe(run_dir: Path, contents: Mapping[str, bytes]) -> Manifest:
    rows = [run_dir / name for name in REPLAYED_FILES]
    return Manifest(
        sizes={
            **{name: len(content) for name, content in contents.items()},
            **{path.name: path.stat().st_size for path in rows},
        },
        sha256={
            **{n: hashlib.sha256(c).hexdigest() for n, c in contents.items()},
            **{path.name: hash_file(path) for path in rows},
        },
    )


# --- Unpacking ------------------------------------------------------------------


def unpack_run(
    path: Path, target: Path, *, observer: ReplayObserver = ignore_replay
) -> Path:
    """Replays a pack and writes the run directory it was made from.

    Raises:
        PackError: The file is damaged, or its replay does not match its manifest.
        CannotVerifyError: Its replay does not match, under another emulator version.
        OutputError: The target exists, or the disk is too small.
    """
    if target.exists() or target.is_symlink():
        raise OutputError(f"{target} exists; choose another folder with -o")
    if not target.parent.is_dir():
        raise OutputError(f"{target.parent}: no such folder to unpack in")
    with PackFile(path) as pack:
        _check_disk(pack.manifest, target.parent)
        folder = make_directory_beside(target)
        try:
            _unpack(pack, folder, observer)
            move_directory(folder, target)
        except BaseException as error:
            remove_directory(folder)
            if isinstance(error, PackError):
                raise PackError(f"{path} was not unpacked: {error}") from error
            raise
    return target


@contextmanager
def replayed_pack(
    path: Path,
    *,
    workers: int = 1,
    observer: ReplayObserver = ignore_replay,
    origin: Path | None = None,
) -> Iterator[Verification]:
    """Replays and validates a pack; its run directory exists until the context ends.

    Args:
        path: The pack.
        workers: Processes that validate.
        observer: Receives the progress of the replay.
        origin: Of a probe: the run directory that it is a probe of.

    Raises:
        LongplayError: As `unpack_run` does.
    """
    with tempfile.TemporaryDirectory(prefix="longplay-") as folder:
        run_dir = unpack_run(path, Path(folder) / "run", observer=observer)
        config = read_document(run_dir / "config.json", RunConfig)
        yield Verification(
            run_dir=run_dir,
            method="replay",
            frames=config.total_frames,
            visits=tuple(visit.visit_idx for visit in config.played_schedule),
            difference=None,
            report=validate_run(run_dir, workers=workers, origin=origin),
        )


def _check_disk(manifest: Manifest, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if manifest.run_bytes > free:
        raise OutputError(
            f"{folder}: the run takes {manifest.run_bytes:,} bytes, {free:,} are free"
        )


def _unpack(pack: PackFile, folder: Path, observer: ReplayObserver) -> None:
    pack.extract_documents(folder)
    for name in ATTACHMENTS:
        if name in pack.documents:
            pack.extract(name, folder)
    config = read_document(folder / "config.json", RunConfig)
    check_playable(config)
    try:
        _play_answers(pack, config, folder, observer)
    except PackError as error:
        if others := compare_emulators(config):
            raise CannotVerifyError(
                f"cannot unpack here: {'; '.join(others)}. With the versions "
                f"installed here {error}"
            ) from error
        raise


def _play_answers(
    pack: PackFile, config: RunConfig, folder: Path, observer: ReplayObserver
) -> None:
    answers = PackedAnswers(split_answers(pack.read_answers(), config))
    announced = pack.manifest.sizes
    files = [
        _AnnouncedRows(folder / name, pack.manifest)
        for name in ROW_FILES
        if name in announced
    ]
    # A pack of version 1 has no curves; the run gets them here.
    missing = [RowFile.create(folder / n) for n in ROW_FILES if n not in announced]
    recorder = Recorder(RowFiles(*files, *missing))
    stream = make_stream(config)
    played = [0] * len(config.played_schedule)
    watch = ReplayWatch([v.visit_frames for v in config.played_schedule], observer)
    try:
        for visit in config.played_schedule:
            begin_visit(stream, recorder)
            frames = repeat(answers, visit.visit_frames)
            for block in feed_stream(stream, recorder, frames):
                played[visit.visit_idx] = block.last.visit_frame_idx + 1
                watch.tell(played)
            recorder.end_visit({})
        recorder.sync()
    except AgentError as error:
        raise PackError(f"its answers do not fit its schedule: {error}") from error
    finally:
        recorder.close()
    for file in files:
        file.check()
    if answers.left:
        raise PackError(f"{answers.left:,} of its answers were not used")


def split_answers(content: bytes, config: RunConfig) -> Sequence[float]:
    """The answers of a pack: actions, or the predictions of a prediction run.

    Raises:
        PackError: They do not have the right size.
    """
    if not track_of(config).predicts:
        return content
    if len(content) % _PREDICTION.itemsize:
        raise PackError(f"{ANSWERS}: expected 8 bytes for each prediction")
    predictions: list[float] = np.frombuffer(content, _PREDICTION).tolist()
    return predictions


class PackedAnswers:
    """Replaces the agent: converting it to a number takes the next answer.

    The stream converts it to an index on decision frames only, or to a float on every
    frame of a prediction run.
    """

    def __init__(self, answers: Sequence[float]) -> None:
        self._answers = iter(answers)
        self.left = len(answers)

    def __repr__(self) -> str:
        return f"<{self.left} answers left>"

    def __index__(self) -> int:
        return int(self._take())

    def __float__(self) -> float:
        return float(self._take())

    def _take(self) -> float:
        self.left -= 1
        return next(self._answers)


class _AnnouncedRows(RowFile):
    """A row file that must match the manifest, and never exceeds its size."""

    def __init__(self, path: Path, manifest: Manifest) -> None:
        super().__init__(path, RowFile.create(path).fileno(), 0)
        self._announced_bytes = manifest.sizes[path.name]
        self._sha256 = manifest.sha256[path.name]
        self._digest = hashlib.sha256()

    def append(self, rows: bytes) -> None:
        if self.size_bytes + len(rows) > self._announced_bytes:
            raise PackError(
                f"{self.path.name}: replay gave more than the expected "
                f"{self._announced_bytes:,} bytes"
            )
        super().append(rows)
        self._digest.update(rows)

    def check(self) -> None:
        found = self._digest.hexdigest()
        if found != self._sha256:
            raise PackError(
                f"{self.path.name}: replay did not reproduce what was packed: expected "
                f"SHA-256 {self._sha256}, found {found}"
            )
