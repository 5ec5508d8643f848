"""`longplay view` in a real browser: all pages, widths and themes, and attacks."""

from __future__ import annotations

import base64
import io
import json
import random
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from browsing import open_page, wait_for
from PIL import Image
from playwright.sync_api import Browser, Page

from bare_replay import replay_bare
from compared_runs import make_compared
from hostile_runs import make_hostile_runs
from longplay.report.viewer.index import identify
from playing import play_run

LOOKS = [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]


@dataclass(frozen=True)
class Served:
    """A viewer in a process, and the runs it shows, by name."""

    address: str
    runs: dict[str, Path]

    def of(self, name: str) -> str:
        return f"{self.address}/runs/{identify(self.runs[name].resolve())}"


@pytest.fixture(scope="session")
def prediction_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("prediction") / "experiment"
    settings = {"base_visit_frames": 200}
    return play_run(
        "prediction-smoke-v1", "linear-td", seed=1000, out=out, overrides=settings
    ).run_dir


@pytest.fixture(scope="session")
def served(
    serve, finished_run, control_run, prediction_run, tmp_path_factory
) -> Served:
    folder = tmp_path_factory.mktemp("agents")
    make_compared(folder, {"alpha": 2.0, "<b>beta</b>": 0.5})
    runs = {
        "streaming": finished_run,
        "control": control_run,
        "prediction": prediction_run,
        "alpha": folder / "0" / "0",
        "beta": folder / "1" / "0",
    }
    played = (finished_run, control_run, prediction_run)
    return Served(serve(folder, *(run.parent.parent for run in played)), runs)


def list_pages(served: Served) -> dict[str, str]:
    compared = "&".join(
        f"run={identify(served.runs[name].resolve())}" for name in ("alpha", "beta")
    )
    experiment = identify(served.runs["streaming"].parent.parent.resolve())
    return {
        "runs": served.address + "/",
        "grouped": f"{served.address}/?group=agent",
        "experiment": f"{served.address}/experiments/{experiment}",
        "run": served.of("streaming"),
        "prediction run": served.of("prediction"),
        "episode": f"{served.of('streaming')}/episodes/1",
        "prediction episode": f"{served.of('prediction')}/visits/1",
        "comparison": f"{served.address}/compare?{compared}",
    }


def wait_until_drawn(page: Page) -> None:
    """Figures near the window are there, and frames are on the canvas."""
    page.wait_for_load_state("networkidle")
    if page.locator("#player").count():
        page.locator("canvas[data-shown]").wait_for()
    if page.locator(".plot").count():
        page.locator(".plot svg.main-svg").first.wait_for()


@pytest.mark.parametrize(("width", "theme"), LOOKS)
def test_every_page_is_sound(browser: Browser, served, width, theme, tmp_path):
    for name, address in list_pages(served).items():
        opened = open_page(browser, address, width, color_scheme=theme)
        page = opened.page
        wait_until_drawn(page)
        assert opened.complaints == [], name
        others = [u for u in opened.fetched if not u.startswith(served.address)]
        assert [u for u in others if not u.startswith(("data:", "blob:"))] == [], name
        assert page.evaluate("document.documentElement.scrollWidth") <= width, name
        back = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", back)[:3])) < 200) == (theme == "dark")
        page.screenshot(path=tmp_path / f"{name}.png", full_page=True)
        page.reload()
        wait_until_drawn(page)
        assert opened.complaints == [], name
        page.close()


def test_pages_show_the_score(browser: Browser, served):
    for name in ("streaming", "control", "prediction"):
        score = json.loads((served.runs[name] / "score.json").read_text())
        page = open_page(browser, served.of(name)).page
        table = page.locator("table", has_text="score.json")
        rows = [
            row.locator("td").all_inner_texts()
            for row in table.locator("tbody tr").all()
        ]
        shown = dict(rows)
        for key, value in score.items():
            if isinstance(value, float):
                assert shown[key.replace("_", " ")] == f"{value:.5g}", (name, key)
        page.close()


def shown_agents(page: Page) -> list[str]:
    rows = page.locator("#run-table tbody tr:visible")
    return [row.locator("td").nth(1).inner_text() for row in rows.all()]


def test_list_sorts_filters_and_compares(browser: Browser, served):
    opened = open_page(browser, served.address)
    page = opened.page
    everything = shown_agents(page)
    assert len(everything) == 9
    page.locator("#run-table th button", has_text="agent").click()
    assert shown_agents(page) == sorted(everything, key=str.lower)
    page.locator("#run-table th button", has_text="agent").press("Enter")
    assert shown_agents(page) == sorted(everything, key=str.lower, reverse=True)
    page.get_by_label("Filter").fill("beta smoke")
    assert shown_agents(page) == ["<b>beta</b>"] * 3
    page.reload()
    assert shown_agents(page) == ["<b>beta</b>"] * 3
    page.get_by_label("Filter").fill("")
    for agent in ("alpha", "<b>beta</b>"):
        boxes = page.locator("#run-table tr", has=page.get_by_role("link", name=agent))
        for box in boxes.get_by_role("checkbox").all():
            box.press("Space")
    page.get_by_role("button", name="Compare the ticked runs").press("Enter")
    page.wait_for_url("**/compare?run=*")
    assert page.locator("h1").inner_text() == "Comparison"
    assert page.locator(".plot").count() == 4
    page.get_by_text("Numbers as a table").first.click()
    assert page.locator("details[open] tbody tr").count() > 100
    page.go_back()
    assert len(shown_agents(page)) == 9
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

    is_zoomed()
    page.get_by_text("Numbers as a table").press("Enter")
    table = page.locator("details[open] tbody tr")
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


def seek(page: Page, frame: int) -> np.ndarray:
    """The pixels on the page after a frame was entered."""
    page.locator('[data-role="number"]').fill(str(frame))
    page.locator(f'canvas[data-shown="{frame}"]').wait_for()
    address = page.evaluate("document.querySelector('canvas').toDataURL()")
    content = base64.b64decode(address.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


@pytest.mark.parametrize("name", ["streaming", "control", "prediction"])
def test_frames_on_the_page_are_those_of_a_bare_replay(browser: Browser, served, name):
    """67 random frames of each track, pixel by pixel."""
    run_dir = served.runs[name]
    bare = list(replay_bare(run_dir))
    schedule = json.loads((run_dir / "config.json").read_text())["schedule"]
    rng, start = random.Random(name), 0
    for visit in schedule:
        end = start + visit["visit_frames"]
        count = -(-67 // len(schedule))
        page = open_page(browser, f"{served.of(name)}/visits/{visit['visit_idx']}").page
        page.locator("canvas[data-shown]").wait_for()
        for frame in rng.sample(range(start, end), count):
            np.testing.assert_array_equal(seek(page, frame), bare[frame])
        page.close()
        start = end


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
    page.get_by_text("Numbers as a table").click()
    page.locator("tr.current").wait_for()
    page.reload()
    is_at(int(shown or 0))
    assert opened.complaints == []


def test_run_in_progress_advances_on_its_page(browser: Browser, serve, tmp_path):
    out = tmp_path / "live"
    command = [sys.executable, "-m", "longplay", "run", "control-smoke-v1"]
    options = [
        "--agent",
        "linear-sarsa",
        "--seed",
        "1000",
        "--out",
        str(out),
        "--quiet",
    ]
    longer = ["--set", "base_visit_frames=6000"]
    process = subprocess.Popen(
        [*command, *options, *longer], stdout=subprocess.DEVNULL, text=True
    )
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
        points = "document.getElementById('timeline-plot').data[0].x.length"
        count = page.evaluate(points)
        wait_for(page, f"{points} > {count}")
        assert progress.inner_text() != before
        assert (
            "squared_td_error" in page.locator('[data-live$="-learning"]').inner_text()
        )
        assert page.evaluate("window.isSame")  # not by loading the page again
        assert max(sizes) < 8_000
        page.get_by_text("✓ COMPLETED").wait_for(timeout=180_000)
        page.locator("table", has_text="score.json").wait_for()
        assert opened.complaints == []
    finally:
        process.terminate()
        process.wait(timeout=60)


def test_hostile_runs_run_no_script(browser: Browser, serve, finished_run, tmp_path):
    runs = make_hostile_runs(tmp_path, finished_run)
    address = serve(tmp_path / "runs")
    page = browser.new_page()
    page.on("dialog", lambda dialog: pytest.fail(dialog.message))
    page.goto(address)
    assert page.locator('#run-table input[type="checkbox"]').count() == len(runs) == 40
    for name, path in runs.items():
        run = f"{address}/runs/{identify(path.resolve())}"
        for place in (run, f"{run}/timeline.csv", f"{run}/episodes/0"):
            if place.endswith("csv"):
                page.request.get(place)
                continue
            page.goto(place)
            page.wait_for_load_state("networkidle")
            for link in page.locator(".plot a").all():
                link.evaluate("link => link.click()")
            assert page.evaluate("window.pwned") is None, name
            text = page.content()
            assert "do not show" not in text, name
    page.goto(address)
    assert page.evaluate("window.pwned") is None
    page.close()


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
