"""The cost of a video: replaying, drawing and encoding, against a bare replay."""

from __future__ import annotations

import statistics
from pathlib import Path

from bare import (
    Row,
    cpu_timed,
    play_bare,
    play_run,
    read_log,
    temporary_folder,
)


def bench_video(trials: int, visit_frames: int) -> list[Row]:
    """A video of a whole run, and bare ALE on the same actions with every frame.

    Both in processor time: the encoder has one thread.
    """
    rates, ratios = [], []
    with temporary_folder() as folder:
        play_run(folder / "run", visit_frames)
        config, log = read_log(folder / "run")
        for trial in range(trials):
            bare_s = cpu_timed(lambda: play_bare(config, log))
            video_s = cpu_timed(lambda: _write(folder / "run", folder / "video.mp4"))
            rates.append(config.total_frames / video_s)
            ratios.append(video_s / bare_s)
            print(f"  video, trial {trial}: {rates[-1]:,.0f} frames per s", flush=True)
    return [
        (
            "video at scale 1, frames per second of processor time",
            "≥ 600",
            f"{statistics.median(rates):,.0f}  ({statistics.median(ratios):.1f} times "
            "the time of a bare replay)",
        )
    ]


def _write(run_dir: Path, target: Path) -> None:
    from longplay.lab.report.draw.video import VideoStyle, write_video
    from longplay.verify.frames import open_frames

    run = open_frames(run_dir)
    write_video(run, range(run.frame_count), target, VideoStyle(scale=1))
