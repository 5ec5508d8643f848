"""Takes the pictures of pages in docs/: the viewer and a report in Chromium.

    python tools/viewer_pictures.py [--folder DIR]

    viewer-run.png        the timeline of a learning run
    viewer-episode.png    one of its episodes, with the delay of actions
    report.png            the report of the shipped packs of one suite

The run is played here. The seed is a tuning seed: no official score is seen. Chromium
is that of the system, or the one that LONGPLAY_CHROMIUM names.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Browser, FloatRect, Locator, Page, sync_playwright

import longplay
from longplay.contract.files import make_directory, write_file
from longplay.errors import ConfigError, LongplayError
from longplay.lab.viewer.index import identify

ROOT = Path(__file__).parent.parent
SUITE, AGENT, SEED = "stream-smoke-v1", "linear-sarsa", 1000
OVERRIDES = {"base_visit_frames": 12_000}
REPORTED = ROOT / "results" / "control-6x3-v1"
# Frame of an episode, counted from its start.
SHOWN_FRAME = 400
WIDTH = 1024
# Panels of the timeline that are shown, and the room of a title above one.
PANELS, TITLE_PX = 4, 20
PATIENCE_MS = 120_000
_MOST_COLOURS = 256


def play(folder: Path) -> Path:
    """The run that the pictures show."""
    out = folder / "learner"
    result = longplay.run(SUITE, AGENT, seeds=[SEED], out=out, overrides=OVERRIDES)
    return result.runs[0].run_dir


def find_chromium() -> str:
    """The browser.

    Raises:
        ConfigError: There is none.
    """
    path = os.environ.get("LONGPLAY_CHROMIUM") or shutil.which("chromium")
    if path is None:
        raise ConfigError(
            "expected Chromium: apt install chromium, or name it in LONGPLAY_CHROMIUM"
        )
    return path


@contextmanager
def serve(cache: Path, *paths: Path) -> Iterator[str]:
    """A viewer in a process of its own -> its address, without slash."""
    command = [sys.executable, "-m", "longplay", "view", *map(str, paths)]
    process = subprocess.Popen(
        [*command, "--no-open", "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LONGPLAY_CACHE": str(cache)},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.match(r"(http://127\.0\.0\.1:\d+)/  \(Ctrl-C stops\)", line)
        if found is None:
            raise ConfigError(f"expected the address of a viewer, found {line!r}")
        yield found[1]
    finally:
        process.terminate()
        process.communicate(timeout=20)


@contextmanager
def launch() -> Iterator[Browser]:
    """Chromium without its sandbox, which does not start as root; pages are ours."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=find_chromium(), args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


def open_page(browser: Browser, address: str) -> Page:
    """A page whose figures are drawn."""
    page = browser.new_page(viewport={"width": WIDTH, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address, wait_until="networkidle")
    page.locator(".plot svg.main-svg").first.wait_for()
    return page


def shoot_run(browser: Browser, address: str) -> bytes:
    """The upper panels of the timeline."""
    page = open_page(browser, address)
    panels = page.locator("#timeline-plot .cartesianlayer > .subplot")
    next_panel = panels.nth(min(PANELS, panels.count() - 1))
    return _shoot(page, _box(next_panel)["y"] - TITLE_PX)


def shoot_episode(browser: Browser, address: str, frame: int) -> bytes:
    """A frame of an episode, and the rows around it."""
    page = open_page(browser, f"{address}?frame={frame}")
    page.locator(f'canvas[data-shown="{frame}"]').wait_for()
    page.wait_for_load_state("networkidle")
    caption = _box(page.locator("figure:has(#around) figcaption"))
    return _shoot(page, caption["y"] + caption["height"] + TITLE_PX)


def write_report(folder: Path, *paths: Path) -> Path:
    """A report of packs or runs -> its page."""
    command = [sys.executable, "-m", "longplay", "report", *map(str, paths)]
    subprocess.run([*command, "-o", str(folder), "--quiet"], check=True)
    return folder / "index.html"


def shoot_report(browser: Browser, path: Path) -> bytes:
    """The top of a report, down to its first table."""
    page = open_page(browser, path.as_uri())
    table = _box(page.locator("section .table").first)
    return _shoot(page, table["y"] + table["height"] + TITLE_PX)


def _box(place: Locator) -> FloatRect:
    box = place.bounding_box()
    assert box is not None
    return box


def _shoot(page: Page, height: float) -> bytes:
    """The page down to a height."""
    clip: FloatRect = {"x": 0, "y": 0, "width": WIDTH, "height": height}
    content = page.screenshot(clip=clip, full_page=True)
    page.close()
    return reduce_colours(content)


def reduce_colours(content: bytes) -> bytes:
    """A PNG of 256 colours; the most frequent ones stay exactly as they are.

    A palette of averages would change the colours of small areas, such as those of a
    legend. Here only the edges of letters and lines move to a colour nearby.
    """
    pixels = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))
    colours, places, counts = np.unique(
        pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True
    )
    kept = colours[np.argsort(-counts, kind="stable")[:_MOST_COLOURS]]
    apart = colours[:, np.newaxis].astype(np.int32) - kept
    nearest = (apart**2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    image = Image.fromarray(nearest[places].reshape(pixels.shape[:2]), "P")
    image.putpalette(kept.tobytes())
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()


def take_pictures(browser: Browser, run_dir: Path, cache: Path) -> dict[str, bytes]:
    """Name of a picture -> its content."""
    columns = longplay.read_run(run_dir).episodes.numpy(
        "episode_id", "start_global_frame_idx", "length"
    )
    longest = int(columns["length"].argmax())
    episode, start, length = (int(column[longest]) for column in columns.values())
    frame = start + min(SHOWN_FRAME, length - 1)
    run = f"runs/{identify(run_dir.resolve())}"
    # The experiment's folder: its name is in the picture, not the path to it.
    with serve(cache, run_dir.parent.parent) as address:
        here = f"{address}/{run}"
        clip = f"{here}/episodes/{episode}"
        return {
            "viewer-run.png": shoot_run(browser, here),
            "viewer-episode.png": shoot_episode(browser, clip, frame),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args()
    try:
        find_chromium()  # before minutes of play
        make_directory(options.folder, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="longplay-pictures-") as name:
            run_dir = play(Path(name))
            with launch() as browser:
                taken = take_pictures(browser, run_dir, Path(name) / "cache")
                page = write_report(Path(name) / "report", REPORTED)
                taken["report.png"] = shoot_report(browser, page)
        for picture, content in taken.items():
            write_file(options.folder / picture, content)
            print(f"wrote {options.folder / picture}")
    except LongplayError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
