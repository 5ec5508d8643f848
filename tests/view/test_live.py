"""A run in progress in a real browser."""

from __future__ import annotations

import subprocess
import sys
import time

from browsing import open_page, wait_for, wait_until_drawn
from playwright.sync_api import Browser, Page

from longplay.lab.viewer.index import identify


def zoom_and_follow(page: Page, rate: str) -> None:
    """A part in fine bins; what is played meanwhile is added once."""
    page.get_by_label("to", exact=True).fill("90")
    page.get_by_label("to", exact=True).press("Enter")
    wait_for(page, f"{rate}.x.slice(1, 41).every((x, n) => x === n)")
    last = page.evaluate(f"{rate}.x.at(-1)")
    wait_for(page, f"{rate}.x.at(-1) > {last}")
    x, y = page.evaluate(f"[{rate}.x, {rate}.y]")
    known = [a for a, b in zip(x, y, strict=True) if b is not None]
    assert known == sorted(set(known))


def test_run_in_progress_advances_on_its_page(browser: Browser, serve, tmp_path):
    out = tmp_path / "live"
    command = [sys.executable, "-m", "longplay", "run", "control-smoke-v1"]
    options = ["--agent", "linear-sarsa", "--seed", "1000", "--out", str(out)]
    longer = ["--quiet", "--set", "base_visit_frames=6000"]
    process = subprocess.Popen([*command, *options, *longer], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not list(out.glob("episodes/*/status.json")):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (run_dir,) = out.glob("episodes/*")
        address = serve(out)
        opened = open_page(browser, f"{address}/runs/{identify(run_dir.resolve())}")
        page, sizes = opened.page, []
        page.on(
            "response",
            lambda reply: (
                sizes.append(int(reply.headers["content-length"]))
                if "/news" in reply.url
                else None
            ),
        )
        wait_until_drawn(page)
        page.evaluate("window.isSame = true")
        progress = page.locator('[data-live$="-progress"]')
        before = progress.inner_text()
        rate = "document.getElementById('timeline-plot').data[0]"
        count = page.evaluate(f"{rate}.x.length")
        wait_for(page, f"{rate}.x.length > {count}")
        assert progress.inner_text() != before
        assert (
            "squared_td_error" in page.locator('[data-live$="-learning"]').inner_text()
        )
        assert page.evaluate("window.isSame")  # not by loading the page again
        assert max(sizes) < 8_000
        zoom_and_follow(page, rate)
        page.get_by_text("✓ COMPLETED").wait_for(timeout=180_000)
        page.get_by_role("table", name="score.json", exact=True).wait_for()
        assert opened.complaints == []
    finally:
        process.terminate()
        process.wait(timeout=60)
