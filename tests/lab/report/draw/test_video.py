"""`longplay video`: every frame, the right pixels, captions, and clear refusals."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image, ImageSequence

from bare_replay import replay_bare
from longplay.contract.config import RunConfig
from longplay.contract.files import read_document
from longplay.contract.rows import EventRow, PredictionRow
from longplay.lab.report.draw.encoding import Picture
from longplay.lab.report.draw.frame_pictures import FramePainter, caption_frame, enlarge
from longplay.verify.pack import pack_run
from longplay.verify.replay import ReplayedFrame
from playing import play_run

Invoke = Callable[..., object]
_GAMES = {"games": ["breakout", "asterix"], "base_visit_frames": 90}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small run of the control track. Do not change it."""
    out = tmp_path_factory.mktemp("video") / "experiment"
    return play_run("control-smoke-v1", "random", out=out, overrides=_GAMES).run_dir


@pytest.fixture(scope="module")
def screens(run: Path) -> list[Picture]:
    """Its frames, from bare ALE."""
    return list(replay_bare(run))


def decode(path: Path) -> list[Picture]:
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


# --- Pixels ---------------------------------------------------------------------


@pytest.mark.few(1)
@pytest.mark.parametrize("scale", (1, 3))
def test_lossless_video_has_every_frame_and_pixel(
    run: Path, screens: list[Picture], tmp_path: Path, invoke: Invoke, scale: int
) -> None:
    path = tmp_path / "out.mp4"
    answer = invoke("video", run, "-o", path, "--lossless", "--scale", scale, "--json")
    assert answer.exit_code == 0
    assert answer.json == {
        "file": str(path),
        "pictures": 180,
        "width": 160 * scale,
        "height": 210 * scale,
        "seconds": 12.0,  # 15 timesteps per second
    }
    decoded = decode(path)
    assert len(decoded) == 180
    for found, screen in zip(decoded, screens, strict=True):
        assert np.array_equal(found, enlarge(screen, scale))


def test_pack_gives_the_same_video_as_its_run(
    run: Path, tmp_path: Path, invoke: Invoke
) -> None:
    pack_run(run, tmp_path / "run.longplay")
    for source, name in ((run, "a.mp4"), (tmp_path / "run.longplay", "b.mp4")):
        answer = invoke("video", source, "--visit", 1, "--hud", "-o", tmp_path / name)
        assert answer.exit_code == 0
    assert (tmp_path / "a.mp4").read_bytes() == (tmp_path / "b.mp4").read_bytes()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "options", ([], pytest.param(["--lossless"], marks=pytest.mark.exhaustive))
)
def test_video_does_not_depend_on_what_memory_contained(
    run: Path, tmp_path: Path, options: list[str]
) -> None:
    videos = set()
    for filling in ("1", "85", "255"):
        path = tmp_path / f"{filling}.mp4"
        command = ["video", str(run), "--visit", "1", "--hud", "-o", str(path)]
        subprocess.run(
            [sys.executable, "-m", "longplay", *command, *options],
            # glibc fills the memory that it hands out.
            env={**os.environ, "MALLOC_PERTURB_": filling},
            check=True,
        )
        videos.add(path.read_bytes())
    assert len(videos) == 1


def test_gif_has_exact_colours(
    run: Path, screens: list[Picture], tmp_path: Path, invoke: Invoke
) -> None:
    path = tmp_path / "out.gif"
    options = ("--frames", "80:110", "--scale", 1)
    assert invoke("video", run, "-o", path, *options).exit_code == 0
    with Image.open(path) as image:
        found = [np.array(f.convert("RGB")) for f in ImageSequence.Iterator(image)]
    assert np.array_equal(found, screens[80:110])


def test_one_frame_as_png(
    run: Path, screens: list[Picture], tmp_path: Path, invoke: Invoke
) -> None:
    path = tmp_path / "out.png"
    answer = invoke("video", run, "--frame", 100, "-o", path)
    assert answer.exit_code == 0
    assert answer.stdout.replace("\n", "") == f"{path}: 320 × 420"
    with Image.open(path) as image:
        assert np.array_equal(np.array(image), enlarge(screens[100], 2))


def test_caption_covers_no_pixel(
    run: Path, screens: list[Picture], tmp_path: Path, invoke: Invoke
) -> None:
    path = tmp_path / "out.png"
    invoke("video", run, "--frame", 100, "-o", path, "--hud", "--scale", 1)
    with Image.open(path) as image:
        found = np.array(image)
    assert np.array_equal(found[:210], screens[100])
    assert found.shape == (276, 160, 3)
    assert len(np.unique(found[210:].reshape(-1, 3), axis=0)) == 3


# --- Which frames, how fast -----------------------------------------------------


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), range(180)),
        (("--frames", "5:17"), range(5, 17)),
        (("--frames", ":12"), range(12)),
        (("--frames", "170:"), range(170, 180)),
        (("--frames", "179:180"), range(179, 180)),
        (("--visit", 1), range(90, 180)),
        (("--frames", "0:100", "--speed", 16), range(0, 100, 4)),
    ],
)
def test_frames_are_half_open(
    run: Path,
    screens: list[Picture],
    tmp_path: Path,
    invoke: Invoke,
    options: tuple[object, ...],
    expected: range,
) -> None:
    path = tmp_path / "out.mp4"
    common = ("-o", path, "--lossless", "--scale", 1)
    assert invoke("video", run, *options, *common).exit_code == 0
    decoded = decode(path)
    assert len(decoded) == len(expected)
    assert all(
        np.array_equal(found, screens[frame])
        for found, frame in zip(decoded, expected, strict=True)
    )


def test_episode_and_default_name(
    run: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("video", run, "--episode", 1, "--scale", 1).exit_code == 0
    rows = map(json.loads, (run / "episodes.jsonl").read_text().splitlines())
    lengths = [row["length"] for row in rows]
    assert len(decode(tmp_path / f"{run.name}_episode-1.mp4")) == lengths[1]


@pytest.mark.parametrize(("speed", "rate"), [(1, 15), (0.5, Fraction(15, 2)), (4, 60)])
def test_speed(
    run: Path, tmp_path: Path, invoke: Invoke, speed: float, rate: Fraction
) -> None:
    path = tmp_path / "out.mp4"
    invoke("video", run, "--frames", "0:20", "--speed", speed, "-o", path)
    with av.open(str(path)) as container:
        (stream,) = container.streams.video
        assert stream.average_rate == rate
        assert stream.codec_context.pix_fmt == "yuv420p"


# --- Captions -------------------------------------------------------------------

_ROW = EventRow(
    1_143_022, "ms_pacman", 2, 0, 9, 3, 3, True, 14, 0, 10.0, False, False, 3
)


def test_caption_of_a_frame() -> None:
    frame = ReplayedFrame(np.zeros((210, 160, 3), np.uint8), _ROW, 1230.0)
    assert caption_frame(frame, "frame") == [
        ("visit 2", "ms_pacman"),
        ("frame", "1,143,022"),
        ("return", "1,230"),
        ("decided", "UPRIGHTFIRE"),
        ("applied", "NOOP"),
    ]


def test_caption_of_a_prediction() -> None:
    row = PredictionRow(
        *(getattr(_ROW, n) for n in _ROW.__struct_fields__), 1.0, 4, -0.25, 2.0
    )
    frame = ReplayedFrame(np.zeros((210, 160, 3), np.uint8), row, -1.0)
    assert caption_frame(frame, "timestep")[1:3] == [
        ("timestep", "1,143,022"),
        ("return", "-1"),
    ]
    assert caption_frame(frame, "timestep")[5:] == [
        ("predicted", "-0.250"),
        ("target", "2.000"),
    ]


def test_long_values_fit_beside_their_labels(run: Path) -> None:
    """The widest line: no value reaches into its label."""
    config = read_document(run / "config.json", RunConfig)
    painter = FramePainter(config, has_caption=True)
    row = EventRow(
        99_999_999, "video_checkers", 99, 0, 0, 0, 0, True, 16, 17, 0.0, False, False, 0
    )
    frame = ReplayedFrame(np.zeros((210, 160, 3), np.uint8), row, -123456.0)
    strip = painter.paint(frame)[213:]
    for line in range(5):
        columns = (strip[12 * line : 12 * (line + 1)] != strip[0, 0]).any(axis=(0, 2))
        grey = (strip[12 * line : 12 * (line + 1)] == 160).all(axis=2).any(axis=0)
        white = (strip[12 * line : 12 * (line + 1)] == 255).all(axis=2).any(axis=0)
        assert columns[3:-3].any()
        assert np.flatnonzero(grey).max() + 3 < np.flatnonzero(white).min()


# --- Refusals -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--frames", "5:181"), "--frames: expected A:B with 0 <= A < B <= 180, found"),
        (("--frames", "9:9"), "--frames: expected A:B with 0 <= A < B <= 180, found"),
        (("--frames", "9:5"), "--frames: expected A:B with 0 <= A < B <= 180, found"),
        (("--frames", "7"), "--frames: expected A:B with 0 <= A < B <= 180, found 7"),
        (("--frames", "a:b"), "--frames: expected A:B with 0 <= A < B <= 180, found a"),
        (("--frame", 180, "-o", "x.png"), "--frame: expected 0 … 179, found 180"),
        (("--frame", -1, "-o", "x.png"), "--frame: expected 0 … 179, found -1"),
        (("--visit", 2), "visit: expected 0 … 1, found 2"),
        (("--episode", 99), "episode: expected 0 … "),
        (("--visit", 1, "--frames", "1:2"), "expected one of --visit and --frames"),
        (("-o", "x.avi"), "-o: expected *.mp4 or *.gif, or *.png with --frame, found"),
        (("-o", "x.png"), "-o: expected *.mp4 or *.gif, or *.png with --frame, found"),
        (("--frame", 3, "-o", "x.mp4"), "-o: expected *.png with --frame, found x.mp4"),
        (("-o", "x.gif", "--lossless"), "--lossless: only for *.mp4"),
        (("-o", "missing/x.mp4"), "cannot write missing/x.mp4: No such file"),
    ],
)
def test_refusals_write_nothing(
    run: Path,
    tmp_path: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[object, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = invoke("video", run, *options)
    assert answer.exit_code in (1, 2)
    assert message in answer.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ("x.mp4", "../x.mp4"))
def test_output_among_the_files_of_the_experiment_is_refused(
    run: Path, invoke: Invoke, name: str
) -> None:
    before = sorted(run.parents[1].rglob("*"))
    answer = invoke("video", run, "--frames", "0:3", "-o", run / name)
    assert answer.exit_code == 2
    assert "is part of the experiment" in answer.stderr
    assert sorted(run.parents[1].rglob("*")) == before


@pytest.mark.parametrize(
    ("package", "options"),
    [("av", ()), ("PIL", ("--hud",)), ("PIL", ("--frame", 1, "-o", "x.png"))],
)
def test_missing_extra_is_named(
    run: Path,
    tmp_path: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    package: str,
    options: tuple[object, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.setitem(sys.modules, name, None)
    answer = invoke("video", run, *options)
    assert answer.exit_code == 2
    assert "pip install 'longplay[view]'" in answer.stderr
    assert list(tmp_path.iterdir()) == []


def test_forged_run_leaves_no_video(
    run: Path, copy_of: Callable[[Path], Path], tmp_path: Path, invoke: Invoke
) -> None:
    copy = copy_of(run)
    text = (copy / "events.jsonl").read_text()
    (copy / "events.jsonl").write_text(text.replace('"reward":0.0', '"reward":1.0', 1))
    answer = invoke("video", copy, "-o", tmp_path / "out.mp4")
    assert answer.exit_code == 1
    assert "does not reproduce: events.jsonl:1 reward: logged 1.0" in answer.stderr
    assert list(tmp_path.iterdir()) == [copy]
