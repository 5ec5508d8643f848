"""The rows of a run -> TensorBoard or Weights & Biases, while it is played.

<experiment>/tracking/<run>/        what the tracker writes

    return/<game>         of every game episode, at its last frame
    reward_rate/<game>    of every sixtieth of a visit, once the visit has ended;
                          of prediction runs mse/<game>
    agent/<metric>        of every window of decisions, as in metrics.jsonl
    fps, visit            once per second
    score/<headline>      at the end

All but `fps` and `visit` come from rows of the run directory, so that runs of one suite
have their points at the same frames, however fast the machine. Trackers only read, and
write outside of the run directory: a run is bit-identical with and without one. This is
the only module that imports tensorboard or wandb.
"""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

import msgspec
import numpy as np

from longplay.contract.config import AgentEntry, visit_spans
from longplay.contract.curves import CURVES_FILE, count_frames
from longplay.contract.documents import Score
from longplay.contract.files import make_directory
from longplay.contract.rows import CurveRow, EpisodeRow
from longplay.errors import ConfigError, MissingExtraError
from longplay.plan import RunPlan
from longplay.runs.loop import Observer, Progress
from longplay.runs.metric_rows import METRICS_FILE
from longplay.runs.options import RunOptions, Tracker

TRACKING_FOLDER = "tracking"

_INTERVAL_S = 1.0
_Row = TypeVar("_Row")
# A frame, and the numbers that belong to it.
_Point = tuple[int, Mapping[str, float | None]]


class _Writer(Protocol):
    """Where numbers go."""

    def write(self, frame: int, values: Mapping[str, float]) -> None:
        """Writes numbers of a frame."""

    def close(self) -> None:
        """Writes the rest."""


class _NewRows(Generic[_Row]):
    """The rows of a file that grows, each read once."""

    def __init__(self, path: Path, row_type: type[_Row]) -> None:
        self._path = path
        self._decoder = msgspec.json.Decoder(row_type)
        self._offset = 0

    def read(self) -> list[_Row]:
        """The whole rows that were added; none before the file is there."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                lines, end, _ = file.read().rpartition(b"\n")
        except FileNotFoundError:
            return []
        self._offset += len(lines) + len(end)
        return self._decoder.decode_lines(lines + end)


class RunRows:
    """What a tracker shows of the rows of a run."""

    def __init__(self, run_dir: Path, plan: RunPlan) -> None:
        self._spans = visit_spans(plan.config.played_schedule)
        self._episodes = _NewRows(run_dir / "episodes.jsonl", EpisodeRow)
        self._curves = _NewRows(run_dir / CURVES_FILE, CurveRow)
        self._metrics = _NewRows(run_dir / METRICS_FILE, dict[str, float | None])

    def read(self) -> Iterator[_Point]:
        """The points that were added since the last call."""
        for episode in self._episodes.read():
            values = {f"return/{episode.game_id}": episode.return_}
            yield episode.end_global_frame_idx, values
        for metrics in self._metrics.read():
            frame = int(metrics.pop("global_frame_idx") or 0)
            del metrics["visit_idx"]
            yield frame, {f"agent/{name}": value for name, value in metrics.items()}
        for row in self._curves.read():
            yield from self._split_visit(row)

    def _split_visit(self, row: CurveRow) -> Iterator[_Point]:
        """The mean of every window of a visit, at the window's last frame."""
        (frames,) = count_frames([row.frames], row.frames)
        errors = row.squared_error_sums
        name, sums = (
            ("reward_rate", row.reward_sums) if errors is None else ("mse", errors)
        )
        ends = self._spans[row.visit_idx].start + np.cumsum(frames) - 1
        for end, count, total in zip(ends, frames, sums, strict=True):
            if count:  # a short visit has windows without a frame
                yield int(end), {f"{name}/{row.game_id}": total / int(count)}


class Tracking:
    """Sends the progress of one run to a tracker."""

    def __init__(self, writer: _Writer, rows: RunRows) -> None:
        self._writer = writer
        self._rows = rows
        self._next_s = 0.0
        # Rows before it were sent by the process that this one continues.
        self._first_frame = 0

    def observe(self, progress: Progress) -> None:
        """Sends what is new, at most once per second."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + _INTERVAL_S
        self._first_frame = progress.first_frame
        self.send_rows()
        self._write(progress.frame, {"fps": progress.fps, "visit": progress.visit_idx})

    def send_rows(self) -> None:
        """Sends the rows that were added."""
        for frame, values in self._rows.read():
            if frame >= self._first_frame:
                self._write(frame, values)

    def write_score(self, frames: int, score: Score) -> None:
        """Sends the score of the complete run, which has this many frames."""
        self.send_rows()
        self._write(frames, {f"score/{score.HEADLINE}": score.headline})

    def _write(self, frame: int, values: Mapping[str, float | None]) -> None:
        known = {name: float(v) for name, v in values.items() if v is not None}
        if known:
            self._writer.write(frame, known)


def check_tracker(tracker: Tracker) -> None:
    """Checks that a tracker can be used, before a run makes any folder.

    Raises:
        MissingExtraError: It is not installed.
        ConfigError: It needs an account and has none.
    """
    if importlib.util.find_spec(tracker) is None:
        raise MissingExtraError.of(f"--track {tracker} needs it", "track")
    if tracker == "wandb":
        import wandb

        with _naming_errors(wandb.Error):
            wandb.login()  # does nothing if W&B is offline


@contextlib.contextmanager
def _naming_errors(kind: type[Exception]) -> Iterator[None]:
    """Turns errors of W&B into ours."""
    try:
        yield
    except kind as error:
        raise ConfigError(
            f"--track wandb: {error}; WANDB_MODE=offline needs no account"
        ) from error


@contextlib.contextmanager
def track_run(
    plan: RunPlan, agent: AgentEntry, run_dir: Path, options: RunOptions
) -> Iterator[Tracking | None]:
    """Opens the tracker of a run; None if it has none.

    Raises:
        MissingExtraError: It is not installed; nothing was played.
        ConfigError: It refuses to start; nothing was played.
    """
    if options.tracker is None:
        yield None
        return
    folder = run_dir.parent.parent / TRACKING_FOLDER / run_dir.name
    make_directory(folder, exist_ok=True)
    writer: _Writer
    if options.tracker == "tensorboard":
        writer = _TensorBoard(folder)
    else:
        settings = {"suite": plan.suite_name, "seed": plan.seed, "agent": agent.config}
        writer = _WeightsAndBiases(folder, plan.trajectory_id, settings)
    tracking = Tracking(writer, RunRows(run_dir, plan))
    try:
        yield tracking
    finally:
        tracking.send_rows()
        writer.close()


def watch_both(observer: Observer, tracking: Tracking | None) -> Observer:
    """An observer that also sends what it sees to a tracker, if there is one."""
    if tracking is None:
        return observer

    def watch(progress: Progress) -> None:
        tracking.observe(progress)
        observer(progress)

    return watch


class _TensorBoard:
    def __init__(self, folder: Path) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise MissingExtraError.of(
                "--track tensorboard needs it", "track"
            ) from error
        self._event, self._summary = Event, Summary
        self._writer = EventFileWriter(str(folder))

    def write(self, frame: int, values: Mapping[str, float]) -> None:
        entries = [
            self._summary.Value(tag=name, simple_value=value)
            for name, value in values.items()
        ]
        summary = self._summary(value=entries)
        self._writer.add_event(
            self._event(step=frame, wall_time=time.time(), summary=summary)
        )

    def close(self) -> None:
        self._writer.close()


class _WeightsAndBiases:
    def __init__(self, folder: Path, name: str, settings: dict[str, Any]) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingExtraError.of("--track wandb needs it", "track") from error
        # Where it sends to, and whether, is up to W&B's own settings (WANDB_MODE, …).
        with _naming_errors(wandb.Error):
            self._run = wandb.init(
                project="longplay", name=name, dir=str(folder), config=settings
            )
            # As W&B's own step, a frame could not follow a later one.
            self._run.define_metric("*", step_metric="frame")

    def write(self, frame: int, values: Mapping[str, float]) -> None:
        self._run.log({"frame": frame, **values})

    def close(self) -> None:
        self._run.finish()
