"""The rows of a stopped recording -> its stream and recorder before one of its frames.

The frames before it are replayed with the recorded decisions, and every row that this
gives must be the recorded one, byte for byte. Nothing is changed before that: then the
recorder of the continued run cuts off what was recorded from that frame on.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import msgspec

from longplay.contract.config import RunConfig
from longplay.contract.documents import VisitSummary
from longplay.contract.files import iter_rows, open_regular
from longplay.contract.rundir import ROW_FILES, RunDirectory
from longplay.errors import AgentError, DifferenceError, DocumentError, ResumeError
from longplay.runs.checked_rows import CheckedRows
from longplay.runs.metric_rows import METRICS_FILE
from longplay.runs.recorder import Recorder, RecorderState, RowFiles
from longplay.runs.recovery import explain_difference
from longplay.runs.session import check_identity
from longplay.runs.status import RunView
from longplay.stream import Stream

_NOT_A_ROW = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class _Place(msgspec.Struct):
    """What is read here of a row of metrics.jsonl."""

    global_frame_idx: int


def check_resumable(view: RunView, config: RunConfig, frame: int) -> None:
    """Checks that a recorded run can be continued before a frame.

    Args:
        view: The run.
        config: Its config, as it would be started now.
        frame: Number of frames to keep.

    Raises:
        ResumeError: There is no run, it is being recorded, it is complete and has later
            frames, or it was recorded by another agent or on another emulator.
    """
    if view.status is None:
        raise ResumeError(
            f"resume: expected a recorded run in {view.run_dir}, found none"
        )
    if view.state == "RUNNING":
        raise ResumeError(
            f"resume: {view.run_dir} is being recorded by process {view.status.pid}; "
            "close that environment first"
        )
    if view.state == "COMPLETED" and frame < view.plan.total_frames:
        raise ResumeError(
            f"resume: {view.run_dir} is complete; a run is not played again from frame "
            f"{frame:,}. Record to another folder, or reset with another seed"
        )
    try:
        recorded = RunDirectory(view.run_dir).config
    except DocumentError as error:
        raise ResumeError(f"{error}; the run cannot be resumed") from error
    check_identity(recorded, config)


def replay_rows(view: RunView, stream: Stream, frame: int) -> RecorderState:
    """Plays a new stream up to a frame of its recorded run, and checks every row.

    Args:
        view: The run.
        stream: Its stream, before its first frame.
        frame: Number of frames to replay.

    Returns:
        The state of the recorder there.

    Raises:
        ResumeError: A row is missing, or is not reproduced; nothing was changed.
    """
    try:
        files = RowFiles(*(CheckedRows.open(view.run_dir / n) for n in ROW_FILES))
        recorder = Recorder(files)
        try:
            for decision in _read_decisions(view, frame):
                _replay_frame(recorder, stream, decision)
            state = recorder.snapshot()
        finally:
            recorder.close()
        metrics_bytes = _measure_metrics(view.run_dir / METRICS_FILE, frame)
    except DifferenceError as error:
        raise explain_difference(error) from error
    except (AgentError, DocumentError, *_NOT_A_ROW) as error:
        raise ResumeError(f"{error}; the run cannot be resumed") from error
    return _with_recorded_times(view, state).model_copy(
        update={"sizes_bytes": {**state.sizes_bytes, METRICS_FILE: metrics_bytes}}
    )


def _replay_frame(recorder: Recorder, stream: Stream, decision: int) -> None:
    event = stream.advance(decision)
    if event.visit_frame_idx == 0:
        recorder.begin_visit(stream.visit, stream.console.actions)
    recorder.write_frame(event, stream)
    if event.truncated:
        recorder.end_visit({})


def _read_decisions(view: RunView, frame: int) -> Iterator[int]:
    """The recorded decision of each frame before `frame`."""
    path = view.run_dir / "events.jsonl"
    decode = msgspec.json.Decoder(view.plan.config.event_row).decode
    count = 0
    with open_regular(path) as file:
        for line in itertools.islice(iter_rows(file, path.name), frame):
            if line.endswith(b"\n"):  # else torn, by a process that was killed
                count += 1
                yield decode(line).decided_action_idx
    if count < frame:
        raise ResumeError(
            f"resume: expected a frame up to {count:,}, where {path} ends, found "
            f"{frame:,}; continue from an earlier state of the loop"
        )


def _measure_metrics(path: Path, frame: int) -> int:
    """Bytes of metrics.jsonl before a frame."""
    if not path.is_file():
        return 0
    decode = msgspec.json.Decoder(_Place).decode
    size = 0
    with open_regular(path) as file:
        for line in iter_rows(file, path.name):
            if not line.endswith(b"\n") or decode(line).global_frame_idx >= frame:
                break
            size += len(line)
    return size


def _with_recorded_times(view: RunView, state: RecorderState) -> RecorderState:
    """The state with the times of the run, as far as known: a replay is faster."""
    assert view.status is not None  # `check_resumable` requires it
    started_utc, fps = view.status.started_utc, view.status.fps
    state = state.model_copy(update={"started_utc": started_utc})
    if not fps:
        return state

    def at_recorded_speed(visit: VisitSummary) -> VisitSummary:
        return visit.model_copy(update={"wall_time_s": visit.frames / fps})

    visit = state.visit and at_recorded_speed(state.visit)
    visits = tuple(map(at_recorded_speed, state.visits))
    return state.model_copy(update={"visits": visits, "visit": visit})
