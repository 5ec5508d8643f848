"""The progress of a run -> TensorBoard or Weights & Biases, once per second.

<experiment>/tracking/<run>/        what the tracker writes

Trackers get summaries of the progress, never frames, and write outside of the run
directory: a run is bit-identical with and without one. This is the only module that
imports tensorboard or wandb.
"""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from longplay.contract.config import AgentEntry
from longplay.contract.documents import Score
from longplay.contract.files import make_directory
from longplay.errors import ConfigError, MissingExtraError
from longplay.plan import RunPlan
from longplay.runs.loop import Observer, Progress
from longplay.runs.options import RunOptions, Tracker

TRACKING_FOLDER = "tracking"

_INTERVAL_S = 1.0


class _Writer(Protocol):
    """Where numbers go."""

    def write(self, frame: int, values: Mapping[str, float]) -> None:
        """Writes numbers of a frame."""

    def close(self) -> None:
        """Writes the rest."""


class Tracking:
    """Sends the progress of one run to a tracker, if there is one."""

    def __init__(self, writer: _Writer | None) -> None:
        self._writer = writer
        self._next_s = 0.0

    def watch(self, observer: Observer) -> Observer:
        """An observer that also sends what it sees."""
        if self._writer is None:
            return observer

        def watch(progress: Progress) -> None:
            self._observe(progress)
            observer(progress)

        return watch

    def _observe(self, progress: Progress) -> None:
        now_s = time.monotonic()
        if self._writer is None or now_s < self._next_s:
            return
        self._next_s = now_s + _INTERVAL_S
        found = {
            "reward_rate": progress.reward_rate,
            "last_return": progress.last_return,
            "fps": progress.fps,
            "visit": progress.visit_idx,
            **{f"agent/{name}": value for name, value in progress.metrics.items()},
        }
        known = {name: float(v) for name, v in found.items() if v is not None}
        self._writer.write(progress.frame, known)

    def write_score(self, frames: int, score: Score) -> None:
        """Sends the score of the complete run, which has this many frames."""
        if self._writer is not None and score.headline is not None:
            self._writer.write(frames, {f"score/{score.HEADLINE}": score.headline})


def check_tracker(tracker: Tracker) -> None:
    """Checks that a tracker is installed, before a run makes any folder.

    Raises:
        MissingExtraError: It is not.
    """
    if importlib.util.find_spec(tracker) is None:
        raise MissingExtraError.of(f"--track {tracker} needs it", "track")


@contextlib.contextmanager
def track_run(
    plan: RunPlan, agent: AgentEntry, run_dir: Path, options: RunOptions
) -> Iterator[Tracking]:
    """Opens the tracker of a run.

    Raises:
        MissingExtraError: It is not installed; nothing was played.
        ConfigError: It refuses to start; nothing was played.
    """
    if options.tracker is None:
        yield Tracking(None)
        return
    folder = run_dir.parent.parent / TRACKING_FOLDER / run_dir.name
    make_directory(folder, exist_ok=True)
    writer: _Writer
    if options.tracker == "tensorboard":
        writer = _TensorBoard(folder)
    else:
        settings = {"suite": plan.suite_name, "seed": plan.seed, "agent": agent.config}
        writer = _WeightsAndBiases(folder, plan.trajectory_id, settings)
    try:
        yield Tracking(writer)
    finally:
        writer.close()


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
        try:
            self._run = wandb.init(
                project="longplay", name=name, dir=str(folder), config=settings
            )
        except wandb.Error as error:
            raise ConfigError(
                f"--track wandb: {error}; WANDB_MODE=offline needs no account"
            ) from error

    def write(self, frame: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=frame)

    def close(self) -> None:
        self._run.finish()
