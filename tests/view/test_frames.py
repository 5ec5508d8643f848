"""Frames in a real browser: exact pixels, keys, the slider."""

from __future__ import annotations

import base64
import io
import json
import random

import numpy as np
import pytest
from browsing import open_page, wait_for, wait_until_drawn
from PIL import Image
from playwright.sync_api import Browser, Page

from bare_replay import replay_bare


def seek(page: Page, frame: int) -> np.ndarray:
    """The pixels on the page after a frame was entered."""
    page.locator('[data-role="number"]').fill(str(frame))
    page.locator(f'canvas[data-shown="{frame}"]').wait_for()
    address = page.evaluate("document.querySelector('canvas').toDataURL()")
    content = base64.b64decode(address.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["streaming", "control", "prediction"])
def test_frames_on_the_page_are_those_of_a_bare_replay(browser: Browser, served, name):
    """67 random frames of each track, pixel by pixel."""
    run_dir = served.runs[name]
    bare = list(replay_bare(run_dir))
    schedule = json.loads((run_dir / "config.json").read_text())["schedule"]
    rng, start = random.Random(name), 0
    page = open_page(browser, served.of(name)).page
    for visit in schedule:
        end = start + visit["visit_frames"]
        count = -(-67 // len(schedule))
        page.goto(f"{served.of(name)}/visits/{visit['visit_idx']}")
        page.locator("canvas[data-shown]").wait_for()
        # In order, as one replay: going back is tested without a browser.
        for frame in sorted(rng.sample(range(start, end), count)):
            np.testing.assert_array_equal(seek(page, frame), bare[frame])
        start = end
    page.close()


def test_episode_plays_and_listens_to_keys(browser: Browser, served):
    row = json.loads(
        (served.runs["streaming"] / "episodes.jsonl").read_text().splitlines()[1]
    )
    first, last = row["start_global_frame_idx"], row["end_global_frame_idx"]
    opened = open_page(
        browser, f"{served.of('streaming')}/episodes/1?frame={first + 70}"
    )
    page = opened.page

    def is_at(frame: int) -> None:
        page.locator(f'canvas[data-shown="{frame}"]').wait_for()
        wait_for(page, f"location.search === '?frame={frame}'")

    is_at(first + 70)
    for key, frame in (
        ("ArrowRight", first + 71),
        ("ArrowLeft", first + 70),
        ("Shift+ArrowRight", first + 80),
        ("Home", first),
        ("ArrowLeft", first),
        ("End", last),
        ("Home", first),
    ):
        page.keyboard.press(key)
        is_at(frame)
    raw = page.locator('[data-role="row"]').inner_text()
    lines = (served.runs["streaming"] / "events.jsonl").read_text().splitlines()
    assert raw == lines[first]
    page.keyboard.press("Space")
    wait_for(
        page, f"Number(document.querySelector('canvas').dataset.shown) > {first + 20}"
    )
    page.keyboard.press("Space")
    wait_for(page, f"location.search !== '?frame={first}'")
    shown = page.locator("canvas").get_attribute("data-shown")
    link = page.locator('[data-role="permalink"]').get_attribute("href")
    assert link is not None
    assert link.endswith(f"?frame={shown}")
    page.locator("#around svg.main-svg").first.wait_for()
    page.get_by_text("Numbers as a table").first.click()
    page.locator("tr.current").wait_for()
    page.reload()
    is_at(int(shown or 0))
    assert opened.complaints == []


def test_moving_the_slider_replays_only_where_it_stops(browser: Browser, served):
    visit = json.loads((served.runs["streaming"] / "config.json").read_text())[
        "schedule"
    ][0]
    opened = open_page(browser, f"{served.of('streaming')}/visits/0")
    page = opened.page
    page.locator("canvas[data-shown]").wait_for()
    wait_until_drawn(page)
    before = len(opened.fetched)
    last = visit["visit_frames"] - 1
    # Two dozen positions at once, as a quick hand makes them.
    page.evaluate(
        """last => {
            const slider = document.querySelector('[data-role="slider"]');
            for (let step = 1; step <= 24; step += 1) {
                slider.value = Math.round((last * step) / 24);
                slider.dispatchEvent(new Event("input", { bubbles: true }));
            }
        }""",
        last,
    )
    page.locator(f'canvas[data-shown="{last}"]').wait_for()
    asked = [u for u in opened.fetched[before:] if "frames.png" in u]
    assert len(asked) <= 4
    assert opened.complaints == []
