"""An episode or a visit of a run, frame by frame."""

from __future__ import annotations

import shlex
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from longplay.console.base import ACTION_NAMES, OBSERVATION_SHAPE
from longplay.contract.config import ScheduledVisit
from longplay.lab.report.draw.colours import OKABE_ITO
from longplay.lab.report.site.sections import PageFigure
from longplay.lab.viewer.index import RunEntry, path_to_text
from longplay.lab.viewer.kept import PageNotFoundError
from longplay.lab.viewer.replays import CHUNK_FRAMES, Chunk
from longplay.lab.viewer.site import Site
from longplay.lab.viewer.tail import MetricPoints
from longplay.lab.viewer.zoom import count_actions
from longplay.tables import Cell, TextTable
from longplay.tracks.catalogue import track_of

# ALE plays 60 emulator frames per second.
_EMULATOR_FPS = 60


@dataclass(frozen=True)
class Clip:
    """What the page plays.

    Attributes:
        kind: episode or visit.
        number: Which one.
        first: Its first frame.
        end: The frame after its last one.
        frame: The frame to show first.
        fps: Frames per second at normal speed.
        game: The game.
    """

    kind: str
    number: int
    first: int
    end: int
    frame: int
    fps: float
    game: str


def render_clip(
    site: Site, entry: RunEntry, kind: str, number: int, frame: int | None
) -> bytes:
    """The page of an episode or a visit.

    Args:
        site: The viewer.
        entry: The run.
        kind: episode or visit.
        number: Which one.
        frame: The frame to show first; None for the first one.
    """
    run, card = entry.open(), site.cards.read(entry)
    track = track_of(run.config)
    frames = site.replays.find_clip(entry, kind, number)
    if frame is not None and frame not in frames:
        raise PageNotFoundError(
            f"{kind} {number} has the {track.frame_noun}s {frames.start:,} to "
            f"{frames.stop - 1:,}"
        )
    config = run.config
    clip = Clip(
        kind,
        number,
        frames.start,
        frames.stop,
        frames.start if frame is None else frame,
        _EMULATOR_FPS / (config.frame_skip or 1),
        _find_game(config.played_schedule, frames.start),
    )
    with site.show_run(entry, with_curves=True) as shown:
        metrics = _cut_metrics(shown.metrics, frames)
    return site.render(
        "episode.html",
        card=card,
        entry=entry,
        clip=clip,
        config=config,
        noun=track.frame_noun,
        predicts=track.predicts,
        chunk_frames=CHUNK_FRAMES,
        height=OBSERVATION_SHAPE[0],
        width=OBSERVATION_SHAPE[1],
        actions=ACTION_NAMES,
        used=_draw_actions(entry, frames, track.frame_noun),
        metrics=metrics,
        experiment=site.index.read().experiments.get(entry.experiment_id or ""),
        delay=config.delay,
        interval=config.decision_interval,
        command=_video_command(entry, kind, number),
    )


def _draw_actions(entry: RunEntry, frames: range, noun: str) -> PageFigure | None:
    """How often each action was applied; None without rows, or with too many."""
    counts = None if entry.is_pack else count_actions(entry.path, frames)
    if not counts or not (total := sum(counts)):
        return None
    used = [(name, n) for name, n in zip(ACTION_NAMES, counts, strict=True) if n]
    names, values = (list(column) for column in zip(*used, strict=True))
    bars = {"type": "bar", "x": names, "y": values, "marker": {"color": OKABE_ITO[0]}}
    layout = {
        "height": 260,
        "margin": {"l": 70, "r": 20, "t": 10, "b": 40},
        "xaxis": {"type": "category", "automargin": True},
        "yaxis": {"title": {"text": f"{noun}s"}},
        "font": {"size": 12},
    }
    rows = [(name, n, Cell(f"{n / total:.1%}", n / total)) for name, n in used]
    table = TextTable.of("applied actions", ("action", f"{noun}s", "share"), rows)
    caption = f"{noun.capitalize()}s on which each action was applied."
    data = {"data": [bars], "layout": layout}
    return PageFigure("actions", "Actions", caption, data, {}, table)


def _cut_metrics(
    metrics: Mapping[str, MetricPoints], frames: range
) -> dict[str, dict[str, list[Any]]]:
    """The windows of metrics that end in some frames, and the next one."""
    found: dict[str, dict[str, list[Any]]] = {}
    for name, points in metrics.items():
        first = bisect_left(points.frames, frames.start)
        last = bisect_left(points.frames, frames.stop) + 1
        part = slice(first, last)
        if ends := points.frames[part]:
            found[name] = {"ends": ends, "values": points.values[part]}
    return found


def _video_command(entry: RunEntry, kind: str, number: int) -> str:
    words = ["longplay", "video", path_to_text(entry.path), f"--{kind}", str(number)]
    return shlex.join([*words, "-o", f"{kind}-{number}.mp4"])


def _find_game(schedule: Sequence[ScheduledVisit], frame: int) -> str:
    for visit in schedule:
        if frame < visit.visit_frames:
            return visit.game_id
        frame -= visit.visit_frames
    return ""


def chunk_to_json(chunk: Chunk) -> dict[str, Any]:
    """The rows of a chunk, as the text that is in the log."""
    return {"rows": list(chunk.rows), "returns": list(chunk.returns)}
