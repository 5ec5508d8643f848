"""Checkpoints, from which a run resumes: its whole state between two frames.

    <run>/checkpoint/current.json           its number and hash, renamed into place last
    <run>/checkpoint/<n>/checkpoint.json    the stream's state and the recorder's, and
                                            those of the global random generators
    <run>/checkpoint/<n>/agent/             what the agent saved, if it can save

A checkpoint is written at visit ends, every minute or as `--checkpoint-every` says, and
when a run is asked to stop. It is never changed: the next one has its own folder, and
this one stays the current one until `current.json` names the next. At visit ends,
`states` keeps a copy of the agent's part. Nothing in here is ever unpickled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from longplay.agents.global_random import GlobalRandomState
from longplay.contract.documents import SCHEMA_VERSION, Document
from longplay.contract.files import (
    hash_tree,
    make_directory,
    open_regular,
    read_document,
    remove_directory,
    render_document,
    sync_tree,
    write_document,
    write_file,
)
from longplay.contract.rundir import ROW_FILES
from longplay.errors import DocumentError
from longplay.runs.recorder import RecorderState
from longplay.stream import StreamState

_FOLDER = "checkpoint"
_POINTER = "current.json"
_CHUNK_BYTES = 1024 * 1024


class _Pointer(Document):
    """current.json: names the current checkpoint."""

    schema_version: int = SCHEMA_VERSION
    number: int = Field(ge=0)
    sha256: str = Field(description="Of its checkpoint.json.")


class CheckpointRecord(Document):
    """checkpoint.json: everything but the agent."""

    schema_version: int = SCHEMA_VERSION
    stream: StreamState
    recorder: RecorderState
    # SHA-256 of each row file; for events.jsonl only of the part that the chain does
    # not cover yet.
    sha256: dict[str, str]
    # SHA-256 over the files that the agent saved; None if it cannot save.
    agent_sha256: str | None
    # Of `random`, `numpy.random` and torch.
    global_random: GlobalRandomState


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint as read from the disk."""

    record: CheckpointRecord
    # Where the agent saved itself; None if it cannot.
    agent_dir: Path | None

    @property
    def frame(self) -> int:
        """The next frame to be played."""
        return self.record.stream.global_frame_idx


class CheckpointWriter:
    """Writes the checkpoints of one run, each replacing the last."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir
        self._folder = run_dir / _FOLDER
        pointer = _read_pointer(self._folder)
        self._number = None if pointer is None else pointer.number

    def write(
        self,
        stream: StreamState,
        recorder: RecorderState,
        save_agent: Callable[[Path], None] | None,
        keep_agent: Callable[[Path, GlobalRandomState], None] | None = None,
    ) -> None:
        """Writes a checkpoint; the rows it covers are on the disk already.

        Args:
            stream: The stream's state.
            recorder: The recorder's state.
            save_agent: Saves the agent to a folder, if it can be saved.
            keep_agent: Keeps what it saved, before this checkpoint is the current one.

        Raises:
            RecordingError: The write failed; the last checkpoint is still current.
        """
        number = 0 if self._number is None else self._number + 1
        folder = self._folder / str(number)
        remove_directory(folder)  # left by a process that was killed while writing it
        make_directory(folder)
        agent_sha256 = None
        global_random = GlobalRandomState.read()
        if save_agent is not None:
            make_directory(folder / "agent")
            save_agent(folder / "agent")
            # The clock decides when to save, so saving must not change any draws.
            global_random.restore()
            sync_tree(folder / "agent")
            agent_sha256 = hash_tree(folder / "agent")
            if keep_agent is not None:
                keep_agent(folder / "agent", global_random)
        record = CheckpointRecord(
            stream=stream,
            recorder=recorder,
            sha256={
                name: hash_part(self._run_dir / name, *covered_part(name, recorder))
                for name in ROW_FILES
            },
            agent_sha256=agent_sha256,
            global_random=global_random,
        )
        document = render_document(record)
        write_file(folder / "checkpoint.json", document)
        pointer = _Pointer(number=number, sha256=hashlib.sha256(document).hexdigest())
        write_document(self._folder / _POINTER, pointer)
        if self._number is not None:
            remove_directory(self._folder / str(self._number))
        self._number = number


def covered_part(name: str, recorder: RecorderState) -> tuple[int, int]:
    """The bytes of a row file that a checkpoint's own hash covers."""
    start = recorder.chained_bytes if name == "events.jsonl" else 0
    return start, recorder.sizes_bytes[name]


def read_checkpoint(run_dir: Path) -> Checkpoint | None:
    """The current checkpoint; None if there is none that can be read."""
    folder = run_dir / _FOLDER
    pointer = _read_pointer(folder)
    if pointer is None:
        return None
    path = folder / str(pointer.number) / "checkpoint.json"
    try:
        record = read_document(path, CheckpointRecord)
    except DocumentError:
        return None
    if hash_part(path, 0, path.stat().st_size) != pointer.sha256:
        return None
    if record.agent_sha256 is None:
        return Checkpoint(record, None)
    agent_dir = path.parent / "agent"
    is_sound = agent_dir.is_dir() and hash_tree(agent_dir) == record.agent_sha256
    return Checkpoint(record, agent_dir) if is_sound else None


def _read_pointer(folder: Path) -> _Pointer | None:
    try:
        return read_document(folder / _POINTER, _Pointer)
    except DocumentError:
        return None


def remove_checkpoints(run_dir: Path) -> None:
    """Removes the checkpoints, which a complete run no longer needs."""
    remove_directory(run_dir / _FOLDER)


def hash_part(path: Path, start: int, end: int) -> str:
    """SHA-256 of a part of a file; of a shorter part if the file ends earlier."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        file.seek(start)
        while start < end and (data := file.read(min(_CHUNK_BYTES, end - start))):
            digest.update(data)
            start += len(data)
    return digest.hexdigest()
