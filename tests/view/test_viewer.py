"""`longplay view` in a real browser: all pages, widths and themes."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from browsing import Served, find_barriers, open_page, wait_for, wait_until_drawn
from playwright.sync_api import Browser, Page

from longplay.contract.documents import Score
from longplay.lab.viewer.index import identify

LOOKS = [(1280, "light"), (390, "light"), (390, "dark"), (1280, "dark")]


def list_pages(served: Served) -> dict[str, str]:
    compared = "&".join(
        f"run={identify(served.runs[name].resolve())}" for name in ("alpha", "beta")
    )
    experiment = identify(served.runs["streaming"].parent.parent.resolve())
    study = identify(served.study.resolve())
    return {
        "runs": served.address + "/",
        "grouped": f"{served.address}/?group=agent",
        "study": f"{served.address}/studies/{study}",
        "experiment": f"{served.address}/experiments/{experiment}",
        "run": served.of("streaming"),
        "prediction run": served.of("prediction"),
        "pack": served.of("pack"),
        "episode": f"{served.of('streaming')}/episodes/1",
        "prediction episode": f"{served.of('prediction')}/visits/1",
        "comparison": f"{served.address}/compare?{compared}",
        "nothing": f"{served.address}/runs/0",
    }


@pytest.mark.few(2)
@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_every_page_is_sound(browser: Browser, served, width, theme, tmp_path):
    opened = open_page(browser, served.address, width, color_scheme=theme)
    page = opened.page
    for name, address in list_pages(served).items():
        page.goto(address)
        wait_until_drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", back)[:3])) < 200) == (theme == "dark")
        page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
        if (width, theme) == LOOKS[0]:
            page.wait_for_load_state("networkidle")
            page.reload()
            wait_until_drawn(page)
        if width == LOOKS[0][0]:
            assert find_barriers(page) == [], name
        if name == "nothing":  # the browser names its status
            opened.complaints.clear()
        assert opened.complaints == [], name
    others = [u for u in opened.fetched if not u.startswith(served.address)]
    assert [u for u in others if not u.startswith(("data:", "blob:"))] == []
    page.close()


def test_pages_show_the_score(browser: Browser, served):
    for name in ("streaming", "control", "prediction"):
        score = json.loads((served.runs[name] / "score.json").read_text())
        page = open_page(browser, served.of(name)).page
        table = page.get_by_role("table", name="score.json", exact=True)
        rows = [
            row.locator("td").all_inner_texts()
            for row in table.locator("tbody tr").all()
        ]
        shown = dict(rows)
        rewards = set(Score.model_fields) - {"fps"} if name == "prediction" else set()
        assert ("final score" in shown) == (name != "prediction")
        for key, value in score.items():
            if isinstance(value, float) and key not in rewards:
                assert shown[key.replace("_", " ")] == f"{value:.5g}", (name, key)
        page.close()


def shown_agents(page: Page) -> list[str]:
    rows = page.locator("#run-table tbody tr:visible")
    return [row.locator("td").nth(1).inner_text() for row in rows.all()]


def test_list_sorts_filters_and_compares(browser: Browser, served):
    opened = open_page(browser, served.address)
    page = opened.page
    everything = shown_agents(page)
    assert len(everything) == 12
    page.locator("#run-table th button", has_text="agent").click()
    assert shown_agents(page) == sorted(everything, key=str.lower)
    page.locator("#run-table th button", has_text="agent").press("Enter")
    assert shown_agents(page) == sorted(everything, key=str.lower, reverse=True)
    page.get_by_label("Filter").fill("beta smoke")
    assert shown_agents(page) == ["<b>beta</b>"] * 3
    page.reload()
    assert shown_agents(page) == ["<b>beta</b>"] * 3
    page.get_by_label("Tick all runs shown").press("Space")  # the other agent stays
    page.get_by_label("Filter").fill("")
    assert page.locator("tbody input:checked").count() == 3
    boxes = page.locator("#run-table tr", has=page.get_by_role("link", name="alpha"))
    for box in boxes.get_by_role("checkbox").all():
        box.press("Space")
    page.get_by_role("button", name="Compare the ticked runs").press("Enter")
    page.wait_for_url("**/compare?run=*")
    assert page.locator("h1").inner_text() == "Comparison"
    assert page.locator(".plot").count() == 5
    lead = page.locator("h3").first.inner_text()
    assert lead == "Averages"
    page.get_by_text("Numbers as a table").nth(1).click()
    assert page.locator("details[open] tbody tr").count() > 100
    page.go_back()
    assert len(shown_agents(page)) == 12
    assert opened.complaints == []


def test_timeline_zooms_and_leads_to_an_episode(browser: Browser, served):
    opened = open_page(browser, served.of("streaming"))
    page = opened.page
    wait_until_drawn(page)
    ranges = "document.getElementById('timeline-plot').layout.xaxis.range"
    whole = page.evaluate(ranges)
    box = page.locator("#timeline-plot .nsewdrag").first.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.2 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.6 * box["width"], y, steps=5)
    page.mouse.up()
    wait_for(page, f"{ranges}[1] < {whole[1] * 0.9}")
    lower = "document.getElementById('timeline-plot').layout.xaxis2.range"
    assert page.evaluate(lower) == page.evaluate(ranges)  # both panels zoom
    wait_for(page, "location.search.startsWith('?from=')")
    page.get_by_role("button", name="Whole run").press("Enter")
    wait_for(
        page, f"JSON.stringify({ranges}) === '{json.dumps(whole)}'".replace(" ", "")
    )
    assert page.evaluate("location.search") == ""
    dot = page.locator("#timeline-plot .scatterlayer .points path").nth(1)
    spot = dot.bounding_box()
    assert spot is not None
    page.mouse.move(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    page.mouse.click(spot["x"] + spot["width"] / 2, spot["y"] + spot["height"] / 2)
    page.wait_for_url("**/episodes/1*")
    page.go_back()
    wait_until_drawn(page)
    # By keyboard, from the table of episodes.
    page.locator("#episodes td a").first.press("Enter")
    page.wait_for_url("**/episodes/0*")
    assert opened.complaints == []


def test_zoom_by_keyboard_shows_every_frame_and_a_table(browser: Browser, served):
    """Rewards of single frames, as in the rows; also after a reload and coming back."""
    lines = (served.runs["streaming"] / "events.jsonl").read_text().splitlines()
    rewards = [json.loads(line)["reward"] for line in lines]
    first = next(n for n, reward in enumerate(rewards) if reward) - 5
    opened = open_page(browser, served.of("streaming"))
    page = opened.page
    wait_until_drawn(page)
    page.get_by_label("frames", exact=True).fill(str(first))
    page.get_by_label("to", exact=True).fill(str(first + 40))
    page.get_by_label("to", exact=True).press("Enter")
    plot = "document.getElementById('timeline-plot')"
    rate = f"{plot}?.data?.find(t => t.meta === 'rate')"

    def is_zoomed() -> None:
        wait_for(page, f"{rate}?.x.filter(x => x >= {first}).at(1) === {first + 1}")
        at = page.evaluate(f"{rate}.x.indexOf({first})")
        shown = page.evaluate(f"{rate}.y.slice({at}, {at + 40})")
        assert shown == rewards[first : first + 40]
        low, high = page.evaluate(f"{plot}.layout.yaxis.range")
        levels = page.evaluate(
            f"{plot}.data.filter(t => !t.meta && t.yaxis === 'y').flatMap(t => t.y)"
        )
        highest = max(*shown, *(level for level in levels if level is not None))
        assert low < 0 < max(shown) < high < 1.2 * highest  # not that of the whole run

    is_zoomed()
    page.get_by_text("Numbers as a table").press("Enter")
    table = page.locator("details[open] tbody tr")
    table.first.wait_for()
    cells = [row.locator("td").all_inner_texts() for row in table.all()]
    rates = [cell for cell in cells if cell[0] == "rate"]
    expected = [(f"{first + n:,}", rewards[first + n]) for n in range(40)]
    assert [(frame, float(value)) for _, frame, value in rates[:40]] == expected
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").first.click()
    text = download.value.path().read_text()
    assert f"reward rate,{first + 5}.0,{rewards[first + 5]}," in text
    page.reload()
    is_zoomed()
    page.locator("#episodes td a").first.press("Enter")
    page.wait_for_url("**/episodes/0*")
    page.go_back()
    is_zoomed()
    assert opened.complaints == []


def test_everything_on_a_page_is_reached_by_tab(browser: Browser, served):
    """Tab leads to every link, button and field, and what has the focus is marked."""
    for name in ("runs", "run", "episode", "comparison"):
        page = open_page(browser, list_pages(served)[name]).page
        wait_until_drawn(page)
        wanted = page.evaluate(
            """() => {
                const all = "a[href], button, input, select, summary";
                const shown = [...document.querySelectorAll(all)].filter(
                    (e) => e.checkVisibility() && !e.disabled && !e.closest(".plot"));
                shown.forEach((e, n) => { e.dataset.tabTest = n; });
                return shown.length;
            }"""
        )
        missing = {str(n) for n in range(wanted)}
        for _ in range(wanted + 60):  # plotly has buttons, too
            page.keyboard.press("Tab")
            found = page.evaluate(
                """() => {
                    const e = document.activeElement;
                    const outline = getComputedStyle(e).outlineStyle;
                    return [e.dataset.tabTest ?? null, outline !== "none"];
                }"""
            )
            assert found[0] is None or found[1], name
            missing.discard(found[0])
            if not missing:
                break
        assert missing == set(), name
        page.close()


def test_names_of_narrow_visits_are_sideways_and_do_not_touch(browser: Browser, served):
    games = re.compile("^(centipede|ms_pacman|qbert)$")
    for width in (1280, 390):
        page = open_page(browser, served.of("streaming"), width).page
        wait_until_drawn(page)
        angles = page.evaluate(
            """document.getElementById('timeline-plot').layout.annotations
                .map(a => a.textangle)"""
        )
        assert (90 in angles) == (width == 390)
        names = page.locator("#timeline-plot .annotation-text", has_text=games).all()
        boxes = [box for name in names if (box := name.bounding_box())]
        edges = sorted((box["x"], box["x"] + box["width"]) for box in boxes)
        assert len(edges) == 6
        assert all(end < start for (_, end), (start, _) in pairwise(edges))
        page.close()
