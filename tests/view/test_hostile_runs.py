"""Malicious run directories in a real browser."""

from __future__ import annotations

import pytest
from browsing import wait_until_settled
from playwright.sync_api import Browser

from hostile_runs import make_hostile_runs
from longplay.lab.viewer.index import identify


@pytest.mark.parametrize("stride", [4, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_hostile_runs_run_no_script(
    browser: Browser, serve, finished_run, tmp_path, stride
):
    runs = make_hostile_runs(tmp_path, finished_run)
    address = serve(tmp_path / "runs")
    page = browser.new_page()
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.goto(address)
    boxes = page.locator('#run-table tbody input[type="checkbox"]')
    assert boxes.count() == len(runs) == 40
    for name, path in list(runs.items())[::stride]:
        run = f"{address}/runs/{identify(path.resolve())}"
        for place in (run, f"{run}/timeline.csv", f"{run}/episodes/0"):
            if place.endswith("csv"):
                page.request.get(place)
                continue
            page.goto(place)
            wait_until_settled(page)
            for link in page.locator(".plot a").all():
                link.evaluate("link => link.click()")
            assert page.evaluate("window.pwned") is None, name
            text = page.content()
            assert "do not show" not in text, name
    page.goto(address)
    assert page.evaluate("window.pwned") is None
    page.close()
