"""A viewer, its pages in a browser, and what they complain about and ask for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Error, Page

from longplay.lab.viewer.index import identify

# Pages are fast; a machine that does other things may not be.
_PATIENCE_MS = 120_000


@dataclass(frozen=True)
class Served:
    """A viewer in a process, and what it shows: runs by name, and a study."""

    address: str
    runs: dict[str, Path]
    study: Path

    def of(self, name: str) -> str:
        return f"{self.address}/runs/{identify(self.runs[name].resolve())}"


@dataclass
class Opened:
    """A page, what it complained about, and what it asked the network for."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)


def open_page(
    browser: Browser, address: str, width: int = 1200, **options: Any
) -> Opened:
    """Opens a page in a window of its own; options as of `Browser.new_page`."""
    size = {"width": width, "height": 900}
    opened = Opened(browser.new_page(viewport=size, **options))
    page = opened.page
    page.set_default_timeout(_PATIENCE_MS)
    page.on("console", lambda message: opened.complaints.append(message.text))
    page.on("pageerror", lambda error: opened.complaints.append(str(error)))
    page.on("request", lambda request: opened.fetched.append(request.url))
    page.goto(address, wait_until="load")
    return opened


def wait_for(page: Page, expression: str) -> None:
    """Waits until an expression is true.

    The viewer's policy forbids what `wait_for_function` does in the page: `eval`.
    """
    deadline_s = time.monotonic() + _PATIENCE_MS / 1000
    while not _is_true(page, expression):
        assert time.monotonic() < deadline_s, expression
        page.wait_for_timeout(50)


def _is_true(page: Page, expression: str) -> bool:
    """Whether it is; not while the browser leaves one page for another."""
    try:
        return bool(page.evaluate(expression))
    except Error as error:
        if "Execution context was destroyed" not in error.message:
            raise
        return False


def wait_until_settled(page: Page) -> None:
    """Rows and frames were read, or the page says why they cannot be."""
    wait_for(
        page,
        """(() => {
            const waiting = document.querySelector('.plot[data-source] .waiting');
            const status = document.querySelector('[data-role="status"]');
            const isReplaying = status?.textContent === 'Replaying …';
            return document.readyState === 'complete' && !waiting && !isReplaying;
        })()""",
    )


def wait_until_drawn(page: Page) -> None:
    """Figures near the window are there, and frames are on the canvas."""
    wait_until_settled(page)
    if page.locator("#player").count():
        page.locator("canvas[data-shown]").wait_for()
    if page.locator(".plot").count():
        page.locator(".plot svg.main-svg").first.wait_for()


def find_barriers(page: Page, *, is_ours: bool = True) -> list[str]:
    """What axe-core finds on a page that keeps people from using it.

    Args:
        page: An open page.
        is_ours: Also finds what is only moderate, as wrong levels of headings are.

    Returns:
        A line per rule, with the first element that breaks it.
    """
    impacts = {"serious", "critical"} | ({"moderate"} if is_ours else set())
    # Without fetching style sheets again, which a page from disk may not do.
    options = {"resultTypes": ["violations"], "preload": False}
    # Rows of a table are alike, and most of the time would go into them.
    parts = {"exclude": [["tbody tr:nth-child(n+9)"]]}
    found = Axe().run(page, parts, options).response
    return [
        f"{rule['impact']}: {rule['id']}, {len(rule['nodes'])} times, "
        f"first {rule['nodes'][0]['html'][:200]}"
        for rule in found["violations"]
        if rule["impact"] in impacts
    ]
