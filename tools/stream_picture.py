"""The picture on the README's first screen: frames and timeline of a learning run.

    stream.png    a replayed frame of every visit above the reward rate of the stream
    hud.png       one of these frames with its caption, for docs/video.md

They show a run of `linear-sarsa` on a short stream, and the random agent on the same
stream. The seed is a tuning seed: no official score is seen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import longplay
from figure_files import SMALL, in_docs_style
from longplay.contract.config import RunConfig, ScheduledVisit
from longplay.contract.curves import Curves
from longplay.lab.report.draw.colours import OKABE_ITO, game_colour
from longplay.lab.report.draw.drawings import point_rates
from longplay.lab.report.draw.frame_pictures import FramePainter, render_png
from longplay.tracks.catalogue import track_of
from longplay.verify.frames import open_frames
from longplay.verify.replay import ReplayedFrame

SUITE, AGENT, SEED = "control-smoke-v1", "linear-sarsa", 1000
OVERRIDES = {
    "games": ["qbert", "road_runner", "crazy_climber"],
    "num_cycles": 3,
    "base_visit_frames": 6_000,
}
# A frame is shown as it is: one pixel of the game is one pixel of the picture.
FRAME_WIDTH, FRAME_HEIGHT, GAP = 160, 210, 12
DPI = 160
LEFT, RIGHT, TOP, MIDDLE, TIMELINE, BOTTOM = 110, 20, 16, 40, 300, 70
# Where in its visit the frame is that is shown.
SHARE = 0.75


@dataclass(frozen=True)
class Shown:
    """What the picture shows: a run, and the random agent on the same stream.

    Attributes:
        config: Config of the run.
        rates: (visits, n) reward rates of the agent, in n parts of each visit.
        random_rates: (visits,) reward rates of the random agent.
        frames: A frame of each visit.
    """

    config: RunConfig
    rates: np.ndarray
    random_rates: np.ndarray
    frames: Sequence[ReplayedFrame]


def play_stream(folder: Path) -> Shown:
    """Plays both runs."""
    learned, random = (
        longplay.run(
            SUITE, agent, seeds=[SEED], out=folder / agent, overrides=OVERRIDES
        )
        .runs[0]
        .run_dir
        for agent in (AGENT, "random")
    )
    run = open_frames(learned)
    length = run.config.schedule[0].visit_frames  # all visits have the same
    frames = list(run.iter_frames(range(int(SHARE * length), run.frame_count, length)))
    return Shown(
        run.config,
        # Two points of a curve at a time: these visits are short, and so noisy.
        point_rates(_read(learned)).reshape(len(frames), -1, 2).mean(axis=2),
        _read(random).rates(),
        frames,
    )


def _read(run_dir: Path) -> Curves:
    curves = longplay.read_run(run_dir).curves
    assert curves is not None
    return curves


def spans(schedule: Sequence[ScheduledVisit]) -> Iterator[tuple[int, int]]:
    """First frame and length of every visit."""
    start = 0
    for visit in schedule:
        yield start, visit.visit_frames
        start += visit.visit_frames


@in_docs_style
def draw_stream(shown: Shown) -> Figure:
    """The strip of frames above the timeline."""
    strip = len(shown.frames) * (FRAME_WIDTH + GAP)
    width = LEFT + strip + RIGHT
    height = TOP + FRAME_HEIGHT + MIDDLE + TIMELINE + BOTTOM
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    for number, frame in enumerate(shown.frames):
        left = LEFT + number * (FRAME_WIDTH + GAP) + GAP // 2
        bottom = height - TOP - FRAME_HEIGHT
        figure.figimage(frame.observation, left, bottom, origin="upper")
    axes = figure.add_axes(
        (LEFT / width, BOTTOM / height, strip / width, TIMELINE / height)
    )
    _draw_timeline(axes, shown)
    return figure


def _draw_timeline(axes: Axes, shown: Shown) -> None:
    noun = track_of(shown.config).frame_noun
    schedule = shown.config.schedule
    for visit, (start, frames), rates, random in zip(
        schedule, spans(schedule), shown.rates, shown.random_rates, strict=True
    ):
        end, colour = start + frames, game_colour(visit.game_id)
        axes.axvspan(start, end, color=colour, alpha=0.25, linewidth=0)
        axes.text(
            start + frames / 2,
            1.03,
            visit.game_id,
            transform=axes.get_xaxis_transform(),
            horizontalalignment="center",
        )
        x = start + (np.arange(len(rates)) + 0.5) / len(rates) * frames
        axes.plot(x, rates, color=OKABE_ITO[0], linewidth=1.4, label=AGENT)
        axes.plot(
            (start, end), (random, random), "--", color="0.35", label="random agent"
        )
    for frame in shown.frames:
        axes.plot(
            frame.row.global_frame_idx,
            1,
            "v",
            color="0.2",
            markersize=4,
            clip_on=False,
            transform=axes.get_xaxis_transform(),
        )
    axes.set_xlim(0, start + frames)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set(xlabel=noun, ylabel=f"reward per {noun}")
    axes.grid(axis="x", visible=False)
    handles = axes.get_legend_handles_labels()[0][:2]
    axes.legend(handles=handles, loc="upper left", ncols=2, fontsize=SMALL)


def draw_caption(shown: Shown) -> bytes:
    """The frame with the highest return, with its caption."""
    painter = FramePainter(shown.config, scale=2, has_caption=True)
    best = max(shown.frames, key=lambda frame: frame.episode_return)
    return render_png(painter.paint(best))
