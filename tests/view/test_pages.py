"""Report and leaderboard in a real browser: opened from disk, no server, no network."""

from __future__ import annotations

from pathlib import Path

import pytest
from browsing import find_barriers, open_page
from playwright.sync_api import Page

from compared_runs import Compared, make_compared
from longplay.lab.analysis.runs import RunReader
from longplay.lab.report.site.board_pages import write_leaderboard
from longplay.lab.report.site.leaderboard import (
    judge_runs,
    make_leaderboard,
)
from longplay.lab.report.site.report import ReportInput, write_report
from longplay.lab.report.site.verdicts import Verdict, open_pack
from made_up_anchors import NO_ANCHORS
from written_runs import make_config, write_run


@pytest.fixture(scope="session")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    names = {"alpha": 2.0, "<b>beta</b>": 0.5, "gamma": 1.0, "delta": 0.1}
    return make_compared(tmp_path_factory.mktemp("compared"), names, seeds=5)


@pytest.fixture(scope="session")
def report(compared: Compared, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "site"
    given = ReportInput(
        compared.found, compared.comparison, compared.anchors, lambda _: "claimed"
    )
    write_report(folder, given)
    return folder / "index.html"


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("board")
    for name, reward in (("alpha", 1.0), ("beta", 2.0)):
        for seed in range(5):
            config = make_config("control-smoke-v1", seed, {}, name)
            rewards = [reward] * config.total_frames
            write_run(folder / "in" / name / str(seed), config, rewards)
    (folder / "in" / "bad.longplay").write_bytes(b"")
    found = RunReader(open_pack=open_pack).read([folder / "in"])
    verdicts = judge_runs(found, lambda _: Verdict(level="claimed"))
    leaderboard = make_leaderboard(found, NO_ANCHORS, verdicts, folder / "in")
    write_leaderboard(folder / "site", leaderboard, found.runs, NO_ANCHORS)
    return folder / "site" / "index.html"


def first_column(page: Page, column: int = 0) -> list[str]:
    rows = page.locator("table.sortable").first.locator("tbody tr")
    return [row.locator("td").nth(column).inner_text() for row in rows.all()]


def test_report_draws_every_figure(browser, report, tmp_path):
    opened = open_page(browser, report.as_uri())
    page = opened.page
    kinds = "average lifetime curves games profile retention stream improvement"
    assert page.locator(".plot").count() == len(kinds.split())
    for plot in page.locator(".plot").all():
        plot.scroll_into_view_if_needed()
        plot.locator("svg.main-svg").first.wait_for()
        box = plot.bounding_box()
        assert box is not None
        assert box["height"] > 150
    # Lines, and dots with their intervals.
    assert page.locator(".plot .scatterlayer .lines path").count() > 50
    assert page.locator(".plot .errorbars path").count() > 10
    page.screenshot(path=tmp_path / "report.png", full_page=True)
    assert opened.complaints == []
    assert [u for u in opened.fetched if not u.startswith(("file:", "data:"))] == []


def test_report_of_twenty_runs_opens_fast(browser, report):
    """Processor time of the page's thread until the first figure is drawn."""
    page = browser.new_page()
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    page.goto(report.as_uri(), wait_until="load")
    page.locator(".plot svg.main-svg").first.wait_for()
    metrics = session.send("Performance.getMetrics")["metrics"]
    took_s = {metric["name"]: metric["value"] for metric in metrics}["TaskDuration"]
    assert 0 < took_s < 5  # 2 s on a slow machine


def test_all_figures_are_drawn_for_print(browser, report):
    page = open_page(browser, report.as_uri()).page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.wait_for_function(
        "[...document.querySelectorAll('.plot')].every(p => p.querySelector('svg'))"
    )


def test_names_are_text_and_not_markup(browser, report):
    page = open_page(browser, report.as_uri()).page
    assert "<b>beta</b>" in first_column(page)
    assert page.locator("main b").count() == 0
    legend = page.locator(".plot").first.locator(".legendtext")
    legend.first.wait_for()
    assert "<b>beta</b>" in legend.all_inner_texts() + legend.all_text_contents()


def test_tables_sort_both_ways(browser, report):
    page = open_page(browser, report.as_uri()).page
    heading = page.locator("table.sortable").first.locator("th").nth(1)
    assert heading.inner_text() == "average"
    heading.locator("button").click()
    rising = first_column(page)
    assert rising == ["delta", "<b>beta</b>", "gamma", "alpha"]
    assert heading.get_attribute("aria-sort") == "ascending"
    # By keyboard, too.
    heading.locator("button").press("Enter")
    assert first_column(page) == rising[::-1]
    assert heading.get_attribute("aria-sort") == "descending"


def test_cells_without_a_number_stay_last(browser, report):
    page = open_page(browser, report.as_uri()).page
    heading = page.locator("table.sortable").first.locator("th").last
    assert heading.inner_text() == "P(better)"
    for _ in range(2):
        heading.locator("button").click()
        assert first_column(page)[-1] == "alpha"


@pytest.mark.parametrize("name", ["report", "board"])
def test_links_resolve(browser, name, request):
    path = request.getfixturevalue(name)
    page = open_page(browser, path.as_uri()).page
    for link in page.locator("a").all():
        address = link.get_attribute("href")
        assert address is not None
        if address.startswith("#"):
            assert page.locator(address).count() == 1
        else:
            assert (path.parent / address).is_file()


def test_leaderboard(browser, board, tmp_path):
    opened = open_page(browser, board.as_uri())
    page = opened.page
    assert first_column(page, 1) == ["beta", "alpha"]
    page.locator("table.sortable th button").nth(1).click()
    assert first_column(page, 1) == ["alpha", "beta"]
    refused = page.locator("#refused")
    assert refused.inner_text() == "1 run refused"
    refused.locator("summary").click()
    assert "bad.longplay" in refused.inner_text()
    heads = page.locator("table.sortable").first.locator("th")
    assert heads.nth(2).inner_text() == "cumulative reward (ranks)"
    page.locator(".plot svg.main-svg").first.wait_for()
    page.screenshot(path=tmp_path / "board.png", full_page=True)
    assert opened.complaints == []
    assert [u for u in opened.fetched if not u.startswith(("file:", "data:"))] == []


def test_page_fits_a_phone(browser, report):
    page = open_page(browser, report.as_uri()).page
    page.set_viewport_size({"width": 390, "height": 800})
    page.wait_for_timeout(300)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_page_of_an_agent(browser, board):
    opened = open_page(browser, board.as_uri())
    page = opened.page
    page.get_by_role("link", name="beta").click()
    assert page.locator("h1").inner_text() == "beta"
    runs = page.get_by_role("table", name="runs", exact=True)
    assert runs.locator("tbody tr").count() == 5
    assert (
        "longplay run control-smoke-v1 --agent beta" in page.locator("pre").inner_text()
    )
    assert find_barriers(page) == []
    assert opened.complaints == []


@pytest.mark.few(2)
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", ["report", "board"])
def test_pages_are_accessible(browser, name, theme, request):
    path = request.getfixturevalue(name)
    page = open_page(browser, path.as_uri(), color_scheme=theme).page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")  # draws every figure
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert find_barriers(page) == []


def test_paper_is_light_and_nothing_is_cut(browser, report):
    page = open_page(browser, report.as_uri(), color_scheme="dark").page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 720, "height": 1000})
    back = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert back == "rgb(255, 255, 255)"
    for plot in page.locator(".plot").all():
        box = plot.locator("svg.main-svg").first.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= 720
