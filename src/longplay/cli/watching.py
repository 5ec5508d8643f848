"""Commands that show runs: view, video."""

from __future__ import annotations

import re
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from longplay.cli.progress import ProgressLine
from longplay.cli.toolkit import Json, Quiet, Styles, check_output, print_answer
from longplay.contract.rundir import PACK_SUFFIX
from longplay.errors import ConfigError

if TYPE_CHECKING:
    from longplay.lab.report.draw.video import Video
    from longplay.verify.frames import ReplayedRun

RunOrPack = Annotated[
    Path, typer.Argument(metavar="PATH", help="Run directory or pack.")
]


def view(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH…",
            help="Runs, experiments, studies, packs, or folders of them.",
        ),
    ],
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="Port; the first free one by default."),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Listen on this address; pages then require a token.",
        ),
    ] = None,
    styles: Styles = None,
    no_open: Annotated[
        bool, typer.Option("--no-open", help="Do not open a browser.")
    ] = False,
) -> None:
    """Show runs in the browser: timelines, comparisons, every frame replayed."""
    from longplay.lab.viewer.server import LOCAL, ServerOptions, serve

    def announce(address: str) -> None:
        typer.echo(f"{address}  (Ctrl-C stops)")
        if not no_open:
            webbrowser.open(address)

    try:
        serve(paths, ServerOptions(host or LOCAL, port, styles), announce)
    except KeyboardInterrupt:
        return  # how a viewer ends


@dataclass(frozen=True)
class _Selection:
    """The frames that were asked for; at most one of them is given."""

    episode: int | None
    visit: int | None
    frames: str | None
    frame: int | None

    def __post_init__(self) -> None:
        given = [f"--{name}" for name, value in vars(self).items() if value is not None]
        if len(given) > 1:
            raise ConfigError(f"expected one of {' and '.join(given)}, found both")

    @property
    def name(self) -> str:
        """Part of the default file name: `episode-3`, or "" for the whole run."""
        for name, value in vars(self).items():
            if value is not None:
                return f"_{name}-{value}".replace(":", "-")
        return ""

    def find(self, run: ReplayedRun) -> range:
        """The frames of the run that are meant."""
        if self.frame is not None:
            if not 0 <= self.frame < run.frame_count:
                raise ConfigError(
                    f"--frame: expected 0 … {run.frame_count - 1}, found {self.frame}"
                )
            return range(self.frame, self.frame + 1)
        if self.episode is not None:
            return run.episode_range(self.episode)
        if self.visit is not None:
            return run.visit_range(self.visit)
        return _parse_frames(self.frames or ":", run.frame_count)


def _parse_frames(text: str, count: int) -> range:
    """`A:B` as the frames from A up to, but not including, B."""
    match = re.fullmatch(r"(\d*):(\d*)", text)
    first, end = (int(match[1] or 0), int(match[2] or count)) if match else (0, 0)
    if not 0 <= first < end <= count:
        raise ConfigError(
            f"--frames: expected A:B with 0 <= A < B <= {count}, found {text}"
        )
    return range(first, end)


def video(
    path: RunOrPack,
    episode: Annotated[
        int | None, typer.Option(metavar="K", help="Only this game episode.")
    ] = None,
    visit: Annotated[
        int | None, typer.Option(metavar="K", help="Only this visit.")
    ] = None,
    frames: Annotated[
        str | None,
        typer.Option(metavar="A:B", help="Only frames or timesteps A … B - 1."),
    ] = None,
    frame: Annotated[
        int | None, typer.Option(metavar="N", help="One frame or timestep, as a PNG.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="*.mp4, *.gif, or *.png (--frame)."
        ),
    ] = None,
    scale: Annotated[
        int, typer.Option(min=1, max=16, metavar="N", help="Enlarge N times.")
    ] = 2,
    speed: Annotated[
        float,
        typer.Option(min=0.01, max=1000, metavar="X", help="Play X times as fast."),
    ] = 1.0,
    hud: Annotated[
        bool, typer.Option("--hud", help="Show frame, return and actions below.")
    ] = False,
    lossless: Annotated[
        bool, typer.Option("--lossless", help="Keep every pixel exactly (RGB).")
    ] = False,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Replay a run and write a video of it."""
    from longplay.lab.report.draw.video import VideoStyle, write_picture, write_video
    from longplay.verify.frames import open_frames

    selection = _Selection(episode, visit, frames, frame)
    run = open_frames(path)
    suffix = ".mp4" if frame is None else ".png"
    name = run.path.name.removesuffix(PACK_SUFFIX)
    target = output or Path(f"{name}{selection.name}{suffix}")
    check_output("-o", target)
    style = VideoStyle(scale, speed, hud, lossless)
    write = write_video if frame is None else write_picture
    with ProgressLine(quiet=quiet) as progress:
        made = write(run, selection.find(run), target, style, progress.show_replay)
    print_answer(as_json, made.to_json(), [_describe(made)])


def _describe(made: Video) -> Text:
    width, height = made.size
    size = f"{width} × {height}"
    if made.pictures > 1:
        size = f"{made.pictures:,} pictures, {size}, {made.seconds:.1f} s"
    return Text(f"{made.path}: {size}", overflow="fold")
