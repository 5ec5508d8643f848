"""A run -> its line in the list of runs, from its documents alone.

The numbers are those of `longplay compare` and of score.json; no rows are read.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from longplay.contract.config import RunConfig
from longplay.contract.documents import RunStatus
from longplay.contract.names import describe_args
from longplay.contract.rundir import RunDirectory
from longplay.errors import LongplayError, show_name
from longplay.lab.analysis.comparison import Request, compare
from longplay.lab.analysis.runs import FoundRuns, MeasuredRun, RunReader, key_of_run
from longplay.lab.report.site.verdicts import open_pack, trust_of
from longplay.lab.viewer.index import RunEntry, fingerprint_files
from longplay.plan import name_benchmark
from longplay.runs.status import derive_state
from longplay.scoring.anchors import Anchors
from longplay.tables import NOTHING
from longplay.tracks.catalogue import track_of

UNREADABLE = "UNREADABLE"
# States of runs that a process works on, or will.
IN_PROGRESS = ("QUEUED", "RUNNING")

# A sign and a word name a state; its colour only repeats them.
_SIGNS = {
    "QUEUED": "○",
    "RUNNING": "▶",
    "COMPLETED": "✓",
    "FAILED": "✗",
    "CANCELLED": "■",
    "STALE": "?",
    UNREADABLE: "✗",
}

# Errors while reading untrusted runs; a card shows them.
READ_ERRORS = (LongplayError, OSError, ValueError, ArithmeticError, RecursionError)


@dataclass(frozen=True)
class RunCard:
    """A run in the list.

    Attributes:
        entry: The run.
        agent: Name of its agent.
        args: Arguments of its agent; empty if there are none.
        suite: The name that all seeds of its suite share.
        seed: None if unknown.
        state: As in status.json; STALE and UNREADABLE are derived.
        frame: Frames played.
        frames_total: Frames to play.
        frame_noun: What a frame of it is called.
        started_utc: When it was started.
        heartbeat_utc: When its process last said that it lives.
        headline: Key of score.json that is the headline.
        score: The headline.
        normalised: Average z.
        trust: claimed, replayed or re-executed.
        isolation: none, process or sandbox.
        reward_rate: Delivered reward per frame of the visit that is being played.
        metrics: What the agent last reported.
        problem: Why it failed, or cannot be read.
    """

    entry: RunEntry
    agent: str = ""
    args: str = ""
    suite: str = ""
    seed: int | None = None
    state: str = UNREADABLE
    frame: int = 0
    frames_total: int = 0
    frame_noun: str = "frame"
    started_utc: str | None = None
    heartbeat_utc: str | None = None
    headline: str = ""
    score: float | None = None
    normalised: float | None = None
    trust: str = "claimed"
    isolation: str = "none"
    reward_rate: float | None = None
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    problem: str | None = None

    @property
    def is_live(self) -> bool:
        """Whether it changes while it is shown."""
        return self.state in IN_PROGRESS

    @property
    def share(self) -> float:
        """Share of its frames that were played."""
        return self.frame / self.frames_total if self.frames_total > 0 else 0.0


def describe_state(state: str) -> str:
    """`✓ COMPLETED`."""
    return f"{_SIGNS.get(state, '?')} {state}"


def describe_date(moment: str | None) -> str:
    """`2026-11-18 09:12`, of a time in UTC."""
    return NOTHING if moment is None else moment[:16].replace("T", " ")


def describe_progress(card: RunCard) -> str:
    """`1,200 of 12,039 frames (10 %)`; `12,039 frames` at the end."""
    if not card.frames_total:
        return NOTHING
    if card.frame == card.frames_total:
        return f"{card.frame:,} {card.frame_noun}s"
    of = f"{card.frame:,} of {card.frames_total:,} {card.frame_noun}s"
    return f"{of} ({100 * card.share:.0f} %)"


def describe_learning(card: RunCard) -> str:
    """`reward 0.012 per frame, loss 1.5`: what a run in progress last reported."""
    parts = [
        f"{name} {NOTHING if value is None else format(value, '.3g')}"
        for name, value in card.metrics.items()
    ]
    if card.reward_rate is not None:
        parts.insert(0, f"reward {card.reward_rate:.3g} per {card.frame_noun}")
    return ", ".join(parts) or NOTHING


class CardReader:
    """Reads cards, and keeps those of runs whose files did not change."""

    def __init__(self, anchors: Anchors) -> None:
        self._anchors = anchors
        self._reader = RunReader(open_pack)
        self._kept: dict[str, tuple[tuple[object, ...], RunCard]] = {}
        self._lock = threading.Lock()

    def read(self, entry: RunEntry) -> RunCard:
        """The card of a run, whatever its files contain."""
        files = fingerprint_files(entry)
        with self._lock:
            kept = self._kept.get(entry.id)
        # The state of a run in progress depends on the time, too.
        if kept is not None and kept[0] == files and not kept[1].is_live:
            return kept[1]
        try:
            card = self._read(entry)
        except READ_ERRORS as error:
            card = RunCard(entry, problem=str(error))
        with self._lock:
            self._kept[entry.id] = files, card
        return card

    def _read(self, entry: RunEntry) -> RunCard:
        run = entry.open()
        config, status, score = run.config, run.status, run.score
        key, track = key_of_run(run), track_of(config)
        return RunCard(
            entry,
            agent=key.name,
            args=_describe_args(config),
            suite=show_name(name_benchmark(config) or ""),
            seed=config.seed,
            state=state_of(run),
            frame=_frames_of(run),
            frames_total=config.total_frames,
            frame_noun=track.frame_noun,
            started_utc=_find_start(run),
            heartbeat_utc=status.heartbeat_utc if status else None,
            headline=track.headline,
            score=score.headline if score else None,
            normalised=self._normalise(entry) if score else None,
            trust=trust_of(run),
            isolation=key.isolation,
            reward_rate=status.reward_rate if status else None,
            metrics=status.metrics if status else {},
            problem=_describe_error(status),
        )

    def _normalise(self, entry: RunEntry) -> float | None:
        found = self._reader.read([entry.path])
        if not found.runs:
            return None
        return measure_alone(found.runs[0], self._anchors).get("average")


def measure_alone(run: MeasuredRun, anchors: Anchors) -> dict[str, float]:
    """Every number that `longplay compare` has of one run."""
    comparison = compare(FoundRuns((run,), ()), Request(anchors))
    (agent,) = comparison.suites[0].agents
    return {name: values[0] for name, values in agent.per_run.items()}


def state_of(run: RunDirectory) -> str:
    """The state of a run; of another tool's, whether it is scored."""
    if run.status is not None:
        return derive_state(run.status)
    return "COMPLETED" if run.score is not None else "UNKNOWN"


def _describe_args(config: RunConfig) -> str:
    args = config.agent.config.get("args") if config.agent is not None else None
    return show_name(describe_args(args)) if isinstance(args, dict) else ""


def _find_start(run: RunDirectory) -> str | None:
    if run.summary is not None:
        return run.summary.started_utc
    return run.status.started_utc if run.status is not None else None


def _frames_of(run: RunDirectory) -> int:
    if run.status is not None:
        return run.status.frame
    return run.score.frames if run.score is not None else 0


def _describe_error(status: RunStatus | None) -> str | None:
    if status is None or status.error is None:
        return None
    return f"{status.error.type}: {status.error.message}"
